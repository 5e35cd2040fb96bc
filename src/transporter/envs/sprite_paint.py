"""How shapes and digits get onto a canvas: from tables of exact coverage, so that motion is smooth below a pixel."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float32, Int, UInt8

Colour = tuple[int, int, int]
Shape = Callable[[np.ndarray, np.ndarray], np.ndarray]  # which of the places (u, v) lie inside

SUBPIXELS = 16  # shapes are painted from tables with this many positions per pixel and axis
MARGIN = 2  # pixels by which the table of a shape at the wall may stick out

# Each form lies in the square |u|, |v| <= 1 and has its centre of mass at (0, 0): that centre is the truth.
FORMS: dict[str, Shape] = {
    "disk": lambda u, v: u**2 + v**2 <= 1,
    "ring": lambda u, v: (u**2 + v**2 <= 1) & (u**2 + v**2 >= 0.3),
    "square": lambda u, v: (abs(u) <= 1) & (abs(v) <= 1),
    "triangle": lambda u, v: (v <= 0.5) & (v >= 3**0.5 * abs(u) - 1),
    "cross": lambda u, v: (np.minimum(abs(u), abs(v)) <= 0.35) & (np.maximum(abs(u), abs(v)) <= 1),
}
# Ten digits, five rows of three cells each; a row is read as a binary number.
DIGITS = ("75557", "26227", "71747", "71717", "55711", "74717", "74757", "71111", "75757", "75711")


def digit(value: int) -> Shape:
    """The shape of one of the ten digits."""
    cells = np.array([[int(row) >> shift & 1 for shift in (2, 1, 0)] for row in DIGITS[value]], bool)

    def inside(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        x, y = np.floor((u + 1) * 1.5).astype(int), np.floor((v + 1) * 2.5).astype(int)
        within = (x >= 0) & (x < 3) & (y >= 0) & (y < 5)
        return within & cells[np.clip(y, 0, 4), np.clip(x, 0, 2)]

    return inside


def pen(inside: Shape, half: tuple[float, float], size: int) -> Float32[np.ndarray, "suby subx side side"]:
    """How much of each pixel a shape covers, for each place of its centre within the middle pixel."""
    width, height = half[0] * size / 2, half[1] * size / 2
    side = 2 * int(np.ceil(max(width, height))) + 2
    at = np.arange((side + 1) * SUBPIXELS - 1) - (side // 2 + 1) * SUBPIXELS + 1.0
    mask = inside((at / (width * SUBPIXELS))[None, :], (at / (height * SUBPIXELS))[:, None])
    total = np.pad(np.cumsum(np.cumsum(mask, 0, dtype=np.int64), 1), ((1, 0), (1, 0)))
    boxes = total[SUBPIXELS:, SUBPIXELS:] - total[SUBPIXELS:, :-SUBPIXELS]
    boxes = boxes - total[:-SUBPIXELS, SUBPIXELS:] + total[:-SUBPIXELS, :-SUBPIXELS]
    table = boxes.reshape(side, SUBPIXELS, side, SUBPIXELS)[:, ::-1, :, ::-1].transpose(1, 3, 0, 2)
    return np.ascontiguousarray(table, np.float32) / SUBPIXELS**2


def blend(
    canvas: UInt8[np.ndarray, "n h w 3"],
    rows: Int[np.ndarray, "m"],
    cells: Int[np.ndarray, "m 2"],
    cover: Float32[np.ndarray, "m side side"],
    colour: Colour,
) -> None:
    """Paint one patch into each of the given rows of the canvas."""
    side, half = canvas.shape[1], cover.shape[1] // 2
    patch = np.arange(-half, half)
    corner = (rows * side + cells[:, 1] + MARGIN) * side + cells[:, 0] + MARGIN
    index = corner[:, None, None] + (patch[:, None] * side + patch)
    flat = canvas.reshape(-1, 3)
    under = flat[index].astype(np.float32)
    flat[index] = np.rint(under + cover[..., None] * (np.array(colour, np.float32) - under)).astype(np.uint8)

"""Keypoints on frames: one colour per keypoint, the same in every picture.

Small frames are enlarged by whole factors without smoothing, so that pixels stay pixels and dots stay readable.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import ceil, cos, floor, pi, sin
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, UInt8
from PIL import Image, ImageDraw, ImageFont

from transporter.coords import to_pixels
from transporter.errors import InputError
from transporter.frames import one_frame

# Chosen one by one, each as far as possible in CIELAB from all before it, under normal vision and under the three kinds
# of colour blindness (the least of the four distances counts). So the first few are told apart by everybody.
# fmt: off
COLOURS = (
    "#EE4444", "#6622FF", "#00CCFF", "#FFEE00", "#AA4488",
    "#AAEEAA", "#4488FF", "#EE8800", "#FFCC66", "#446600",
    "#22AA88", "#AA2244", "#FFAACC", "#FF66CC", "#CC00CC",
    "#22FFFF", "#88AA66", "#00AAFF", "#0088AA", "#00CC22",
)
# fmt: on
RIM, PAPER, INK = "#14141A", "#FFFFFF", "#26262B"

READABLE = 192  # pixels: a frame in a sheet is enlarged to at least this height
GAP = 6  # pixels between the panels of a sheet
FINE = 4  # marks are drawn this many times larger and then averaged down

# Outer size of a mark's dark rim, light edge and body, as shares of its radius.
LAYERS = {"dot": (1.0, 0.86, 0.68), "triangle": (1.0, 0.8, 0.54), "ring": (1.0, 0.91, 0.77)}

Picture = UInt8[np.ndarray, "h w 3"]
Shape = Literal["dot", "triangle", "ring"]
# Centres and presence of the true objects; an environment's Truth is one.
Objects = tuple[Float[np.ndarray, "n 2"], Bool[np.ndarray, "n"]]


def colour(keypoint: int) -> str:
    """The colour of a keypoint; colours repeat after the last."""
    return COLOURS[keypoint % len(COLOURS)]


def draw_keypoints(
    image: Picture,
    points: Float[np.ndarray, "k 2"],
    *,
    scale: int = 1,
    triangle: int | None = None,
    truth: Objects | None = None,
) -> Picture:
    """The frame, enlarged `scale` times, with a dot per keypoint (one may be a triangle) and a ring per true object."""
    canvas = Image.fromarray(_enlarge(_checked(image), scale))
    radius = max(3.0, 0.032 * min(canvas.size))
    if truth is not None:
        centres, present = truth
        for centre in np.asarray(centres)[np.asarray(present, bool)]:
            _mark(canvas, centre, "ring", PAPER, 1.8 * radius)
    for keypoint, point in enumerate(np.asarray(points)):
        shape: Shape = "triangle" if keypoint == triangle else "dot"
        _mark(canvas, point, shape, colour(keypoint), 1.6 * radius if shape == "triangle" else radius)
    return np.asarray(canvas)


def strip(
    frames: UInt8[np.ndarray, "t h w 3"],
    points: Float[np.ndarray, "t k 2"],
    every: int = 10,
    columns: int = 8,
    *,
    triangle: int | None = None,
) -> Picture:
    """Frames `every` steps apart, read like a page (Appendix E): an object should keep its colour."""
    if len(frames) != len(points) or not len(frames):
        raise InputError(f"a strip needs points for each frame, not {len(points)} for {len(frames)}")
    chosen = range(0, len(frames), every)
    scale = _readable_scale(frames[0])
    panels = [draw_keypoints(frames[t], points[t], scale=scale, triangle=triangle) for t in chosen]
    return _sheet(panels, [f"step {t}" for t in chosen], columns)


def side_by_side(
    frames: UInt8[np.ndarray, "t h w 3"], points: Mapping[str, Float[np.ndarray, "t k 2"]], every: int = 10
) -> Picture:
    """The same frames with the keypoints of several methods, a row each."""
    if not points or not len(frames) or any(len(found) != len(frames) for found in points.values()):
        raise InputError("a comparison needs the points of each method for each frame")
    chosen = range(0, len(frames), every)
    scale = _readable_scale(frames[0])
    panels = [draw_keypoints(frames[t], found[t], scale=scale) for found in points.values() for t in chosen]
    captions = [method if t == 0 else f"+{t} steps" for method in points for t in chosen]
    return _sheet(panels, captions, len(chosen))


def rebuilt_side_by_side(
    source: UInt8[np.ndarray, "b h w 3"],
    target: UInt8[np.ndarray, "b h w 3"],
    predictions: Mapping[str, UInt8[np.ndarray, "b h w 3"]],
) -> Picture:
    """One row per pair (Appendix D): image, future image, and what each method makes of the one for the other."""
    if not predictions or any(len(made) != len(source) for made in predictions.values()) or not len(source):
        raise InputError("a comparison needs as many predictions of each method as pairs")
    scale = _readable_scale(source[0])
    rows = zip(source, target, *predictions.values(), strict=True)
    panels = [_enlarge(_checked(frame), scale) for row in rows for frame in row]
    return _sheet(panels, ["image", "future image", *predictions], columns=2 + len(predictions))


def reconstructions(
    source: UInt8[np.ndarray, "b h w 3"],
    target: UInt8[np.ndarray, "b h w 3"],
    prediction: UInt8[np.ndarray, "b h w 3"],
    points: Float[np.ndarray, "b k 2"],
) -> Picture:
    """One row per pair (Appendix F): image, future image, its reconstruction, and the keypoints of the future image."""
    if not len(source) == len(target) == len(prediction) == len(points) or not len(source):
        raise InputError("reconstructions need as many sources as targets, predictions and points")
    scale = _readable_scale(source[0])
    panels = []
    for image, future, reconstruction, of_future in zip(source, target, prediction, points, strict=True):
        panels += [_enlarge(_checked(frame), scale) for frame in (image, future, reconstruction)]
        panels.append(draw_keypoints(future, of_future, scale=scale))
    return _sheet(panels, ["image", "future image", "reconstruction", "keypoints"], columns=4)


def heatmaps(image: Picture, heatmaps: Float[np.ndarray, "k h w"], columns: int = 5) -> Picture:
    """Where each keypoint looks: its heatmap, in its colour, over the darkened frame."""
    if heatmaps.ndim != 3 or not len(heatmaps):
        raise InputError(f"heatmaps must be (K, h, w), not {heatmaps.shape}")
    frame = _enlarge(_checked(image), _readable_scale(image))
    height, width = frame.shape[:2]
    dark = np.repeat(frame.mean(axis=2, keepdims=True), 3, axis=2) * 0.35
    panels = []
    for keypoint, heat in enumerate(np.asarray(heatmaps, np.float32)):
        share = Image.fromarray(np.clip(heat / max(float(heat.max()), 1e-12), 0, 1))
        glow = np.asarray(share.resize((width, height), Image.Resampling.BILINEAR))[..., None]
        tint = np.array(_rgb(colour(keypoint)), np.float32)
        panels.append(np.rint(dark * (1 - glow) + tint * glow).astype(np.uint8))
    return _sheet(panels, [f"keypoint {k}" for k in range(len(panels))], columns, tints=COLOURS)


def _checked(image: Picture) -> Picture:
    return np.ascontiguousarray(one_frame(image))


def _enlarge(image: Picture, scale: int) -> Picture:
    return image.repeat(scale, axis=0).repeat(scale, axis=1)


def _readable_scale(image: Picture) -> int:
    return max(1, ceil(READABLE / image.shape[0]))


def _rgb(name: str) -> tuple[int, int, int]:
    return int(name[1:3], 16), int(name[3:5], 16), int(name[5:7], 16)


def _mark(canvas: Image.Image, point: Float[np.ndarray, "2"], shape: Shape, fill: str, radius: float) -> None:
    """Put a mark at a point; one that is not a number, or far outside, is not drawn."""
    if not np.isfinite(point).all() or np.abs(point).max() > 2:
        return
    x, y = to_pixels(np.asarray(point, np.float64), canvas.width, canvas.height)
    left, top = floor(x), floor(y)
    stamp = _stamp(shape, fill, radius, int((x - left) * FINE), int((y - top) * FINE))
    corner = (left - stamp.width // 2, top - stamp.height // 2)
    canvas.paste(stamp.convert("RGB"), corner, stamp)


@lru_cache(maxsize=4096)
def _stamp(shape: Shape, fill: str, radius: float, x: int, y: int) -> Image.Image:
    """A mark whose centre is (x, y) fine pixels right of and below the middle of the stamp.

    A light edge within a dark rim parts it from every ground, its own colour included.
    """
    half = ceil(radius) + 2
    ink = Image.new("RGBA", (2 * half * FINE, 2 * half * FINE), (*_rgb(RIM), 0))
    pen = ImageDraw.Draw(ink)
    centre_x, centre_y = (half * FINE + at + 0.5 for at in (x, y))

    def paint(size: float, colour: str | tuple[int, int, int, int]) -> None:
        reach = size * radius * FINE
        if shape == "triangle":
            angles = (-pi / 2, pi / 6, 5 * pi / 6)
            pen.polygon([(centre_x + reach * cos(a), centre_y + reach * sin(a)) for a in angles], fill=colour)
        else:
            pen.ellipse((centre_x - reach, centre_y - reach, centre_x + reach, centre_y + reach), fill=colour)

    for size, layer in zip(LAYERS[shape], (RIM, PAPER, fill if shape != "ring" else RIM), strict=True):
        paint(size, layer)
    if shape == "ring":
        paint(0.68, (*_rgb(RIM), 0))
    return ink.resize((2 * half, 2 * half), Image.Resampling.BOX)


def _sheet(
    panels: Sequence[Picture], captions: Sequence[str], columns: int, tints: Sequence[str] | None = None
) -> Picture:
    """Panels in rows; each has its caption above, or the first row alone where there is one caption per column."""
    columns = min(columns, len(panels))
    rows = ceil(len(panels) / columns)
    height, width = panels[0].shape[:2]
    font = ImageFont.load_default(max(12, round(height / 14)))
    head = round(font.size * 1.7)  # type: ignore[union-attr]
    heads = rows if len(captions) == len(panels) else 1
    size = (columns * (width + GAP) + GAP, rows * (height + GAP) + heads * head + GAP)
    page = Image.new("RGB", size, PAPER)
    pen = ImageDraw.Draw(page)
    for i, panel in enumerate(panels):
        row, column = divmod(i, columns)
        left = GAP + column * (width + GAP)
        top = GAP + row * (height + GAP) + head * (min(row + 1, heads))
        page.paste(Image.fromarray(panel), (left, top))
        if row < heads:
            middle = top - head / 2
            if tints:
                pen.ellipse((left, middle - 5, left + 10, middle + 5), fill=tints[i % len(tints)], outline=RIM)
            pen.text((left + (16 if tints else 0), middle), captions[i], fill=INK, font=font, anchor="lm")
    return np.asarray(page)

"""What an agent observes: an Observer makes a row of each view, and knows how a network reads rows.

Rows are what the replay keeps: small, and the same for every game, with slots that stay empty where a game has fewer
keypoints. Another observation is another Observer: keypoints with their features, either without the other, on the
ground they move on or without it, true objects, or the pixels themselves.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Literal, Protocol

import torch
from jaxtyping import Float, UInt8
from torch import Tensor
from torch.nn import functional as F

from transporter.control.keyqn.config import NetworkConfig
from transporter.control.keyqn.network import Inputs
from transporter.control.keyqn.weights import Weight, Weights, apply_linear, linear
from transporter.coords import cell_centres
from transporter.errors import InputError
from transporter.frames import resize_tensor
from transporter.models.branches import together
from transporter.models.detector import Detector

PRESENT, PLACE, FEATURES = slice(0, 1), slice(1, 3), slice(3, None)  # of a slot
QUICK = 10.0  # a keypoint that crosses a tenth of [-1, 1]'s half in a step counts as moving at speed 1
FASTEST = 0.4  # what crosses so much of it is beyond the last threshold
GREY = (0.299, 0.587, 0.114)  # ITU-R BT.601


Kind = Literal["keypoints", "points", "features", "objects", "pixels"]


class Observer(Protocol):
    """From views to rows, without a state of its own."""

    @property
    def row(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> torch.dtype: ...

    def __call__(self, views: Sequence[Tensor]) -> Tensor:
        """One (n, …) tensor per game → (all n together, *row)."""
        ...

    def inputs(self, config: NetworkConfig) -> Inputs:
        """How a network reads such rows."""
        ...


class Keypoints:
    """One detector per game. A row: (slots, 1 + 2 + D), whether the slot is used, (x, y), features."""

    def __init__(
        self,
        detectors: Sequence[Detector],
        *,
        coordinates: bool = True,
        features: bool = True,
        level: bool = True,
        slots: int = 0,
        depth: int = 0,
    ) -> None:
        self.detectors, self.coordinates, self.features = list(detectors), coordinates, features
        self.level = level
        self.slots = max(slots, *(d.keypoints for d in detectors))
        self.depth = max(depth, *(d.feature_size for d in detectors)) if features else 0
        self.row, self.dtype = (self.slots, 3 + self.depth), torch.float16

    def __call__(self, views: Sequence[UInt8[Tensor, "n H W 3"]]) -> Tensor:
        work = [partial(self.rows, *pair) for pair in zip(self.detectors, views, strict=True)]
        return torch.cat(together(work, views))

    def rows(self, detector: Detector, frames: UInt8[Tensor, "n H W 3"]) -> Tensor:
        """What one of the detectors makes of frames: (n, *row)."""
        size = detector.config.size
        values = resize_tensor(frames, size, size)
        if self.features:
            points, under = detector.net(values)
            if self.level:  # by its own depth: what others have more is not there
                under = F.layer_norm(under.float(), under.shape[-1:])
        else:
            points = detector.net.keypoints(detector.net.pixels.encode(values))
            under = points[..., :0]
        found = torch.cat((torch.ones_like(points[..., :1]), points, under), -1)
        return F.pad(found, (0, self.row[1] - found.shape[2], 0, self.slots - found.shape[1])).half()

    def inputs(self, config: NetworkConfig) -> "Codes":
        return Codes(self.row, config, coordinates=self.coordinates)


class Grounded:
    """Keypoints, and the ground they move on: what changes without moving, and so has no keypoint.

    An igloo that is built, air that runs out, pills that are left. A row: the keypoints' own, flat, then the mean of
    each of cells × cells parts of the frame, of pixels as the detector standardises them. Without its blinkers: what
    random play never shows, such as the door of a finished igloo, is what must be seen.
    """

    def __init__(self, keypoints: Keypoints, cells: int) -> None:
        self.keypoints, self.cells = keypoints, cells
        self.detectors, self.slots, self.depth = keypoints.detectors, keypoints.slots, keypoints.depth
        self.row, self.dtype = (math.prod(keypoints.row) + 3 * cells**2,), keypoints.dtype

    def __call__(self, views: Sequence[UInt8[Tensor, "n H W 3"]]) -> Tensor:
        work = [partial(self.rows, *pair) for pair in zip(self.detectors, views, strict=True)]
        return torch.cat(together(work, views))

    def rows(self, detector: Detector, frames: UInt8[Tensor, "n H W 3"]) -> Tensor:
        return torch.cat((self.keypoints.rows(detector, frames).flatten(1), self.ground(detector, frames)), 1)

    def ground(self, detector: Detector, frames: UInt8[Tensor, "n H W 3"]) -> Tensor:
        """(n, 3 · cells²). A pixel that has never changed may be many deviations off when it does: asinh tames it."""
        size = detector.config.size
        values = detector.net.pixels.standardised(resize_tensor(frames, size, size).permute(0, 3, 1, 2))
        return F.adaptive_avg_pool2d(values, self.cells).asinh().flatten(1).half()

    def inputs(self, config: NetworkConfig) -> "GroundedCodes":
        return GroundedCodes(self.keypoints.inputs(config), self.keypoints.row, self.cells, config)


class Objects:
    """True objects instead of keypoints. A view, as TruthObservation shows it: (n, objects, 3), present, x, y."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.row, self.dtype = (self.slots, 3), torch.float16

    def __call__(self, views: Sequence[Float[Tensor, "n k 3"]]) -> Tensor:
        return torch.cat([F.pad(view, (0, 0, 0, self.slots - view.shape[1])) for view in views]).half()

    def inputs(self, config: NetworkConfig) -> "Codes":
        return Codes(self.row, config)


class Codes:
    """Slots as one vector: thermometer-coded places, the places themselves, how far each moved, and features."""

    def __init__(self, row: tuple[int, ...], config: NetworkConfig, *, coordinates: bool = True) -> None:
        self.slots, self.depth = row[0], row[1] - 3
        self.levels, self.motion, self.coordinates = config.thermometer, config.motion, coordinates
        self.speeds = config.speeds if self.motion else 0
        places = 2 * self.levels + 2 + (2 + 2 * self.speeds if self.motion else 0) if coordinates else 0
        used = 1 + places + self.depth
        self.spare = -used % config.align
        self.width = self.slots * (used + self.spare)
        self.places = self.slots if coordinates else 0
        self.weights: dict[str, Weight] = {}

    def __call__(self, weights: Weights, read: Float[Tensor, "a n width"]) -> Float[Tensor, "a n width"]:
        return read

    def shifted(self, rows: Float[Tensor, "a t b slots d"], by: Float[Tensor, "a #t b slots 2"]) -> Tensor:
        return torch.cat((rows[..., PRESENT], rows[..., PLACE] + by, rows[..., FEATURES]), -1)

    def read(
        self, rows: Float[Tensor, "a n slots d"], earlier: Float[Tensor, "a n slots d"]
    ) -> Float[Tensor, "a n width"]:
        rows = rows.float()
        present, place = rows[..., PRESENT], rows[..., PLACE]
        parts = [present]
        if self.coordinates:
            parts += [thermometer(place, self.levels).flatten(-2) * present, place * present]
        if self.coordinates and self.motion:
            both, moved = present * earlier[..., PRESENT], place - earlier[..., PLACE]
            parts.append((moved * QUICK).clamp(-1, 1) * both)
            if self.speeds:
                parts.append(thermometer(_spread(moved / FASTEST), self.speeds).flatten(-2) * both)
        if self.depth:
            parts.append(rows[..., FEATURES])
        if self.spare:
            parts.append(torch.zeros_like(present).expand(*present.shape[:-1], self.spare))
        return torch.cat(parts, -1).flatten(2)


class GroundedCodes:
    """Codes of the keypoints, and the ground, as faint as one of its parts: louder, Breakout is hardly learnt."""

    def __init__(self, codes: Codes, shape: tuple[int, ...], cells: int, config: NetworkConfig) -> None:
        self.codes, self.shape, self.split, self.cells = codes, shape, math.prod(shape), cells
        ground = 3 * cells**2
        self.spare = -ground % config.align
        self.width, self.places, self.weights = codes.width + ground + self.spare, codes.places, codes.weights

    def __call__(self, weights: Weights, read: Float[Tensor, "a n width"]) -> Float[Tensor, "a n width"]:
        return self.codes(weights, read)

    def shifted(self, rows: Float[Tensor, "a t b row"], by: Float[Tensor, "a #t b slots 2"]) -> Tensor:
        return torch.cat((self.codes.shifted(self._keypoints(rows), by).flatten(-2), rows[..., self.split :]), -1)

    def read(self, rows: Float[Tensor, "a n row"], earlier: Float[Tensor, "a n row"]) -> Float[Tensor, "a n width"]:
        codes = self.codes.read(self._keypoints(rows), self._keypoints(earlier))
        return torch.cat((codes, F.pad(rows[..., self.split :].float() / self.cells, (0, self.spare))), -1)

    def _keypoints(self, rows: Tensor) -> Tensor:
        return rows[..., : self.split].unflatten(-1, self.shape)


def thermometer(x: Float[Tensor, "*n"], levels: int) -> Float[Tensor, "*n levels"]:
    """Bit k is 1 where x is at least threshold k: the centres of `levels` equal cells of [-1, 1]."""
    return (x[..., None] >= cell_centres(levels, x.device)).to(x.dtype)


def _spread(x: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    """Small numbers further apart than large ones, while 1 stays 1: most things move by a pixel or two."""
    return x.sign() * x.abs().pow(2 / 3)


class Pixels:
    """The screen itself, grey, for the comparison without keypoints. A row: (size, size) uint8."""

    def __init__(self, size: int = 80) -> None:
        self.row, self.dtype = (size, size), torch.uint8

    def __call__(self, views: Sequence[UInt8[Tensor, "n H W 3"]]) -> Tensor:
        return torch.cat([self._grey(resize_tensor(view, *self.row)) for view in views])

    @staticmethod
    def _grey(frames: Float[Tensor, "n s s 3"]) -> UInt8[Tensor, "n s s"]:
        red, green, blue = frames.unbind(-1)  # no tensor of weights: a captured graph cannot fetch one from the CPU
        return (GREY[0] * red + GREY[1] * green + GREY[2] * blue).round().to(torch.uint8)

    def inputs(self, config: NetworkConfig) -> "Convolutions":
        return Convolutions(self.row[0], config.hidden)


class Convolutions:
    """The network of Mnih et al. 2015 on the last two frames: three layers of convolutions, then one that joins all."""

    LAYERS = ((2, 32, 8, 4), (32, 64, 4, 2), (64, 64, 3, 1))  # channels before and after, kernel, stride

    def __init__(self, size: int, width: int) -> None:
        if size % self.LAYERS[0][3]:
            raise InputError(f"frames of {size}×{size} do not divide into blocks of {self.LAYERS[0][3]}")
        self.width, self.places = width, 0
        self.weights: dict[str, Weight] = {}
        for index, (before, after, kernel, stride) in enumerate(self.LAYERS):
            inputs = before * kernel**2
            self.weights[f"look{index}.weight"] = Weight((after, before, kernel, kernel), inputs=inputs)
            self.weights[f"look{index}.bias"] = Weight((after,), inputs=inputs)
            size = (size - kernel) // stride + 1
        self.weights |= linear("look", size**2 * after, width)

    def shifted(self, rows: Tensor, by: Tensor) -> Tensor:
        return rows  # no places

    def read(self, rows: UInt8[Tensor, "a n s s"], earlier: UInt8[Tensor, "a n s s"]) -> Float[Tensor, "a n y x c"]:
        """The first layer moves by four pixels: blocks of four by four are channels, for a GPU likes many of them.

        It convolves in bf16; values, and what remembers, stay in fp32.
        """
        block = self.LAYERS[0][3]
        both = torch.stack((rows, earlier), 2).unflatten(-1, (-1, block)).unflatten(-3, (-1, block))  # a n 2 y i x j
        kind = torch.bfloat16 if rows.is_cuda else torch.float32
        return both.permute(0, 1, 3, 5, 2, 4, 6).flatten(4).to(kind) / 255

    def __call__(self, weights: Weights, read: Float[Tensor, "a n y x c"]) -> Float[Tensor, "a n width"]:
        # Each agent by itself: a convolution knows one set of weights. All else is done for all of them at once.
        layers = [self._layer(weights, index, read.dtype) for index in range(len(self.LAYERS))]
        own = zip(*(zip(*(part.unbind() for part in layer), strict=True) for layer in layers), strict=True)
        work = [partial(_convolve, frames, each) for frames, each in zip(read.unbind(), own, strict=True)]
        found = together(work, [read, *(part for layer in layers for part in layer)])
        return F.relu(apply_linear(weights, "look", torch.stack(found).float()))

    def _layer(self, weights: Weights, index: int, kind: torch.dtype) -> tuple[Tensor, Tensor]:
        """Weights (a, o, c, k, k), channels last in memory, and biases (a, o)."""
        weight, bias = (weights[f"look{index}.{part}"].to(kind) for part in ("weight", "bias"))
        if index == 0:
            weight = self._of_blocks(weight)
        return weight.movedim(2, -1).contiguous().movedim(-1, 2), bias

    def _of_blocks(self, weight: Float[Tensor, "a o 2 k k"]) -> Float[Tensor, "a o c m m"]:
        """The same weights for what read() made of the pixels."""
        block = self.LAYERS[0][3]
        parts = weight.unflatten(-1, (-1, block)).unflatten(-3, (-1, block))  # a o 2 m i m j
        return parts.permute(0, 1, 2, 4, 6, 3, 5).flatten(2, 4)


def _convolve(blocks: Float[Tensor, "n y x c"], layers: Sequence[tuple[Tensor, Tensor]]) -> Float[Tensor, "n d"]:
    x = blocks.permute(0, 3, 1, 2)  # channels stay last in memory
    strides = (1, *(stride for *_, stride in Convolutions.LAYERS[1:]))  # blocks are as far apart as the first's
    for (weight, bias), stride in zip(layers, strides, strict=True):
        x = F.relu(F.conv2d(x, weight, bias, stride))
    return x.flatten(1)


def observer(
    kind: Kind, config: NetworkConfig, detectors: Sequence[Detector] = (), slots: int = 0, depth: int = 0
) -> Observer:
    """By name: keypoints and what is under them, points or features alone, true objects, pixels.

    `detectors`: one for each game, where the kind needs them; `slots`: room for so many keypoints or objects at least,
    and `depth` for so many features of each.
    """
    if kind == "objects":
        return Objects(slots)
    if kind == "pixels":
        return Pixels()
    found = Keypoints(
        detectors, coordinates=kind != "features", features=kind != "points", level=config.level_features,
        slots=slots, depth=depth,
    )  # fmt: skip
    return Grounded(found, config.ground) if config.ground else found

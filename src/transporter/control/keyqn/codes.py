"""Places as thermometers (§3.2.1), and what the first layer makes of them.

A thermometer is ones up to a level and zeros above it, so a product with weights is the sum of the first so many of
them. On a CPU such sums are looked up among all the running ones, which takes less time than the product; a
GPU makes the product.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional as F

from transporter.control.keyqn.config import NetworkConfig
from transporter.control.keyqn.weights import Weight, Weights, apply_linear
from transporter.coords import cell_centres

PRESENT, PLACE, FEATURES = slice(0, 1), slice(1, 3), slice(3, None)  # of a slot
QUICK = 10.0  # a keypoint that crosses a tenth of [-1, 1]'s half in a step counts as moving at speed 1
FASTEST = 0.4  # what crosses so much of it is beyond the last threshold


class Heights(NamedTuple):
    """What the first layer is to see, thermometers by how high they stand."""

    places: Int64[Tensor, "a n slots 2"]
    speeds: Int64[Tensor, "a n slots 2"]
    present: Float[Tensor, "a n slots 1"]
    numbers: Float[Tensor, "a n slots d"]  # the place itself, how far it moved
    features: Float[Tensor, "a n slots d"]
    ground: Float[Tensor, "a n d"]


class Codes:
    """Slots as one vector: thermometer-coded places, the places themselves, how far each moved, and features."""

    def __init__(
        self, row: tuple[int, ...], config: NetworkConfig, *, coordinates: bool = True, ground: int = 0
    ) -> None:
        self.slots, depth = row[0], row[1] - 3
        self.coordinates, self.motion = coordinates, coordinates and config.motion
        self.levels = config.thermometer if coordinates else 0
        self.quick = config.speeds if self.motion else 0  # levels of speed
        # A slot's inputs in their order: present, thermometers, numbers, thermometers of motion, features, nothing.
        used = (1, 2 * self.levels, 2 * (coordinates + self.motion), 2 * self.quick, depth)
        self.parts = (*used, -sum(used) % config.align)
        self.beside = (ground, -ground % config.align)  # after all slots: the ground, nothing
        self.width = self.slots * sum(self.parts) + sum(self.beside)
        self.places = self.slots if coordinates else 0
        self.weights: dict[str, Weight] = {}

    def shifted(self, rows: Float[Tensor, "a t b slots d"], by: Float[Tensor, "a #t b slots 2"]) -> Tensor:
        return torch.cat((rows[..., PRESENT], rows[..., PLACE] + by, rows[..., FEATURES]), -1)

    def read(self, rows: Float[Tensor, "a n slots d"], earlier: Float[Tensor, "a n slots d"]) -> Heights | Tensor:
        """To be looked up, or multiplied: the sums to look among are made for so many rows at once, or not at all."""
        heights = self.heights(rows, earlier)
        return self.vector(heights) if rows.is_cuda or rows.shape[1] <= self.levels else heights

    def heights(self, rows: Float[Tensor, "a n slots d"], earlier: Float[Tensor, "a n slots d"]) -> Heights:
        rows = rows.float()
        present, place = rows[..., PRESENT], rows[..., PLACE]
        both, moved = present * earlier[..., PRESENT], place - earlier[..., PLACE]
        numbers = [place[..., :0]]
        if self.coordinates:
            numbers.append(place * present)
        if self.motion:
            numbers.append((moved * QUICK).clamp(-1, 1) * both)
        return Heights(
            places=height(place, self.levels) * (present > 0),
            speeds=height(_spread(moved / FASTEST), self.quick) * (both > 0),
            present=present,
            numbers=torch.cat(numbers, -1),
            features=rows[..., FEATURES],
            ground=present.new_zeros(*rows.shape[:2], self.beside[0]),
        )

    def vector(self, heights: Heights) -> Float[Tensor, "a n width"]:
        """All of it in numbers, thermometers as ones and zeros."""
        places, speeds, present, numbers, features, ground = heights
        codes = [bits(levels, most).flatten(-2) for levels, most in ((places, self.levels), (speeds, self.quick))]
        nothing = present.new_zeros(()).expand(*present.shape[:-1], self.parts[-1])
        slots = torch.cat((present, codes[0], numbers, codes[1], features, nothing), -1).flatten(2)
        return torch.cat((slots, F.pad(ground, (0, self.beside[1]))), -1) if self.beside[0] else slots

    def see(self, weights: Weights, read: Heights | Tensor) -> Float[Tensor, "a n hidden"]:
        if isinstance(read, Tensor):
            return apply_linear(weights, "see", read)
        return self._looked_up(weights["see.weight"], weights["see.bias"], read)

    def _looked_up(
        self, weight: Float[Tensor, "a width hidden"], bias: Float[Tensor, "a 1 hidden"], heights: Heights
    ) -> Float[Tensor, "a n hidden"]:
        end, ground = self.slots * sum(self.parts), self.beside[0]
        own = weight[:, :end].unflatten(1, (self.slots, -1))
        present, places, numbers, speeds, features, _ = own.split(self.parts, 2)
        plain = torch.cat((heights.present, heights.numbers, heights.features), -1).flatten(2)
        found = torch.baddbmm(bias, plain, torch.cat((present, numbers, features), 2).flatten(1, 2))
        if ground:
            found = torch.baddbmm(found, heights.ground, weight[:, end : end + ground])
        if self.levels:
            found = found + summed(heights.places, places.unflatten(2, (2, -1)))
        if self.quick:
            found = found + summed(heights.speeds, speeds.unflatten(2, (2, -1)))
        return found


class GroundedCodes(Codes):
    """Codes of the keypoints, and the ground, as faint as one of its parts: louder, Breakout is hardly learnt."""

    def __init__(self, row: tuple[int, ...], config: NetworkConfig, cells: int, *, coordinates: bool = True) -> None:
        super().__init__(row, config, coordinates=coordinates, ground=3 * cells**2)
        self.shape, self.split, self.cells = row, math.prod(row), cells

    def shifted(self, rows: Float[Tensor, "a t b row"], by: Float[Tensor, "a #t b places 2"]) -> Tensor:
        return torch.cat((super().shifted(self._keypoints(rows), by).flatten(-2), rows[..., self.split :]), -1)

    def heights(self, rows: Float[Tensor, "a n row"], earlier: Float[Tensor, "a n row"]) -> Heights:
        heights = super().heights(self._keypoints(rows), self._keypoints(earlier))
        return heights._replace(ground=rows[..., self.split :].float() / self.cells)

    def _keypoints(self, rows: Tensor) -> Tensor:
        return rows[..., : self.split].unflatten(-1, self.shape)


def height(x: Float[Tensor, "*n"], levels: int) -> Int64[Tensor, "*n"]:
    """How many thresholds x reaches: the centres of `levels` equal cells of [-1, 1]."""
    if not levels:
        return torch.zeros_like(x, dtype=torch.int64)
    return torch.bucketize(x.contiguous(), cell_centres(levels, x.device), right=True)


def bits(heights: Int64[Tensor, "*n"], levels: int) -> Float[Tensor, "*n levels"]:
    """Thermometers written out: bit k is 1 where threshold k is reached."""
    return (torch.arange(levels, device=heights.device) < heights[..., None]).float()


def summed(heights: Int64[Tensor, "a n *t"], weights: Float[Tensor, "a *t levels h"]) -> Float[Tensor, "a n h"]:
    """The product of thermometers, written out, with weights; without writing them out."""
    a, n, (levels, hidden) = *heights.shape[:2], weights.shape[-2:]
    below = torch.ones(levels + 1, levels).tril(-1)  # a product: the gradient of cumsum is several times as slow
    sums = below @ weights.flatten(0, -3)
    codes = heights.flatten(2)
    table = torch.arange(len(sums)).view(a, 1, -1)
    found = F.embedding_bag((codes + table * (levels + 1)).flatten(0, 1), sums.flatten(0, 1), mode="sum")
    return found.view(a, n, hidden)


def _spread(x: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    """Small numbers further apart than large ones, while 1 stays 1: most things move by a pixel or two."""
    return x.sign() * x.abs().pow(2 / 3)

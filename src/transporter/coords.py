"""The only place that knows [-1, 1], pixels and axis order.

A point is (x, y), x to the right and y down. The left and upper *edges* of the image are -1, the right and lower
edges +1, so a point means the same place at every resolution: pixel (or feature-map cell) i of n has its centre at
(2i + 1) / n - 1.
"""

from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Float

Array = TypeVar("Array", np.ndarray, torch.Tensor)


def cell_centres(n: int, device: torch.device | str | None = None) -> Float[torch.Tensor, "n"]:
    """Centres of n equal cells along one axis, in [-1, 1]."""
    return torch.linspace(1 / n - 1, 1 - 1 / n, n, device=device)


def to_pixels(points: Array, width: float, height: float) -> Array:
    """(..., 2) points in [-1, 1] to pixel coordinates in which the centre of the first pixel is (0.5, 0.5)."""
    return (points + 1) / 2 * _extent(points, width, height)


def from_pixels(pixels: Array, width: float, height: float) -> Array:
    """(..., 2) pixel coordinates, first pixel centred at (0.5, 0.5), to points in [-1, 1]."""
    return pixels / _extent(pixels, width, height) * 2 - 1


def _extent(like: Array, width: float, height: float) -> Array:
    if isinstance(like, torch.Tensor):
        return torch.tensor([width, height], dtype=like.dtype, device=like.device)
    return np.array([width, height], dtype=like.dtype)

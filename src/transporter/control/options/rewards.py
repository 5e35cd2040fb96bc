"""§3.2.2: four rewards for each keypoint, for moving right, left, down and up between consecutive frames."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

DIRECTIONS = ("right", "left", "down", "up")  # the paper's order; y points down, as everywhere


def displacement_rewards(
    points_t: Float[Tensor, "*n k 2"], points_tp1: Float[Tensor, "*n k 2"], jump: float = float("inf")
) -> Float[Tensor, "*n k 4"]:
    """r₁ = Ψx(x_{t+1}) - Ψx(x_t), r₂ = -r₁, r₃ = Ψy(x_{t+1}) - Ψy(x_t), r₄ = -r₃; nothing where a keypoint jumped."""
    moved = points_tp1 - points_t
    x, y = moved.masked_fill(jumped(points_t, points_tp1, jump)[..., None], 0).unbind(-1)
    return torch.stack((x, -x, y, -y), -1)


def jumped(points_t: Float[Tensor, "*n k 2"], points_tp1: Float[Tensor, "*n k 2"], jump: float) -> Bool[Tensor, "*n k"]:
    """Whether a keypoint went farther in one step than things do: it has left its object for another.

    Such a leap is worth ten honest steps, and a policy could learn to bring it about.
    """
    return (points_tp1 - points_t).norm(dim=-1) > jump

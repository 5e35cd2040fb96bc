"""Are the keypoints alive? Judged from frames and points alone, as a user without labels must."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor
from torch.nn import functional as F

STILL = 0.02  # a keypoint that moves less than this between the two frames of a pair, on average, is parked
QUIET = 2.0  # a keypoint must sit where the frames differ by more than this many times the frame's mean difference
SAME = 0.10  # two live keypoints closer than this on average are one


@dataclass(frozen=True)
class Health:
    """Per keypoint, over a set of pairs."""

    travel: Float[Tensor, "k"]  # mean distance moved between source and target
    change: Float[Tensor, "k"]  # pixel difference under the keypoint, in units of the frame's mean difference
    home: Float[Tensor, "k 2"]  # mean position
    alive: Bool[Tensor, "k"]
    duplicate: Bool[Tensor, "k"]  # alive, but a live keypoint with a lower index is in the same place

    def row(self) -> dict[str, float | list[float]]:
        """What goes into metrics.jsonl."""
        return {
            "alive": int((self.alive & ~self.duplicate).sum()),
            "duplicates": int(self.duplicate.sum()),
            "travel": [round(v, 4) for v in self.travel.tolist()],
            "change": [round(v, 2) for v in self.change.tolist()],
            "home": [round(v, 3) for v in self.home.flatten().tolist()],
        }


@torch.no_grad()
def health(
    source: UInt8[Tensor, "n H W 3"],
    target: UInt8[Tensor, "n H W 3"],
    source_points: Float[Tensor, "n k 2"],
    target_points: Float[Tensor, "n k 2"],
) -> Health:
    """Alive: moves, and sits on what changes. A parked keypoint does neither; one on a score does not move."""
    travel = (target_points - source_points).norm(dim=-1).mean(0)
    change = _change_under(source, target, source_points, target_points)
    alive = (travel > STILL) & (change > QUIET)
    apart = (target_points[:, :, None] - target_points[:, None]).norm(dim=-1).mean(0)
    others = apart.masked_fill(~alive[None] | torch.eye(len(alive), dtype=torch.bool, device=apart.device), torch.inf)
    earlier = others.tril(-1).masked_fill(torch.ones_like(others).triu() > 0, torch.inf)
    duplicate = alive & (earlier.min(1).values < SAME)
    return Health(travel, change, target_points.mean(0), alive, duplicate)


def _change_under(source: Tensor, target: Tensor, source_points: Tensor, target_points: Tensor) -> Float[Tensor, "k"]:
    """Mean over pairs and both ends of the (slightly blurred) difference image at the keypoint, over its own mean."""
    difference = (source.float() - target.float()).abs().amax(-1)[:, None]
    ground = difference.mean().clamp_min(1e-6)
    radius = max(1, round(0.06 * difference.shape[-1] / 2))
    blurred = F.max_pool2d(difference, 2 * radius + 1, stride=1, padding=radius)
    ends = torch.cat((source_points, target_points), dim=1)[:, None]
    under = F.grid_sample(blurred, ends.float(), align_corners=False, padding_mode="border")[:, 0, 0]
    k = source_points.shape[1]
    return (under[:, :k] + under[:, k:]).mean(0) / 2 / ground

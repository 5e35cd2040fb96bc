"""Are the keypoints alive? Judged from frames and points alone, as a user without labels must."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor
from torch.nn import functional as F

STILL = 0.02  # a keypoint that moves less than this between the two frames of a pair, on average, is parked
QUIET = 2.0  # a keypoint must sit where the frames differ by more than this many times the frame's mean difference
SAME = 0.10  # two live keypoints closer than this on average are one
AROUND = 0.08  # what lies so near to a keypoint, along each axis, is what it shows …
LOOKS = 9  # … in so many samples a side


@dataclass(frozen=True)
class Health:
    """Per keypoint, over a set of pairs."""

    travel: Float[Tensor, "k"]  # mean distance moved between source and target
    change: Float[Tensor, "k"]  # pixel difference under the keypoint, in units of the frame's mean difference
    home: Float[Tensor, "k 2"]  # mean position
    follows: Float[Tensor, "k"]  # likeness of what lies under it in both frames, less that of what lies in one place
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
            "follows": [round(v, 3) for v in self.follows.tolist()],
        }


@torch.no_grad()
def health(
    source: UInt8[Tensor, "n H W 3"],
    target: UInt8[Tensor, "n H W 3"],
    source_points: Float[Tensor, "n k 2"],
    target_points: Float[Tensor, "n k 2"],
) -> Health:
    """Alive: moves, and sits on what changes. A parked keypoint does neither; one on a score does not move.

    Keypoints can live and yet follow nothing: where they are many and their heatmaps wide, they cover all that moves
    like tiles, and things pass under them. Then what lies under one is no more alike than what lies in one place.
    """
    travel = (target_points - source_points).norm(dim=-1).mean(0)
    change = _change_under(source, target, source_points, target_points)
    alive = (travel > STILL) & (change > QUIET)
    apart = (target_points[:, :, None] - target_points[:, None]).norm(dim=-1).mean(0)
    others = apart.masked_fill(~alive[None] | torch.eye(len(alive), dtype=torch.bool, device=apart.device), torch.inf)
    earlier = others.tril(-1).masked_fill(torch.ones_like(others).triu() > 0, torch.inf)
    duplicate = alive & (earlier.min(1).values < SAME)
    follows = _likeness(source, target, source_points, target_points)
    return Health(travel, change, target_points.mean(0), follows, alive, duplicate)


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


def _likeness(source: Tensor, target: Tensor, source_points: Tensor, target_points: Tensor) -> Float[Tensor, "k"]:
    """Cosine, over all pairs, of what a keypoint shows in both frames, less the mean cosine in each of its two places.

    Pixels are standardised in time: what is always there says nothing of what a keypoint follows.
    """
    frames = torch.cat((source, target)).float()
    frames = ((frames - frames.mean(0)) / (frames.std(0) + 5)).clamp(-4, 4).permute(0, 3, 1, 2)
    before, after = frames.chunk(2)
    own = _shown(before, source_points), _shown(after, target_points)
    other = _shown(after, source_points), _shown(before, target_points)
    stayed = (_cosine(own[0], other[0]) + _cosine(own[1], other[1])) / 2
    return _cosine(*own) - stayed


def _shown(frames: Float[Tensor, "n 3 H W"], points: Float[Tensor, "n k 2"]) -> Float[Tensor, "n k d"]:
    """Samples of the frame around each point."""
    line = torch.linspace(-AROUND, AROUND, LOOKS, device=frames.device)
    around = torch.stack(torch.meshgrid(line, line, indexing="xy"), dim=-1).flatten(0, 1)
    grid = points.float()[:, :, None] + around
    return F.grid_sample(frames, grid, align_corners=False, padding_mode="border").permute(0, 2, 3, 1).flatten(2)


def _cosine(a: Float[Tensor, "n k d"], b: Float[Tensor, "n k d"]) -> Float[Tensor, "k"]:
    return (a * b).sum((0, 2)) / (a.square().sum((0, 2)) * b.square().sum((0, 2))).sqrt().clamp_min(1e-6)

"""A camera that moves: the first frame of a pair as the camera would have taken it from where it took the second.

What the camera did between the two frames is taken to be affine (it shifts, turns, zooms) and is found from the frames
alone: by a search for the shift on small copies, then by Gauss-Newton steps on larger and larger ones, which believe a
pixel the less, the worse it fits, for it may show a thing that moves by itself. What only the second frame shows is
taken from there: what cannot be known is nobody's to explain.
"""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor
from torch.nn import functional as F

from transporter.coords import cell_centres
from transporter.frames import resize

LARGEST = 64  # pixels: a side of the copies that are compared
LEAST = 12  # pixels: a side of the smallest, on which the shift is sought
REACH = 0.5  # share of a frame by which the camera may have shifted
STEPS = 6  # of Gauss-Newton, at each size
ROUGH = 30.0  # grey levels, on small copies: what is further off than that is something else, however far
QUIET = 1.0  # grey levels: as much is noise in any case
BLOCKS = 8  # parts on a side of a frame, of which the usual one tells how well a motion explains it
CLEARLY = 0.35  # it is believed where it leaves less than this share of what does not fit: chance leaves more
FAINT = 3.0  # grey levels, on small copies: less than that is nothing to go by
UNLIKE = 0.5  # frames are lost on one another where they differ by this share of what other places do
PART = 0.25  # share of such a part that must be seen in both frames
ZOOM = 2.0  # by how much areas may grow or shrink
AT_ONCE = 16  # pairs: frames may be large

Motion = Float[Tensor, "b 2 3"]  # where the second frame shows (x, y) the first did at motion · (x, y, 1)


class Steadied(NamedTuple):
    """Pairs as of a camera that stood where it was for the second frame."""

    pairs: UInt8[np.ndarray, "n 2 h w 3"]
    moved: Bool[np.ndarray, "n"]  # by a camera: what it did is undone
    lost: Bool[np.ndarray, "n"]  # the two frames have nothing to do with one another, as far as can be told


def steadied(pairs: UInt8[np.ndarray, "n 2 h w 3"]) -> Steadied:
    """What the camera did is undone wherever it is found; other pairs stay as they are."""
    side = min(LARGEST, *pairs.shape[2:4])
    first, second = (torch.from_numpy(resize(pairs[:, i], side, side)).permute(0, 3, 1, 2).float() for i in (0, 1))
    motion = camera_motion(first, second)
    moved = (motion != _still(len(pairs))).flatten(1).any(1).numpy()
    lost = ~moved & _strange(first, second).numpy()
    found = pairs.copy()
    at = np.flatnonzero(moved)
    for rows in (at[i : i + AT_ONCE] for i in range(0, len(at), AT_ONCE)):
        seen = _moved(torch.from_numpy(pairs[rows, 0]).permute(0, 3, 1, 2).float(), motion[torch.from_numpy(rows)])
        frames = seen.frames.round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).numpy()
        found[rows, 0] = np.where(seen.known.numpy()[..., None], frames, pairs[rows, 1])
    return Steadied(found, moved, lost)


def camera_motion(first: Float[Tensor, "b c h w"], second: Float[Tensor, "b c h w"]) -> Motion:
    """What the camera did between two frames; nothing where that does not explain them far better."""
    sizes = [(first, second)]
    while min(sizes[-1][0].shape[-2:]) >= 2 * LEAST:
        sizes.append((F.avg_pool2d(sizes[-1][0], 2), F.avg_pool2d(sizes[-1][1], 2)))
    still = _still(len(first)).to(first)
    motion = still.clone()
    motion[:, :, 2] = _shift(*sizes[-1])
    for number, (one, other) in enumerate(reversed(sizes)):
        motion = _fitted(one, other, motion, shifts_only=number == 0)
    believed = _plausible(motion) & _explains(first, second, motion)
    return torch.where(believed[:, None, None], motion, still)


def _still(count: int) -> Motion:
    return torch.eye(2, 3).expand(count, 2, 3)


class Seen(NamedTuple):
    """A frame from another place, and which of it the camera had in view."""

    frames: Float[Tensor, "b c h w"]
    known: Bool[Tensor, "b h w"]


def _moved(frames: Float[Tensor, "b c h w"], motion: Motion) -> Seen:
    grid = F.affine_grid(motion, [len(frames), 1, *frames.shape[-2:]], align_corners=False)
    moved = F.grid_sample(frames, grid, padding_mode="border", align_corners=False)
    return Seen(moved, (grid.abs() <= 1).all(-1))


def _shift(first: Float[Tensor, "b c h w"], second: Float[Tensor, "b c h w"]) -> Float[Tensor, "b 2"]:
    """The best shift in whole pixels, of all that leave enough to compare; of those alike, the smallest."""
    height, width = first.shape[-2:]
    high, wide = int(REACH * height), int(REACH * width)
    shifts = [(x, y) for y in range(-high, high + 1) for x in range(-wide, wide + 1)]
    shifts.sort(key=lambda shift: shift[0] ** 2 + shift[1] ** 2)
    both = ((_part(first, x, y), _part(second, -x, -y)) for x, y in shifts)
    misfits = torch.stack([(one - other).abs().clamp(max=ROUGH).mean((1, 2, 3)) for one, other in both])
    best = torch.tensor(shifts, dtype=first.dtype, device=first.device)[misfits.argmin(0)]
    return best * 2 / torch.tensor([width, height], dtype=first.dtype, device=first.device)


def _part(frames: Float[Tensor, "b c h w"], x: int, y: int) -> Float[Tensor, "b c _ _"]:
    """What is left when so many columns and rows are cut from left and top; below 0, from right and bottom."""
    height, width = frames.shape[-2:]
    return frames[..., max(y, 0) : height + min(y, 0), max(x, 0) : width + min(x, 0)]


def _fitted(
    first: Float[Tensor, "b c h w"], second: Float[Tensor, "b c h w"], motion: Motion, *, shifts_only: bool
) -> Motion:
    """A few steps of Gauss-Newton towards the motion that explains the second frame by the first."""
    channels, height, width = first.shape[1:]
    padded = F.pad(first, (1, 1, 1, 1), mode="replicate")
    right, down = padded[..., 1:-1, 2:] - padded[..., 1:-1, :-2], padded[..., 2:, 1:-1] - padded[..., :-2, 1:-1]
    # With its slopes, per unit of [-1, 1]: a pixel is 2 / width wide, and a difference spans two of them.
    sloped = torch.cat((first, right * width / 4, down * height / 4), 1)
    x, y = cell_centres(width, first.device).expand(height, width), cell_centres(height, first.device)[:, None]
    at = torch.stack((x, y.expand(height, width), torch.ones_like(x)))
    for _ in range(STEPS):
        seen = _moved(sloped, motion)
        shown, slopes = seen.frames[:, :channels], seen.frames[:, channels:].unflatten(1, (2, channels))
        off, belief = _beliefs(second - shown, seen.known)
        # How each number of the motion changes what is seen: (b, numbers, everything).
        change = slopes if shifts_only else (slopes[:, :, None] * at[:, None]).flatten(1, 2)
        change = change.flatten(2)
        weighed = change * belief
        normal = weighed @ change.mT
        scale = normal.diagonal(dim1=1, dim2=2).mean(1)[:, None, None]
        # Where nothing can be told from the frames (no texture, or stripes), nothing has moved.
        normal = normal + (1e-3 * scale + 1e-6) * torch.eye(normal.shape[-1], device=first.device)
        step = torch.linalg.solve(normal, weighed @ off[..., None])[..., 0]
        motion = motion + (F.pad(step[..., None], (2, 0)) if shifts_only else step.unflatten(1, (2, 3)))
    return motion


def _beliefs(
    off: Float[Tensor, "b c h w"], known: Bool[Tensor, "b h w"]
) -> tuple[Float[Tensor, "b n"], Float[Tensor, "b 1 n"]]:
    """All that does not fit, and how far to believe it: Cauchy's weights, by the usual misfit of a pixel."""
    usual = off.abs().masked_fill(~known[:, None], torch.nan).flatten(1).nanmedian(1).values.nan_to_num(0)
    spread = (3 * usual).clamp_min(QUIET)[:, None, None, None]
    return off.flatten(1), (known[:, None] / (1 + (off / spread).square())).flatten(1)[:, None]


def _plausible(motion: Motion) -> Bool[Tensor, "b"]:
    """What a camera does between two frames that show the same: no mirror, no collapse, no leap out of the picture."""
    grown = torch.linalg.det(motion[:, :, :2])
    return (grown > 1 / ZOOM) & (grown < ZOOM) & (motion[:, :, 2].abs() <= 2 * REACH).all(1)


def _explains(first: Float[Tensor, "b c h w"], second: Float[Tensor, "b c h w"], motion: Motion) -> Bool[Tensor, "b"]:
    """Whether a motion leaves far less unexplained than none would, of what both frames show.

    Part by part of the frame, and by the median of those parts: things that move by themselves decide nothing as long
    as they are in less than half of them. Where most of a frame is flat, so that anything would do, nothing has moved.
    """
    seen = _moved(first, motion)
    return _misfit(second, seen.frames, seen.known) < CLEARLY * _misfit(second, first, seen.known)


def _strange(first: Float[Tensor, "b c h w"], second: Float[Tensor, "b c h w"]) -> Bool[Tensor, "b"]:
    """Whether two frames are about as unlike as different places of one scene; on small copies, without their noise."""
    small = max(1, min(first.shape[2:]) // (2 * BLOCKS))
    one, other = F.avg_pool2d(first, small), F.avg_pool2d(second, small)
    everywhere = torch.ones_like(one[:, 0], dtype=torch.bool)
    elsewhere = other.roll([side // 2 for side in other.shape[2:]], (2, 3))
    return _misfit(other, one, everywhere) > FAINT + UNLIKE * _misfit(other, elsewhere, everywhere)


def _misfit(
    one: Float[Tensor, "b c h w"], other: Float[Tensor, "b c h w"], known: Bool[Tensor, "b h w"]
) -> Float[Tensor, "b"]:
    """Mean difference in the usual part of a frame, of those that are known well enough."""
    known = known.float()
    size = F.adaptive_avg_pool2d(known[:, None], BLOCKS).flatten(1)
    off = F.adaptive_avg_pool2d(((one - other).abs().mean(1) * known)[:, None], BLOCKS).flatten(1)
    return (off / size).masked_fill(size < PART, torch.nan).nanmedian(1).values

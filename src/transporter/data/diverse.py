"""Appendix B: a buffer of pairs in which unusual ones take the place of usual ones.

Distances are between small gray copies, and they are exact: whole numbers from first to last. So the choice, and with
it the data set, does not depend on the device, on the number of threads or on how the work is cut into blocks.
"""

from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float32, Int, Int8, Int32, UInt8
from torch import Tensor

SIDE = 64  # of the gray copy (Appendix B)
CHANCE = 0.05  # that a pair is overwritten whatever the distances say (Appendix B)
ROUND = 256  # offers that are weighed against one state of the buffer
BLOCK = 4096  # pairs of the buffer that are looked at together: where they must become floats, 134 MB of them
# Sums of this many products of numbers in -128..127 stay within 2^24, where float32 still counts in whole numbers.
EXACT = 1024
SELF = torch.iinfo(torch.int32).max


def gray_copy(pairs: UInt8[np.ndarray, "n 2 h w 3"]) -> UInt8[np.ndarray, "n d"]:
    """Both frames of each pair in gray, averaged by area to at most 64×64, in one row."""
    # Whole numbers all the way, in the smallest floats that hold them: exact in any order, and fast matrix products.
    luma = np.floor(pairs.astype(np.float32) @ np.array([77, 150, 29], np.float32) / 256)  # Rec. 601 in 256ths
    side = pairs.shape[-2]
    weights = _area_counts(side, min(SIDE, side))
    lines = weights @ luma  # up to 255 · side
    sums = (lines if 255 * side**2 < 2**24 else lines.astype(np.float64)) @ weights.T
    return np.floor(sums / side**2).astype(np.uint8).reshape(len(pairs), -1)


@lru_cache(maxsize=8)
def _area_counts(before: int, after: int) -> Float32[np.ndarray, "after before"]:
    """How much of each old cell lies in each new one, in units of 1/after of an old cell."""
    new, old = np.arange(after)[:, None], np.arange(before)[None, :]
    overlap = np.minimum((new + 1) * before, (old + 1) * after) - np.maximum(new * before, old * after)
    return np.clip(overlap, 0, None).astype(np.float32)


class DiverseBuffer:
    """Gray copies of the pairs in the set, slot by slot."""

    def __init__(self, capacity: int, dimensions: int, device: torch.device | str | None = None) -> None:
        if device is None:
            device = "cuda" if torch.cuda.is_available() else "cpu"
        self.capacity, self.filled = capacity, 0
        self._points = torch.zeros(capacity, dimensions, dtype=torch.int8, device=device)  # gray less 128
        self._norms = torch.zeros(capacity, dtype=torch.int32, device=device)
        # A round sees few enough of the slots that the buffer does not turn over in one go.
        self.round = max(1, min(ROUND, capacity // 8))

    def offer(self, gray: UInt8[np.ndarray, "n d"], rng: np.random.Generator) -> Int[np.ndarray, "n"]:
        """Slots that the new pairs now hold, -1 where one was not taken; the first ones fill the buffer."""
        free = self.capacity - self.filled
        slots = [self.fill(gray[:free])]
        slots += [self._compete(part, rng) for part in self._centred(gray[free:]).split(self.round) if len(part)]
        return np.concatenate(slots)

    def fill(self, gray: UInt8[np.ndarray, "n d"]) -> Int[np.ndarray, "n"]:
        """Take pairs unconditionally, into free slots."""
        slots = np.arange(self.filled, self.filled + len(gray))
        self._put(slots, self._centred(gray))
        self.filled += len(gray)
        return slots

    def _centred(self, gray: UInt8[np.ndarray, "n d"]) -> Int8[Tensor, "n d"]:
        return torch.from_numpy(gray.astype(np.int16) - 128).to(self._points.device, torch.int8)

    def _compete(self, new: Int8[Tensor, "m d"], rng: np.random.Generator) -> Int[np.ndarray, "m"]:
        """Each new pair against one existing pair: the one that lies farther from the buffer stays."""
        # Without replacement, so that no two new pairs overwrite one slot.
        existing = rng.choice(self.filled, size=len(new), replace=False)
        lucky = rng.random(len(new)) < CHANCE
        inside = self.nearest(self._points[torch.from_numpy(existing)], itself=torch.from_numpy(existing))
        outside = self.nearest(new)
        taken = (outside > inside).cpu().numpy() | lucky
        self._put(existing[taken], new[torch.from_numpy(taken)])
        return np.where(taken, existing, -1)

    def nearest(self, points: Int8[Tensor, "m d"], itself: Int[Tensor, "m"] | None = None) -> Int32[Tensor, "m"]:
        """Squared L2 distance to the nearest pair of the buffer; `itself` names the slot of a point that is in it."""
        best = torch.full((len(points),), SELF, dtype=torch.int32, device=points.device)
        norms = _squares(points)
        for start in range(0, self.filled, BLOCK):
            stop = min(start + BLOCK, self.filled)
            squared = norms[:, None] + self._norms[None, start:stop] - 2 * _dots(points, self._points[start:stop])
            if itself is not None:
                here = (itself >= start) & (itself < stop)
                squared[here.nonzero()[:, 0], itself[here] - start] = SELF
            best = torch.minimum(best, squared.min(1).values)
        return best

    def _put(self, slots: Int[np.ndarray, "m"], points: Int8[Tensor, "m d"]) -> None:
        where = torch.from_numpy(slots).to(self._points.device)
        self._points[where] = points
        self._norms[where] = _squares(points)


def _squares(points: Int8[Tensor, "m d"]) -> Int32[Tensor, "m"]:
    return points.to(torch.int32).square().sum(1, dtype=torch.int32)


def _dots(a: Int8[Tensor, "m d"], b: Int8[Tensor, "n d"]) -> Int32[Tensor, "m n"]:
    """a @ b.T without an error: as integers where the hardware can, otherwise by floats of which few are added up."""
    fits = a.shape[1] % 8 == 0 and (a.is_cpu or (len(a) > 16 and len(b) % 8 == 0))  # torch's own conditions
    if fits and _multiplies_bytes(a.device.type):
        return torch._int_mm(a, b.T)
    total = torch.zeros(len(a), len(b), dtype=torch.int32, device=a.device)
    for left, right in zip(a.split(EXACT, 1), b.split(EXACT, 1), strict=True):
        total += (left.float() @ right.float().T).to(torch.int32)
    return total


@lru_cache(maxsize=8)
def _multiplies_bytes(kind: str) -> bool:
    """CPUs without VNNI would add bytes up with saturation, or one by one."""
    if kind == "cuda":
        return torch.cuda.get_device_capability() >= (7, 5) and torch.version.hip is None
    return kind == "cpu" and torch.backends.mkldnn.is_available() and torch.cpu._is_vnni_supported()

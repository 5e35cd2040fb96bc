"""Which pairs make up a batch, and where their pixels are."""

from collections import deque
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64, UInt8
from torch import Tensor

from transporter.errors import InputError
from transporter.models.devices import room

SPARE = 4 * 2**30  # bytes of a GPU that are left to whoever learns: the paper's network takes less than two
IN_FLIGHT = 8  # streamed batches of which the GPU may still have to read


def there(numbers: np.ndarray, device: torch.device) -> Tensor:
    """The numbers on a device: from pinned memory, since such a copy does not wait for what the GPU still has to do."""
    tensor = torch.from_numpy(numbers)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor


class Draw(NamedTuple):
    """Rows of a batch, which of them run backwards in time, and where each one's second frame comes from."""

    rows: Int64[np.ndarray, "b"]
    swap: Bool[np.ndarray, "b"]
    partners: Int64[np.ndarray, "b"] | None = None  # None: from the same row


class Sampler:
    """Every pair once an epoch, in an order of its own. A batch follows from seed and step alone: resume is exact.

    The first share `strangers` of a batch are pairs of frames that have nothing to do with one another.
    """

    def __init__(
        self,
        rows: Int64[np.ndarray, "n"],
        batch: int,
        seed: int,
        rank: int = 0,
        world: int = 1,
        strangers: float = 0.0,
    ) -> None:
        if len(rows) == 0:
            raise InputError("the data set has no training pairs")
        if batch % world:
            raise InputError(f"a batch of {batch} cannot be split over {world} processes")
        self.rows, self.batch, self.seed = rows, batch, seed
        self.share = slice(rank * batch // world, (rank + 1) * batch // world)
        self.strangers = round(batch * strangers)
        self._epoch = -1
        self._order = rows

    def at(self, step: int) -> Draw:
        start, stop, each = step * self.batch, (step + 1) * self.batch, len(self.rows)
        epochs = range(start // each, -(-stop // each))
        rows = np.concatenate([self._permutation(e)[max(0, start - e * each) : stop - e * each] for e in epochs])
        swap = np.random.default_rng((self.seed, 1, step)).random(self.batch) < 0.5
        # Each meets its neighbour's second frame.
        partners = np.concatenate((np.roll(rows[: self.strangers], 1), rows[self.strangers :]))
        return Draw(rows[self.share], swap[self.share], partners[self.share])

    def _permutation(self, epoch: int) -> Int64[np.ndarray, "n"]:
        if epoch != self._epoch:
            self._epoch = epoch
            self._order = np.random.default_rng((self.seed, 0, epoch)).permutation(self.rows)
        return self._order


class ResidentPairs:
    """A whole data set as uint8 on the device that trains: (n, 2, H, W, 3)."""

    def __init__(self, pairs: UInt8[np.ndarray, "n 2 H W 3"], device: torch.device) -> None:
        self.pairs, self.device = torch.from_numpy(pairs).to(device), device

    def batch(self, draw: Draw) -> tuple[UInt8[Tensor, "b H W 3"], UInt8[Tensor, "b H W 3"]]:
        """(source, target)"""
        partners = draw.rows if draw.partners is None else draw.partners
        first, second = 2 * draw.rows + draw.swap, 2 * partners + ~draw.swap
        source, target = self.frames(np.concatenate((first, second))).split(len(first))
        return source, target

    def frames(self, numbers: Int64[np.ndarray, "m"]) -> UInt8[Tensor, "m H W 3"]:
        """Whole frames by their number: a GPU copies those far faster than by row and place in it."""
        return self.pairs.flatten(0, 1).index_select(0, there(numbers, self.device))

    def statistics(self, rows: Int64[np.ndarray, "n"]) -> tuple[Float[Tensor, "3 H W"], Float[Tensor, "3 H W"]]:
        """Mean and standard deviation of every pixel over both frames of the given rows."""
        total = square = torch.zeros((), device=self.device, dtype=torch.float64)
        for part in np.array_split(rows, max(1, len(rows) // 512)):
            frames = self.pairs[torch.from_numpy(part).to(self.pairs.device)].to(self.device).flatten(0, 1).double()
            total, square = total + frames.sum(0), square + frames.square().sum(0)
        mean = total / (2 * len(rows))
        std = (square / (2 * len(rows)) - mean.square()).clamp_min(0).sqrt()
        return mean.permute(2, 0, 1).float(), std.permute(2, 0, 1).float()


class StreamedPairs(ResidentPairs):
    """A data set that stays in main memory; a batch is on its way while the GPU still works on those before it."""

    def __init__(self, pairs: UInt8[np.ndarray, "n 2 H W 3"], device: torch.device) -> None:
        super().__init__(pairs, torch.device("cpu"))
        self.device = device
        self._sent: deque[torch.cuda.Event] = deque()

    def frames(self, numbers: Int64[np.ndarray, "m"]) -> UInt8[Tensor, "m H W 3"]:
        on_gpu = self.device.type == "cuda"
        if len(self._sent) == IN_FLIGHT:  # or memory for copies would grow as far as Python gets ahead of the GPU
            self._sent.popleft().synchronize()
        chosen = torch.empty(len(numbers), *self.pairs.shape[2:], dtype=torch.uint8, pin_memory=on_gpu)
        torch.index_select(self.pairs.flatten(0, 1), 0, torch.from_numpy(numbers), out=chosen)
        chosen = chosen.to(self.device, non_blocking=True)
        if on_gpu:
            self._sent.append(torch.cuda.current_stream(self.device).record_event())
        return chosen


def at_hand(pairs: UInt8[np.ndarray, "n 2 H W 3"], device: torch.device) -> ResidentPairs:
    """On the GPU where they fit it, with room left to learn."""
    fits = pairs.nbytes <= room(device, SPARE)
    return (ResidentPairs if fits else StreamedPairs)(pairs, device)

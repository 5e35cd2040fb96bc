"""Which rows to learn from again: those whose value was far off when they were last learnt from.

A window is drawn by one of its rows, which lies anywhere in the part that is learnt from; so every row of that part is
learnt from as often as rows around it are worth, and `weights` knows how often that is.
"""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

LEAST = 0.01  # error of a row that is right: it is learnt from now and then all the same


class Priorities:
    """The last error of every row of a agents' replays; a row that was not learnt from yet has the largest so far."""

    def __init__(self, agents: int, capacity: int, power: float, correction: float, device: torch.device) -> None:
        self.power, self.correction = power, correction
        self.errors = torch.zeros(agents, capacity, device=device)
        self.largest = torch.ones(agents, device=device)
        self.total = torch.ones(agents, device=device)  # of what rows were worth when some were drawn last
        self.count = torch.ones((), device=device)  # how many rows there were to draw from then
        self.seen = torch.zeros((), dtype=torch.int64)  # rows that have an error

    def draw(self, draws: Float[Tensor, "a b 2"], rows: range, part: int) -> Int64[Tensor, "a b"]:
        """First rows of parts to learn from, `part` long: drawn by one of `rows`, which all parts stay within."""
        self.errors[:, int(self.seen) : rows.stop] = self.largest[:, None]
        self.seen.fill_(max(int(self.seen), rows.stop))
        upto = self._worth(self.errors[:, rows.start : rows.stop]).cumsum(1)
        self.total.copy_(upto[:, -1])
        self.count.fill_(len(rows))
        chosen = torch.searchsorted(upto, draws[..., 0].float() * upto[:, -1:], right=True)
        first = rows.start + chosen.clamp(max=len(rows) - 1) - (draws[..., 1] * part).long()
        return first.clamp(rows.start, rows.stop - part)

    def weights(self, first: Int64[Tensor, "a b"], part: int) -> Float[Tensor, "a part b"]:
        """What an error of each row counts, since rows are drawn more or less often than by chance alone."""
        reach = torch.arange(1 - part, part, device=first.device)
        share = (part - reach.abs()) / part**2  # of the parts drawn by a row so far away, those that hold this one
        rows = first[:, None] + torch.arange(part, device=first.device)[:, None]
        around = (rows[..., None] + reach).clamp(0, self.errors.shape[1] - 1)
        agents = torch.arange(len(first), device=first.device)[:, None, None, None]
        often = (self._worth(self.errors[agents, around]) * share).sum(-1) * (self.count / self.total)[:, None, None]
        return often.pow(-self.correction)

    def learnt(self, first: Int64[Tensor, "a b"], errors: Float[Tensor, "a part b"]) -> None:
        """Errors of the rows of parts that were learnt from; of a row that is in several, the largest."""
        rows = (first[:, None] + torch.arange(errors.shape[1], device=first.device)[:, None]).flatten(1)
        new = errors.abs().nan_to_num(0, 0, 0).flatten(1)
        self.errors.scatter_(1, rows, 0)
        self.errors.scatter_reduce_(1, rows, new, "amax")
        torch.maximum(self.largest, new.amax(1), out=self.largest)

    def _worth(self, errors: Tensor) -> Tensor:
        return (errors + LEAST).pow(self.power)

    def tensors(self) -> dict[str, Tensor]:
        """All that the next draw depends on."""
        return {"priority.errors": self.errors, "priority.largest": self.largest, "priority.seen": self.seen}

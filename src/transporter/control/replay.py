"""Everything that several agents have seen, in step, on one device: windows of it are what they learn from."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor


class Before(NamedTuple):
    """What an agent knows when it is shown a row: n agents, or any other leading axes."""

    first: Bool[Tensor, "*n"]  # an episode begins here: nothing came before
    action: Int64[Tensor, "*n"]
    reward: Float[Tensor, "*n"]  # as it was learnt from


class Outcome(NamedTuple):
    """What became of an action."""

    action: Int64[Tensor, "*n"]
    reward: Float[Tensor, "*n"]
    discount: Float[Tensor, "*n"]  # 0: the episode ended in failure or success; 1: it went on, or was cut short
    real: Bool[Tensor, "*n"]  # False where the row is the last of an episode, after which the game began anew


class Memory(NamedTuple):
    """The state of a recurrent network."""

    h: Float[Tensor, "*n m"]
    c: Float[Tensor, "*n m"]


class Window(NamedTuple):
    """`length` rows of each of b sequences for each of a agents, and what lies behind each row."""

    rows: Tensor  # (a, length, b, *row)
    earlier: Tensor  # the row before each; at the start of an episode it is that row itself
    before: Before
    outcome: Outcome
    memory: Memory  # (a, b, m): as it was when the first row came


class SequenceReplay:
    """One step after another for each agent, all kept. A window that begins anywhere crosses no episode:

    where one begins, `before.first` tells the network to forget, and a return ends at `discount` 0 or at a row that is
    not `real`, so neither memory nor return goes from one episode into another.
    """

    def __init__(
        self, agents: int, capacity: int, row: tuple[int, ...], dtype: torch.dtype, memory: int, device: torch.device
    ) -> None:
        self.agents, self.capacity, self.row = agents, capacity, row
        at = (agents, capacity)
        self.rows = torch.zeros(*at, *row, dtype=dtype, device=device)
        # Half the bytes; burning in makes up for far more than the rounding.
        self.h = torch.zeros(*at, memory, dtype=torch.float16, device=device)
        self.c = torch.zeros(*at, memory, dtype=torch.float16, device=device)
        self.first = torch.zeros(at, dtype=torch.bool, device=device)
        self.action = torch.zeros(at, dtype=torch.int64, device=device)
        self.reward = torch.zeros(at, device=device)
        self.discount = torch.zeros(at, device=device)
        self.real = torch.zeros(at, dtype=torch.bool, device=device)
        self._base = torch.arange(agents, device=device)[:, None, None] * capacity

    def see(self, at: Int64[Tensor, "1"], rows: Tensor, first: Bool[Tensor, "a"], memory: Memory) -> None:
        """Row `at` of every agent, before it acts on it. A place in a tensor, so that it can be captured."""
        self.rows.index_copy_(1, at, rows.to(self.rows.dtype)[:, None])
        self.h.index_copy_(1, at, memory.h.half()[:, None])
        self.c.index_copy_(1, at, memory.c.half()[:, None])
        self.first.index_copy_(1, at, first[:, None])

    def end(self, at: Int64[Tensor, "1"], outcome: Outcome) -> None:
        """What became of the action that was taken on row `at`."""
        for kept, new in zip((self.action, self.reward, self.discount, self.real), outcome, strict=True):
            kept.index_copy_(1, at, new[:, None])

    def put(self, agents: slice, at: int, tensors: dict[str, Tensor]) -> None:
        """Rows from `at` on of some agents, as `tensors` gave them elsewhere; row i lies at i modulo capacity."""
        count = len(next(iter(tensors.values()))[0])
        places = (torch.arange(at, at + count) % self.capacity).to(self.rows.device)
        for name in self._names:
            getattr(self, name)[agents, places] = tensors[name].to(self.rows.device)

    def window(self, starts: Int64[Tensor, "a b"], length: int) -> Window:
        """Rows starts … starts + length - 1; starts are at least 1, so that there is a row before."""
        steps = torch.arange(-1, length, device=starts.device)
        return self._window(self._base + starts[:, None, :] + steps[None, :, None])

    def sequences(self, agents: Int64[Tensor, "b"], starts: Int64[Tensor, "b"], length: int) -> Window:
        """The same of agents that learn together, as if of one. Rows may go round: row i lies at i modulo capacity."""
        steps = torch.arange(-1, length, device=starts.device)
        return self._window((agents * self.capacity + (starts + steps[:, None]) % self.capacity)[None])

    def _window(self, places: Int64[Tensor, "a length+1 b"]) -> Window:
        here = places[:, 1:]
        first = _take(self.first, here)
        rows = _take(self.rows, places)
        wide = first.reshape(*first.shape, *(1,) * len(self.row))
        return Window(
            rows=rows[:, 1:],
            earlier=torch.where(wide, rows[:, 1:], rows[:, :-1]),
            before=Before(first, _take(self.action, places[:, :-1]), _take(self.reward, places[:, :-1])),
            outcome=Outcome(*(_take(t, here) for t in (self.action, self.reward, self.discount, self.real))),
            memory=Memory(*(_take(t, places[:, 1]).float() for t in (self.h, self.c))),
        )

    def steps_left(self, agents: Int64[Tensor, "b"], rows: Int64[Tensor, "b"], most: int) -> Int64[Tensor, "b"]:
        """From each row within its episode, `most` at most; 0 where another begins with the next. Rows may go round."""
        ahead = torch.arange(1, most + 1, device=rows.device)
        first = self.first[agents[:, None], (rows[:, None] + ahead) % self.capacity]
        return (~first).cumprod(1).sum(1)

    @property
    def nbytes(self) -> int:
        return sum(getattr(self, name).nbytes for name in self._names)

    def tensors(self, count: int) -> dict[str, Tensor]:
        """The first `count` rows of everything, to be saved."""
        return {name: getattr(self, name)[:, :count] for name in self._names}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        for name in self._names:
            getattr(self, name)[:, : tensors[name].shape[1]] = tensors[name].to(self.rows.device)

    _names = ("rows", "h", "c", "first", "action", "reward", "discount", "real")


def _take(kept: Tensor, places: Int64[Tensor, "*p"]) -> Tensor:
    """Entries of an (agents, capacity, …) tensor at flat places."""
    return kept.flatten(0, 1)[places]

"""Acting: from what the games show to the best action of every player, their memories carried along."""

from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from jaxtyping import Float, Float32, Int64
from torch import Tensor

from transporter.control.gpu import Delivery
from transporter.control.keyqn.network import QNetwork
from transporter.control.keyqn.observe import Observer
from transporter.control.replay import Before, Memory, Outcome, SequenceReplay
from transporter.control.rollout import Moment
from transporter.models.graphs import Captured


class Actor:
    """a agents with b players each, agent after agent. With a replay (and b = 1) all that happens is put into it."""

    def __init__(
        self,
        network: QNetwork,
        observer: Observer,
        weights: Float[Tensor, "a p"],
        copies: int = 1,
        replay: SequenceReplay | None = None,
        capture: bool = False,
    ) -> None:
        self.network, self.observer, self.weights, self.replay = network, observer, weights, replay
        device = weights.device
        self.at_once = (len(weights), 1, copies)  # agents, rows, players of each
        players = len(weights) * copies
        self.memory = network.nothing(copies)
        self.row = torch.zeros(players, *observer.row, dtype=observer.dtype, device=device)
        self.best = torch.zeros(players, dtype=torch.int64, device=device)
        self.step = 0  # rows seen
        self._at = torch.zeros(1, dtype=torch.int64, device=device)
        self._delivery = Delivery(device)
        self._captured = Captured(self._act, lambda: [*self.memory, self.row], capture, urgent=True)
        # Beside whatever else the GPU does: an update goes on while the next actions are chosen.
        self._stream = torch.cuda.Stream(device, priority=-1) if capture else None
        self.follow()

    def __call__(self, moment: Moment, actions: Int64[np.ndarray, "n"], reward: Float32[np.ndarray, "n"]) -> np.ndarray:
        """Everyone's best action, given the moment, and the action and reward (as learnt from) that led to it."""
        with self._beside():
            self._receive(moment, actions, reward)
            self._captured()
            self.step += 1
            return self.best.cpu().numpy()

    @property
    def views(self) -> list[Tensor]:
        """What was shown last, as it came."""
        return self._delivery.there[:-1]

    def follow(self) -> None:
        """From here on see what was queued until now, and wait for nothing that will be."""
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream())

    def _beside(self) -> AbstractContextManager[object]:
        return nullcontext() if self._stream is None else torch.cuda.stream(self._stream)

    def _receive(self, moment: Moment, actions: np.ndarray, reward: np.ndarray) -> None:
        told = np.stack((moment.first, actions, reward, moment.discount, moment.real), 1, dtype=np.float32)
        self._delivery((*moment.views, told))
        self._at.fill_(self.step)

    @torch.no_grad()
    def _act(self) -> None:
        *views, told = self._delivery.pictures()
        first, action, reward, discount, real = told.unbind(1)
        first, action, real = first > 0, action.long(), real > 0
        rows = self.observer(views)
        earlier = torch.where(first.view(-1, *(1,) * len(self.observer.row)), rows, self.row)
        if self.replay is not None:
            # With the very first row nothing is over yet: what is said of the row before lands on row 0 itself, and
            # is said again, rightly, with row 1.
            self.replay.end((self._at - 1).clamp_min(0), Outcome(action, reward, discount, real))
            self.replay.see(self._at, rows, first, Memory(*(part[:, 0] for part in self.memory)))
        before = Before(*(part.view(self.at_once) for part in (first, action, reward)))
        seen = (part.view(*self.at_once, *self.observer.row) for part in (rows, earlier))
        weights = self.network.layout.views(self.weights)
        thought = self.network(weights, self.network.read(*seen), before, self.memory)
        found = (*thought.memory, rows, thought.q.argmax(-1).flatten())
        for kept, new in zip((*self.memory, self.row, self.best), found, strict=True):
            kept.copy_(new)

    def restore(self, step: int, memory: Memory, row: Tensor) -> None:
        self.step = step
        for kept, old in zip((*self.memory, self.row), (*memory, row), strict=True):
            kept.copy_(old)
        self.follow()

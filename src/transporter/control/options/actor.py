"""Acting: from what the games show to the action that is best for each player's option, memories carried along."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from transporter.control.gpu import Delivery
from transporter.control.options.choice import KEEP, MOST, Drawn, most_controllable, without_risk
from transporter.control.options.network import OptionsNet
from transporter.control.options.rewards import DIRECTIONS
from transporter.control.replay import Outcome, SequenceReplay
from transporter.control.rollout import Moment
from transporter.frames import resize_tensor
from transporter.models.graphs import Captured


class Acted(NamedTuple):
    """What each player does, and why."""

    best: Int64[np.ndarray, "n"]  # the greedy action of its option
    keypoint: Int64[np.ndarray, "n"]  # of its option
    direction: Int64[np.ndarray, "n"]  # of its option
    most: Int64[np.ndarray, "n"]  # the most controllable keypoint (Eq. 2) in this very state


class Actor:
    """n players of one network. With a replay all that happens is put into it."""

    def __init__(
        self, network: OptionsNet, players: int, replay: SequenceReplay | None = None, capture: bool = False
    ) -> None:
        self.network, self.players, self.replay = network, players, replay
        device = network.recall.device
        self.memory = network.nothing(players)
        self.option = torch.zeros(players, dtype=torch.int64, device=device)
        self.step = 0  # rows seen
        self._at = torch.zeros(1, dtype=torch.int64, device=device)
        self._delivery = Delivery(device)
        self._acted = torch.zeros(3, players, dtype=torch.int64, device=device)
        self._captured = Captured(self._act, lambda: [*self.memory, self.option], capture)

    def __call__(self, moment: Moment, actions: Int64[np.ndarray, "n"], drawn: Drawn) -> Acted:
        """Given the moment, the actions that led to it, and the options that begin with it."""
        self._receive(moment, actions, drawn)
        self._captured()
        self.step += 1
        best, option, most = self._acted.cpu().numpy()
        return Acted(best, option // len(DIRECTIONS), option % len(DIRECTIONS), most)

    def pictures(self) -> UInt8[Tensor, "n s s 3"]:
        """What was shown last, as the network sees it."""
        view, size = self._delivery.pictures()[0], self.network.size
        if view.shape[1:3] == (size, size):
            return view
        return resize_tensor(view, size, size).to(torch.uint8)

    def _receive(self, moment: Moment, actions: np.ndarray, drawn: Drawn) -> None:
        columns = (moment.first, actions, moment.reward, moment.discount, moment.real, *drawn)
        self._delivery((moment.views[0], np.stack(columns, 1, dtype=np.float32)))
        self._at.fill_(self.step % self.replay.capacity if self.replay else 0)

    @torch.no_grad()
    def _act(self) -> None:
        view = self.pictures()
        first, action, reward, discount, real, keypoint, direction = self._delivery.there[1].unbind(1)
        first, real = first > 0, real > 0
        if self.replay is not None:
            # With the very first row nothing is over yet: what is said of the row before lands on one that is not
            # there yet, and will be said again, rightly, before it is looked at.
            before = (self._at - 1) % self.replay.capacity
            self.replay.end(before, Outcome(action.long(), reward, discount, real))
            self.replay.see(self._at, view, first, self.memory)
        q, memory, safety = self.network(view[None], first[None], self.memory)
        most = most_controllable(q[0])
        asked = torch.where(keypoint == MOST, most, keypoint.long())
        option = torch.where(keypoint == KEEP, self.option, asked * len(DIRECTIONS) + direction.long())
        values = without_risk(q[0], safety[0], self.network.config.caution).flatten(1, 2)  # (n, 4k, a)
        chosen = values.gather(1, option[:, None, None].expand(-1, 1, values.shape[-1]))[:, 0]
        self._acted.copy_(torch.stack((chosen.argmax(-1), option, most)))
        for kept, new in zip((*self.memory, self.option), (*memory, option), strict=True):
            kept.copy_(new)

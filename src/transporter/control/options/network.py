"""K × 4 Q-functions in one network: convolutions, an LSTM, a linear layer (§4.2.2); with caution, one more for life."""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor, nn

from transporter.control.lstm import unroll
from transporter.control.options.config import NetworkConfig
from transporter.control.options.rewards import DIRECTIONS
from transporter.control.replay import Memory
from transporter.errors import InputError

FAINT = 0.01  # of the usual size: what the Q-functions begin with


class Thought(NamedTuple):
    """What the network makes of a sequence."""

    q: Float[Tensor, "t b k 4 a"]  # of the rows that were not skipped
    memory: Memory  # (b, m), after the last row
    safety: Float[Tensor, "t b a"]  # minus how likely each action is to cost the life, discounted; () without caution


class OptionsNet(nn.Module):
    """Frames (t, b, size, size, 3) to Q-values."""

    def __init__(
        self,
        config: NetworkConfig,
        size: int,
        keypoints: int,
        actions: int,
        autocast: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        """`autocast`: what convolutions run in; memory and values stay in fp32, for gaps between values are small."""
        super().__init__()
        self.config, self.size, self.keypoints, self.actions = config, size, keypoints, actions
        self.autocast = autocast
        layers: list[nn.Module] = []
        channels, side = 3, size
        for filters, kernel, stride in config.layers:
            layers += [nn.Conv2d(channels, filters, kernel, stride), nn.ReLU(inplace=True)]
            channels, side = filters, (side - kernel) // stride + 1
        if side < 1:
            raise InputError(f"frames of {size}×{size} are too small for these layers")
        self.look = nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * side**2, config.hidden), nn.ReLU())
        self.look = self.look.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.gates = nn.Linear(config.hidden, 4 * config.memory)
        self.recall = nn.Parameter(torch.empty(config.memory, 4 * config.memory))
        nn.init.uniform_(self.recall, -1 / math.sqrt(config.memory), 1 / math.sqrt(config.memory))
        self.options = keypoints * len(DIRECTIONS) * actions  # outputs that they have; those for life come after them
        self.head = nn.Linear(config.memory, self.options + (actions if config.caution else 0))
        with torch.no_grad():  # first guesses are larger than any displacement: gaps of nothing would outlast learning
            for weight in self.head.parameters():
                weight.mul_(FAINT)

    def nothing(self, players: int) -> Memory:
        """The memory before an episode."""
        zeros = torch.zeros(players, self.config.memory, device=self.recall.device)
        return Memory(zeros, zeros.clone())

    def forward(
        self, frames: UInt8[Tensor, "t b h w 3"], first: Bool[Tensor, "t b"], memory: Memory, skip: int = 0
    ) -> Thought:
        """The first `skip` rows only bring the memory up to date; nothing is learnt through them."""
        with torch.no_grad():
            burnt = self._see(frames[:skip]) if skip else None
        z = self._see(frames[skip:])
        z = z if burnt is None else torch.cat((burnt, z))
        recalled, after = unroll(z[None], self.recall[None], Memory(*(m[None] for m in memory)), first[None], skip)
        values = self.head(recalled[0])
        q = values[..., : self.options].unflatten(-1, (self.keypoints, len(DIRECTIONS), self.actions))
        return Thought(q, Memory(*(m[0] for m in after)), values[..., self.options :])

    def _see(self, frames: UInt8[Tensor, "t b h w 3"]) -> Float[Tensor, "t b gates"]:
        """What frames add to the gates."""
        flat = frames.flatten(0, 1).permute(0, 3, 1, 2)  # channels-last already
        with self.autocast():
            seen = self.look(flat.float() / 255)
        return self.gates(seen.float()).unflatten(0, frames.shape[:2])

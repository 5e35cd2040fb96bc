"""OptionsAgent: Q-functions and the detector whose keypoints they move, in one file, for any environment.

>>> agent = OptionsAgent.load("runs/explore-montezuma_revenge-seed0/options.safetensors")
>>> player = agent.player()
>>> player(frame, keypoint=2, direction=0)  # the action that moves keypoint 2 to the right
"""

from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import UInt8

from transporter.control.options.actor import Acted, Actor
from transporter.control.options.choice import KEEP, MOST, Drawn
from transporter.control.options.config import OptionsConfig
from transporter.control.options.network import OptionsNet
from transporter.control.options.rewards import DIRECTIONS
from transporter.control.rollout import Moment
from transporter.control.stored import read_agent, write_agent
from transporter.errors import InputError
from transporter.frames import one_frame, resize
from transporter.models.detector import Detector

ONE = np.ones(1, np.float32)
KIND = "options"  # of agent, as files say
OLD = "options."  # began the names of tensors in version 0.1


class OptionsAgent:
    """What an exploration has learnt."""

    def __init__(
        self, config: OptionsConfig, network: OptionsNet, detector: Detector, card: dict[str, Any] | None = None
    ) -> None:
        self.config, self.network, self.detector, self.card = config, network, detector, card or {}

    @property
    def keypoints(self) -> int:
        return self.network.keypoints

    @property
    def actions(self) -> int:
        return self.network.actions

    def player(self) -> "Player":
        """At the beginning of an episode."""
        return Player(self)

    def save(self, path: str | Path) -> None:
        """One .safetensors file that `load` reads, detector included."""
        head = {
            "config": self.config.to_json(),
            "shape": {"keypoints": self.keypoints, "actions": self.actions},
            "card": self.card,
        }
        write_agent(Path(path), KIND, head, self.network.state_dict(), self.detector)

    @classmethod
    def load(cls, path: str | Path, device: str | None = None) -> Self:
        head, tensors, detector = read_agent(Path(path), KIND, device)
        try:
            if detector is None:
                raise ValueError("it has no detector")
            config = OptionsConfig.from_json(head["config"])
            network = OptionsNet(config.network, config.eyes.size, **head["shape"])
            network.load_state_dict({name.removeprefix(OLD): tensor for name, tensor in tensors.items()})
            return cls(config, network.to(detector.device), detector, head["card"])
        except (KeyError, ValueError, TypeError, RuntimeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{path} holds no options: {str(error).splitlines()[0]}") from error


class Player:
    """One episode of one environment: frame after frame, with a memory of what came before."""

    def __init__(self, agent: OptionsAgent) -> None:
        self.agent = agent
        self._actor = Actor(agent.network, 1)
        self._first, self._size = True, agent.config.eyes.size

    def __call__(self, frame: UInt8[np.ndarray, "h w 3"], keypoint: int = KEEP, direction: int = 0) -> Acted:
        """The action for this frame, by an option that begins here or goes on (KEEP); MOST: by Eq. 2."""
        keypoints, directions = self.agent.network.keypoints, len(DIRECTIONS)
        if keypoint not in (KEEP, MOST, *range(keypoints)) or direction not in range(directions):
            raise InputError(f"no option {keypoint}, {direction}: {keypoints} keypoints, {directions} directions")
        view = resize(one_frame(frame), self._size, self._size)[None]
        moment = Moment([view], np.array([self._first]), 0 * ONE, ONE, ONE > 0, [])
        self._first = False
        with torch.no_grad():
            return self._actor(moment, np.zeros(1, np.int64), Drawn(np.array([keypoint]), np.array([direction])))

"""OptionsAgent: Q-functions and the detector whose keypoints they move, in one file, for any environment.

>>> agent = OptionsAgent.load("runs/explore-montezuma_revenge-seed0/options.safetensors")
>>> player = agent.player()
>>> player(frame, keypoint=2, direction=0)  # the action that moves keypoint 2 to the right
"""

import json
from pathlib import Path
from typing import Any, Self

import numpy as np
import safetensors
import safetensors.torch
import torch
from jaxtyping import UInt8

from transporter.control.options.actor import Acted, Actor
from transporter.control.options.choice import KEEP, Drawn
from transporter.control.options.config import OptionsConfig
from transporter.control.options.network import OptionsNet
from transporter.control.rollout import Moment
from transporter.errors import InputError
from transporter.files import replacing
from transporter.frames import resize
from transporter.models.detector import Detector
from transporter.models.factory import ModelConfig

FORMAT = 1
ONE = np.ones(1, np.float32)


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
        parts = {"options": self.network, "detector": self.detector.net}
        tensors = {f"{n}.{name}": t.cpu().contiguous() for n, p in parts.items() for name, t in p.state_dict().items()}
        head = {
            "config": self.config.to_json(),
            "shape": {"keypoints": self.keypoints, "actions": self.actions},
            "detector": self.detector.config.to_json(),
            "card": self.card,
        }
        with replacing(Path(path)) as temporary:
            metadata = {"format": f"options {FORMAT}", "agent": json.dumps(head)}
            safetensors.torch.save_file(tensors, temporary, metadata=metadata)

    @classmethod
    def load(cls, path: str | Path, device: str | None = None) -> Self:
        path = Path(path)
        try:
            with safetensors.safe_open(path, "pt") as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            kind, version = metadata["format"].split()
            if kind != "options":
                raise InputError(f"{path} holds no options, but a {kind} agent")
            if int(version) > FORMAT:
                raise InputError(f"{path} was written by a newer version of transporter")
            head = json.loads(metadata["agent"])
            config = OptionsConfig.from_json(head["config"])
            seen = {n.removeprefix("detector."): t for n, t in tensors.items() if n.startswith("detector.")}
            detector = Detector.from_tensors(ModelConfig.from_json(head["detector"]), seen, device=device)
            network = OptionsNet(config.network, config.eyes.size, **head["shape"])
            learnt = {n.removeprefix("options."): t for n, t in tensors.items() if n.startswith("options.")}
            network.load_state_dict(learnt)
            return cls(config, network.to(detector.device), detector, head["card"])
        except FileNotFoundError:
            raise InputError(f"{path} does not exist") from None
        except (OSError, safetensors.SafetensorError, KeyError, ValueError, TypeError, RuntimeError) as error:
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
        view = resize(np.asarray(frame), self._size, self._size)[None]
        moment = Moment([view], np.array([self._first]), 0 * ONE, ONE, ONE > 0, [])
        self._first = False
        with torch.no_grad():
            return self._actor(moment, np.zeros(1, np.int64), Drawn(np.array([keypoint]), np.array([direction])))

"""Atari games for agents: in ale-py's threads, one by one, or in processes; the latter two know the truth."""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from jaxtyping import Int64

from transporter.control.keyqn.observe import Kind
from transporter.control.keyqn.training import Game
from transporter.envs import atari, atari_truth
from transporter.errors import InputError
from transporter.workers import cores

if TYPE_CHECKING:
    from transporter.envs.atari_host import Show

UNSEEN = 16  # side of frames that nobody looks at
FEW = 4  # cores; with fewer, processes only get in each other's way


class TruthObservation(gymnasium.ObservationWrapper[np.ndarray, int, np.ndarray]):
    """The same environment seen as its true objects: (n, 3) present, x, y."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Box(-1, 1, (len(env.scene.objects), 3), np.float32)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        return self.env.unwrapped.truth().rows()  # type: ignore[attr-defined]


class OneByOne(SyncVectorEnv):
    """Games in this process, one after the other, and with all that their emulators tell."""

    def __init__(self, one: Callable[[], gymnasium.Env[np.ndarray, int]], count: int, sticky: float) -> None:
        super().__init__([one] * count, autoreset_mode=AutoresetMode.NEXT_STEP)
        self._sticky = sticky

    def come_back(
        self, seeds: Int64[np.ndarray, "n"], restarts: Int64[np.ndarray, "n"], played: Sequence[Int64[np.ndarray, "t"]]
    ) -> np.ndarray | None:
        """See atari.come_back(): None where it does not know how."""
        return None if self._sticky and restarts.any() else atari.come_back(self, seeds, restarts, played)


def game(
    name: str, seeds: Sequence[int], kind: Kind, size: int, sticky: float = 0.0, processes: int | None = None
) -> Game:
    """A game as an observer of that kind needs to see it, in frames of size × size.

    `processes`: played by so many, and on film where pixels are looked at; None: films nothing.
    """
    scene = atari.scene(name)
    if kind == "objects" and not scene.has_truth:
        raise InputError(f"{name} has no ground truth to play from")

    def make(count: int) -> VectorEnv:
        if kind == "objects":
            return _telling(name, count, "truth", UNSEEN, sticky, processes)
        if processes is None and name in atari_truth.UNNOTICED:  # ale-py's threads do not tell when it is over
            return _telling(name, count, "pictures", size, sticky)
        return atari.make_vector(name, count, size, sticky=sticky, film=processes is not None, workers=processes)

    return Game(name, tuple(seeds), len(scene.actions), make)


def _telling(name: str, count: int, show: "Show", size: int, sticky: float, processes: int | None = None) -> VectorEnv:
    """Games of which all is known that their emulators know: in processes, where there are cores for them."""
    if cores() > FEW and hasattr(os, "fork"):
        from transporter.envs.atari_processes import AtariProcesses

        return AtariProcesses(name, count, show=show, size=size, sticky=sticky, workers=processes)

    def one() -> gymnasium.Env[np.ndarray, int]:
        game = atari.AtariEnv(name, size, sticky=sticky)
        return TruthObservation(game) if show == "truth" else game

    return OneByOne(one, count, sticky)

"""Atari games for agents: in ale-py's threads where pixels are looked at, in processes where the truth is."""

import os
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from transporter.control.keyqn.observe import Kind
from transporter.control.keyqn.training import Game
from transporter.envs import atari
from transporter.envs.processes import Processes
from transporter.errors import InputError
from transporter.workers import belong_to_parent, forked

UNSEEN = 16  # side of frames that nobody looks at
FEW = 4  # cores; with fewer, processes only get in each other's way


class TruthObservation(gymnasium.ObservationWrapper[np.ndarray, int, np.ndarray]):
    """The same environment seen as its true objects: (n, 3) present, x, y."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Box(-1, 1, (len(env.scene.objects), 3), np.float32)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        centres, present = self.env.unwrapped.truth()  # type: ignore[attr-defined]
        return np.concatenate((present[:, None], np.where(present[:, None], centres, 0)), 1, dtype=np.float32)


def game(
    name: str, seeds: Sequence[int], kind: Kind, size: int, sticky: float = 0.0, film_by: int | None = None
) -> Game:
    """A game as an observer of that kind needs to see it, in frames of size × size.

    `film_by`: or, where it looks at pixels, on film, played by so many processes.
    """
    scene = atari.scene(name)
    if kind == "objects" and not scene.has_truth:
        raise InputError(f"{name} has no ground truth to play from")

    def make(count: int) -> VectorEnv:
        if kind == "objects":
            return _with_truth(name, count, sticky)
        return atari.make_vector(name, count, size, sticky=sticky, film=film_by is not None, workers=film_by)

    return Game(name, tuple(seeds), len(scene.actions), make)


def _with_truth(name: str, count: int, sticky: float) -> VectorEnv:
    def one() -> TruthObservation:
        return TruthObservation(atari.AtariEnv(name, UNSEEN, sticky=sticky))

    here = os.getpid()

    def elsewhere() -> TruthObservation:
        if os.getpid() != here:  # gymnasium makes one here, too, to see what it is like
            belong_to_parent()
        return one()

    if (os.cpu_count() or 1) <= FEW:
        return SyncVectorEnv([one] * count, autoreset_mode=AutoresetMode.NEXT_STEP)
    # The emulator's Python interface holds the interpreter while it works, so threads would take turns.
    forked(__name__)
    return Processes([elsewhere] * count, context="forkserver", autoreset_mode=AutoresetMode.NEXT_STEP)

"""What a trained agent does, with what it looks at: frames of one episode, one after another."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, UInt8

from transporter.control.keyqn.agent import KeyQN
from transporter.control.keyqn.games import TruthObservation
from transporter.envs.atari import AtariEnv


class Shown(NamedTuple):
    """One step of play."""

    screen: UInt8[np.ndarray, "210 160 3"]
    points: Float32[np.ndarray, "k 2"]  # none, where the agent sees pixels
    score: float


def watch(agent: KeyQN, name: str, seed: int, size: int, most: int) -> Iterator[Shown]:
    """An episode of an Atari game, of `most` steps at most."""
    game = AtariEnv(name, size)
    env = TruthObservation(game) if agent.kind == "objects" else game
    view, info = env.reset(seed=seed)
    agent.reset()
    score, reward = 0.0, 0.0
    for _ in range(most):
        yield Shown(game.render(), _points(agent, view), score)
        lives = info["lives"]
        view, gained, terminated, truncated, info = env.step(agent(view, reward))
        if agent.loses_life(lives, info["lives"]):
            agent.reset()
        reward = float(gained)
        score += reward
        if terminated or truncated:
            break
    env.close()


def _points(agent: KeyQN, view: np.ndarray) -> Float32[np.ndarray, "k 2"]:
    if agent.detector is not None:
        return agent.detector(view[None])[0]
    if agent.kind == "objects":
        return view[view[:, 0] > 0, 1:]
    return np.zeros((0, 2), np.float32)

"""Two small games, as true objects: each row is one of them, (present, x, y)."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from transporter.control.keyqn.training import Game

MOVES = (-1, 0, 1)


class Catch(gymnasium.Env[np.ndarray, int]):
    """A ball falls while it drifts sideways; the paddle below must be under it when it lands: +1, else -1.

    A `brief` ball can only be seen in the first two frames, and the paddle stands still until the fall is half over.
    """

    WIDTH, HEIGHT = 5, 6

    def __init__(self, brief: bool = False) -> None:
        self.brief = brief
        self.observation_space = gymnasium.spaces.Box(-1, 1, (2, 3), np.float32)
        self.action_space = gymnasium.spaces.Discrete(len(MOVES))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.time, self.paddle = 0, self.WIDTH // 2
        self.ball, self.drift = int(self.np_random.integers(self.WIDTH)), int(self.np_random.integers(-1, 2))
        return self._view(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.time += 1
        if not self.brief or self.time > self.HEIGHT // 2:
            self.paddle = int(np.clip(self.paddle + MOVES[action], 0, self.WIDTH - 1))
        if not self.brief and not 0 <= self.ball + self.drift < self.WIDTH:
            self.drift = -self.drift
        self.ball += 0 if self.brief else self.drift
        over = self.time == self.HEIGHT
        reward = (1.0 if self.ball == self.paddle else -1.0) if over else 0.0
        return self._view(), reward, over, False, {}

    def _view(self) -> np.ndarray:
        seen = not self.brief or self.time < 2
        ball = (1, self._x(self.ball), 2 * self.time / self.HEIGHT - 1) if seen else (0, 0, 0)
        return np.array([(1, self._x(self.paddle), 1), ball], np.float32)

    def _x(self, column: int) -> float:
        return (2 * column + 1) / self.WIDTH - 1


def catches(count: int, brief: bool = False) -> VectorEnv:
    return SyncVectorEnv([lambda: Catch(brief)] * count, autoreset_mode=AutoresetMode.NEXT_STEP)


@pytest.fixture
def catch() -> Callable[..., Game]:
    """A game of catch for agents with these seeds."""

    def game(*seeds: int, brief: bool = False) -> Game:
        return Game("brief catch" if brief else "catch", seeds, len(MOVES), lambda count: catches(count, brief))

    return game

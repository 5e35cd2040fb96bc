"""Small real problems to train on."""

from dataclasses import replace

import numpy as np
import pytest

from transporter.envs.sprite_worlds import WORLDS, World
from transporter.envs.sprites import SpriteVector


class Pairs:
    """Pairs of frames of a sprite world, 1 to 10 steps apart, in memory."""

    def __init__(self, world: World, size: int = 32, count: int = 400) -> None:
        env = SpriteVector(world, "world", 16, size, 0)
        frames = [env.reset(seed=0)[0].copy()]
        frames += [env.step(np.zeros(16, np.int64))[0].copy() for _ in range(40)]
        rng = np.random.default_rng(0)
        first, gap, copy = rng.integers(0, 30, count), rng.integers(1, 11, count), rng.integers(0, 16, count)
        stacked = np.stack(frames)
        self.pairs = np.stack((stacked[first, copy], stacked[first + gap, copy]), axis=1)
        self.train_rows, self.validation_rows = np.arange(count - 64), np.arange(count - 64, count)

    def load_all(self) -> np.ndarray:
        return self.pairs


@pytest.fixture(scope="session")
def sprites() -> Pairs:
    """Three shapes."""
    return Pairs(WORLDS["sprites"])


@pytest.fixture(scope="session")
def disk() -> Pairs:
    """One, and a large one: what it takes to find it is little."""
    return Pairs(World((replace(WORLDS["sprites"].sprites[0], half=(0.3, 0.3)),)))

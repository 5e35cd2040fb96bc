"""A small real Pong to collect from."""

from collections.abc import Iterator

import pytest
from gymnasium.vector import VectorEnv

from transporter.envs.registry import make_vector


@pytest.fixture
def pong() -> Iterator[VectorEnv]:
    env = make_vector("pong", 8, 64, 0)
    yield env
    env.close()

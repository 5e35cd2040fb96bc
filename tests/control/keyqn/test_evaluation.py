"""Which episodes count."""

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from transporter.control.keyqn.evaluation import play_at_random
from transporter.control.rollout import Arena


class Waiting(gymnasium.Env[np.ndarray, int]):
    """Every third episode is long; the score is its length."""

    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, player: int) -> None:
        self.episode, self.left = player - 1, 0

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        self.episode += 1
        self.left = 30 if self.episode % 3 == 0 else 2
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.left -= 1
        return np.zeros(1, np.float32), 1.0, self.left == 0, False, {}


def arena(agents: int, players: int) -> Arena:
    made = [[lambda player=player: Waiting(player) for player in range(players)] for _ in range(agents)]
    return Arena([SyncVectorEnv(g, autoreset_mode=AutoresetMode.NEXT_STEP) for g in made], life_loss_ends=False)


def test_long_episodes_count_as_often_as_short_ones() -> None:
    """The first to end would all be short."""
    scores = play_at_random(arena(2, 3), [2, 2], [0, 1], 9)
    assert scores.shape == (2, 9)
    assert np.isin(scores, (2, 30)).all()
    # Three players begin with episodes 0, 1 and 2 of the pattern: one of their first nine episodes in three is long.
    assert (scores == 30).sum(1).tolist() == [3, 3]


def test_fewer_episodes_than_players_are_those_of_the_first_players() -> None:
    assert play_at_random(arena(1, 6), [2], [0], 4).tolist() == [[30, 2, 2, 30]]

"""Which episodes count."""

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from transporter.control.keyqn.evaluation import play_at_random
from transporter.control.rollout import Arena


class Waiting(gymnasium.Env[np.ndarray, int]):
    """Every third episode is long; the score is its length, and a little that tells whose it is."""

    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, player: int, agent: int) -> None:
        self.episode, self.left, self.agent, self.steps = player - 1, 0, agent, 0

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        self.episode += 1
        self.left = 30 if self.episode % 3 == 0 else 2
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.left -= 1
        self.steps += 1
        return np.zeros(1, np.float32), 1.0 if self.left else 1.0 + self.agent / 8, self.left == 0, False, {}


def arena(*players: range) -> Arena:
    """A game for each agent, in which a player's first episode is the one of its number."""
    made = [[lambda p=p, a=a: Waiting(p, a) for p in numbers] for a, numbers in enumerate(players)]
    return Arena([SyncVectorEnv(g, autoreset_mode=AutoresetMode.NEXT_STEP) for g in made], life_loss_ends=False)


def test_long_episodes_count_as_often_as_short_ones() -> None:
    """The first four to end are short ones."""
    scores = play_at_random(arena(range(3), range(1, 4)), [2, 2], [0, 1], 5)
    # Players 0, 1 and 2 begin; 1 and 2 are soon through and go on with a short and a long one.
    assert scores[0].tolist() == [30, 2, 2, 2, 30]
    # The other agent's begin one later in the pattern; each of its episodes is worth an eighth more.
    assert scores[1].tolist() == [2.125, 2.125, 30.125, 2.125, 30.125]


def test_a_game_rests_once_all_its_episodes_are_over() -> None:
    played = arena(range(1, 3), range(2))  # two short episodes; a long and a short one
    assert play_at_random(played, [2, 2], [0, 1], 2).tolist() == [[2, 2], [30.125, 2.125]]
    steps = [[env.steps for env in game.envs] for game in played.games]  # type: ignore[attr-defined]
    assert steps[0] == [2, 2]
    assert steps[1][0] == 30


def test_fewer_episodes_than_players_are_those_of_the_first_players() -> None:
    assert play_at_random(arena(range(6)), [2], [0], 4).tolist() == [[30, 2, 2, 30]]

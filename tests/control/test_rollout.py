"""Games side by side: what a moment says, and how to get back to it."""

import json
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from transporter.control.keyqn.games import OneByOne
from transporter.control.rollout import Arena, Moment
from transporter.envs.atari import AtariEnv, make_vector
from transporter.envs.atari_processes import AtariProcesses
from transporter.errors import InputError


class Count(gymnasium.Env[np.ndarray, int]):
    """Shows the time; ends at 3, is cut short at 2 by action 1; has two lives and loses one with the first step."""

    observation_space = gymnasium.spaces.Box(0, 9, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.time = 0
        return self._view(), {"lives": 2}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.time += 1
        return self._view(), 10.0, self.time == 3, self.time == 2 and action == 1, {"lives": 1}

    def _view(self) -> np.ndarray:
        return np.array([self.time], np.float32)


def arena(life_loss_ends: bool = False, count: int = 1) -> Arena:
    games = SyncVectorEnv([Count] * count, autoreset_mode=AutoresetMode.NEXT_STEP)
    return Arena([games], life_loss_ends=life_loss_ends)


def played(where: Arena, actions: list[int]) -> list[tuple[float, bool, float, float, bool]]:
    """(view, first, reward, discount, real) after the reset and after each action."""
    moments = [where.reset(np.zeros(1, np.int64)), *(where.step(np.array([action])) for action in actions)]
    return [
        (float(m.views[0][0, 0]), bool(m.first[0]), float(m.reward[0]), float(m.discount[0]), bool(m.real[0]))
        for m in moments
    ]


def test_an_episode_to_its_end_and_the_next_one() -> None:
    assert played(arena(), [0, 0, 0, 0, 0]) == [
        (0, True, 0, 1, False),
        (1, False, 10, 1, True),
        (2, False, 10, 1, True),
        (3, False, 10, 0, True),  # the last frame
        (0, True, 0, 1, False),  # no step: the game began anew
        (1, False, 10, 1, True),
    ]


def test_an_episode_that_is_cut_short_keeps_its_discount() -> None:
    assert played(arena(), [0, 1, 0])[2:] == [(2, False, 10, 1, True), (0, True, 0, 1, False)]


def test_a_lost_life_ends_an_episode_where_that_is_wanted() -> None:
    assert played(arena(life_loss_ends=True), [0, 0])[1:] == [(1, True, 10, 0, True), (2, False, 10, 1, True)]


def test_what_is_remembered_may_outlast_a_life() -> None:
    games = SyncVectorEnv([Count], autoreset_mode=AutoresetMode.NEXT_STEP)
    where = Arena([games], life_loss_ends=True, life_loss_forgets=False)
    assert played(where, [0, 0])[1:] == [(1, False, 10, 0, True), (2, False, 10, 1, True)]


def test_scores_are_those_of_whole_games() -> None:
    where = arena(life_loss_ends=True)
    where.reset(np.zeros(1, np.int64))
    finished = [f for _ in range(8) for f in where.step(np.zeros(1, np.int64)).finished]
    assert [(f.player, f.score, f.length) for f in finished] == [(0, 30, 3), (0, 30, 3)]


def test_a_resting_game_stays_where_it_is() -> None:
    games = [SyncVectorEnv([Count], autoreset_mode=AutoresetMode.NEXT_STEP) for _ in range(2)]
    where = Arena(games, life_loss_ends=False)
    where.reset(np.zeros(2, np.int64))
    where.step(np.zeros(2, np.int64))
    where.resting = {0}
    moment = where.step(np.zeros(2, np.int64))
    assert [float(view[0, 0]) for view in moment.views] == [1, 2]
    assert moment.reward.tolist() == [0, 10]


def test_games_that_restart_at_once_are_refused() -> None:
    games = SyncVectorEnv([Count], autoreset_mode=AutoresetMode.SAME_STEP)
    with pytest.raises(InputError, match="NEXT_STEP"):
        Arena([games], life_loss_ends=False)


def two_games(sticky: float) -> Arena:
    slow = OneByOne(lambda: AtariEnv("breakout", 32, sticky=sticky), 2, sticky)
    quick = (make_vector("breakout", 2, 32, sticky=sticky), make_vector("pong", 1, 32))
    beside = AtariProcesses("breakout", 2, show="pictures", size=32, sticky=sticky, workers=1)
    return Arena([*quick, slow, beside], life_loss_ends=True)


def kept(moment: Moment) -> Moment:
    """Also where the next step is written over what is shown."""
    return moment._replace(views=[view.copy() for view in moment.views])


def same(a: Moment, b: Moment) -> None:
    for one, other in zip((*a[:1][0], *a[1:5]), (*b[:1][0], *b[1:5]), strict=True):
        np.testing.assert_array_equal(one, other)
    assert a.finished == b.finished


@pytest.mark.parametrize("whole", [True, False], ids=["all again", "only what goes on"])
def test_atari_comes_back_to_where_it_was_by_its_actions(whole: bool) -> None:
    seeds, actions = np.array([3, 4, 3, 3, 4, 5, 3]), np.random.default_rng(0).integers(0, 4, (7, 1200))
    sticky = 0.25 if whole else 0.0  # which draw from the source that also says how the next episode begins
    one, two = two_games(sticky), two_games(sticky)
    one.reset(seeds)
    moments = [kept(one.step(actions[:, t])) for t in range(actions.shape[1])]
    ends = [t for t, moment in enumerate(moments) if moment.finished]
    assert len(ends) > 5  # several games were over
    places = {ends[2], ends[2] + 1, ends[2] + 2, ends[3] + 40}  # at an end, at a beginning, and elsewhere
    assert max(places) < 1200 - 300
    one.reset(seeds)
    for t in range(1200 - 300):
        moment = one.step(actions[:, t])
        if t not in places:
            continue
        if whole:
            *_, back = two.again(seeds, actions[:, : t + 1])
        else:
            back = two.come_back(seeds, actions[:, : t + 1], json.loads(json.dumps(one.place(moment))))
            assert back is not None
            back = back._replace(finished=moment.finished)
        same(moment, back)
        for ahead in range(t + 1, t + 300):  # with the end of a game, and the next
            same(moments[ahead], two.step(actions[:, ahead]))
    one.close(), two.close()


def test_with_sticky_actions_there_is_no_short_way_back_once_a_game_was_over() -> None:
    seeds, actions = np.array([3, 4, 3, 3, 4, 5, 3]), np.random.default_rng(0).integers(0, 4, (7, 1200))
    one, two = two_games(0.25), two_games(0.25)
    one.reset(seeds)
    for t in range(1200):
        moment = one.step(actions[:, t])
        back = two.come_back(seeds, actions[:, : t + 1], one.place(moment)) if t == 20 or moment.finished else None
        if t == 20:  # nobody has begun anew
            assert back is not None
            same(moment, back)
        if moment.finished:
            break
    assert moment.finished
    moment = one.step(actions[:, t + 1])
    assert two.come_back(seeds, actions[:, : t + 2], one.place(moment)) is None
    one.close(), two.close()


def test_games_that_cannot_come_back_say_so() -> None:
    where = arena()
    moment = where.reset(np.zeros(1, np.int64))
    assert where.come_back(np.zeros(1, np.int64), np.zeros((1, 0), np.int64), where.place(moment)) is None

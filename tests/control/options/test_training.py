"""The whole loop on a world with one shape that can be moved among others that cannot."""

import dataclasses

import numpy as np
import pytest
import torch

from transporter.control.options.config import (
    ActingConfig,
    EyesConfig,
    LearningConfig,
    NetworkConfig,
    OptionsConfig,
)
from transporter.control.options.evaluation import Shown, judge, measure_control, play, watch
from transporter.control.options.eyes import Learning, transporter
from transporter.control.options.training import Exploration, exploration
from transporter.control.rollout import Arena
from transporter.envs import make, make_vector, scene
from transporter.envs.base import Truth
from transporter.errors import InputError
from transporter.training.learner import Hardware

WORLD, SIZE, ACTIONS = "sprites_control", 24, 5
CPU = Hardware("cpu")
QUICK = OptionsConfig(
    NetworkConfig(layers=((16, 4, 2), (16, 3, 2)), hidden=64, memory=32),
    LearningConfig(batch=16, burn_in=2, unroll=10, every=1, discount=0.9, rate=1e-3, target_rate=0.02),
    ActingConfig(players=16, commit=20, warm_up=40, replay=8_000, epsilon_low=0.05),
    EyesConfig(size=SIZE, offset=5, batch=8, tiny=True),
)


def games(count: int) -> object:
    return make_vector(WORLD, count, SIZE)


def test_the_shape_that_can_be_moved_is_found_and_moved(colours) -> None:
    """Chosen by Eq. 2 in 95 % of states, and moved three times as far as by random actions."""
    torch.manual_seed(0)
    with exploration(QUICK, games, ACTIONS, colours, CPU) as made:
        for _ in made.steps(350):
            pass
    world = make_vector(WORLD, 64, SIZE)
    arena = Arena([world], life_loss_ends=False)
    found = measure_control(made.study.network, colours, arena, world.truth, scene(WORLD).radius, commit=20, rounds=4)
    assert found.chosen >= 0.95
    assert found.farther >= 3
    # Truth and eyes agree in a single world as well, step by step.
    shown = watch(made.study.network, colours, make(WORLD, SIZE), commit=20, seed=0, steps=100)
    assert (judge(shown, scene(WORLD).radius).avatar or 0) >= 0.9
    # What the world pays for is none of this: it pays nothing.
    assert play(made.study.network, arena, "controllable", 20, 30, seed=0).tolist() == [0.0] * 64


def test_nobody_is_on_the_avatar_who_is_not() -> None:
    screen = np.zeros((4, 4, 3), np.uint8)

    def shown(keypoint: int, present: bool, room: int) -> Shown:
        truth = Truth(np.array([[0.5, 0.5], [0.0, 0.0]], np.float32), np.array([present, True]))
        return Shown(screen, np.array([[0.5, 0.4], [0.0, 0.0]], np.float32), keypoint, truth, room, 0.0)

    steps = [shown(0, True, 1), shown(1, True, 1), shown(1, False, 2), shown(0, True, 2)]
    assert judge(iter(steps), 0.2) == (pytest.approx(2 / 3), 2, 4)  # in one frame the avatar is not there


def learning() -> Exploration:
    eyes = Learning(transporter(QUICK.eyes, keypoints=3, seed=0), CPU)
    return Exploration(QUICK, games, ACTIONS, eyes, CPU)


def test_both_learn_and_a_break_loses_nothing_that_was_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transporter.control.options.study.KEPT", 0)  # too large a replay to be kept
    made = learning()
    for _ in made.steps(46):
        pass
    one = made.study
    assert isinstance(one.eyes, Learning)
    assert one.learner.done == one.eyes.done == 6  # after 40 steps at random
    one.drift()
    saved = made.checkpoint()
    again = learning()
    again.restore(saved)
    other = again.study
    assert isinstance(other.eyes, Learning)
    assert (again.count, other.learner.done, other.eyes.done) == (46, 6, 6)
    learnt = zip(one.learner.tensors().values(), other.learner.tensors().values(), strict=True)
    assert all(torch.equal(a, b) for a, b in learnt)
    frames = torch.from_numpy(made.players.moment.views[0])
    assert torch.equal(one.eyes(frames), other.eyes(frames))
    assert one.chance.bit_generator.state == other.chance.bit_generator.state
    assert np.array_equal(made.players.epsilon, again.players.epsilon)
    for _ in again.steps(46 + 41):  # the replay is filled again first
        pass
    assert other.learner.done == 7
    made.close()
    again.close()


def test_with_a_replay_that_is_kept_a_break_changes_nothing() -> None:
    made = learning()
    assert made.study.keeps
    for _ in made.steps(46):
        pass
    made.study.drift()
    moment = made.players.moment
    saved = made.checkpoint()
    assert made.players.moment is moment  # to look at it changes nothing
    made.begin_anew()
    saved = saved._replace(tensors={name: tensor.clone() for name, tensor in saved.tensors.items()})
    again = learning()
    again.restore(saved)
    for one in (made, again):
        for _ in one.steps(46 + 9):
            pass
    assert made.study.drift() == again.study.drift()
    kept, other = made.checkpoint(), again.checkpoint()
    assert kept.state == other.state
    assert kept.state["updates"] == 6 + 9  # at once, and once a step
    assert [name for name, tensor in kept.tensors.items() if not torch.equal(tensor, other.tensors[name])] == []
    # Where games begin anew, nothing follows what came before.
    assert made.study.replay.first[:, 46].all()
    assert not made.study.replay.real[:, 45].any()
    made.close()
    again.close()


def test_the_ring_goes_round_and_what_is_drawn_is_there() -> None:
    """With a replay of 30 rows a player, after 100 steps only the last 30 can be drawn, and pairs are near."""
    config = dataclasses.replace(QUICK, acting=ActingConfig(players=4, warm_up=200, replay=4 * 30))
    with exploration(config, games, ACTIONS, learning_eyes(), CPU) as made:
        for _ in made.steps(100):
            pass
        made.players.send(at_random=True)  # row 100
        made.study.rows[:] = made.players.actor.step
        players, starts = made.study.drawn(2_000, 13)
        assert (int(starts.min()), int(starts.max())) == (101 - 30 + 1, 101 - 13)
        assert sorted(set(players.tolist())) == [0, 1, 2, 3]
        rows = made.study.replay.rows[:, 100 % 30]
        assert torch.equal(rows, torch.from_numpy(made.players.moment.views[0]))
        made.players.receive()


def learning_eyes() -> Learning:
    return Learning(transporter(QUICK.eyes, keypoints=3, seed=0), CPU)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InputError, match="too small for 16 players"):
        dataclasses.replace(QUICK, acting=dataclasses.replace(QUICK.acting, replay=200))
    with pytest.raises(InputError, match="too small for these layers"):
        Exploration(dataclasses.replace(QUICK, network=NetworkConfig()), games, ACTIONS, learning_eyes(), CPU)
    assert OptionsConfig.from_json(QUICK.to_json()) == QUICK


def test_what_was_filmed_is_kept_as_the_pictures_of_the_game(colours) -> None:
    """Two players of Pong, whose film is developed where the network is."""
    small = dataclasses.replace(
        QUICK, acting=dataclasses.replace(QUICK.acting, players=2, replay=200), learning=LearningConfig(batch=2)
    )
    filmed = lambda count: make_vector("pong", count, SIZE, film=True)  # noqa: E731
    with exploration(small, filmed, 6, colours, CPU) as made:
        alone = [make("pong", SIZE) for _ in range(2)]
        seeds = made.players._seeds(0)
        views = [env.reset(seed=int(seed))[0] for env, seed in zip(alone, seeds, strict=True)]
        for step, _ in made.steps(30):
            kept = made.study.replay.rows[:, step - 1].int()
            assert (kept - torch.from_numpy(np.stack(views)).int()).abs().max() <= 1
            views = [env.step(int(a))[0] for env, a in zip(alone, made.players.taken, strict=True)]

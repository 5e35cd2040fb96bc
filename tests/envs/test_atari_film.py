import os
import signal
import time
from collections.abc import Iterator
from multiprocessing import forkserver

import numpy as np
import pytest
import torch

from transporter import envs
from transporter.control.gpu import Delivery
from transporter.control.rollout import Arena
from transporter.envs import atari
from transporter.envs.atari import AtariEnv
from transporter.envs.atari_film import FilmVector
from transporter.envs.film import COLOURS, Film, develop
from transporter.envs.processes import WorkerDiedError


@pytest.fixture
def vector() -> Iterator[FilmVector]:
    made = FilmVector("breakout", 3, workers=2)
    yield made
    made.close()


@pytest.mark.parametrize("name", atari.SCENES)
def test_the_games_we_know_have_the_usual_colours(name: str) -> None:
    env = AtariEnv(name, 1)
    rng = np.random.default_rng(0)
    for step in range(300):
        env.play(int(rng.integers(env.action_space.n)))
        if step % 10 == 0:
            np.testing.assert_array_equal(COLOURS[env.film[1]], env.ale.getScreenRGB())
        if any(env.ended()):
            env.begin()


def test_games_of_unknown_colours_are_not_filmed() -> None:
    env = AtariEnv("air_raid", 16)  # its numbers are odd, too
    env.reset(seed=0)
    np.testing.assert_array_equal(env.screens[1], env.ale.getScreenRGB())
    assert isinstance(envs.make_vector("air_raid", 1, 16, film=True), atari.AtariVector)


def test_film_shows_what_the_game_shows_through_the_end_of_episodes(vector: FilmVector) -> None:
    alone = [AtariEnv("breakout", 40) for _ in range(3)]
    film, info = vector.reset(seed=7)
    for number, env in enumerate(alone):
        env.reset(seed=7 + number)
    over, ends = np.zeros(3, bool), 0
    rng = np.random.default_rng(0)
    for _ in range(400):
        assert isinstance(film, Film)
        pictures = develop(torch.from_numpy(film)).numpy()
        np.testing.assert_array_equal(pictures, [env.render() for env in alone])
        assert info["lives"].tolist() == [env.ale.lives() for env in alone]
        actions = rng.integers(4, size=3)
        film, reward, terminated, truncated, info = vector.step(actions)
        expected = [0.0] * 3
        for i, env in enumerate(alone):
            if over[i]:
                env.reset()
            else:
                expected[i] = env.step(int(actions[i]))[1]
        assert reward.tolist() == expected
        assert not truncated.any()
        over = terminated
        ends += int(over.sum())
    assert ends > 2


def test_seeds_are_each_games_own_and_only_the_first_reset_goes_without(vector: FilmVector) -> None:
    first = np.array(vector.reset(seed=np.array([5, 9, 5]))[0])
    np.testing.assert_array_equal(first[0], first[2])
    with pytest.raises(ValueError, match="first reset"):
        vector.reset()


def test_deliveries_are_developed_and_follow_the_film(vector: FilmVector) -> None:
    delivery = Delivery(torch.device("cpu"))
    film, _ = vector.reset(seed=0)
    told = np.arange(3.0)
    there = delivery((film, told))
    assert [t.dtype for t in there] == [torch.uint8, torch.float32]
    before = delivery.pictures()[0].clone()
    for _ in range(20):
        film, *_ = vector.step(np.array([1, 2, 3]))
    assert delivery((film, told + 1)) is there
    assert (delivery.pictures()[0] != before).any()
    assert there[1].tolist() == [1, 2, 3]
    np.testing.assert_array_equal(delivery.pictures()[0].numpy(), COLOURS[film].max(1))


def test_an_arena_plays_on_film_as_it_plays_in_threads() -> None:
    """The same game from the same starting frame, which no-ops of different generators would not give."""
    seen = []
    for film in (True, False):
        games = atari.make_vector("pong", 2, 40, noops=0, film=film, workers=1)
        arena = Arena([games], life_loss_ends=True)
        arena.reset(np.arange(2))
        rng = np.random.default_rng(3)
        scores = []
        for _ in range(1200):
            moment = arena.step(rng.integers(6, size=2))
            scores += [(f.player, f.score, f.length) for f in moment.finished]
        arena.close()
        seen.append(scores)
    assert seen[0] == seen[1] != []


def test_a_process_that_dies_ends_all_of_them(vector: FilmVector) -> None:
    vector.reset(seed=0)
    os.kill(vector._processes[0].pid, signal.SIGKILL)
    with pytest.raises(WorkerDiedError, match="ended with code -9"):
        vector.step(np.zeros(3, np.int64))
    assert not any(process.is_alive() for process in vector._processes)


def test_who_is_told_to_end_leaves_that_to_the_one_who_started_it(vector: FilmVector) -> None:
    vector.reset(seed=0)
    for process in vector._processes:
        os.kill(process.pid, signal.SIGTERM)
        os.kill(process.pid, signal.SIGINT)
    os.kill(forkserver._forkserver._forkserver_pid, signal.SIGTERM)
    time.sleep(0.2)
    for _ in range(3):
        vector.step(np.zeros(3, np.int64))
    assert all(process.is_alive() for process in vector._processes)

"""Atari as agents need it: by its truth, in this process or in others; in pictures, or on film."""

import numpy as np
import pytest
import torch

from transporter.control.keyqn import games
from transporter.control.keyqn.actor import Actor
from transporter.control.keyqn.config import NetworkConfig
from transporter.control.keyqn.network import QNetwork
from transporter.control.keyqn.observe import Kind, Pixels
from transporter.control.rollout import Arena
from transporter.envs.atari import AtariEnv
from transporter.envs.atari_processes import AtariProcesses
from transporter.errors import InputError


def test_truth_is_what_the_environment_says() -> None:
    env = games.TruthObservation(AtariEnv("pong", 16))
    view, _ = env.reset(seed=0)
    for _ in range(40):
        centres, present = env.unwrapped.truth()  # type: ignore[attr-defined]
        np.testing.assert_array_equal(view[:, 0] > 0, present)
        np.testing.assert_array_equal(view[present, 1:], centres[present])
        assert not view[~present].any()
        view, *_ = env.step(2)


@pytest.mark.parametrize(("name", "kind"), [("breakout", "objects"), ("frostbite", "keypoints")])
def test_processes_show_what_this_process_shows(name: str, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    made = games.game(name, (0, 1), kind, 80)
    monkeypatch.setattr(games, "FEW", 10**6)
    here = Arena([made.make(2)], life_loss_ends=True)
    monkeypatch.setattr(games, "FEW", 0)
    there = Arena([made.make(2)], life_loss_ends=True)
    seeds, chance = np.array([3, 4]), np.random.default_rng(0)
    one, two = here.reset(seeds), there.reset(seeds)
    assert isinstance(here.games[0], games.OneByOne)
    assert isinstance(there.games[0], AtariProcesses)
    ended = 0
    for _ in range(300):  # several lives, and a new game
        np.testing.assert_array_equal(one.views[0], two.views[0])
        np.testing.assert_array_equal(one.discount, two.discount)
        actions = chance.integers(made.actions, size=2)
        one, two = here.step(actions), there.step(actions)
        ended += len(one.finished)
        assert one.finished == two.finished
    assert ended > 0
    here.close()
    there.close()


def test_agents_are_told_where_a_game_of_frostbite_is_over() -> None:
    """By freezing, which ale-py's threads do not notice: who idles has lost four lives after 3,081 steps at most."""
    where = Arena([games.game("frostbite", (0,), "points", 16).make(1)], life_loss_ends=True)
    where.reset(np.zeros(1, np.int64))
    ends = [step for step in range(3_100) if where.step(np.zeros(1, np.int64)).discount[0] == 0]
    assert len(ends) == 4
    where.close()


def test_a_game_without_truth_is_refused() -> None:
    with pytest.raises(InputError, match="no ground truth"):
        games.game("tetris", (0,), "objects", 80)


def test_film_and_pictures_look_the_same_to_an_agent() -> None:
    config = NetworkConfig(hidden=16, memory=8)
    legal = torch.ones(1, 6, dtype=torch.bool)
    rows = []
    for processes in (1, None):
        observer = Pixels()
        network = QNetwork(config, observer.inputs(config), legal)
        weights = torch.zeros(1, network.layout.size)
        actor = Actor(network, observer, weights, 2)
        made = games.game("pong", (0,), "pixels", 80, processes=processes)
        arena = Arena([made.make(2)], life_loss_ends=True)
        assert isinstance(arena.games[0], AtariProcesses) == (processes is not None)
        moment = arena.reset(np.arange(2))
        actor(moment, np.zeros(2, np.int64), np.zeros(2, np.float32))
        rows.append(actor.row.clone())
        arena.close()
    filmed, shown = (row.float() for row in rows)
    assert filmed.std() > 10
    # Before the first ball both sides wait; averages are rounded in two ways.
    assert (filmed - shown).abs().max() <= 1

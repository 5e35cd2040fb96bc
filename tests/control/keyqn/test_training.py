"""Agents that learn: small games must be solved, memory must matter, and a break must leave no trace."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import transporter
from transporter.control.keyqn.config import KeyQNConfig, LearningConfig, NetworkConfig, ProtocolConfig
from transporter.control.keyqn.evaluation import evaluate, play_at_random
from transporter.control.keyqn.observe import Grounded, Keypoints, Objects
from transporter.control.keyqn.training import Game, Training, explore, training
from transporter.control.rollout import Arena, Moment
from transporter.envs.atari import make_vector
from transporter.errors import InputError
from transporter.runs import Run
from transporter.training.learner import Hardware

CPU = Hardware(device="cpu")
QUICK = KeyQNConfig(
    NetworkConfig(hidden=48, memory=32, thermometer=10, bins=21, limit=2.0),
    LearningConfig(
        updates=1, batch=24, burn_in=2, unroll=7, rate=3e-3, target_rate=0.03, steps_start=3, steps_end=3,
        gamma_start=0.97, gamma_end=0.97, reset_every=0,
    ),
    ProtocolConfig(interactions=4_000, first_updates=200, epsilon_steps=1_000, epsilon_end=0.03),
)  # fmt: skip


class Forgetful(Arena):
    """Games in which every moment is the first: whoever plays has no past."""

    def receive(self) -> Moment:
        moment = super().receive()
        return moment._replace(first=np.ones_like(moment.first))


def mean_scores(trained: Training, games: list[Game], arena: type[Arena] = Arena) -> list[float]:
    played = arena([game.make(20 * len(game.seeds)) for game in games], life_loss_ends=False)
    weights, seeds = trained.learner.kept, trained.seeds.tolist()
    scores = evaluate(trained.network, trained.observer, weights, played, seeds, 0.0, 40)
    return scores.mean(1).tolist()


@pytest.mark.timeout(600)
def test_catching_is_learnt_and_what_is_out_of_sight_is_remembered(catch: Callable[..., Game]) -> None:
    """Two games at once, three agents of each: one shows its ball all the time, the other only at first."""
    games = [catch(0, 1, 2), catch(0, 1, 2, brief=True)]
    with training(QUICK, games, Objects(2), CPU) as made:
        for _ in made.steps():
            pass
        seen, brief = np.reshape(mean_scores(made, games), (2, 3))
        assert seen.mean() > 0.6  # of -1 to 1: four balls of five are caught
        assert brief.mean() > 0.6
        assert min(*seen, *brief) > 0.2
        blank = mean_scores(made, games, Forgetful)[3:]
        assert np.mean(blank) < -0.3  # a ball out of sight is out of mind: chance is -0.6
    random = play_at_random(Arena([catch(0).make(100)], life_loss_ends=False), [3], [0], 100)
    assert random.mean() < -0.4


def small(interactions: int, opinions: int = 1, **learning: object) -> KeyQNConfig:
    return KeyQNConfig(
        NetworkConfig(hidden=16, memory=8, thermometer=6, bins=5, opinions=opinions),
        dataclasses.replace(LearningConfig(updates=1, batch=2, burn_in=2, unroll=3, anneal=50), **learning),  # type: ignore[arg-type]
        ProtocolConfig(interactions=interactions, first_updates=40, epsilon_steps=100),
    )


def trace(made: Training, until: int) -> list[tuple[list[int], list[float], list[float]]]:
    """Everything that happens up to an interaction: actions, rewards and losses of all agents."""
    seen = []
    for step in made.steps():
        seen.append((made.actions.tolist(), made.moment.reward.tolist(), made.learner.loss.tolist()))
        if step.number == until:
            break
    return seen


def assert_no_trace_of_a_break(make: Callable[[], Training], path: Path, pause: int, end: int) -> None:
    whole, first, second = make(), make(), make()
    run = Run.create(path / "run", {})
    straight = trace(whole, end)
    begun = trace(first, pause)
    run.save(first.checkpoint(note="kept"))
    saved = run.latest()
    assert saved is not None
    assert saved.state["note"] == "kept"
    second.restore(saved)
    assert begun + trace(second, end) == straight
    for name, tensor in whole.learner.tensors().items():
        assert torch.equal(tensor, second.learner.tensors()[name]), name
    assert torch.equal(whole.replay.rows, second.replay.rows)
    for made in (whole, first, second):
        made.close()


@pytest.mark.parametrize("config", [
    small(1_130, reset_every=500),  # a reset after the break, too
    small(1_130, reset_every=500, opinions=2, priority=0.5),
], ids=["plain", "opinions and priorities"])  # fmt: skip
def test_a_thousand_interactions_after_a_break_are_those_without_one(
    catch: Callable[..., Game], tmp_path: Path, config: KeyQNConfig
) -> None:

    def make() -> Training:
        return Training(config, [catch(0, 1), catch(2, brief=True)], Objects(2), CPU)

    assert_no_trace_of_a_break(make, tmp_path, pause=120, end=1_120)


def test_atari_goes_on_after_a_break_as_without_one(tmp_path: Path) -> None:
    """Sticky actions draw on the emulators' own chance; keypoints come from a shipped model."""
    detector = transporter.load("pong", "cpu")

    def make() -> Training:
        game = Game("pong", (0, 1), 6, lambda count: make_vector("pong", count, 80, sticky=0.25))
        return Training(small(130), [game], Grounded(Keypoints([detector]), 5), CPU)

    assert_no_trace_of_a_break(make, tmp_path, pause=80, end=130)


def test_atari_goes_on_without_playing_all_of_it_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Breakout at random is over after some two hundred steps: several games were, before the break."""
    detector = transporter.load("breakout", "cpu")
    config = dataclasses.replace(small(760), protocol=ProtocolConfig(760, first_updates=700, epsilon_steps=100_000))

    def make() -> Training:
        game = Game("breakout", (0, 1), 4, lambda count: make_vector("breakout", count, 80))
        return Training(config, [game], Keypoints([detector]), CPU)

    monkeypatch.setattr("transporter.control.rollout.Arena.again", None)
    assert_no_trace_of_a_break(make, tmp_path, pause=720, end=760)


def test_games_that_do_not_come_back_are_noticed(catch: Callable[..., Game], tmp_path: Path) -> None:
    made = Training(small(100), [catch(0)], Objects(2), CPU)
    trace(made, 48)  # a ball lands, and can be seen in one of the two
    saved = made.checkpoint()
    other = Training(small(100), [catch(0, brief=True)], Objects(2), CPU)
    with pytest.raises(InputError, match="do not come back"):
        other.restore(saved)


def test_an_agent_lives_the_same_life_alone_and_in_a_crowd(catch: Callable[..., Game]) -> None:
    crowd = Training(small(90), [catch(0), catch(5)], Objects(2), CPU)
    alone = Training(small(90), [catch(5)], Objects(2), CPU)
    together, by_itself = trace(crowd, 90), trace(alone, 90)
    assert [actions[1] for actions, _, _ in together] == [actions[0] for actions, _, _ in by_itself]
    assert [losses[1] for *_, losses in together] == pytest.approx([losses[0] for *_, losses in by_itself], rel=1e-3)


def test_exploration_takes_each_players_own_chance() -> None:
    best, actions = np.array([5, 5]), np.array([6, 2])
    assert explore(best, 0.0, actions, [np.random.default_rng(s) for s in (0, 1)]).tolist() == [5, 5]
    drawn = [explore(best, 1.0, actions, chance) for chance in [[np.random.default_rng(s) for s in (0, 1)]] * 200]
    assert {int(a) for a, _ in drawn} == set(range(6))
    assert {int(b) for _, b in drawn} == {0, 1}

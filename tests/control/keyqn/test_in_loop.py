"""Transporters that go on learning while agents play: everyone's past is seen with one pair of eyes."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

import transporter
from transporter.control.keyqn.agent import KeyQN
from transporter.control.keyqn.config import EyesConfig, KeyQNConfig, LearningConfig, NetworkConfig, ProtocolConfig
from transporter.control.keyqn.experiment import Experiment, agent_file, learn, settings
from transporter.control.keyqn.in_loop import own_copies
from transporter.control.keyqn.measure import measure
from transporter.control.keyqn.outcome import seen_by
from transporter.control.keyqn.training import Training
from transporter.control.stored import fingerprint
from transporter.errors import InputError
from transporter.runs import Run
from transporter.training.learner import Hardware
from transporter.training.loop import NotFiniteError

CPU = Hardware(device="cpu")
CONFIG = KeyQNConfig(
    NetworkConfig(hidden=16, memory=8, thermometer=6, bins=5),
    LearningConfig(batch=2, burn_in=2, unroll=3),
    ProtocolConfig(interactions=70, first_updates=20, epsilon_steps=30, episodes=1, evaluation_epsilon=1.0),
    EyesConfig(every=5, first=10, renew=20, settle=1, batch=4, offset=6, rate=1e-3),
)


def breakout(config: KeyQNConfig = CONFIG) -> Experiment:
    return Experiment(
        ("breakout",), (0, 1), "keypoints", config, {"breakout": transporter.load("breakout", "cpu")}, in_loop=True
    )


def until(training: Training, count: int) -> None:
    for step in training.steps():
        if step.number == count:
            return


def weights(training: Training, agent: int) -> torch.Tensor:
    assert training.eyes is not None
    return torch.cat([t.flatten() for t in training.eyes.detectors[agent].net.parameters()]).detach().clone()


def test_who_is_to_learn_what_is_new_is_not_blinkered() -> None:
    detector = transporter.load("breakout", "cpu")
    blind = detector.blinkered(np.zeros((1, 80, 80, 3), np.uint8))
    assert fingerprint(blind) != fingerprint(detector)
    (copy,) = own_copies([blind])
    assert copy.net.pixels.low is None
    assert fingerprint(copy)["weights"] == fingerprint(own_copies([detector])[0])["weights"]


def test_the_past_is_seen_anew_with_every_new_pair_of_eyes() -> None:
    training = breakout().training(CPU)
    given = weights(training, 0)
    until(training, 20)
    assert torch.equal(weights(training, 0), given)  # it learns, but no one sees with it yet
    old = training.replay.rows[:, :20].clone()
    until(training, 21)
    assert not torch.equal(weights(training, 0), given)
    assert not torch.equal(weights(training, 0), weights(training, 1))  # each from its own frames
    assert not torch.equal(training.replay.rows[:, :20], old)
    until(training, 36)
    assert training.eyes is not None
    for agent, detector in enumerate(training.eyes.detectors):
        seen = training.eyes.observer.rows(detector, training.eyes.frames[agent][:36])
        torch.testing.assert_close(training.replay.rows[agent, :36], seen, atol=2e-3, rtol=1e-2)
    training.close()


def test_at_first_only_the_part_that_draws_learns() -> None:
    training = breakout(dataclasses.replace(CONFIG, eyes=dataclasses.replace(CONFIG.eyes, settle=100))).training(CPU)
    assert training.eyes is not None
    given, drawing = weights(training, 0), training.eyes.learners[0].model.refine
    before = torch.cat([t.flatten() for t in drawing.parameters()]).detach().clone()
    until(training, 41)
    assert torch.equal(weights(training, 0), given)
    assert not torch.equal(torch.cat([t.flatten() for t in drawing.parameters()]), before)
    training.close()


def test_pairs_are_two_frames_of_one_episode() -> None:
    training = breakout().training(CPU)
    eyes, first = training.eyes, training.replay.first
    assert eyes is not None
    first[:, [0, 5, 6, 9]] = True  # episodes of 5, 1, 3 and more rows
    drawn = [eyes.pairs(1, newest=20) for _ in range(200)]
    one, other = (torch.cat(rows) for rows in zip(*drawn, strict=True))
    assert (one != other).all()
    assert ((one - other).abs() <= CONFIG.eyes.offset).all()
    episode = first[1].cumsum(0)
    assert torch.equal(episode[one], episode[other])
    starts = torch.minimum(one, other)
    assert sorted(set(starts.tolist())) == [0, 1, 2, 3, 6, 7, *range(9, 15)]  # all but the last of an episode
    training.close()


def test_a_transporter_that_meets_what_is_not_finite_says_so() -> None:
    training = breakout().training(CPU)
    eyes = training.eyes
    assert eyes is not None
    until(training, 12)
    with torch.no_grad():
        next(eyes.learners[1].model.refine.parameters()).fill_(float("nan"))  # before its second update
    until(training, 16)  # which is not asked for yet
    line = r"^loss or gradient not finite at update 2 of agent 1's Transporter$"
    with pytest.raises(NotFiniteError, match=line):
        training.checkpoint()
    given = weights(training, 1)
    with pytest.raises(NotFiniteError, match=line):
        until(training, 21)
    assert torch.equal(weights(training, 1), given)  # no one sees with it
    training.close()


def test_a_break_leaves_no_trace(tmp_path: Path) -> None:
    whole, first, second = (breakout().training(CPU) for _ in range(3))
    run = Run.create(tmp_path / "run", {})
    until(whole, 62)
    until(first, 33)
    run.save(first.checkpoint())
    saved = run.latest()
    assert saved is not None
    assert not any("frames" in name for name in saved.tensors)  # the games show them again
    second.restore(saved)
    until(second, 62)
    assert torch.equal(whole.learner.online, second.learner.online)
    assert torch.equal(whole.replay.rows, second.replay.rows)
    assert whole.actions.tolist() == second.actions.tolist()
    for agent in range(2):
        assert torch.equal(weights(whole, agent), weights(second, agent))
    for training in (whole, first, second):
        training.close()


def test_an_agent_is_kept_with_the_eyes_that_it_learnt_to_see_with(tmp_path: Path) -> None:
    experiment = breakout(dataclasses.replace(CONFIG, protocol=dataclasses.replace(CONFIG.protocol, interactions=45)))
    run = Run.create(tmp_path / "run", settings(experiment))
    assert learn(experiment, run, CPU, log_every=15, checkpoint_every=0)
    assert {len(row["eyes_loss"]) for row in run.metrics()} == {2}
    agents = [KeyQN.load(agent_file(run, "breakout", seed), "cpu") for seed in (0, 1)]
    assert agents[0].card["in_loop"] is True
    began = experiment.detectors["breakout"].opened()  # without blinkers
    assert seen_by(experiment) == {"breakout": {"weights": fingerprint(began)["weights"], "pairs": began.card["pairs"]}}
    own = [next(iter(agent.detector.net.keypoints.parameters())) for agent in agents]  # type: ignore[union-attr]
    assert not torch.equal(own[0], own[1])
    assert [len(scores) for scores in measure(experiment, run, CPU)["breakout"]] == [1, 1]


def test_agents_without_a_detector_have_nothing_to_teach() -> None:
    with pytest.raises(InputError, match="pixels have no detector"):
        Experiment(("pong",), (0,), "pixels", CONFIG, in_loop=True)

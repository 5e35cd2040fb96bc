"""Keypoints that learn in the loop, and whether they keep to their objects."""

import numpy as np
import pytest
import torch

from transporter.control.options.config import EyesConfig
from transporter.control.options.eyes import Frozen, Learning, drift, transporter
from transporter.envs.sprites import make_vector
from transporter.training.learner import Hardware
from transporter.training.loop import NotFiniteError

CPU = Hardware("cpu")


def test_drift_by_hand() -> None:
    before = np.array([[[0.0, 0.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]])
    same, apart = before.copy(), before.copy()
    apart[0] = apart[0, ::-1]  # in the first frame the two change places
    assert drift(before, same) == (0.0, 0.0)
    assert drift(before, apart) == (0.5, 0.5)
    nudged = before + 0.1  # both move, none takes the other's place
    assert np.isclose(drift(before, nudged).moved, 0.1 * np.sqrt(2))
    assert drift(before, nudged).swapped == 0.0


def frames(count: int, seed: int) -> torch.Tensor:
    env = make_vector("sprites_control", count, 32, seed)
    return torch.from_numpy(env.reset()[0])


def test_what_looks_is_always_what_was_learnt_last() -> None:
    torch.manual_seed(0)
    eyes = Learning(transporter(EyesConfig(size=32, batch=8, tiny=True), keypoints=3, seed=0), CPU)
    shown = frames(4, seed=9)
    eyes.fit(frames(16, seed=0))
    before = eyes(shown)
    for step in range(3):
        eyes.learn(frames(4, step), frames(4, step + 50))
    assert eyes.done == 3
    assert not torch.equal(eyes(shown), before)
    kept = Frozen(eyes.detector(), CPU)
    torch.testing.assert_close(kept(shown), eyes(shown))


def test_eyes_go_on_after_a_break_as_if_there_was_none() -> None:
    config = transporter(EyesConfig(size=32, batch=8, tiny=True), keypoints=3, seed=0)
    one = Learning(config, CPU)
    one.fit(frames(16, seed=0))
    one.learn(frames(4, 1), frames(4, 2))
    other = Learning(config, CPU)
    other.restore(one.checkpoint())
    for eyes in (one, other):
        eyes.learn(frames(4, 3), frames(4, 4))
    assert torch.equal(one(frames(4, 9)), other(frames(4, 9)))


def test_eyes_that_learn_no_more_are_not_saved() -> None:
    eyes = Learning(transporter(EyesConfig(size=32, batch=8, tiny=True), keypoints=3, seed=0), CPU)
    eyes.learn(frames(4, 1), frames(4, 2))
    with torch.no_grad():
        next(eyes.learner.model.refine.parameters()).fill_(float("nan"))
    eyes.learn(frames(4, 3), frames(4, 4))
    with pytest.raises(NotFiniteError, match=r"^loss or gradient not finite at update 2 of the Transporter$"):
        eyes.checkpoint()

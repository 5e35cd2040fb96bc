"""Keypoints as the observation of somebody else's agent."""

import numpy as np
import pytest

import transporter
from transporter.envs.atari import AtariEnv

sb3 = pytest.importorskip("stable_baselines3", reason="needs stable-baselines3, which is in the extra dev")


@pytest.mark.parametrize("features", [False, True])
def test_dqn_learns_from_keypoints(features: bool) -> None:
    env = transporter.KeypointObservation(AtariEnv("pong", 80), transporter.load("pong", "cpu"), features=features)
    model = sb3.DQN(
        "MlpPolicy", env, learning_starts=16, batch_size=8, train_freq=4, buffer_size=100, seed=0, device="cpu"
    )
    before = [p.detach().clone() for p in model.q_net.parameters()]
    model.learn(48)
    assert any((a != b).any() for a, b in zip(before, model.q_net.parameters(), strict=True))
    action, _ = model.predict(env.reset(seed=0)[0], deterministic=True)
    assert 0 <= int(action) < 6


def test_its_checker_has_nothing_to_say() -> None:
    from stable_baselines3.common.env_checker import check_env

    env = transporter.KeypointObservation(AtariEnv("pong", 80), transporter.load("pong", "cpu"))
    check_env(env, skip_render_check=True)
    assert env.observation_space.dtype == np.float32

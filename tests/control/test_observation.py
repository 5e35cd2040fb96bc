import gymnasium
import numpy as np
import pytest
import torch

from transporter import Detector, KeypointObservation
from transporter.envs import sprites
from transporter.errors import InputError
from transporter.models.blocks import TINY
from transporter.models.factory import ModelConfig


@pytest.fixture
def detector() -> Detector:
    torch.manual_seed(0)
    return Detector(ModelConfig(keypoints=3, size=32, shape=TINY), device="cpu")


@pytest.mark.parametrize(("features", "width"), [(False, 2), (True, 34)])
def test_one_environment(detector: Detector, features: bool, width: int) -> None:
    env = KeypointObservation(sprites.make("sprites", 48), detector, features=features)
    observation, _ = env.reset(seed=0)
    assert observation.shape == env.observation_space.shape == (3, width)
    assert env.observation_space.contains(observation)
    frame, _ = sprites.make("sprites", 48).reset(seed=0)
    np.testing.assert_allclose(observation[:, :2], detector(frame[None])[0], atol=1e-6)
    assert env.observation_space.contains(env.step(0)[0])


@pytest.mark.parametrize("features", [False, True])
def test_a_vector_of_environments(detector: Detector, features: bool) -> None:
    env = KeypointObservation(sprites.make_vector("sprites", 4, 48, seed=0), detector, features=features)
    observations, _ = env.reset(seed=0)
    assert env.observation_space.contains(observations)
    assert env.observation_space.contains(env.step(np.zeros(4, np.int64))[0])
    assert env.single_observation_space.contains(observations[0])


def test_atari_as_gymnasium_makes_it(detector: Detector) -> None:
    import ale_py

    gymnasium.register_envs(ale_py)
    env = KeypointObservation(gymnasium.make("ALE/Pong-v5"), detector)
    assert env.observation_space.contains(env.reset(seed=0)[0])
    env.close()


def test_an_environment_without_pixels_is_refused(detector: Detector) -> None:
    with pytest.raises(InputError, match="RGB frames"):
        KeypointObservation(gymnasium.make("CartPole-v1"), detector)


def test_last_frames_that_would_stay_pixels_are_refused(detector: Detector) -> None:
    env = gymnasium.vector.SyncVectorEnv(
        [lambda: sprites.make("sprites", 48)], autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP
    )
    with pytest.raises(InputError, match="NEXT_STEP"):
        KeypointObservation(env, detector)

"""Keypoints as the observation of any gymnasium environment that shows pixels."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from transporter.errors import InputError
from transporter.models.detector import Detector


def _space(detector: Detector, features: bool, count: int | None = None) -> spaces.Box:
    """(K, 2) points in [-1, 1], or (K, 2 + D) with the features behind them."""
    lead = () if count is None else (count,)
    if not features:
        return spaces.Box(-1, 1, (*lead, detector.keypoints, 2), np.float32)
    shape = (*lead, detector.keypoints, 2 + detector.feature_size)
    low, high = np.full(shape, -np.inf, np.float32), np.full(shape, np.inf, np.float32)
    low[..., :2], high[..., :2] = -1, 1
    return spaces.Box(low, high)


def _detect(detector: Detector, frames: np.ndarray, features: bool) -> np.ndarray:
    if not features:
        return detector(frames)
    return np.concatenate(detector(frames, features=True), axis=-1)


def _check(space: gymnasium.Space[Any], axes: int) -> None:
    shape = space.shape or ()
    if len(shape) != axes or shape[-1] != 3 or space.dtype != np.uint8:
        raise InputError(f"keypoints need RGB frames (height, width, 3) uint8, not {shape} {space.dtype}")


class _Single(gymnasium.ObservationWrapper[Any, Any, Any]):
    def __init__(self, env: gymnasium.Env[Any, Any], detector: Detector, features: bool) -> None:
        _check(env.observation_space, axes=3)
        super().__init__(env)
        self.detector, self.features = detector, features
        self.observation_space = _space(detector, features)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        return _detect(self.detector, observation[None], self.features)[0]


class _Vector(gymnasium.vector.VectorObservationWrapper):
    def __init__(self, env: gymnasium.vector.VectorEnv[Any, Any, Any], detector: Detector, features: bool) -> None:
        _check(env.single_observation_space, axes=3)
        if env.metadata.get("autoreset_mode") == gymnasium.vector.AutoresetMode.SAME_STEP:
            raise InputError("with autoreset SAME_STEP last frames stay pixels: use NEXT_STEP")
        super().__init__(env)
        self.detector, self.features = detector, features
        self.single_observation_space = _space(detector, features)
        self.observation_space = _space(detector, features, env.num_envs)

    def observations(self, observations: np.ndarray) -> np.ndarray:
        return _detect(self.detector, observations, self.features)


def KeypointObservation(env: Any, detector: Detector, *, features: bool = False) -> Any:
    """The same environment seen as keypoints: (K, 2), or (K, 2 + D) with features; one, or a vector of them.

    Features are as the network has them, and may be a hundred times as large as places: most learners want them scaled.
    """
    if isinstance(env, gymnasium.vector.VectorEnv):
        return _Vector(env, detector, features)
    return _Single(env, detector, features)

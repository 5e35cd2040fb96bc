"""What every environment here is: a gymnasium environment that shows one RGB frame and may know the truth."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from jaxtyping import Bool, Float32, UInt8

Frame = UInt8[np.ndarray, "h w 3"]


class Truth(NamedTuple):
    """Where each object of a scene is in one frame; a row keeps its object for the whole episode."""

    centres: Float32[np.ndarray, "n 2"]  # (x, y) in [-1, 1]; meaningless where the object is absent
    present: Bool[np.ndarray, "n"]

    def rows(self) -> Float32[np.ndarray, "n 3"]:
        """Present, x, y of each; nothing of those that are not there."""
        there = self.present[:, None]
        return np.concatenate((there, np.where(there, self.centres, 0)), 1, dtype=np.float32)


@dataclass(frozen=True)
class Scene:
    """What is known of an environment before it is made."""

    name: str
    keypoints: int  # K: the paper sets it to the maximum number of moving entities
    radius: float  # ε: how far a keypoint may be from its object, in [-1, 1] units
    actions: tuple[str, ...]
    objects: tuple[str, ...] = ()  # names of the rows of Truth; empty where there is no truth
    recipe: str = "transporter"  # of training.recipes: how its things are learnt best

    @property
    def has_truth(self) -> bool:
        return bool(self.objects)


class PixelEnv(gymnasium.Env[np.ndarray, int]):
    """observation: (size, size, 3) uint8; action: an index into scene.actions."""

    scene: Scene

    def __init__(self, scene: Scene, size: int) -> None:
        self.scene = scene
        self.observation_space = gymnasium.spaces.Box(0, 255, (size, size, 3), np.uint8)
        self.action_space = gymnasium.spaces.Discrete(len(scene.actions))  # type: ignore[assignment]
        self.render_mode = "rgb_array"

    def truth(self) -> Truth:
        """Objects of the frame shown last."""
        raise NotImplementedError(f"no ground truth for {self.scene.name}")

    def render(self) -> Any:
        raise NotImplementedError

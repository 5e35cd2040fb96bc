"""Worlds to watch: sprites, Atari games, the stacker, and video files."""

from transporter.envs.base import PixelEnv, Scene, Truth
from transporter.envs.registry import make, make_vector, names, scene

__all__ = ["PixelEnv", "Scene", "Truth", "make", "make_vector", "names", "scene"]

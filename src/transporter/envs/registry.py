"""Environments by name."""

from transporter.envs.base import PixelEnv, Scene


def _home(name):
    from importlib import import_module
    part = "sprites" if name.startswith("sprites") else "stacker" if name.startswith("stack_") else "atari"
    return import_module(f"transporter.envs.{part}")


def scene(name: str) -> Scene:
    home = _home(name)
    return home.SCENES[name] if name in home.SCENES else home.scene(name)


def make(name: str, size: int = 128) -> PixelEnv:
    return _home(name).make(name, size)


def make_vector(name: str, count: int, size: int = 128, seed: int = 0):
    return _home(name).make_vector(name, count, size, seed)

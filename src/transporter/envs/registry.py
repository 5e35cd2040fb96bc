"""Environments by name; the module behind a name is only imported when the name is asked for."""

from difflib import get_close_matches
from importlib import import_module
from typing import Any

from gymnasium.vector import VectorEnv

from transporter.envs.base import PixelEnv, Scene
from transporter.errors import InputError

HOMES = ("sprites", "stacker", "atari")  # each has SCENES, make() and make_vector()


def names() -> list[str]:
    """The named environments; any other Atari game goes by its ROM's name too."""
    return [name for home in HOMES for name in _module(home).SCENES]


def scene(name: str) -> Scene:
    """What is known of an environment before it is made."""
    home = _home(name)
    return home.SCENES[name] if name in home.SCENES else home.scene(name)


def make(name: str, size: int = 128) -> PixelEnv:
    """One environment that shows size × size frames."""
    return _home(name).make(name, _positive("size", size))


def make_vector(
    name: str, count: int, size: int = 128, seed: int = 0, *, resized: bool = True, film: bool = False
) -> VectorEnv:
    """count environments side by side; one whose episode ended restarts at the next step.

    resized=False leaves Atari's frames at the size of the screen, for those who want few of them: resizing is a third
    of what a step costs. All others are drawn at their size in the first place. film=True: what Atari shows is not made
    pictures at all, but left on Film, where its colours are known.
    """
    home = _home(name)
    kept = {"resized": resized, "film": film} if hasattr(home, "RESIZES") else {}
    return home.make_vector(name, _positive("count", count), _positive("size", size), seed, **kept)


def _module(home: str) -> Any:
    return import_module(f"transporter.envs.{home}")


def _home(name: str) -> Any:
    for home in HOMES:
        module = _module(home)
        if name in module.SCENES:
            return module
    atari = _module("atari")
    games = atari.rom_names()
    if name in games:
        return atari
    close = get_close_matches(name.lower().replace("-", "_").replace(" ", "_"), sorted({*names(), *games}), n=3)
    hint = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(names())}, and every Atari game"
    raise InputError(f"no environment named {name!r}: {hint}")


def _positive(what: str, value: int) -> int:
    if value < 1:
        raise InputError(f"{what} must be at least 1, not {value}")
    return value

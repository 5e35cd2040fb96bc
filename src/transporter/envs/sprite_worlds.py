"""What sprite worlds are made of, and the named ones."""

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from transporter.envs.base import Scene
from transporter.envs.sprite_paint import Colour
from transporter.errors import InputError

MOVES = {"noop": (0, 0), "left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}


@dataclass(frozen=True)
class Sprite:
    """One shape; lengths are in [-1, 1] units, speeds in units per step."""

    name: str
    form: str
    colour: Colour
    half: tuple[float, float] = (0.13, 0.13)  # half its width and height
    speed: float = 0.05  # an episode takes 0.7 to 1.3 times this
    motion: Literal["bounce", "control", "chase"] = "bounce"  # "chase" follows the height of the first sprite
    column: float | None = None  # the x at which it starts, where that is not left to chance
    reach: tuple[float, float] = (1.0, 1.0)  # the half-box in which it stays
    absent: float = 0.0  # share of the time in which it is away; it moves on unseen
    flicker: Literal["never", "alternate", "random"] = "never"  # in which steps it is not drawn


@dataclass(frozen=True)
class Score:
    """A digit that changes its look and never moves."""

    centre: tuple[float, float]
    colour: Colour = (240, 240, 240)
    half: tuple[float, float] = (0.09, 0.15)
    change: float = 0.05  # probability per step


Wave = tuple[float, float]  # radians per unit, along x and y
_SOFT: tuple[Wave, ...] = ((5.0, 2.0), (-3.0, 4.0), (2.0, -6.0), (6.0, 5.0))
_LENGTHS = np.geomspace(3, 22, 10).tolist()
_BUSY: tuple[Wave, ...] = tuple((k * math.cos(2.4 * i), k * math.sin(2.4 * i)) for i, k in enumerate(_LENGTHS))


@dataclass(frozen=True)
class Ground:
    """A texture of waves under everything else, and how the camera goes over it."""

    scroll: tuple[float, float] = (0.0, 0.0)  # units per step
    wander: float = 0.0  # units per step besides, wherever chance leads: a direction and a pace that last some steps
    waves: tuple[Wave, ...] = _SOFT
    strength: tuple[float, float] = (5.0, 20.0)  # of a wave in a colour, at least and at most: grey levels


@dataclass(frozen=True)
class World:
    """Everything that one scene is made of; later sprites are painted over earlier ones, scores under all."""

    sprites: tuple[Sprite, ...]
    background: Colour = (24, 24, 32)
    ground: Ground | None = None  # None is a plain background
    scores: tuple[Score, ...] = ()
    away: float = 8.0  # mean number of steps for which an absent sprite stays away
    actions: tuple[str, ...] = ("noop",)
    epsilon: float = 0.2  # the paper's for Pong; a little less than the extent of the shapes below

    def __post_init__(self) -> None:
        places = [(s.column or 0.0, 0.0) for s in self.sprites] + [s.centre for s in self.scores]
        halves = [s.half for s in self.sprites] + [s.half for s in self.scores]
        if np.any(np.abs(places) + np.array(halves) > 1) or np.any(np.array(halves) <= 0):
            raise InputError("a sprite or a score does not fit into the picture")
        most = self.away / (1 + self.away)  # at which a sprite would leave again at once
        if any(not 0 <= sprite.absent <= most for sprite in self.sprites):
            raise InputError(f"a sprite can be absent for a share of 0 to {most:.2f} of the time")

    def scene(self, name: str) -> Scene:
        return Scene(name, len(self.sprites), self.epsilon, self.actions, tuple(sprite.name for sprite in self.sprites))


_DISK = Sprite("disk", "disk", (230, 60, 50))
_SQUARE = Sprite("square", "square", (60, 200, 80), half=(0.12, 0.12))
_TRIANGLE = Sprite("triangle", "triangle", (80, 120, 250), half=(0.17, 0.17))
_CROSS = Sprite("cross", "cross", (240, 200, 60), half=(0.15, 0.15))
_PADDLE, _WHITE = (0.04, 0.09), (236, 236, 236)

WORLDS: dict[str, World] = {
    "sprites": World((_DISK, _SQUARE, _TRIANGLE)),
    "sprites_alike": World(tuple(Sprite(f"disk_{i}", "disk", _DISK.colour) for i in range(3))),
    "sprites_moving": World((_DISK, _SQUARE, _TRIANGLE), background=(90, 90, 100), ground=Ground((0.04, 0.02))),
    # A camera that is never still, over a scene that is busier than what moves on it.
    "sprites_panning": World(
        (_DISK, _SQUARE, _TRIANGLE), background=(120, 120, 120), ground=Ground((0, 0), 0.05, _BUSY, (10.0, 30.0))
    ),
    "sprites_flicker": World((_DISK, replace(_SQUARE, flicker="alternate"), replace(_TRIANGLE, flicker="random"))),
    "sprites_score": World(
        (_DISK, _SQUARE, _TRIANGLE), scores=(Score((-0.82, -0.78)), Score((-0.58, -0.78), change=0.2))
    ),
    "sprites_vanish": World((_DISK, replace(_SQUARE, absent=0.3), replace(_CROSS, absent=0.3))),
    "sprites_control": World(
        (replace(_SQUARE, colour=_CROSS.colour, speed=0.08, motion="control"), _DISK, _TRIANGLE), actions=tuple(MOVES)
    ),
    "sprites_pong": World(
        (
            Sprite("ball", "square", _WHITE, (0.022, 0.022), speed=0.09, reach=(0.84, 1.0), absent=0.2),
            Sprite("player", "square", (92, 186, 92), _PADDLE, speed=0.12, motion="control", column=0.9),
            Sprite("enemy", "square", (213, 130, 74), _PADDLE, speed=0.05, motion="chase", column=-0.9),
        ),
        background=(60, 30, 10),
        scores=(Score((-0.4, -0.8), change=0.02), Score((0.4, -0.8), change=0.02)),
        actions=("noop", "up", "down"),
    ),
}
SCENES: dict[str, Scene] = {name: world.scene(name) for name, world in WORLDS.items()}

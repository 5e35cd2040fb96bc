"""Shapes that bounce on a canvas: a fast world whose truth is exact, with the troubles of real scenes as knobs.

One simulation moves and paints any number of copies at once; the single environment is the same thing with one copy.
An episode draws all its chance when it starts, so a copy does the same alone and in a crowd: row i of a vector that
starts from seed s is the single environment that starts from seed s + i.
"""

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from jaxtyping import Bool, Float32, Float64, Int, UInt8

from transporter.coords import cell_centres, to_pixels
from transporter.envs.base import PixelEnv, Truth
from transporter.envs.sprite_paint import FORMS, MARGIN, SUBPIXELS, blend, digit, pen
from transporter.envs.sprite_worlds import MOVES, SCENES, WORLDS, Ground, Score, Sprite, World
from transporter.errors import InputError

__all__ = ["SCENES", "WORLDS", "Ground", "Score", "Sprite", "SpriteEnv", "SpriteVector", "World", "make", "make_vector"]

EPISODE = 200  # steps
LASTING = 0.9  # of a wandering camera's velocity, that is left after a step


def make(name: str, size: int = 64) -> "SpriteEnv":
    """One copy of a named scene."""
    return SpriteEnv(_world(name), name, size)


def make_vector(name: str, count: int, size: int = 64, seed: int = 0) -> "SpriteVector":
    """count copies of a named scene, moved and painted together; copy i starts from seed + i."""
    return SpriteVector(_world(name), name, count, size, seed)


def _world(name: str) -> World:
    if name not in WORLDS:
        raise InputError(f"no sprite scene {name!r}; there are {', '.join(WORLDS)}")
    return WORLDS[name]


class Simulation:
    """n copies of a world: start() one, advance() and paint() all."""

    def __init__(self, world: World, count: int, size: int) -> None:
        if size < 8 or count < 1:
            raise InputError(f"sprites need at least 8 pixels and one copy, not {size} and {count}")
        self.world, self.count, self.size = world, count, size
        sprites, scores = world.sprites, world.scores
        self.limits = np.array([np.subtract(s.reach, s.half) for s in sprites], np.float32).reshape(-1, 2)
        self.speeds = np.array([s.speed for s in sprites], np.float32)
        self.controlled = np.array([s.motion == "control" for s in sprites], bool)
        self.chasing = np.array([s.motion == "chase" for s in sprites], bool)
        self.alternate = np.array([s.flicker == "alternate" for s in sprites], bool)
        self.random = np.array([s.flicker == "random" for s in sprites], bool)
        self.absent = np.array([s.absent for s in sprites], np.float32)
        self.changes = np.array([s.change for s in scores], np.float32)
        self.moves = np.array([MOVES[name] for name in world.actions], np.float32)
        self.pens = [pen(FORMS[s.form], s.half, size) for s in sprites]
        self.digit_pens = [np.stack([pen(digit(i), s.half, size) for i in range(10)]) for s in scores]

        k = len(sprites)
        self.step = np.zeros(count, int)
        self.centres = np.zeros((count, k, 2), np.float32)
        self.velocities = np.zeros((count, k, 2), np.float32)
        self.away = np.zeros((count, k), bool)
        self.drawn = np.ones((count, k), bool)
        self.digits = np.zeros((count, len(scores)), int)
        self.chance = np.zeros((count, EPISODE + 1, 2 * k + len(scores)), np.float32)
        self.ground = world.ground or Ground()
        self.waves = np.array(self.ground.waves, np.float32)
        self.phases = np.zeros((count, len(self.waves)), np.float32)
        self.tints = np.zeros((count, len(self.waves), 1, 3), np.float32)
        self.pans = np.zeros((count, EPISODE + 1, 2), np.float32)  # how the camera moves in each step

    def start(self, row: int, rng: np.random.Generator) -> None:
        """A new episode in one copy; everything that chance decides in it is drawn here."""
        k = len(self.world.sprites)
        self.step[row] = 0
        self.centres[row] = rng.uniform(-1, 1, (k, 2)) * self.limits
        for i, sprite in enumerate(self.world.sprites):
            if sprite.column is not None:
                self.centres[row, i, 0] = sprite.column
        angle, pace = rng.uniform(0, 2 * np.pi, k), self.speeds * rng.uniform(0.7, 1.3, k)
        self.velocities[row] = np.stack([np.cos(angle), np.sin(angle)], -1) * pace[:, None]
        self.chance[row] = rng.random(self.chance.shape[1:], np.float32)
        self.digits[row] = rng.integers(0, 10, self.digits.shape[1])
        self.phases[row] = rng.uniform(0, 2 * np.pi, len(self.waves))
        self.tints[row] = rng.uniform(*self.ground.strength, self.tints.shape[1:])
        self.pans[row] = self.ground.scroll
        if self.ground.wander:
            self.pans[row] += self.ground.wander * _wandering(rng.standard_normal(self.pans.shape[1:]))
        self.away[row] = self.chance[row, 0, :k] < self.absent
        self.drawn[row] = self._flicker(self.step[row : row + 1], self.chance[row : row + 1, 0])[0]

    def advance(self, actions: Int[np.ndarray, "n"]) -> None:
        """One step of every copy; an episode that is over stands at its last step until start()."""
        k = len(self.world.sprites)
        self.step = np.minimum(self.step + 1, EPISODE)
        chance = self.chance[np.arange(self.count), self.step]
        self._move(self.moves[actions])
        # A chain of two states with the wanted share of absence and the wanted mean spell away.
        back, leave = 1 / self.world.away, self.absent / (1 - self.absent) / self.world.away
        self.away = np.where(self.away, chance[:, :k] >= back, chance[:, :k] < leave)
        self.drawn = self._flicker(self.step, chance)
        self.digits = (self.digits + (chance[:, 2 * k :] < self.changes)) % 10
        if self.world.ground is not None:
            pan = self.pans[np.arange(self.count), self.step]
            self.phases -= pan[:, :1] * self.waves[:, 0] + pan[:, 1:] * self.waves[:, 1]

    def _move(self, directions: Float32[np.ndarray, "n 2"]) -> None:
        velocities, chasing = self.velocities, self.chasing
        velocities[:, self.controlled] = directions[:, None] * self.speeds[self.controlled, None]
        gap = self.centres[:, :1, 1] - self.centres[:, chasing, 1]
        velocities[:, chasing, 1] = np.clip(gap, -self.speeds[chasing], self.speeds[chasing])
        velocities[:, chasing, 0] = 0
        ahead = self.centres + velocities
        inside = np.clip(ahead, -self.limits, self.limits)
        # What bounces comes back by as much as it went too far; what is steered stops at the wall.
        bounced = np.where(self.controlled[:, None] | chasing[:, None], inside, 2 * inside - ahead)
        self.velocities = np.where(ahead == inside, velocities, -velocities)
        self.centres = bounced.astype(np.float32)

    def _flicker(self, step: Int[np.ndarray, "n"], chance: Float32[np.ndarray, "n c"]) -> Bool[np.ndarray, "n k"]:
        k = len(self.world.sprites)
        skipped = self.alternate & (step[:, None] % 2 == 1)
        return ~(skipped | (self.random & (chance[:, k : 2 * k] < 0.5)))

    def truth(self) -> Truth:
        """Centres (n, k, 2) and presence (n, k) of all copies; what is not drawn is absent."""
        return Truth(self.centres.copy(), self.drawn & ~self.away)

    def paint(self) -> UInt8[np.ndarray, "n size size 3"]:
        side = self.size + 2 * MARGIN
        canvas = np.empty((self.count, side, side, 3), np.uint8)
        canvas[:] = self.world.background
        if self.world.ground is not None:
            canvas[:, MARGIN:-MARGIN, MARGIN:-MARGIN] = self._texture()
        for score, table, values in zip(self.world.scores, self.digit_pens, self.digits.T, strict=True):
            centres = np.tile(np.array(score.centre, np.float32), (self.count, 1))
            cells, phases = self._locate(centres)
            blend(canvas, np.arange(self.count), cells, table[values, phases[:, 1], phases[:, 0]], score.colour)
        present = self.truth().present
        for i, (sprite, table) in enumerate(zip(self.world.sprites, self.pens, strict=True)):
            rows = np.flatnonzero(present[:, i])
            cells, phases = self._locate(self.centres[rows, i])
            blend(canvas, rows, cells, table[phases[:, 1], phases[:, 0]], sprite.colour)
        return np.ascontiguousarray(canvas[:, MARGIN:-MARGIN, MARGIN:-MARGIN])

    def _locate(self, centres: Float32[np.ndarray, "n 2"]) -> tuple[Int[np.ndarray, "n 2"], Int[np.ndarray, "n 2"]]:
        """The pixel that holds each centre, and where in that pixel."""
        pixels = to_pixels(centres, self.size, self.size)
        cells = np.floor(pixels).astype(int)
        return cells, np.minimum((pixels - cells) * SUBPIXELS, SUBPIXELS - 1).astype(int)

    def _texture(self) -> Float32[np.ndarray, "n size size 3"]:
        """Waves cos(a x + b y + phase) as one matrix product, by the cosine of a sum."""
        at = cell_centres(self.size).numpy()
        across = self.waves[:, :1] * at + self.phases[..., None]  # (n, waves, size)
        down = at[:, None] * self.waves[:, 1]  # (size, waves)
        base = np.clip(np.array(self.world.background, np.float32), 80, 175)  # room for waves on either side
        plain = np.broadcast_to(base, (self.count, 1, self.size, 3))
        columns = [np.cos(across)[..., None] * self.tints, -np.sin(across)[..., None] * self.tints, plain]
        rows = np.concatenate([np.cos(down), np.sin(down), np.ones((self.size, 1), np.float32)], 1)
        image = rows @ np.concatenate(columns, 1).reshape(self.count, rows.shape[1], -1)
        return np.clip(image, 0, 255).reshape(self.count, self.size, self.size, 3)


def _wandering(chance: Float64[np.ndarray, "t 2"]) -> Float64[np.ndarray, "t 2"]:
    """A velocity that changes slowly, and has a deviation of 1 throughout."""
    velocity = chance.copy()
    for step in range(1, len(chance)):
        velocity[step] = LASTING * velocity[step - 1] + (1 - LASTING**2) ** 0.5 * chance[step]
    return velocity


class SpriteEnv(PixelEnv):
    """One copy as an environment of its own."""

    def __init__(self, world: World, name: str, size: int) -> None:
        super().__init__(world.scene(name), size)
        self.simulation = Simulation(world, 1, size)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.simulation.start(0, self.np_random)
        return self.render(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.simulation.advance(np.array([action]))
        return self.render(), 0.0, False, bool(self.simulation.step[0] == EPISODE), {}

    def truth(self) -> Truth:
        centres, present = self.simulation.truth()
        return Truth(centres[0], present[0])

    def render(self) -> np.ndarray:
        return self.simulation.paint()[0]


class SpriteVector(VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """Many copies; an episode that ends starts anew at the next step, whose action is ignored."""

    def __init__(self, world: World, name: str, count: int, size: int, seed: int = 0) -> None:
        self.scene = world.scene(name)
        self.simulation = Simulation(world, count, size)
        self.num_envs = count
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self.render_mode = "rgb_array"
        self.single_observation_space = gymnasium.spaces.Box(0, 255, (size, size, 3), np.uint8)
        self.single_action_space = gymnasium.spaces.Discrete(len(world.actions))
        self.observation_space = batch_space(self.single_observation_space, count)
        self.action_space = batch_space(self.single_action_space, count)
        self._seed(seed)

    def _seed(self, seed: int | Sequence[int | None]) -> None:
        seeds = seed if isinstance(seed, Sequence) else range(seed, seed + self.num_envs)
        self._rngs = [gymnasium.utils.seeding.np_random(s)[0] for s in seeds]

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        if seed is not None:
            self._seed(seed)
        for row, rng in enumerate(self._rngs):
            self.simulation.start(row, rng)
        return self.simulation.paint(), {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        over = np.flatnonzero(self.simulation.step == EPISODE)
        self.simulation.advance(np.asarray(actions))
        for row in over:
            self.simulation.start(int(row), self._rngs[row])
        nothing = np.zeros(self.num_envs)
        return self.simulation.paint(), nothing, nothing.astype(bool), self.simulation.step == EPISODE, {}

    def truth(self, part: slice = slice(None)) -> Truth:
        """Centres (n, k, 2) and presence (n, k) in the frames shown last, of some of the worlds."""
        centres, present = self.simulation.truth()
        return Truth(centres[part], present[part])

    def render(self) -> tuple[np.ndarray, ...]:
        return tuple(self.simulation.paint())

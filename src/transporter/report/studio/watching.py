"""Models at work: episodes to scrub through, and games that someone plays."""

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Bool, Float32, UInt8

from transporter.errors import InputError
from transporter.report.studio.answers import Refused, not_found
from transporter.report.studio.folders import RunFolders
from transporter.report.studio.parts import Frames, Game, Loaded, ModelName, Parts
from transporter.report.studio.pictures import png
from transporter.tracking.evaluate import play
from transporter.tracking.match import Episode as Tracked
from transporter.tracking.match import lay_out, match

MOST_FRAMES = 1_000  # of an episode
MOST_GAMES = 4  # at once; the one that was not played for longest makes room
IDLE = 600.0  # seconds after which a game that no one plays is closed

Value = TypeVar("Value")


class Kept(Generic[Value]):
    """The last few things that were made; each is made once, however many ask."""

    def __init__(self, most: int) -> None:
        self.most, self._kept, self._lock = most, OrderedDict[Hashable, Value](), threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        with self._lock:
            if key not in self._kept:
                self._kept[key] = make()
            self._kept.move_to_end(key)
            while len(self._kept) > self.most:
                self._kept.popitem(last=False)
            return self._kept[key]


class Truths(NamedTuple):
    """Where the objects are, and who follows them frame by frame."""

    objects: tuple[str, ...]
    radius: float
    centres: Float32[np.ndarray, "t n 2"]
    present: Bool[np.ndarray, "t n"]
    matched: Bool[np.ndarray, "t k n"]


class Episode(NamedTuple):
    """Random play and what a model sees in it."""

    scene: str
    pictures: list[bytes]
    width: int  # of a picture
    height: int
    frames: Frames  # as the model saw them
    points: Float32[np.ndarray, "t k 2"]
    truths: Truths | None
    firsts: list[int]  # where each episode begins


class Models:
    """Shipped models and those in run folders, loaded when first asked for."""

    def __init__(self, runs: RunFolders, parts: Parts) -> None:
        self.runs, self.parts = runs, parts
        self._loaded: Kept[Loaded] = Kept(4)

    def names(self) -> list[ModelName]:
        lines, paths = self.runs.headlines(), self.runs.paths()  # a run may go between the two
        return [
            *self.parts.shipped(),
            *(
                ModelName(f"run:{line.id}", line.id, line.environment, paths[line.id], line.chosen)
                for line in lines
                if line.trainable and line.id in paths
            ),
        ]

    def named(self, model: str) -> ModelName:
        for name in self.names():
            if name.id == model:
                return name
        raise not_found(f"no model named {model!r}: choose one of the list")

    def load(self, model: str) -> Loaded:
        name = self.named(model)
        return self._loaded.get((model, _version(name.source)), lambda: self.parts.load(name.source))

    def make(self, game: str, size: int) -> Game:
        """One game; an extra that is not installed is said plainly."""
        try:
            return self.parts.make(game, size)
        except (InputError, ImportError, OSError) as error:
            raise Refused(409, f"{game} cannot be played here: {error}") from error


def _version(source: str | Path) -> tuple[str, ...]:
    """Changes when a run saves a better checkpoint."""
    if isinstance(source, str):
        return ()
    return tuple(sorted(path.name for path in (*source.glob("best/step-*"), *source.glob("checkpoints/step-*"))))


class Episodes:
    """Episodes of random play by model, seed and length."""

    def __init__(self, models: Models) -> None:
        self.models = models
        self._kept: Kept[Episode] = Kept(4)

    def get(self, model: str, seed: int, frames: int) -> tuple[Loaded, Episode]:
        if not (1 <= frames <= MOST_FRAMES and 0 <= seed < 2**31):
            raise Refused(400, f"an episode has 1 to {MOST_FRAMES} frames and a seed from 0 on")
        loaded = self.models.load(model)
        if loaded.environment in (None, "video"):
            raise Refused(409, "this model was trained on videos, not on a game: drop a video to see it at work")
        key = (model, loaded.step, seed, frames)
        return loaded, self._kept.get(key, lambda: self._play(loaded, seed, frames))

    def _play(self, loaded: Loaded, seed: int, frames: int) -> Episode:
        game = self.models.make(str(loaded.environment), loaded.size)
        try:
            seen, pictures, truths, firsts = [], [], [], []
            for index, sight in enumerate(play(game, frames=frames, seed=seed)):  # type: ignore[arg-type]
                if index == 0:
                    own = game.render()
                    larger = own.shape[0] > sight.frame.shape[0]  # drawing twice is worth it only for a larger picture
                shown = game.render() if larger else sight.frame
                pictures.append(png(shown))
                seen.append(sight.frame)
                truths.append(sight.truth)
                if sight.first:
                    firsts.append(index)
            scene = game.scene
        finally:
            game.close()
        stack = np.stack(seen)
        points = loaded.points(stack)
        truth = None
        if scene.objects:
            centres, present = (np.stack(part) for part in zip(*truths, strict=True))
            matched = matches(points, centres, present, scene.radius)
            truth = Truths(scene.objects, scene.radius, centres, present, matched)
        return Episode(scene.name, pictures, shown.shape[1], shown.shape[0], stack, points, truth, firsts)


def matches(
    points: Float32[np.ndarray, "t k 2"],
    centres: Float32[np.ndarray, "t n 2"],
    present: Bool[np.ndarray, "t n"],
    radius: float,
) -> Bool[np.ndarray, "t k n"]:
    """Which keypoint is on which object, in each frame by itself."""
    return match(lay_out([Tracked(points, centres, present)]), 1, radius).matched


class View(NamedTuple):
    """What a player sees after a step."""

    picture: bytes
    points: Float32[np.ndarray, "k 2"]
    truth: Truths | None
    score: float
    lives: int | None
    over: bool
    step: int


class Session:
    """A game in somebody's hands; an episode that is over begins anew with the next step."""

    def __init__(self, game: Game, loaded: Loaded, seed: int) -> None:
        self.game, self.loaded = game, loaded
        self.lock = threading.Lock()
        self.touched = time.monotonic()
        self._seed = seed
        self._begin()

    def _begin(self) -> None:
        self._frame, info = self.game.reset(seed=self._seed)
        self._seed += 1
        self._score, self._over, self._steps, self._lives = 0.0, False, 0, info.get("lives")

    def step(self, action: int) -> View:
        if not 0 <= action < len(self.game.scene.actions):
            raise Refused(400, f"no action {action}: there are {len(self.game.scene.actions)}")
        with self.lock:
            self.touched = time.monotonic()
            if self._over:
                self._begin()
            else:
                self._frame, reward, terminated, truncated, info = self.game.step(action)
                self._score += float(reward)
                self._over, self._steps = terminated or truncated, self._steps + 1
                self._lives = info.get("lives")
            return self.view()

    def view(self) -> View:
        points = self.loaded.points(self._frame[None])
        scene, truth = self.game.scene, None
        if scene.objects:
            centres, present = (np.asarray(part)[None] for part in self.game.truth())
            matched = matches(points, centres, present, scene.radius)
            truth = Truths(scene.objects, scene.radius, centres, present, matched)
        shown = self.game.render()
        larger: UInt8[np.ndarray, "h w 3"] = shown if shown.shape[0] > self._frame.shape[0] else self._frame
        return View(png(larger), points[0], truth, self._score, self._lives, self._over, self._steps)


class Games:
    """The games that are being played."""

    def __init__(self, models: Models) -> None:
        self.models = models
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def begin(self, model: str, game: str | None, seed: int) -> tuple[str, Session]:
        loaded = self.models.load(model)
        name = game or loaded.environment
        if name is None or name not in self.models.parts.games():
            raise Refused(400, "choose a game to play: this model was not trained on one")
        session, key = Session(self.models.make(name, loaded.size), loaded, seed), secrets.token_hex(8)
        self._sessions[key] = session
        now = time.monotonic()
        while len(self._sessions) > MOST_GAMES or now - next(iter(self._sessions.values())).touched > IDLE:
            self.end(next(iter(self._sessions)))
        return key, session

    def session(self, key: str) -> Session:
        if key not in self._sessions:
            raise not_found("this game was closed: start another")
        self._sessions.move_to_end(key)
        return self._sessions[key]

    def end(self, key: str) -> None:
        if session := self._sessions.pop(key, None):
            with session.lock:
                session.game.close()

    def close(self) -> Any:
        for key in list(self._sessions):
            self.end(key)

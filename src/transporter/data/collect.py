"""Frames into a set of pairs (Appendix B, §4): a random policy plays, or a video runs; some pairs are kept.

The work goes in segments. Each starts from its own seed and ends with a commit, so a run that was killed goes on as if
nothing had happened, and the set is a function of its settings alone. Reward is never looked at.

Play does not wait for the rest: it goes on, into the next segment too, while what it offered is weighed and written.
"""

import itertools
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from jaxtyping import Int, UInt8

from transporter.ahead import ahead
from transporter.data.diverse import ROUND, SIDE, DiverseBuffer, gray_copy
from transporter.data.manifest import CollectSettings, Manifest
from transporter.data.pairs import PairSet, PairWriter
from transporter.data.play import Offer, Trajectory, offers, sampler, trajectories
from transporter.data.steady import steadied
from transporter.envs.registry import make_vector
from transporter.frames import resize

Choice = Callable[[UInt8[np.ndarray, "n 2 h w 3"], np.random.Generator], Int[np.ndarray, "n"]]  # slots, -1 for none
MakeEnv = Callable[[str, int, int, int], VectorEnv]
make_unresized: MakeEnv = partial(make_vector, resized=False)  # few frames are offered: only those are resized

# Every copy of an environment plays this many trajectories from its reset, so that late parts of a game are seen.
SEGMENT = 32


class Progress(NamedTuple):
    """How far a collection is."""

    steps: int
    of: int  # steps in all
    pairs: int  # in the set
    taken: int  # pairs that this run put into the set, those overwritten since included


class Generators(NamedTuple):
    """A segment's own sources of chance."""

    play: np.random.Generator
    pick: np.random.Generator
    select: np.random.Generator


class SegmentEnd(NamedTuple):
    """A segment has been offered whole: what the set rests on when it is committed."""

    steps: int
    trajectories: int
    complete: bool


class Source(Protocol):
    """What plays: an environment or some videos, in segments of so many steps."""

    steps: int  # in all

    def ahead(self, done: int) -> int:
        """Steps of the segment that begins after `done` steps; 0 at the end."""

    def play(self, done: int, rng: np.random.Generator) -> Generator[Trajectory]:
        """The trajectories of that segment."""


class RandomPlay:
    """Copies of an environment under a random policy, until the budget of the settings is spent."""

    def __init__(self, env: VectorEnv, settings: CollectSettings) -> None:
        self.env, self.settings, self.steps = env, settings, settings.budget

    def ahead(self, done: int) -> int:
        each = min(SEGMENT * self.settings.length, (self.steps - done) // self.env.num_envs)
        return each * self.env.num_envs if each >= self.settings.length else 0

    def play(self, done: int, rng: np.random.Generator) -> Generator[Trajectory]:
        each = self.ahead(done) // self.env.num_envs
        s = self.settings
        return trajectories(self.env, rng, sampler(s), s.length, each, s.per_trajectory)


def collect(
    settings: CollectSettings,
    path: Path | str,
    progress: Callable[[Progress], None] | None = None,
    make_env: MakeEnv = make_unresized,
    device: torch.device | str | None = None,
) -> PairSet:
    """Play until the budget is spent (or, without diverse, the set is full); go on where an earlier run stopped."""
    # A small set needs few copies: with many, each would only show the start of its first game.
    most = min(settings.pairs // settings.per_trajectory, settings.budget // settings.length) // SEGMENT
    count = max(1, min(settings.envs, most))
    with PairSet.create(path, settings) as writer:
        if not writer.manifest.complete:
            with closing(make_env(settings.environment, count, settings.size, settings.seed)) as env:
                fill(writer, RandomPlay(env, settings), progress, choice(writer, device))
    return PairSet.open(path)


def fill(
    writer: PairWriter, source: Source, progress: Callable[[Progress], None] | None = None, choose: Choice | None = None
) -> None:
    """Run segments from the first that is not committed until the source ends or the set wants no more."""
    choose = choose or choice(writer)
    steady = Steady() if writer.settings.moving_camera else None
    with ahead(_played(source, writer.settings, writer.manifest), ROUND) as waiting:
        complete = False
        while not complete:
            end = _take_in(writer, waiting, choose, progress or (lambda _: None), source.steps, steady)
            complete = end.complete
            writer.commit(*end)
    if steady and 2 * steady.moved < steady.seen:
        warnings.warn(
            f"of {steady.seen:,} pairs, what the camera did was undone in {steady.moved:,}, and {steady.lost:,} were "
            "left out, for it went too far between their frames: is it a camera that moves?",
            stacklevel=2,
        )


class Steady:
    """Undoes what the camera did in pairs on offer, and counts them."""

    def __init__(self) -> None:
        self.seen = self.moved = self.lost = 0

    def __call__(
        self, pairs: list[UInt8[np.ndarray, "2 h w 3"]], origins: list[int]
    ) -> tuple[list[UInt8[np.ndarray, "2 h w 3"]], list[int]]:
        """Those that are left, and where they come from."""
        found = steadied(np.stack(pairs))
        self.seen, self.moved = self.seen + len(pairs), self.moved + int(found.moved.sum())
        self.lost += int(found.lost.sum())
        left = np.flatnonzero(~found.lost).tolist()
        return [found.pairs[i] for i in left], [origins[i] for i in left]


def _played(source: Source, settings: CollectSettings, done: Manifest) -> Generator[Offer | SegmentEnd]:
    """All that is offered from here on: segment after segment, with a mark after each."""
    steps, seen, held = done.steps, done.trajectories, len(done.live)
    complete = False
    for segment in itertools.count(done.segments):
        chance = _generators(settings, segment)
        room = None if settings.diverse else settings.pairs - held
        last = -1
        with closing(source.play(steps, chance.play)) as played:
            for offer in itertools.islice(offers(played, sampler(settings), chance.pick), room):
                yield offer
                last, held = offer.trajectory, held + 1
        steps, seen = steps + source.ahead(steps), seen + last + 1
        full = held == settings.pairs and not settings.diverse
        complete = full or not source.ahead(steps)
        yield SegmentEnd(steps, seen, complete)
        if complete:
            return


def _take_in(
    writer: PairWriter,
    waiting: Iterator[Offer | SegmentEnd],
    choose: Choice,
    progress: Callable[[Progress], None],
    of: int,
    steady: Steady | None,
) -> SegmentEnd:
    """Weigh what one segment offers, in rounds, and store what is chosen."""
    done = writer.manifest
    side, select = writer.settings.size, _generators(writer.settings, done.segments).select
    pairs: list[UInt8[np.ndarray, "2 h w 3"]] = []
    origins: list[int] = []
    for item in waiting:
        if isinstance(item, Offer):
            progress(Progress(done.steps + item.steps, of, len(writer), writer.appended))
            pairs.append(resize(np.stack(item.frames), side, side))
            origins.append(done.trajectories + item.trajectory)
        if len(pairs) == ROUND or (pairs and isinstance(item, SegmentEnd)):
            if steady:
                pairs, origins = steady(pairs, origins)
            slots = choose(np.stack(pairs), select) if pairs else ()
            for pair, origin, slot in zip(pairs, origins, slots, strict=True):
                if slot >= 0:
                    writer.append(pair, int(slot), origin)
            pairs, origins = [], []
        if isinstance(item, SegmentEnd):
            return item
    raise AssertionError("a segment has an end")


def _generators(settings: CollectSettings, segment: int) -> Generators:
    return Generators(*np.random.default_rng([settings.seed, segment]).spawn(3))


def choice(writer: PairWriter, device: torch.device | str | None = None) -> Choice:
    """How the settings want pairs chosen: the unusual ones, or those that come first."""
    if not writer.settings.diverse:
        return lambda pairs, rng: np.arange(len(writer), len(writer) + len(pairs))
    side = min(SIDE, writer.settings.size)
    buffer = DiverseBuffer(writer.settings.pairs, 2 * side * side, device)
    for block in writer.committed():
        buffer.fill(gray_copy(block))
    return lambda pairs, rng: buffer.offer(gray_copy(pairs), rng)

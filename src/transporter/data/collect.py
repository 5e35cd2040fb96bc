"""Frames into pairs (Appendix B, §4): a random policy plays, or a video runs; two frames of each trajectory are kept.

The work goes in segments. Each starts from its own seed and ends with a commit, so a run that was killed goes on as if
nothing had happened, and the set is a function of its settings alone. Reward is never looked at.
"""

import itertools
from collections.abc import Callable, Iterator
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
from transporter.data.manifest import CollectSettings
from transporter.data.pairs import PairSet, PairWriter
from transporter.envs.registry import make_vector

Sampler = Callable[[int, np.random.Generator], tuple[int, int]]
Choice = Callable[[UInt8[np.ndarray, "n 2 h w 3"], np.random.Generator], Int[np.ndarray, "n"]]  # slots, -1 for none
MakeEnv = Callable[[str, int, int, int], VectorEnv]

# Every copy of an environment plays this many trajectories from its reset, so that late parts of a game are seen.
SEGMENT = 32


class Trajectory(NamedTuple):
    """Consecutive frames of one episode, and all environment steps so far; a view, good until the next is asked for."""

    frames: UInt8[np.ndarray, "t h w 3"]
    steps: int
    pairs: int = 1  # how many to take from it


class Offer(NamedTuple):
    """A pair for the set, the number of its trajectory in the segment, and the steps of the segment so far."""

    pair: UInt8[np.ndarray, "2 h w 3"]
    trajectory: int
    steps: int


class Progress(NamedTuple):
    """How far a collection is."""

    steps: int
    of: int  # steps in all
    pairs: int  # in the set
    taken: int  # pairs that this run put into the set, those overwritten since included


class Source(Protocol):
    """What plays: an environment or some videos, in segments of so many steps."""

    steps: int  # in all

    def ahead(self, done: int) -> int:
        """Steps of the segment that begins after `done` steps; 0 at the end."""

    def play(self, done: int, rng: np.random.Generator) -> Iterator[Trajectory]:
        """The trajectories of that segment."""


def halves(length: int, rng: np.random.Generator) -> tuple[int, int]:
    """One frame of the first half, one of the second (Appendix B)."""
    return int(rng.integers(length // 2)), int(rng.integers(length // 2, length))


def offset(length: int, rng: np.random.Generator, low: int = 1, high: int = 20) -> tuple[int, int]:
    """Two frames low..high steps apart, or less where the trajectory is short; never the same one twice (§4)."""
    gap = int(rng.integers(min(low, length - 1), min(high, length - 1) + 1))
    start = int(rng.integers(length - gap))
    return start, start + gap


def trajectories(
    env: VectorEnv, rng: np.random.Generator, length: int = 100, steps: int | None = None, pairs: int = 1
) -> Iterator[Trajectory]:
    """Play a uniform random policy, `steps` frames in each copy or for ever, and cut the play into trajectories."""
    count, actions = env.num_envs, int(env.single_action_space.n)  # type: ignore[attr-defined]
    frames, _ = env.reset(seed=int(rng.integers(2**31 - count)))
    kept = np.empty((count, length, *frames.shape[1:]), np.uint8)
    filled = np.zeros(count, np.int64)
    ended = np.zeros(count, bool)
    every = np.arange(count)
    for step in itertools.count(1) if steps is None else range(1, steps + 1):
        kept[every, filled] = frames
        filled += 1
        for one in np.flatnonzero(ended | (filled == length)):
            yield Trajectory(kept[one, : filled[one]], step * count, pairs)
            filled[one] = 0
        if step != steps:
            # The step after an end ignores its action and shows the first frame of the next episode.
            frames, _, terminated, truncated, _ = env.step(rng.integers(actions, size=count))
            ended = terminated | truncated


def offers(source: Iterator[Trajectory], sample: Sampler, rng: np.random.Generator) -> Iterator[Offer]:
    """Pairs of each trajectory, in the order of time, no pair twice."""
    for number, (frames, steps, pairs) in enumerate(source):
        if len(frames) >= 2:  # an episode may end on the first step of a trajectory
            for i, j in sorted({sample(len(frames), rng) for _ in range(pairs)}):
                yield Offer(frames[[i, j]], number, steps)


class RandomPlay:
    """Copies of an environment under a random policy, until the budget of the settings is spent."""

    def __init__(self, env: VectorEnv, settings: CollectSettings) -> None:
        self.env, self.settings, self.steps = env, settings, settings.budget

    def ahead(self, done: int) -> int:
        each = min(SEGMENT * self.settings.length, (self.steps - done) // self.env.num_envs)
        return each * self.env.num_envs if each >= self.settings.length else 0

    def play(self, done: int, rng: np.random.Generator) -> Iterator[Trajectory]:
        each = self.ahead(done) // self.env.num_envs
        return trajectories(self.env, rng, self.settings.length, each, self.settings.per_trajectory)


def collect(
    settings: CollectSettings,
    path: Path | str,
    progress: Callable[[Progress], None] | None = None,
    make_env: MakeEnv = make_vector,
    device: torch.device | str | None = None,
) -> PairSet:
    """Play until the budget is spent (or, without diverse, the set is full); go on where an earlier run stopped."""
    # A small set needs few copies: with many, each would only show the start of its first game.
    most = min(settings.pairs // settings.per_trajectory, settings.budget // settings.length) // SEGMENT
    count = max(1, min(settings.envs, most))
    with PairSet.create(path, settings) as writer:
        if not writer.manifest.complete:
            with closing(make_env(settings.environment, count, settings.size, settings.seed)) as env:
                fill(writer, RandomPlay(env, settings), progress, device)
    return PairSet.open(path)


def fill(
    writer: PairWriter,
    source: Source,
    progress: Callable[[Progress], None] | None = None,
    device: torch.device | str | None = None,
) -> None:
    """Run segments from the first that is not committed until the source ends or the set wants no more."""
    choose = _diverse_choice(writer, device) if writer.settings.diverse else _first_come(writer)
    complete = False
    while not complete:
        done = writer.manifest
        seen = _segment(writer, source, choose, progress or (lambda _: None))
        steps = done.steps + source.ahead(done.steps)
        full = len(writer) == writer.settings.pairs and not writer.settings.diverse
        complete = full or not source.ahead(steps)
        writer.commit(steps, done.trajectories + seen, complete)


def _segment(writer: PairWriter, source: Source, choose: Choice, progress: Callable[[Progress], None]) -> int:
    """Play one segment and store what is chosen of it; the number of trajectories seen."""
    settings, done = writer.settings, writer.manifest
    play, pick, select = np.random.default_rng([settings.seed, done.segments]).spawn(3)
    sample: Sampler = halves if settings.sampler == "halves" else partial(offset, high=settings.max_offset)
    room = None if settings.diverse else settings.pairs - len(writer)
    seen = 0

    def told(offer: Offer) -> Offer:
        progress(Progress(done.steps + offer.steps, source.steps, len(writer), writer.appended))
        return offer

    # The next round is played while the last one is weighed.
    with ahead(itertools.islice(offers(source.play(done.steps, play), sample, pick), room), ROUND) as waiting:
        while batch := list(map(told, itertools.islice(waiting, ROUND))):
            for offer, slot in zip(batch, choose(np.stack([o.pair for o in batch]), select), strict=True):
                if slot >= 0:
                    writer.append(offer.pair, int(slot), done.trajectories + offer.trajectory)
            seen = batch[-1].trajectory + 1
    return seen


def _diverse_choice(writer: PairWriter, device: torch.device | str | None) -> Choice:
    side = min(SIDE, writer.settings.size)
    buffer = DiverseBuffer(writer.settings.pairs, 2 * side * side, device)
    for block in writer.committed():
        buffer.fill(gray_copy(block))
    return lambda pairs, rng: buffer.offer(gray_copy(pairs), rng)


def _first_come(writer: PairWriter) -> Choice:
    return lambda pairs, rng: np.arange(len(writer), len(writer) + len(pairs))

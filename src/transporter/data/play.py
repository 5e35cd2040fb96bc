"""From an environment or a video to pairs on offer: play is cut into trajectories, and two frames of each are taken."""

import itertools
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import VectorEnv
from jaxtyping import Bool, Int, UInt8

from transporter.data.manifest import CollectSettings

Frame = UInt8[np.ndarray, "h w 3"]
Lengths = Int[np.ndarray, "n"]
Times = Int[np.ndarray, "n 2"]  # of the two frames of a pair, the earlier one first
Sampler = Callable[[Lengths, np.random.Generator], Times]  # a pair for each length


class Trajectory(NamedTuple):
    """Frames of one episode by their times, and all environment steps so far."""

    frames: Sequence[Frame] | Mapping[int, Frame]
    steps: int
    pairs: int | Sequence[tuple[int, int]] = 1  # how many to take; or which, where no other frames were kept


class Offer(NamedTuple):
    """A pair for the set, the number of its trajectory in the segment, and the steps of the segment so far."""

    frames: tuple[Frame, Frame]  # as large as they were shown
    trajectory: int
    steps: int


class Shown(NamedTuple):
    """What all copies of an environment show after a step."""

    frames: UInt8[np.ndarray, "n h w 3"]
    ended: Bool[np.ndarray, "n"]  # with this frame an episode ends


def sampler(settings: CollectSettings) -> Sampler:
    """How the settings want the frames of a pair drawn."""
    return halves if settings.sampler == "halves" else partial(offset, high=settings.max_offset)


def halves(lengths: Lengths, rng: np.random.Generator) -> Times:
    """One frame of the first half, one of the second (Appendix B)."""
    middle = lengths // 2
    return np.stack((_draw(0 * middle, middle, rng), _draw(middle, lengths, rng)), 1)


def offset(lengths: Lengths, rng: np.random.Generator, low: int = 1, high: int = 20) -> Times:
    """Two frames low..high steps apart, or less where the trajectory is short; never the same one twice (§4)."""
    gap = _draw(np.minimum(low, lengths - 1), np.minimum(high, lengths - 1) + 1, rng)
    start = _draw(0 * gap, lengths - gap, rng)
    return np.stack((start, start + gap), 1)


def _draw(low: Lengths, high: Lengths, rng: np.random.Generator) -> Lengths:
    """For each range low..high-1 one of its numbers, all equally likely; ranges that overlap mostly share theirs."""
    # The number of highest rank among those inside. So, whenever its episode may end, a trajectory of 100 frames has to
    # keep 14 of them on average; numbers drawn for each length by itself would want nearly all.
    numbers = np.arange(high.max())
    inside = (numbers >= low[:, None]) & (numbers < high[:, None])
    return np.where(inside, rng.random(len(numbers)), -1).argmax(1)


def offers(source: Iterable[Trajectory], sample: Sampler, rng: np.random.Generator) -> Iterator[Offer]:
    """Pairs of each trajectory, in the order of time, no pair twice."""
    for number, (frames, steps, pairs) in enumerate(source):
        if isinstance(pairs, int):
            length = np.array([len(frames)])
            pairs = _distinct([sample(length, rng)[0] for _ in range(pairs)] if len(frames) >= 2 else [])
        for i, j in pairs:
            yield Offer((frames[i], frames[j]), number, steps)


def _distinct(times: Iterable[Int[np.ndarray, "2"]]) -> list[tuple[int, int]]:
    return sorted({(int(i), int(j)) for i, j in times})


class Draws:
    """The pairs to take from a trajectory, drawn before it is played: for every length that it may turn out to have."""

    def __init__(self, sample: Sampler, pairs: int, longest: int, rng: np.random.Generator) -> None:
        self._times = np.stack([sample(np.arange(2, longest + 1), rng) for _ in range(pairs)], 1)
        self.wanted = set(self._times.ravel().tolist())  # times of the frames that may be needed

    def at(self, length: int) -> list[tuple[int, int]]:
        """Those for this length: no pair twice, and none where the episode ended on the first step."""
        return _distinct(self._times[length - 2]) if length >= 2 else []


def trajectories(
    env: VectorEnv,
    rng: np.random.Generator,
    sample: Sampler,
    length: int = 100,
    steps: int | None = None,
    pairs: int = 1,
) -> Generator[Trajectory]:
    """Play a uniform random policy, `steps` frames in each copy or for ever, and cut the play into trajectories."""
    copies = range(env.num_envs)
    begun = [0] * env.num_envs  # the step in which the trajectory of each copy began
    draws = [Draws(sample, pairs, length, rng) for _ in copies]
    kept: list[dict[int, Frame]] = [{} for _ in copies]
    with closing(random_play(env, rng, steps)) as played:
        for step, (frames, ended) in enumerate(played):
            for one, last in enumerate(ended.tolist()):
                time = step - begun[one]
                if time in draws[one].wanted:
                    kept[one][time] = frames[one].copy()  # by itself: a view would keep the frames of all copies
                if last or time == length - 1:
                    yield Trajectory(kept[one], (step + 1) * env.num_envs, draws[one].at(time + 1))
                    begun[one], draws[one], kept[one] = step + 1, Draws(sample, pairs, length, rng), {}


def random_play(env: VectorEnv, rng: np.random.Generator, steps: int | None = None) -> Generator[Shown]:
    """`steps` frames of every copy, or without end; the next ones are on their way while the last are used."""
    count, actions = env.num_envs, int(env.single_action_space.n)  # type: ignore[attr-defined]
    begin, finish = _in_two(env)
    frames, _ = env.reset(seed=int(rng.integers(2**31 - count)))
    ended = np.zeros(count, bool)
    for _ in itertools.count() if steps is None else range(steps - 1):
        # The step after an end ignores its action and shows the first frame of the next episode.
        begin(rng.integers(actions, size=count))
        try:
            yield Shown(frames, ended)
        finally:  # also when no more is asked for: an environment cannot be reset in the middle of a step
            frames, _, terminated, truncated, _ = finish()
        ended = terminated | truncated
    yield Shown(frames, ended)


def _in_two(env: VectorEnv) -> tuple[Callable[[Int[np.ndarray, "n"]], None], Callable[[], tuple[Any, ...]]]:
    """The beginning and the end of a step; an environment that cannot play in between does all of it at the end."""
    # Asked of the class: a wrapper passes on what it does not know, which would go round its own step().
    if hasattr(type(env), "step_async"):
        return env.step_async, env.step_wait  # type: ignore[attr-defined]
    waiting: list[Int[np.ndarray, "n"]] = []
    return waiting.append, lambda: env.step(waiting.pop())

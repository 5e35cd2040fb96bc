"""From an environment or a video to pairs on offer: play is cut into trajectories, and two frames of each are taken."""

import itertools
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import VectorEnv
from jaxtyping import Bool, Int, UInt8

Sampler = Callable[[int, np.random.Generator], tuple[int, int]]


class Trajectory(NamedTuple):
    """Consecutive frames of one episode, and all environment steps so far."""

    frames: Sequence[UInt8[np.ndarray, "h w 3"]]  # where the environment left them: few are ever copied
    steps: int
    pairs: int = 1  # how many to take from it


class Offer(NamedTuple):
    """A pair for the set, the number of its trajectory in the segment, and the steps of the segment so far."""

    pair: UInt8[np.ndarray, "2 h w 3"]
    trajectory: int
    steps: int


class Shown(NamedTuple):
    """What all copies of an environment show after a step."""

    frames: UInt8[np.ndarray, "n h w 3"]
    ended: Bool[np.ndarray, "n"]  # with this frame an episode ends


def halves(length: int, rng: np.random.Generator) -> tuple[int, int]:
    """One frame of the first half, one of the second (Appendix B)."""
    return int(rng.integers(length // 2)), int(rng.integers(length // 2, length))


def offset(length: int, rng: np.random.Generator, low: int = 1, high: int = 20) -> tuple[int, int]:
    """Two frames low..high steps apart, or less where the trajectory is short; never the same one twice (§4)."""
    gap = int(rng.integers(min(low, length - 1), min(high, length - 1) + 1))
    start = int(rng.integers(length - gap))
    return start, start + gap


def offers(source: Iterable[Trajectory], sample: Sampler, rng: np.random.Generator) -> Iterator[Offer]:
    """Pairs of each trajectory, in the order of time, no pair twice."""
    for number, (frames, steps, pairs) in enumerate(source):
        if len(frames) >= 2:  # an episode may end on the first step of a trajectory
            for i, j in sorted({sample(len(frames), rng) for _ in range(pairs)}):
                yield Offer(np.stack((frames[i], frames[j])), number, steps)


def trajectories(
    env: VectorEnv, rng: np.random.Generator, length: int = 100, steps: int | None = None, pairs: int = 1
) -> Generator[Trajectory]:
    """Play a uniform random policy, `steps` frames in each copy or for ever, and cut the play into trajectories."""
    recent: deque[UInt8[np.ndarray, "n h w 3"]] = deque(maxlen=length)
    filled = np.zeros(env.num_envs, np.int64)
    with closing(random_play(env, rng, steps)) as played:
        for step, (frames, ended) in enumerate(played, 1):
            recent.append(frames)
            filled += 1
            for one in np.flatnonzero(ended | (filled == length)):
                own = itertools.islice(recent, len(recent) - int(filled[one]), None)
                yield Trajectory([shown[one] for shown in own], step * env.num_envs, pairs)
                filled[one] = 0


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

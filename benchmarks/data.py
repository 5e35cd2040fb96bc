"""Data generation (Appendix B) against the bare emulators: frames per second, in turns, in one run.

    python benchmarks/data.py --out results/speed/data.json

Both play the same random policy. The bare emulators are ale-py's vector environment as anyone would make it: it shows
RGB frames of the size that is stored, and they are thrown away. A collection cuts play into trajectories, weighs two
frames of each against a buffer of full size, and writes what it keeps. It does so in whole segments, each of which
loads the games anew: that is part of its time. Frames count with frame-skip.
"""

import itertools
import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
import torch
import tyro
from ale_py.vector_env import AtariVectorEnv
from gymnasium.vector import VectorEnv

from transporter.cli import leave
from transporter.data.collect import SEGMENT, Choice, RandomPlay, fill, make_unresized
from transporter.data.diverse import DiverseBuffer, gray_copy
from transporter.data.manifest import CollectSettings
from transporter.data.pairs import PairSet
from transporter.data.play import halves, offers, trajectories
from transporter.envs.atari import REPEAT
from transporter.frames import resize
from transporter.results import Result

PAPER = 11_100  # frames per second on 56 cores


class Rate(NamedTuple):
    wall: float  # frames per second
    cpu: float  # frames per second of processor time, all threads: what is left of it when others use the machine too


class Clock:
    def __init__(self) -> None:
        self.begun, self.used = time.perf_counter(), time.process_time()

    def rate(self, steps: int) -> Rate:
        frames = steps * REPEAT
        return Rate(frames / (time.perf_counter() - self.begun), frames / (time.process_time() - self.used))


def bare(env: AtariVectorEnv, steps: int) -> Rate:
    """The emulators alone."""
    rng = np.random.default_rng(0)
    env.reset()
    clock = Clock()
    for _ in range(steps // env.num_envs):
        env.step(rng.integers(env.single_action_space.n, size=env.num_envs))
    return clock.rate(steps)


def collection(env: VectorEnv, settings: CollectSettings, choose: Choice) -> Rate:
    """The same play into a set on disk."""
    with tempfile.TemporaryDirectory() as folder, PairSet.create(Path(folder) / "set", settings) as writer:

        def kept(pairs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
            """What is chosen, at the end of this small set instead of in its place in the large one."""
            slots = choose(pairs, rng)
            slots[slots >= 0] = len(writer) + np.arange((slots >= 0).sum())
            return slots

        clock = Clock()
        fill(writer, RandomPlay(env, settings), choose=kept)
        return clock.rate(settings.budget)


def full_buffer(env: VectorEnv, size: int, held: int, device: str) -> DiverseBuffer:
    """Gray copies of real play, told apart by a little noise: as many as the paper's set holds."""
    rng = np.random.default_rng(0)
    with closing(trajectories(env, rng, halves, 20)) as played:
        some = [np.stack(offer.frames) for offer in itertools.islice(offers(played, halves, rng), 256)]
    gray = gray_copy(resize(np.stack(some), size, size))
    buffer = DiverseBuffer(held, gray.shape[1], device)
    for start in range(0, held, len(gray)):
        noise = rng.integers(0, 3, gray.shape, dtype=np.uint8)
        buffer.fill((gray // 2 + noise)[: held - start])
    return buffer


def selection(buffer: DiverseBuffer) -> float:
    """Seconds in which a round of pairs is weighed, once warm."""
    new = np.random.default_rng(1).integers(0, 256, (buffer.round, buffer._points.shape[1]), dtype=np.uint8)
    seconds = []
    for _ in range(3):
        begun = time.perf_counter()
        buffer.offer(new, np.random.default_rng(1))
        seconds.append(time.perf_counter() - begun)
    return min(seconds)


def measure(game: str, size: int, envs: int, segments: int, turns: int, held: int, device: str) -> dict[str, float]:
    """Bare, collected, bare, and again; figures are medians, and ratios are those of neighbours in time."""
    steps = segments * SEGMENT * 100 * envs
    settings = CollectSettings(environment=game, size=size, pairs=steps, budget=steps, envs=envs)
    rows = []
    with (
        closing(AtariVectorEnv(game, envs, img_height=size, img_width=size, grayscale=False, stack_num=1)) as alone,
        closing(make_unresized(game, envs, size, 0)) as played,
    ):
        buffer = full_buffer(played, size, held, device)
        after = bare(alone, steps // 4)
        for _ in range(turns):
            before = after
            made = collection(played, settings, lambda pairs, rng: buffer.offer(gray_copy(pairs), rng))
            after = bare(alone, steps // 4)
            rows.append((before, made, after))
            rates = [f"{rate.wall:,.0f}" for rate in rows[-1]]
            print(f"{game} ×{envs}: bare {rates[0]}, collected {rates[1]}, bare {rates[2]} frames/s", flush=True)
    weighed = selection(buffer)
    offered = buffer.round * settings.length * REPEAT  # frames behind a round of pairs
    emulated = median([rate.wall for before, _, after in rows for rate in (before, after)])
    return {
        "bare frames/s": emulated,
        "collected frames/s": median([made.wall for _, made, _ in rows]),
        "ratio": median([2 * made.wall / (before.wall + after.wall) for before, made, after in rows]),
        "ratio of processor time": median([2 * made.cpu / (before.cpu + after.cpu) for before, made, after in rows]),
        "weighing, share of emulation time": weighed / (offered / emulated),
        "times the paper's": median([made.wall for _, made, _ in rows]) / PAPER,
    }


def main(
    out: Path,
    game: str = "pong",
    size: int = 128,
    envs: int = 64,
    segments: int = 1,
    turns: int = 2,
    held: int = 100_000,
    device: str | None = None,
) -> None:
    """Measure and write one JSON file.

    Args:
        out: Where the JSON goes.
        game: Which game to play.
        size: Frames are size × size.
        envs: Emulators at once.
        segments: Segments of a turn, each of 3,200 steps of every emulator.
        turns: Turns of each, one after the other.
        held: Pairs in the buffer that each new one is weighed against.
        device: Where they are weighed; by default the GPU where there is one.
    """
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    found = measure(game, size, envs, segments, turns, held, device)
    figures = {f"{game} ×{envs}: {name}": round(value, 3) for name, value in found.items()}
    for name, value in figures.items():
        print(f"{name:60} {value:12,.3f}")
    config = {"game": game, "size": size, "envs": envs, "segments": segments, "turns": turns, "held": held}
    Result("data generation against the bare emulators", figures, config, {"play": 0}).write(out)


if __name__ == "__main__":
    leave(lambda: tyro.cli(main))

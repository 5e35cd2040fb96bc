"""What two cores can measure of speed: each stage against its plain version and against its floor, in one run.

    python benchmarks/cpu.py --out results/speed/cpu.json

All ratios are of neighbours in time, so a machine that others use too slows both sides. Above 1 is faster.
"""

import itertools
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import inference
import numpy as np
import torch
import tyro
from plain import PlainTransporter, flops
from rich.console import Console
from rich.table import Table

import data
from transporter.cli import leave
from transporter.envs.sprites import make_vector
from transporter.envs.video import open_video
from transporter.models.blocks import SMALL
from transporter.models.zoo import load
from transporter.report.clip import ClipWriter
from transporter.report.draw import draw_keypoints
from transporter.results import Result
from transporter.tracking.track import track
from transporter.training.batches import ResidentPairs, Sampler
from transporter.training.config import TrainConfig, preset
from transporter.training.learner import Hardware, Learner
from transporter.training.loop import updates


class Row(NamedTuple):
    """One line of the table: rates, and what share of the floor's rate ours reaches (nan: no floor)."""

    what: str
    unit: str
    ours: float
    plain: float
    ratio: float
    of_floor: float = float("nan")


def in_turns(ours: Callable[[], Any], plain: Callable[[], Any], seconds: float) -> tuple[float, float, float]:
    """Median seconds of both, and the median ratio of neighbours."""
    spent: tuple[list[float], list[float]] = ([], [])
    ours(), plain()
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or len(spent[0]) < 3:
        for call, times in zip((ours, plain), spent, strict=True):
            begun = time.perf_counter()
            call()
            times.append(time.perf_counter() - begun)
    return median(spent[0]), median(spent[1]), median([p / o for o, p in zip(*spent, strict=True)])


def peak() -> float:
    """FLOP/s of a large fp32 matrix product, the best of some: what convolutions could reach at most."""
    a = torch.rand(1024, 1024)
    times = []
    for _ in range(8):
        begun = time.perf_counter()
        a @ a
        times.append(time.perf_counter() - begun)
    return 2 * 1024**3 / min(times)


def training(name: str, config: TrainConfig, seconds: float, top: float) -> Row:
    """A step as `transporter train` makes it, against a loop over a DataLoader: one network, as many frames rebuilt."""
    side, keypoints = config.model.size, config.model.keypoints
    pairs = np.random.default_rng(0).integers(0, 256, (512, 2, side, side, 3), dtype=np.uint8)
    learner = Learner(config, Hardware(device="cpu"))
    ours = updates(learner, Sampler(np.arange(512), config.pairs, 0), ResidentPairs(pairs, learner.device), 0, 10**9)
    model = PlainTransporter(config.model.shape, keypoints)
    optimiser = torch.optim.Adam(model.parameters(), config.learning_rate)

    def plain() -> Iterator[float]:
        data_set = torch.utils.data.TensorDataset(torch.from_numpy(pairs))
        for _ in itertools.count():
            for (batch,) in torch.utils.data.DataLoader(data_set, config.batch, shuffle=True):
                optimiser.zero_grad()
                loss = model(batch[:, 0], batch[:, 1])
                loss.backward()
                optimiser.step()
                yield loss.item()

    steps = plain()
    mine, other, ratio = in_turns(lambda: next(ours), lambda: next(steps), seconds)
    return Row(name, "steps/s", 1 / mine, 1 / other, ratio, step_flops(learner) / top / mine)


def small(both_ways: bool) -> TrainConfig:
    return preset("fast", keypoints=3, batch=16, shape=SMALL, keynet=None, both_ways=both_ways, carried=0.0)


def step_flops(learner: Learner) -> int:
    """Of the convolutions of one step of ours, counted by torch itself."""
    from torch.utils.flop_counter import FlopCounterMode

    config = learner.config
    frames = torch.zeros(config.pairs, config.model.size, config.model.size, 3, dtype=torch.uint8)
    with FlopCounterMode(display=False) as counter:
        learner.update(frames, frames)
    return counter.get_total_flops()


def generation(held: int) -> Row:
    """Pong at 128×128 into a set, against emulators whose frames nobody looks at."""
    found = data.measure("pong", 128, 4, segments=1, turns=3, held=held, device="cpu")
    name = f"data generation, weighed against {held:,} pairs"
    return Row(name, "frames/s", found["collected frames/s"], found["bare frames/s"], found["ratio"])


def detection(seconds: float, top: float) -> list[Row]:
    """The size of the shipped models."""
    calls = inference.calls(SMALL, 80, 3, 16, "cpu")
    rows = []
    for what, count in (("16 frames", 16), ("1 frame", 1)):
        mine, other, ratio = in_turns(calls[what], calls[f"{what}, plain"], seconds)
        share = flops(SMALL, 80) * count / top / mine
        rows.append(Row(f"detection, 80×80, {what} at a time", "frames/s", count / mine, count / other, ratio, share))
    return rows


def tracking(frames: int) -> Row:
    """A clip to a labelled clip: decoded, detected, drawn and encoded at once, against one after the other."""
    detector = load("pong", "cpu")
    with tempfile.TemporaryDirectory() as folder:
        clip = Path(folder) / "clip.mp4"
        env = make_vector("sprites", 1, 320)
        env.reset(seed=0)
        with ClipWriter(clip, 320, 320) as writer:
            for _ in range(frames):
                writer.add(env.step(np.zeros(1, np.int64))[0][0])

        def write(seen: Any) -> None:
            with ClipWriter(Path(folder) / "labelled.mp4", 320, 320) as writer:
                for image, points in seen:
                    writer.add(draw_keypoints(image, points))

        def together() -> None:
            with open_video(clip) as video:
                write((found.image, found.points) for found in track(video, detector))

        def in_order() -> list[float]:
            marks = [time.perf_counter()]
            with open_video(clip) as video:
                images = np.stack([frame.image for frame in video])
            marks.append(time.perf_counter())
            points = np.concatenate([detector(images[i : i + 32]) for i in range(0, len(images), 32)])
            marks.append(time.perf_counter())
            write(zip(images, points, strict=True))
            marks.append(time.perf_counter())
            return np.diff(marks).tolist()

        mine, other, ratio = in_turns(together, in_order, 1)
        longest = median([max(in_order()) for _ in range(2)])
    return Row(
        "tracking, 320×320, clip to labelled clip", "frames/s", frames / mine, frames / other, ratio, longest / mine
    )


def main(out: Path, seconds: float = 20.0, held: int = 20_000, frames: int = 240) -> None:
    """Measure everything, print one table, write one JSON file.

    Args:
        out: Where the JSON goes.
        seconds: For each measurement that is repeated until its time is up.
        held: Pairs in the buffer that new ones are weighed against.
        frames: Length of the clip that is tracked.
    """
    top = peak()
    rows = [
        training("training, tiny 48×48, batch 32", preset("tiny", keypoints=3), seconds, top),
        training("training, small 80×80, batch 16", small(both_ways=False), seconds, top),
        training("training, small 80×80, batch 16, both ways", small(both_ways=True), seconds, top),
        *detection(seconds / 2, top),
        tracking(frames),
        generation(held),
    ]
    table = Table("", "", "ours", "plain", "ratio", "of the floor")
    for row in rows:
        floor = "" if np.isnan(row.of_floor) else f"{row.of_floor:.2f}"
        table.add_row(row.what, row.unit, f"{row.ours:,.1f}", f"{row.plain:,.1f}", f"{row.ratio:.2f}", floor)
    Console(width=120).print(table)
    figures = {"fp32 matrix product, GFLOP/s": round(top / 1e9, 1)}
    for row in rows:
        figures |= {f"{row.what}: {row.unit}": round(row.ours, 2), f"{row.what}: plain": round(row.plain, 2)}
        figures[f"{row.what}: ratio"] = round(row.ratio, 3)
        if not np.isnan(row.of_floor):
            figures[f"{row.what}: of the floor"] = round(row.of_floor, 3)
    config = {"seconds": seconds, "held": held, "frames": frames}
    load_average = {"load_average": list(os.getloadavg())}
    Result("speed on a CPU", figures, config, {"play": 0}, device="cpu", details=load_average).write(out)


if __name__ == "__main__":
    leave(lambda: tyro.cli(main))

"""Keypoints per second: the detector against the plain network, in one run, on a GPU or on a CPU.

    python benchmarks/inference.py --out results/speed/inference.json

Batches and single frames, already on the device and from arrays in main memory. `detector.tensor` is timed until its
answer is there; the plain network is timed on the same frames, of its own size, with the same wait.
"""

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
import tyro
from plain import PlainDetector, flops

from transporter.cli import leave
from transporter.cli.given import device_named
from transporter.errors import InputError
from transporter.models.blocks import PAPER, SMALL, Shape
from transporter.models.detector import Detector
from transporter.models.factory import ModelConfig
from transporter.results import Result

CASES: dict[str, tuple[Shape, int, int]] = {"paper 128×128 K=10": (PAPER, 128, 10), "small 80×80 K=3": (SMALL, 80, 3)}


def seconds(calls: dict[str, Callable[[], Any]], budget: float) -> dict[str, float]:
    """Median seconds of each call, all of them in turns, so that a busy machine slows all alike."""
    on_gpu = torch.cuda.is_available()
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():  # kernels are chosen, graphs captured
        call()
        call()
    until = time.perf_counter() + budget
    while time.perf_counter() < until or len(next(iter(spent.values()))) < 3:
        for name, call in calls.items():
            if on_gpu:
                torch.cuda.synchronize()
            begun = time.perf_counter()
            call()
            if on_gpu:
                torch.cuda.synchronize()
            spent[name].append(time.perf_counter() - begun)
    return {name: median(times) for name, times in spent.items()}


def calls(shape: Shape, size: int, keypoints: int, batch: int, device: str) -> dict[str, Callable[[], Any]]:
    """All ways to ask, by name; a name begins with the number of frames."""
    torch.manual_seed(0)
    detector = Detector(ModelConfig(keypoints=keypoints, size=size, shape=shape), device=device)
    exact = Detector(ModelConfig(keypoints=keypoints, size=size, shape=shape), device=device, precision="fp32")
    plain = PlainDetector(shape, keypoints).eval().to(device)
    frames = np.random.default_rng(0).integers(0, 256, (batch, size, size, 3), dtype=np.uint8)
    screens = np.random.default_rng(0).integers(0, 256, (batch, 210, 160, 3), dtype=np.uint8)
    there, screens_there = torch.from_numpy(frames).to(device), torch.from_numpy(screens).to(device)

    @torch.no_grad()
    def ask_plain(some: torch.Tensor) -> torch.Tensor:
        return plain(some)

    return {
        f"{batch} frames, plain": lambda: ask_plain(there),
        f"{batch} frames, fp32": lambda: exact.tensor(there),
        f"{batch} frames": lambda: detector.tensor(there),
        f"{batch} frames and features": lambda: detector.tensor(there, features=True),
        f"{batch} Atari screens, resized": lambda: detector.tensor(screens_there),
        f"{batch} frames from main memory": lambda: detector(frames),
        "1 frame, plain": lambda: ask_plain(there[:1]),
        "1 frame": lambda: detector.tensor(there[:1]),
        "1 frame and features": lambda: detector.tensor(there[:1], features=True),
        "1 Atari screen from main memory": lambda: detector(screens[:1]),
    }


def main(out: Path, batch: int | None = None, seconds_each: float = 8.0, cases: str = "", device: str = "auto") -> None:
    """Measure every case (or those named, by the start of their names, separated by commas); one JSON file."""
    device = device_named(device)
    batch = batch or (1024 if device == "cuda" else 16)
    figures: dict[str, float] = {}
    chosen = {case: parts for case, parts in CASES.items() if case.startswith(tuple(cases.split(",")))}
    if not chosen:
        raise InputError(f"no case begins with {cases!r}: there are {', '.join(CASES)}")
    for case, (shape, size, keypoints) in chosen.items():
        found = seconds(calls(shape, size, keypoints, batch, device), seconds_each)
        for name, spent in found.items():
            count = int(name.split()[0])
            figures[f"{case}: {name}, frames/s"] = round(count / spent, 1)
            if count == 1:
                figures[f"{case}: {name}, ms"] = round(1000 * spent, 3)
        figures[f"{case}: batch against plain"] = round(found[f"{batch} frames, plain"] / found[f"{batch} frames"], 2)
        figures[f"{case}: single against plain"] = round(found["1 frame, plain"] / found["1 frame"], 2)
        figures[f"{case}: TFLOP/s in a batch"] = round(flops(shape, size) * batch / found[f"{batch} frames"] / 1e12, 3)
    for name, value in figures.items():
        print(f"{name:70} {value:12,.3f}")
    config = {"batch": batch, "seconds": seconds_each, "threads": torch.get_num_threads()}
    Result("inference against the plain network", figures, config, {"frames": 0}, device=device).write(out)


if __name__ == "__main__":
    leave(lambda: tyro.cli(main))

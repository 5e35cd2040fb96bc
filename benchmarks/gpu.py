"""Training steps per second on one GPU: plain, captured as a CUDA graph, compiled and captured.

python benchmarks/gpu.py --out results/speed/training.json
"""

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro

from transporter.models.blocks import NOTEBOOK, PAPER, SMALL, Shape
from transporter.models.factory import ModelConfig
from transporter.results import Result
from transporter.training.batches import ResidentPairs, Sampler
from transporter.training.config import TrainConfig
from transporter.training.learner import Hardware, Learner
from transporter.training.loop import updates

WAYS = {
    "fp32": Hardware(precision="fp32", graph=False),
    "bf16": Hardware(graph=False),
    "bf16 graph": Hardware(),
    "bf16 compiled graph": Hardware(compile=True),
}
CASES: dict[str, tuple[Shape, int, int]] = {
    "paper 128×128 K=10": (PAPER, 128, 10),
    "notebook 80×80 K=3": (NOTEBOOK, 80, 3),
    "small 80×80 K=3": (SMALL, 80, 3),
}


def rate(shape: Shape, size: int, keypoints: int, hardware: Hardware, seconds: float) -> dict[str, float]:
    """Steps per second after warming up, seconds until the first steps were done, and peak memory."""
    config = TrainConfig(model=ModelConfig(keypoints=keypoints, size=size, shape=shape), steps=10**9)
    torch.cuda.reset_peak_memory_stats()
    begun = time.perf_counter()
    learner = Learner(config, hardware)
    pairs = np.random.default_rng(0).integers(0, 256, (512, 2, size, size, 3), dtype=np.uint8)
    pixels = ResidentPairs(pairs, learner.device)
    steps = updates(learner, Sampler(np.arange(512), config.batch, 0), pixels, 0, config.steps)
    for _ in range(10):
        next(steps)
    torch.cuda.synchronize()
    ready = time.perf_counter()
    done = 0
    while time.perf_counter() - ready < seconds:
        for _ in range(20):
            next(steps)
        torch.cuda.synchronize()
        done += 20
    spent = time.perf_counter() - ready
    memory = torch.cuda.max_memory_allocated() / 2**30
    return {
        "steps_per_second": round(done / spent, 1),
        "start_seconds": round(ready - begun, 1),
        "peak_gib": round(memory, 2),
    }


def main(out: Path, seconds: float = 4.0, cases: str = "", ways: str = "") -> None:
    """Measure every case in every way (or those named, by the start of their names, separated by commas)."""
    details: dict[str, Any] = {}
    for case, parts in CASES.items():
        for way, hardware in WAYS.items():
            if case.startswith(tuple(cases.split(","))) and (not ways or way in ways.split(",")):
                found = rate(*parts, hardware, seconds)
                details[f"{case}, {way}"] = found
                print(f"{case:26} {way:20} {found}", flush=True)
    Result(
        name="training speed on one GPU",
        figures={f"{name}: {k}": v for name, found in details.items() for k, v in found.items()},
        config={"batch": 64, "seconds": seconds},
        seeds={},
    ).write(out)


if __name__ == "__main__":
    tyro.cli(main)

"""Are moving shapes followed, for every seed, within minutes on one core? And where does it stop working?

    python benchmarks/sprites.py --out results/sprites           # three different shapes, five seeds
    python benchmarks/sprites.py --out results/sprites --hard    # flicker, look-alikes, a score, cameras that move

One JSON file per world and seed (those that are there are not made again), and one with the worst and the mean.
"""

import dataclasses
import json
import time
from pathlib import Path
from statistics import mean
from typing import Any

import tyro

from transporter.cli import leave
from transporter.data.collect import collect
from transporter.data.manifest import quick_settings
from transporter.envs import make, scene
from transporter.models.zoo import from_run
from transporter.results import Result
from transporter.runs import Run
from transporter.tracking.evaluate import evaluate
from transporter.training.config import PAIRS, preset
from transporter.training.learner import Hardware
from transporter.training.loop import train

EVALUATION_SEED = 1_000_000
STEADIED = "-steadied"  # behind a world's name: pairs as of a camera that stands still
HARD = ("sprites_moving", "sprites_flicker", "sprites_alike", "sprites_score")
HARD += ("sprites_panning", "sprites_panning" + STEADIED)
HARD_SEEDS = 3


def measure(name: str, seed: int, work: Path) -> Result:
    """Collect, train and evaluate with one seed; frames are evaluated as they are in any case."""
    environment = name.removesuffix(STEADIED)
    config = preset("tiny", keypoints=scene(environment).keypoints, seed=seed)
    settings = quick_settings(environment, config.model.size, PAIRS["tiny"], seed, environment != name)
    begun = time.perf_counter()
    pairs = collect(settings, work / f"data-{seed}")
    collected = time.perf_counter()
    run = Run.create(work / f"run-{seed}", {"environment": environment, "config": config.to_json()})
    train(config, pairs, run, Hardware(device="cpu"))
    trained = time.perf_counter()
    detector = from_run(run)
    found = evaluate(make(environment, config.model.size), detector, frames=4_000, seed=EVALUATION_SEED)
    rows = [row for row in run.metrics() if "alive" in row]
    measured = next(row for row in rows if row["step"] == detector.card["step"])
    figures = {**found.figures, "collect_seconds": collected - begun, "train_seconds": trained - collected}
    figures |= {name: measured[name] for name in ("validation_loss", "alive", "duplicates")}
    return Result(
        name=f"{name}, seed {seed}",
        figures={**{name: round(value, 4) for name, value in figures.items()}, "measured_step": measured["step"]},
        config={"train": config.to_json(), "collect": dataclasses.asdict(settings)},
        seeds={"collect": seed, "train": seed, "evaluate": EVALUATION_SEED},
        device="cpu",
        details={"objects": [row._asdict() for row in found.objects], "metrics": rows},
    )


def measure_all(name: str, seeds: int, out: Path, work: Path) -> list[dict[str, float]]:
    """The figures of each seed, measured now or before."""
    figures = []
    for seed in range(seeds):
        path = out / f"{name}-seed{seed}.json"
        if not path.exists():
            measure(name, seed, work / name).write(path)
        f: dict[str, Any] = json.loads(path.read_text())["figures"]
        print(
            f"{name}, seed {seed}: share of the possible {f['precision_ratio@1']:.3f} / "
            f"{f['precision_ratio@20']:.3f} / {f['precision_ratio@200']:.3f} at lengths 1 / 20 / 200, "
            f"trained in {f['train_seconds']:.0f} s",
            flush=True,
        )
        figures.append(f)
    return figures


def together(figures: list[dict[str, float]]) -> dict[str, float]:
    """The worst and the mean of each figure."""
    flat = {f"worst {name}": min(f[name] for f in figures) for name in figures[0] if "@" in name}
    flat |= {f"mean {name}": round(mean(f[name] for f in figures), 4) for name in figures[0]}
    return flat | {"longest train_seconds": max(f["train_seconds"] for f in figures)}


def main(
    out: Path,
    seeds: int | None = None,
    environment: str = "sprites",
    hard: bool = False,
    work: Path = Path("runs/benchmark-sprites"),
) -> None:
    """Measure each seed, then write the worst and the mean.

    Args:
        out: Folder for the results.
        seeds: How many; by default 5, or 3 of each hard world.
        environment: The world to measure.
        hard: Measure the hard worlds instead.
        work: Folder for data sets and runs.
    """
    seeds = seeds or (HARD_SEEDS if hard else 5)
    every = {"train": list(range(seeds)), "evaluate": EVALUATION_SEED}
    if not hard:
        flat = together(measure_all(environment, seeds, out, work))
        name, path = f"{environment}, {seeds} seeds", out / f"{environment}-summary.json"
    else:
        flat = {}
        for world in HARD:
            flat |= {f"{world} {figure}": v for figure, v in together(measure_all(world, seeds, out, work)).items()}
        name, path = f"hard sprite worlds, {seeds} seeds", out / "hard.json"
    Result(name, flat, {}, every, device="cpu").write(path)


if __name__ == "__main__":
    leave(lambda: tyro.cli(main))

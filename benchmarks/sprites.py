"""Are three different shapes followed, for every seed, within three minutes on two cores?

    python benchmarks/sprites.py --out results/sprites

One JSON file per seed, and summary.json with the worst and the mean of each figure.
"""

import dataclasses
import time
from pathlib import Path
from statistics import mean

import tyro

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


def measure(environment: str, seed: int, work: Path) -> Result:
    """Collect, train and evaluate with one seed."""
    config = preset("tiny", keypoints=scene(environment).keypoints, seed=seed)
    settings = quick_settings(environment, config.model.size, PAIRS["tiny"], seed)
    begun = time.perf_counter()
    pairs = collect(settings, work / f"data-{seed}")
    collected = time.perf_counter()
    run = Run.create(work / f"run-{seed}", {"environment": environment, "config": config.to_json()})
    train(config, pairs, run, Hardware(device="cpu"))
    trained = time.perf_counter()
    found = evaluate(make(environment, config.model.size), from_run(run), frames=4_000, seed=EVALUATION_SEED)
    figures = {**found.figures, "collect_seconds": collected - begun, "train_seconds": trained - collected}
    return Result(
        name=f"{environment}, seed {seed}",
        figures={name: round(value, 4) for name, value in figures.items()},
        config={"train": config.to_json(), "collect": dataclasses.asdict(settings)},
        seeds={"collect": seed, "train": seed, "evaluate": EVALUATION_SEED},
        device="cpu",
        details={
            "objects": [row._asdict() for row in found.objects],
            "metrics": [row for row in run.metrics() if "alive" in row],
        },
    )


def main(out: Path, seeds: int = 5, environment: str = "sprites", work: Path = Path("runs/benchmark-sprites")) -> None:
    """Measure each seed, then write the worst and the mean."""
    results = []
    for seed in range(seeds):
        result = measure(environment, seed, work / environment)
        result.write(out / f"{environment}-seed{seed}.json")
        results.append(result.figures)
        f = result.figures
        print(
            f"{result.name}: precision {f['precision@1']:.3f} / {f['precision@20']:.3f} / {f['precision@100']:.3f}, "
            f"recall {f['recall@1']:.3f} / {f['recall@20']:.3f} / {f['recall@100']:.3f} at lengths 1 / 20 / 100, "
            f"trained in {f['train_seconds']:.0f} s",
            flush=True,
        )
    flat = {f"worst {name}": min(f[name] for f in results) for name in results[0] if "@" in name}
    flat |= {f"mean {name}": round(mean(f[name] for f in results), 4) for name in results[0]}
    flat |= {"longest train_seconds": max(f["train_seconds"] for f in results)}
    every = {"train": list(range(seeds)), "evaluate": EVALUATION_SEED}
    Result(f"{environment}, {seeds} seeds", flat, {}, every, device="cpu").write(out / f"{environment}-summary.json")


if __name__ == "__main__":
    tyro.cli(main)

"""Are three different shapes followed, for every seed, within three minutes on two cores?

    python benchmarks/sprites.py --out results/sprites

One JSON file per seed, and summary.json with the worst and the mean of each figure.
"""

import dataclasses
import datetime
import json
import platform
import subprocess
import time
from pathlib import Path
from statistics import mean
from typing import Any

import torch
import tyro

from transporter.data.collect import collect
from transporter.data.manifest import CollectSettings
from transporter.envs import make, scene
from transporter.files import write_text
from transporter.models.zoo import from_run
from transporter.runs import Run
from transporter.tracking.evaluate import evaluate
from transporter.training.config import PAIRS, preset
from transporter.training.learner import Hardware
from transporter.training.loop import train

EVALUATION_SEED = 1_000_000


def measure(environment: str, seed: int, work: Path) -> dict[str, Any]:
    """Collect, train and evaluate with one seed."""
    config = preset("tiny", keypoints=scene(environment).keypoints, seed=seed)
    settings = CollectSettings(
        environment=environment, size=config.model.size, pairs=PAIRS["tiny"], budget=200 * PAIRS["tiny"], envs=16,
        seed=seed,
    )  # fmt: skip
    begun = time.perf_counter()
    pairs = collect(settings, work / f"data-{seed}")
    collected = time.perf_counter()
    run = Run.create(work / f"run-{seed}", {"environment": environment, "config": config.to_json()})
    train(config, pairs, run, Hardware(device="cpu"))
    trained = time.perf_counter()
    found = evaluate(make(environment, config.model.size), from_run(run), frames=4_000, seed=EVALUATION_SEED)
    figures = {**found.figures, "collect_seconds": collected - begun, "train_seconds": trained - collected}
    return {
        "name": f"{environment}, seed {seed}",
        "command": "python benchmarks/sprites.py --out results/sprites",
        "figures": {name: round(value, 4) for name, value in figures.items()},
        "config": {"train": config.to_json(), "collect": dataclasses.asdict(settings)},
        "seeds": {"collect": seed, "train": seed, "evaluate": EVALUATION_SEED},
        **provenance(),
        "objects": [row._asdict() for row in found.objects],
        "metrics": [row for row in run.metrics() if "alive" in row],
    }


def provenance() -> dict[str, str]:
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return {
        "commit": head.stdout.strip(),
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
        "torch": torch.__version__,
        "date": datetime.date.today().isoformat(),
    }


def main(out: Path, seeds: int = 5, environment: str = "sprites", work: Path = Path("runs/benchmark-sprites")) -> None:
    """Measure each seed, then write the worst and the mean."""
    results = []
    for seed in range(seeds):
        result = measure(environment, seed, work / environment)
        write_text(out / f"{environment}-seed{seed}.json", json.dumps(result, indent=1) + "\n")
        results.append(result)
        f = result["figures"]
        print(
            f"{result['name']}: precision {f['precision@1']:.3f} / {f['precision@20']:.3f} / {f['precision@100']:.3f}, "
            f"recall {f['recall@1']:.3f} / {f['recall@20']:.3f} / {f['recall@100']:.3f} at lengths 1 / 20 / 100, "
            f"trained in {f['train_seconds']:.0f} s",
            flush=True,
        )
    names = results[0]["figures"]
    flat = {f"worst {n}": min(r["figures"][n] for r in results) for n in names if "@" in n}
    flat |= {f"mean {n}": round(mean(r["figures"][n] for r in results), 4) for n in names}
    summary = {**results[0], "name": f"{environment}, {seeds} seeds", "figures": flat}
    summary |= {"seeds": {"train": list(range(seeds)), "evaluate": EVALUATION_SEED}}
    for detail in ("objects", "metrics"):
        summary.pop(detail)
    write_text(out / f"{environment}-summary.json", json.dumps(summary, indent=1) + "\n")


if __name__ == "__main__":
    tyro.cli(main)

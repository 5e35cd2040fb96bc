"""One question, several recipes, several seeds, side by side: train each, measure each against the truth.

    transporter collect pong --size 80 --out data/pong
    python benchmarks/recipes.py pong:default:0,1 pong:plain:0,1 --data data --out results/recipes

Recipes are those of transporter.training.recipes. Each run writes its JSON and its weights as soon as it is done, so
that nothing is lost at a time limit; run again to go on with what is not through.
"""

import json
import shutil
import time
from pathlib import Path
from typing import NamedTuple

import tyro

from transporter.cli import leave
from transporter.data.pairs import PairSet
from transporter.tracking.experiment import Experiment, Job, plan, train_job, trained
from transporter.tracking.measure import is_measured, measure_here, write_result
from transporter.training.config import Preset
from transporter.training.learner import Hardware
from transporter.workers import side_by_side


class Task(NamedTuple):
    """Train and measure some seeds of a recipe, in a process of their own."""

    job: Job
    frames: int
    out: Path


def do(task: Task) -> None:
    train_job(task.job)
    for experiment in task.job.group:
        found = trained(experiment.name, task.job.work)
        result = task.out / f"{experiment.name}.json"
        if found is not None and not is_measured(found, task.frames, result):
            write_result(found, measure_here(found, task.frames), result)
            shutil.copy(found.weights, task.out / f"{experiment.name}.safetensors")


def table(out: Path) -> None:
    """What is in a folder of results, a line each."""
    print(f"{'recipe':42} {'P@1':>6} {'P@20':>6} {'P@200':>6} {'share@200':>9} alive dup   steps  s     objects")
    for path in sorted(out.glob("*-seed*.json")):
        result = json.loads(path.read_text())
        f = result["figures"]
        seen = result["evaluation"]["objects"] if "evaluation" in result else result["objects"]
        objects = " ".join(f"{o['name']}={o['recall']:.2f}" for o in seen if o["windows"])
        print(
            f"{result['name']:42} {f['precision@1']:6.3f} {f['precision@20']:6.3f} {f['precision@200']:6.3f} "
            f"{f['precision_ratio@200']:9.3f} {f['alive']:5} {f['duplicates']:3} {f['steps']:7} {f['seconds']:5.0f} "
            f"{objects}"
        )


def main(
    jobs: tyro.conf.Positional[list[str]],
    /,
    data: Path,
    out: Path,
    preset: Preset = "fast",
    steps: int = 8_000,
    anneal: float = 0.3,
    keypoints: int = 0,
    frames: int = 3_000,
    minutes: float = 9.0,
    workers: int = 12,
    threads: int = 1,
    together: int = 1,
    compile: bool = False,
    graph: bool = True,
) -> None:
    """Run jobs such as pong:default:0,1,2 (environment, recipe, seeds), in the order given, until the time is up.

    Args:
        jobs: ENVIRONMENT:RECIPE:SEED,SEED,… each; numbers may follow a recipe (wide+carried=0.5).
        data: Folder with one data set per environment, named after it (from `transporter collect`).
        out: Folder for the results.
        preset: What the recipes change.
        steps: Updates in each run.
        anneal: Share of the steps over which the heatmaps shrink.
        keypoints: K; 0: what the environment knows.
        frames: Of held-out play, to measure on.
        minutes: For everything; runs that are not through by then are measured as they are.
        workers: Runs side by side.
        threads: For each run.
        together: Runs on one environment in one process: on a GPU they fill each other's gaps.
        compile: torch.compile the networks.
        graph: On a GPU, replay each step as one CUDA graph.
    """
    out.mkdir(parents=True, exist_ok=True)
    deadline = time.time() + minutes * 60
    hardware = Hardware(compile=compile, graph=graph)
    planned: dict[str, list[Experiment]] = {}
    for text in jobs:
        environment, recipe, listed = text.split(":")
        size = PairSet.open(data / environment).settings.size
        shared = {"steps": steps, "size": size, "base": preset, "keypoints": keypoints or None, "anneal": anneal}
        of = [plan(environment, recipe, int(seed), **shared) for seed in listed.split(",")]
        planned.setdefault(environment, []).extend(of)
    tasks = []
    for environment, experiments in planned.items():
        for i in range(0, len(experiments), together):
            group = tuple(experiments[i : i + together])
            tasks.append(Task(Job(group, data / environment, out / "runs", hardware, deadline), frames, out))
    for ended in side_by_side(do, tasks, workers, threads=threads):
        if ended.error is not None:
            print(f"{ended.job.job} failed: {ended.error}", flush=True)
    table(out)


if __name__ == "__main__":
    leave(lambda: tyro.cli(main))

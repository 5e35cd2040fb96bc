"""One question, several recipes, several seeds, side by side: train each, measure each against the truth.

    transporter collect pong --size 80 --out data/pong
    python benchmarks/recipes.py pong:default:0,1 pong:plain:0,1 --data data --out results/recipes

Each run writes its JSON and its weights as soon as it is done, so that nothing is lost at a time limit.
"""

import dataclasses
import json
import multiprocessing
import time
from pathlib import Path
from typing import Any

import tyro

# What each recipe changes in the preset; the preset itself is "default".
RECIPES: dict[str, dict[str, Any]] = {
    "default": {},
    "plain": {"standardise": False, "sigma_start": None, "sigma_steps": 0, "transport": "one_by_one"},
    "annealed": {"standardise": False},
    "not_annealed": {"sigma_start": None, "sigma_steps": 0},
    "one_by_one": {"transport": "one_by_one"},
    "instance": {"norm": "instance"},
    "large_decoder": {"refine": (128, 64)},
    "jakab": {"kind": "jakab"},
    "jakab_plain": {"kind": "jakab", "standardise": False, "sigma_start": None, "sigma_steps": 0},
    "zhang": {"kind": "zhang", "standardise": False},
    "pixel": {"kind": "pixel"},
    "twice": {"keypoints_factor": 2},
    "thrice": {"keypoints_factor": 3},
}


def run_one(job: dict[str, Any]) -> None:
    """Train and measure one recipe with one seed, in a process of its own."""
    import torch

    torch.set_num_threads(job["threads"])
    from transporter.data.pairs import PairSet
    from transporter.envs import make, scene
    from transporter.models.zoo import from_run
    from transporter.results import Result
    from transporter.runs import Run
    from transporter.tracking.evaluate import evaluate
    from transporter.training.config import PRESETS, preset
    from transporter.training.learner import Hardware
    from transporter.training.loop import train

    changes = dict(RECIPES[job["recipe"]])
    pairs = PairSet.open(job["data"])
    base = PRESETS[job["preset"]]
    shape = {field: changes.pop(field) for field in ("norm", "refine") if field in changes}
    changes["shape"] = dataclasses.replace(base.model.shape, **shape)
    keypoints = (job["keypoints"] or scene(job["environment"]).keypoints) * changes.pop("keypoints_factor", 1)
    shared = {"keypoints": keypoints, "size": pairs.settings.size}
    shared |= {"seed": job["seed"], "steps": job["steps"], "sigma_steps": int(job["steps"] * job["anneal"])}
    config = preset(job["preset"], **{**shared, **changes})
    config = dataclasses.replace(config, validate_every=max(1, config.steps // 20), checkpoint_every=config.steps)
    out = Path(job["out"])
    name = f"{job['environment']}-{job['recipe']}-seed{job['seed']}"
    run = Run.create(out / "runs" / name, {"environment": job["environment"], "config": config.to_json()})
    started = time.time()

    hardware = Hardware(compile=job["compile"], graph=job["graph"])
    train(config, pairs, run, hardware, stopping=lambda: time.time() > job["deadline"])
    trained = time.time() - started
    env = make(job["environment"], pairs.settings.size)
    detector = from_run(run)
    found = evaluate(env, detector, frames=job["frames"], seed=1_000_000)
    rows = run.metrics()
    last = [row for row in rows if "alive" in row][-1]
    figures = {"alive": last["alive"], "duplicates": last["duplicates"], "validation_loss": last["validation_loss"]}
    Result(
        name=name,
        figures={**found.figures, **figures, "steps": detector.card["step"], "seconds": trained},
        config={"train": config.to_json(), "collect": dataclasses.asdict(pairs.settings)},
        seeds={"train": job["seed"], "collect": pairs.settings.seed, "evaluate": 1_000_000},
        details={
            "objects": [row._asdict() for row in found.objects],
            "metrics": [row for row in rows if "alive" in row],
        },
    ).write(out / f"{name}.json")
    detector.save(out / f"{name}.safetensors")


def table(out: Path) -> None:
    """What is in a folder of results, a line each."""
    print(f"{'recipe':42} {'P@1':>6} {'P@20':>6} {'P@200':>6} {'share@200':>9} alive dup   steps  s     objects")
    for path in sorted(out.glob("*.json")):
        result = json.loads(path.read_text())
        f = result["figures"]
        objects = " ".join(f"{o['name']}={o['recall']:.2f}" for o in result["objects"] if o["windows"])
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
    preset: str = "fast",
    steps: int = 8_000,
    anneal: float = 0.3,
    keypoints: int = 0,
    frames: int = 3_000,
    minutes: float = 9.0,
    workers: int = 12,
    threads: int = 1,
    compile: bool = False,
    graph: bool = True,
) -> None:
    """Run jobs such as pong:default:0,1,2 (environment, recipe, seeds), in the order given, until the time is up.

    Args:
        jobs: ENVIRONMENT:RECIPE:SEED,SEED,… each.
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
        compile: torch.compile the networks.
        graph: On a GPU, replay each step as one CUDA graph.
    """
    out.mkdir(parents=True, exist_ok=True)
    shared = {"preset": preset, "steps": steps, "anneal": anneal, "keypoints": keypoints, "frames": frames}
    shared |= {"compile": compile, "graph": graph, "threads": threads, "out": str(out)}
    shared |= {"deadline": time.time() + minutes * 60}
    waiting = []
    for job in jobs:
        environment, recipe, seeds = job.split(":")
        one = {"environment": environment, "recipe": recipe, "data": str(data / environment)}
        waiting += [{**shared, **one, "seed": int(seed)} for seed in seeds.split(",")]
    running: list[Any] = []
    context = multiprocessing.get_context("spawn")
    while (waiting and time.time() < shared["deadline"]) or running:
        for process in [process for process in running if not process.is_alive()]:
            running.remove(process)
            if process.exitcode:
                print(f"{process.name} failed with {process.exitcode}", flush=True)
        while waiting and len(running) < workers:
            job = waiting.pop(0)
            name = f"{job['environment']}:{job['recipe']}:{job['seed']}"
            process = context.Process(target=run_one, args=(job,), name=name)
            process.start()
            running.append(process)
        time.sleep(0.5)
    table(out)


if __name__ == "__main__":
    tyro.cli(main)

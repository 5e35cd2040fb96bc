"""One experiment: an environment, a recipe and a seed; its run folder, its weights, and what its training came to.

WORK/NAME/            a run folder as any other, and for whoever measures it, here or elsewhere:
  detector.safetensors  the weights with the best validation loss, with a card
  trained.json          how it was trained, and how well it rebuilds frames and keeps its keypoints alive: no labels
  samples.safetensors   some held-out pairs and what the model makes of them
"""

import dataclasses
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from transporter import workers
from transporter.data.pairs import PairSet
from transporter.envs import scene
from transporter.errors import InputError
from transporter.files import replacing
from transporter.models.factory import build
from transporter.models.pixels import difference
from transporter.models.zoo import from_run
from transporter.results import Result
from transporter.runs import Run
from transporter.tensors import save_file
from transporter.training.config import Preset, TrainConfig, of_today
from transporter.training.health import health
from transporter.training.learner import Hardware
from transporter.training.loop import rebuilt
from transporter.training.many import train_many
from transporter.training.recipes import configure, named
from transporter.training.recipes import recipe as find

SAMPLES = 4  # pairs that are kept to look at
VALIDATIONS, CHECKPOINTS = 20, 5  # in each training


@dataclass(frozen=True)
class Experiment:
    """What decides it; the data set comes from outside."""

    environment: str
    recipe: str
    config: TrainConfig
    base: Preset = "fast"  # what the recipe changes

    @property
    def seed(self) -> int:
        return self.config.seed

    @property
    def name(self) -> str:
        return f"{self.environment}-{self.recipe}-seed{self.seed}"


def plan(
    environment: str,
    recipe: str,
    seed: int,
    *,
    steps: int,
    size: int,
    base: Preset = "fast",
    keypoints: int | None = None,
    anneal: float | None = None,
) -> Experiment:
    """An experiment with as many keypoints as the environment asks for, unless told otherwise.

    `anneal` is the share of steps over which heatmaps shrink. What a recipe says itself goes before all of this.
    """
    known = scene(environment)
    way = named(recipe, known.recipe, base, size)
    found = find(way)
    usual: dict[str, Any] = {"keypoints": keypoints or known.keypoints * found.keypoints}
    usual |= {"validate_every": max(1, steps // VALIDATIONS), "checkpoint_every": max(1, steps // CHECKPOINTS)}
    if anneal is not None and configure(way, base).sigma_steps:
        usual["sigma_steps"] = int(steps * anneal)
    given = {name: value for name, value in usual.items() if name not in found.changes}
    return Experiment(environment, recipe, configure(way, base, size=size, steps=steps, seed=seed, **given), base)


class Trained(NamedTuple):
    """An experiment that can be measured: what trained.json says, and where the weights are."""

    record: dict[str, Any]
    weights: Path

    @property
    def name(self) -> str:
        return self.record["name"]

    @property
    def environment(self) -> str:
        return self.record["environment"]

    @property
    def steps(self) -> int:
        return self.record["figures"]["steps"]


def trained(name: str, work: Path) -> Trained | None:
    """What a training left to measure, whether it came to its end or was cut short."""
    path = work / name / "trained.json"
    weights = path.with_name("detector.safetensors")
    if not path.exists() or not weights.exists():
        return None
    try:
        return Trained(json.loads(path.read_text(encoding="utf-8")), weights)
    except ValueError:
        raise InputError(f"{path} is damaged: delete it and train again") from None


def is_finished(experiment: Experiment, work: Path) -> bool:
    """Whether it is trained to its end; a training with other settings in its place is refused."""
    found = trained(experiment.name, work)
    if found is None:
        return False
    if TrainConfig.from_json(found.record["config"]["train"]) != experiment.config:
        raise InputError(f"{work / experiment.name} holds a run with other settings: name another folder for the runs")
    return found.steps >= experiment.config.steps


def steps_done(experiment: Experiment, work: Path) -> int:
    """As far as metrics.jsonl tells, also while another process trains."""
    path = work / experiment.name / "run.json"
    rows = Run.open(path.parent).metrics() if path.exists() else []
    return rows[-1]["step"] if rows else 0


class Job(NamedTuple):
    """Experiments for one process."""

    group: tuple[Experiment, ...]
    data: Path
    work: Path
    hardware: Hardware
    deadline: float = float("inf")  # as time.time() tells it; what is not through by then can go on later

    def __str__(self) -> str:
        recipes = dict.fromkeys(experiment.recipe for experiment in self.group)
        seeds = {r: ",".join(str(e.seed) for e in self.group if e.recipe == r) for r in recipes}
        return " ".join(f"{self.group[0].environment}:{recipe}:{of}" for recipe, of in seeds.items())


def train_job(job: Job, train_all: Callable[..., object] = train_many) -> None:
    """Train what is not trained yet, as far as time allows, and leave each ready to be measured."""

    def stopping() -> bool:
        return workers.stopping() or time.time() > job.deadline

    left = [experiment for experiment in job.group if not is_finished(experiment, job.work)]
    if not left or stopping():
        return
    pairs = PairSet.open(job.data)
    with ExitStack() as stack:
        runs = []
        for experiment in left:
            runs.append(Run.create(job.work / experiment.name, settings(experiment, pairs, job), of_today))
            stack.enter_context(runs[-1].lock())
        try:
            train_all([experiment.config for experiment in left], pairs, runs, job.hardware, stopping=stopping)
        finally:  # whatever became of one of them, the others have come to their ends
            for experiment, run in zip(left, runs, strict=True):
                if run.latest() is not None:
                    write_record(experiment, run, pairs, job.hardware)


def settings(experiment: Experiment, pairs: PairSet, job: Job) -> dict[str, Any]:
    """As `transporter train` writes them, so that all commands can read the run."""
    return {
        "environment": experiment.environment,
        "data": os.path.relpath(job.data.resolve(), (job.work / experiment.name).resolve()),
        "collected": dataclasses.asdict(pairs.settings),
        "config": experiment.config.to_json(),
    }


def write_record(experiment: Experiment, run: Run, pairs: PairSet, hardware: Hardware) -> None:
    """detector.safetensors, samples.safetensors and trained.json; the last of them says that all are there."""
    rows = run.metrics()
    latest = run.latest()
    assert latest is not None
    detector = from_run(run, "cpu")
    detector.card = {
        "environment": experiment.environment,
        "recipe": experiment.recipe,
        "seed": experiment.seed,
        "step": detector.card["step"],
        "pairs": len(pairs),
    }
    detector.save(run.path / "detector.safetensors")
    rebuilt = rebuild(experiment.config, run, pairs, hardware.resolve())
    with replacing(run.path / "samples.safetensors") as path:
        save_file(rebuilt.samples, path)
    seconds = training_seconds(rows)
    Result(
        name=experiment.name,
        figures={
            "steps": latest.step,
            "measured_step": detector.card["step"],
            "seconds": round(seconds, 1),
            "steps_per_second": round(latest.step / seconds, 2) if seconds else 0.0,
            **rebuilt.figures,
        },
        config={"train": experiment.config.to_json(), "collect": dataclasses.asdict(pairs.settings)},
        seeds={"train": experiment.seed, "collect": pairs.settings.seed},
        device=hardware.resolve().type,
        details={
            "environment": experiment.environment,
            "recipe": experiment.recipe,
            "preset": experiment.base,
            "metrics": [row for row in rows if "alive" in row],
        },
    ).write(run.path / "trained.json")


def training_seconds(rows: Sequence[dict[str, Any]]) -> float:
    """What the steps took by the rates that were logged, so that a pause between two runs does not count."""
    logged = [row for row in rows if row.get("steps_per_second")]
    before = [0, *(row["step"] for row in logged)]
    return sum((row["step"] - last) / row["steps_per_second"] for row, last in zip(logged, before, strict=False))


class Rebuilt(NamedTuple):
    """How a model does on held-out pairs."""

    figures: dict[str, float]
    samples: dict[str, Tensor]  # source, target, prediction (uint8) and points of some pairs


@torch.no_grad()
def rebuild(config: TrainConfig, run: Run, pairs: PairSet, device: torch.device) -> Rebuilt:
    """Loss, health and reconstruction error of the weights that will be measured."""
    model = build(config.model).eval().to(device)
    model.load_state_dict(run.best().part("model."))
    rows = (pairs.validation_rows if len(pairs.validation_rows) else pairs.train_rows)[: config.validation_pairs]
    losses, errors, copies = [], [], []
    parts: list[tuple[Tensor, ...]] = []
    for source, target in _batches(pairs, rows, device):
        output = rebuilt(model, config, source, target)
        errors.append(model.pixels.error(output.prediction, target))
        copies.append(difference(source, target))
        losses.append(output.loss.float() * len(source))
        shown = model.pixels.decode(output.prediction)
        parts.append((source, target, output.source_points.float(), output.target_points.float(), shown))
    source, target, source_points, target_points, shown = (torch.cat(column) for column in zip(*parts, strict=True))
    judged = health(source, target, source_points, target_points).row()
    some = torch.from_numpy(np.linspace(0, len(rows) - 1, min(SAMPLES, len(rows))).astype(int))
    kept = {"source": source, "target": target, "prediction": shown, "points": target_points}
    return Rebuilt(
        figures={
            "validation_loss": float(torch.stack(losses).sum() / len(rows)),
            "alive": int(judged["alive"]),  # type: ignore[arg-type]
            "duplicates": int(judged["duplicates"]),  # type: ignore[arg-type]
            "reconstruction_error": float(torch.cat(errors).mean()),
            "error_of_copying": float(torch.cat(copies).mean()),  # of taking the source for the target
        },
        samples={name: tensor.cpu()[some].contiguous() for name, tensor in kept.items()},
    )


def _batches(
    pairs: PairSet, rows: np.ndarray, device: torch.device, batch: int = 64
) -> Iterator[tuple[Tensor, Tensor]]:
    for part in np.array_split(rows, -(-len(rows) // batch)):
        frames = torch.from_numpy(pairs.read(part)).to(device)
        yield frames[:, 0], frames[:, 1]

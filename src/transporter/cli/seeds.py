"""transporter train --seeds: several seeds side by side, and the one to take."""

import dataclasses
import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from transporter.errors import InputError
from transporter.files import write_text

if TYPE_CHECKING:
    from transporter.data.pairs import PairSet
    from transporter.runs import Json, Run
    from transporter.training.config import TrainConfig
    from transporter.training.learner import Hardware


def one_per_seed(config: "TrainConfig", seeds: int) -> "list[TrainConfig]":
    return [dataclasses.replace(config, seed=config.seed + i) for i in range(seeds)]


def train_seeds_with_bar(
    path: Path, configs: "list[TrainConfig]", data: "PairSet", runs: "list[Run]", hardware: "Hardware"
) -> None:
    """Train all of them, or until someone asks to stop; then say which one looks best, and why."""
    from transporter.cli.claimed import leave_a_core
    from transporter.cli.console import bar, bold, say, warn
    from transporter.cli.stop import stop_when_asked
    from transporter.cli.train import note
    from transporter.training.many import train_many

    if hardware.resolve().type == "cpu":
        leave_a_core()
    latest: list[Json] = [{"step": 0} for _ in runs]
    with ExitStack() as stack:
        stop = stack.enter_context(stop_when_asked())
        total = sum(config.steps for config in configs)
        shown = stack.enter_context(bar(f"train {len(runs)} seeds", total, "steps"))

        def observe(which: int, row: "Json") -> None:
            latest[which].update(row)
            shown.at(sum(one["step"] for one in latest), f"seed {configs[which].seed}: {note(latest[which])}")

        train_many(configs, data, runs, hardware, observe, stop.asked)
        shown.at(sum(run.saved_step() for run in runs))
    for run in runs:
        for warning in run.warnings:
            warn(warning)
    stop.raise_if_asked(f"stopped, state saved in {path}: run the same command again to go on")
    chosen = choose_among(path, configs, runs)
    say(f"chosen by {chosen['by']} and live keypoints: {bold(chosen['run'])}")


def choose_among(path: Path, configs: "list[TrainConfig]", runs: "list[Run]") -> "Json":
    """The run to take, without labels; written down where transporter.load() finds it."""
    from transporter.runs import CHOSEN
    from transporter.training.select import Candidate, checkpoints, judged_by, ranked

    candidates: list[Candidate] = []
    for config, run in zip(configs, runs, strict=True):
        validated = checkpoints(run.path.name, config.model.keypoints, run.metrics(), config.sigma_steps)
        candidates += sorted(validated, key=lambda c: c.validation_loss)[:1]  # the weights that are kept
    if not candidates:
        raise InputError(f"nothing in {path} was validated: there is nothing to choose by")
    best_first = ranked(candidates)
    order = [{**candidate._asdict(), "run": candidate.name} for candidate in best_first]
    chosen: Json = {"run": best_first[0].name, "by": judged_by(candidates), "candidates": order}
    write_text(path / CHOSEN, json.dumps(chosen, indent=1) + "\n")
    return chosen

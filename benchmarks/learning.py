"""How agents learn: scores and values along the way, from the run folders of `transporter keyqn`.

    python benchmarks/learning.py --out results/keyqn/learning.json runs/keyqn/keypoints runs/keyqn/objects

For each stretch of a training, the mean score of the episodes that ended in it, and what the agent took the actions in
its replay to be worth, as it learns them (rescaled where it rescales). Agents whose values rise while their scores do
not deceive themselves.
"""

from pathlib import Path

import numpy as np
import tyro

from transporter.cli import leave
from transporter.cli.given import at_least
from transporter.errors import InputError
from transporter.results import Result
from transporter.runs import Json, Run


def stretches(rows: list[Json], agent: int, length: int) -> dict[str, list[float | None]]:
    """Scores and values of one agent in stretches of so many interactions; None where no episode ended."""
    ends = range(length, max(row["step"] for row in rows) + length, length)
    inside = [[row for row in rows if end - length < row["step"] <= end] for end in ends]
    scores = [[score for row in part for who, score, _ in row["episodes"] if who == agent] for part in inside]
    values = [[row["value"][agent] for row in part] for part in inside]
    return {"scores": [_mean(part) for part in scores], "values": [_mean(part) for part in values]}


def _mean(numbers: list[float]) -> float | None:
    return round(float(np.mean(numbers)), 3) if numbers else None


def main(runs: tyro.conf.Positional[list[Path]], /, out: Path, length: int = 10_000, machine: str = "") -> None:
    """Read run folders and write one JSON file.

    Args:
        runs: Run folders, each of one experiment.
        out: Where the JSON goes.
        length: Interactions in a stretch.
        machine: Where they learnt, if not here.
    """
    at_least(1, length=length)
    if not runs or len({path.name for path in runs}) < len(runs):
        raise InputError("name run folders, each with a name of its own")
    figures: dict[str, float] = {}
    curves: dict[str, dict[str, list[float | None]]] = {}
    config, seeds = {}, {}
    for path in runs:
        run = Run.open(path)
        settings, rows = run.settings, run.metrics()
        if "keyqn" not in settings or not rows:
            raise InputError(f"{path} is not the run folder of agents that have begun to learn")
        told = settings["keyqn"]
        config[path.name], seeds[path.name] = settings["config"], told["seeds"]
        agents = [(game, seed) for game in told["games"] for seed in told["seeds"]]
        for index, (game, seed) in enumerate(agents):
            curve = curves[f"{path.name}, {game}, seed {seed}"] = stretches(rows, index, length)
            whole = curve["scores"][: rows[-1]["step"] // length]  # a stretch that has only begun says little
            if whole and whole[-1] is not None:
                figures[f"{path.name}, {game}, seed {seed}: score in the last stretch"] = whole[-1]
            line = " ".join("      –" if score is None else f"{score:7.1f}" for score in curve["scores"])
            print(f"{path.name:12} {game:12} {seed} {line}   value {curve['values'][-1]:.2f}", flush=True)
    details = {"length": length, "curves": curves, **({"learnt_on": machine} if machine else {})}
    Result("keyqn along the way", figures, config, seeds, details, device="cpu").write(out)


if __name__ == "__main__":
    leave(lambda: tyro.cli(main))

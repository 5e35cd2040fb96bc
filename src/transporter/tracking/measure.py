"""Many detectors against the truth of one environment: they all watch the same play, which is cut into shards.

A shard has a seed of its own and is played in a process of its own; what comes out does not depend on how many there
are side by side.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from transporter.envs import make, scene
from transporter.models.detector import Detector
from transporter.results import Result
from transporter.tracking.evaluate import judge, witness
from transporter.tracking.experiment import Trained
from transporter.tracking.match import Episode
from transporter.tracking.results import Evaluation
from transporter.workers import advance, side_by_side

SEED = 1_000_000  # far from those of collecting; shard i plays with SEED + i
SHARD = 5_000  # frames


class Shard(NamedTuple):
    """A stretch of play for all detectors that see frames of one size."""

    environment: str
    size: int
    weights: tuple[Path, ...]
    frames: int
    seed: int
    device: str | None

    @property
    def group(self) -> tuple[str, int]:
        return self.environment, self.size


def shards(
    weights: Mapping[Path, tuple[str, int]], frames: int, seed: int = SEED, device: str | None = None
) -> list[Shard]:
    """The play that measures these weights, each with its environment and frame size; the longest work first."""
    groups: dict[tuple[str, int], list[Path]] = defaultdict(list)
    for path, group in weights.items():
        groups[group].append(path)
    sizes = [SHARD] * (frames // SHARD) + ([frames % SHARD] if frames % SHARD else [])
    return [
        Shard(*group, tuple(paths), share, seed + i, device)
        for group, paths in groups.items()
        for i, share in enumerate(sizes)
    ]


def watch(shard: Shard) -> list[list[Episode]]:
    """The episodes of a shard as each of its detectors sees them."""
    done = 0

    def progress(frames: int) -> None:
        nonlocal done
        advance(frames - done)
        done = frames

    detectors = [Detector.from_file(path, shard.device) for path in shard.weights]
    with closing(make(shard.environment, shard.size)) as env:
        return witness(env, detectors, frames=shard.frames, seed=shard.seed, progress=progress)


class Measured(NamedTuple):
    """What came out for one file of weights; no evaluation where a shard failed."""

    weights: Path
    evaluation: Evaluation | None
    error: str | None = None


def measure(
    weights: Mapping[Path, tuple[str, int]],
    frames: int,
    *,
    seed: int = SEED,
    workers: int = 1,
    device: str | None = None,
    look: Callable[[int], bool] = lambda done: False,
) -> Iterator[Measured]:
    """Evaluations as soon as all shards of an environment are through."""
    todo = shards(weights, frames, seed, device)
    waiting = defaultdict(list)
    for shard in todo:
        waiting[shard.group].append(shard)
    played: dict[Shard, list[list[Episode]]] = {}
    for ended in side_by_side(watch, todo, workers, look=look):
        if ended.error is not None:
            for path in ended.job.weights:
                yield Measured(path, None, ended.error)
            waiting.pop(ended.job.group, None)
            continue
        assert ended.outcome is not None
        played[ended.job] = ended.outcome
        group = waiting.get(ended.job.group)
        if group and all(shard in played for shard in group):
            seen = [played.pop(shard) for shard in group]
            for i, path in enumerate(ended.job.weights):
                episodes = [episode for part in seen for episode in part[i]]
                yield Measured(path, judge(episodes, scene(ended.job.environment), seed))


def measure_here(of: Trained, frames: int, seed: int = SEED, device: str | None = None) -> Evaluation:
    """One model, in this process; the same figures as `measure` gives."""
    todo = shards(to_measure([of]), frames, seed, device)
    episodes = [episode for shard in todo for episode in watch(shard)[0]]
    return judge(episodes, scene(of.environment), seed)


def write_result(of: Trained, found: Evaluation, path: Path) -> None:
    """Training and measurement of one experiment in one file."""
    record = of.record
    Result(
        name=of.name,
        figures={**found.figures, **summary(found), **record["figures"]},
        config={**record["config"], "evaluate": {"frames": found.frames, "shard": SHARD}},
        seeds={**record["seeds"], "evaluate": found.seed},
        details={
            "environment": of.environment,
            "recipe": record["recipe"],
            "preset": record["preset"],
            "trained": {name: record[name] for name in ("command", "commit", "machine", "torch", "date")},
            "evaluation": {**found.to_json(), "step": record["figures"]["measured_step"]},
            "metrics": record["metrics"],
        },
    ).write(path)


def summary(found: Evaluation) -> dict[str, float]:
    """One number for all lengths: the lowest and the mean share of what a perfect tracker would get."""
    ratio = found.curve.ratio[np.isfinite(found.curve.ratio)]
    return {"lowest_ratio": float(ratio.min()), "mean_ratio": float(ratio.mean())} if len(ratio) else {}


def is_measured(of: Trained, frames: int, path: Path) -> bool:
    """Whether a result is of these very weights, and of as much play."""
    if not path.exists():
        return False
    try:
        result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        same = all(result["figures"][name] == of.record["figures"][name] for name in ("steps", "measured_step"))
        return (
            same
            and result["config"]["train"] == of.record["config"]["train"]
            and (result["config"]["evaluate"]["frames"] == frames)
        )
    except (ValueError, KeyError, TypeError):
        return False  # from another time: measured again


def to_measure(found: Sequence[Trained]) -> dict[Path, tuple[str, int]]:
    """Weights with their environment and the size of the frames that they see."""
    return {one.weights: (one.environment, one.record["config"]["train"]["model"]["size"]) for one in found}

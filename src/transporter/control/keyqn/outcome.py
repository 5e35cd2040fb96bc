"""What came of an experiment: told from its metrics and its scores, and kept beside them in keyqn.json."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from transporter.control.doubts import left_out
from transporter.control.keyqn.config import LATELY, TENTHS, ProtocolConfig
from transporter.control.keyqn.scores import human_normalised
from transporter.control.stored import fingerprint
from transporter.files import is_number, made_of, parse_json
from transporter.results import Result
from transporter.runs import Json, Run

if TYPE_CHECKING:
    from transporter.control.keyqn.experiment import Experiment

Scores = dict[str, list[list[float]]]  # game → seed → episodes


def result_file(path: Path) -> Path:
    return path / "keyqn.json"


def read_result(experiment: "Experiment", run: Run) -> Json | None:
    """What was measured; None where nothing was yet, or the file is damaged: it is made again from the scores."""
    try:
        found = parse_json(result_file(run.path).read_bytes())
        whats = ("mean", "std", *(f"seed {seed}" for seed in experiment.seeds))
        shown = [found["figures"][f"{name} {what}"] for name in experiment.games for what in whats]
        return found if all(map(is_number, shown)) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_result(experiment: "Experiment", run: Run, scores: Scores, device: str, took: float | None) -> Json:
    """Into keyqn.json, and read again; `took`: seconds of the evaluation, where all of it was made at one go."""
    rows, agents = run.metrics(), len(experiment.agents)
    with made_of(run.metrics_file):
        times = {"training seconds": round(seconds(rows), 1)}
        learning = {
            "curves": curves(rows, agents),
            "stretches": stretches(rows, agents, experiment.config.protocol),
        }
    if took is not None:
        times["evaluation seconds"] = round(took, 1)
    Result(
        name=f"keyqn {experiment.kind}",
        figures={**figures(scores, experiment.seeds), **times},
        config=config_told(experiment),
        seeds={"agents": list(experiment.seeds)},
        details={"scores": scores, **learning, "detectors": seen_by(experiment)},
        device=device,
    ).write(result_file(run.path))
    found = read_result(experiment, run)
    assert found is not None
    return found


def figures(scores: Scores, seeds: Sequence[int]) -> dict[str, float]:
    """Mean over seeds of each game's mean score, spread over seeds, and human-normalised."""
    flat: dict[str, float] = {}
    for name, agents in scores.items():
        means = np.array([np.mean(episodes) for episodes in agents])
        flat[f"{name} mean"] = round(float(means.mean()), 2)
        flat[f"{name} std"] = round(float(means.std(ddof=1)) if len(means) > 1 else 0.0, 2)
        for seed, mean in zip(seeds, means, strict=True):
            flat[f"{name} seed {seed}"] = round(float(mean), 2)
        if (share := human_normalised(name, float(means.mean()))) is not None:
            flat[f"{name} human-normalised"] = round(share, 4)
    return flat


def curves(rows: Sequence[Json], agents: int) -> list[list[tuple[int, float]]]:
    """Learning curves from metrics.jsonl: for each agent (step, mean score of the games it played lately)."""
    lines: list[list[tuple[int, float]]] = [[] for _ in range(agents)]
    played: list[list[tuple[int, float]]] = [[] for _ in range(agents)]
    for row in rows:
        for agent, score, _ in row["episodes"]:
            played[int(agent)].append((row["step"], score))
        for line, games in zip(lines, played, strict=True):
            while len(games) > 1 and games[0][0] <= row["step"] - LATELY:
                games.pop(0)
            if games:
                line.append((row["step"], float(np.mean([score for _, score in games]))))
    return lines


def stretches(rows: Sequence[Json], agents: int, protocol: ProtocolConfig) -> list[list[Json]]:
    """For each agent, of the games that were over in each tenth of the training: how many, mean and best score."""
    scores: list[list[list[float]]] = [[[] for _ in range(TENTHS)] for _ in range(agents)]
    for row in rows:
        for agent, score, _ in row["episodes"]:
            scores[int(agent)][protocol.tenth(row["step"])].append(score)
    return [
        [{"games": len(own), "mean": round(float(np.mean(own)), 2), "best": max(own)} if own else {} for own in tenths]
        for tenths in scores
    ]


def config_told(experiment: "Experiment") -> Json:
    """What decided these agents, as a result tells it."""
    seen = {"observation": experiment.kind, "detectors learnt from": learnt_from(experiment)}
    return {**experiment.config.to_json(), **seen}


def learnt_from(experiment: "Experiment") -> dict[str, str]:
    """What the detectors saw before the interactions that are counted, and whether they learnt from those, too."""
    also = ", then the agent's own frames" if experiment.in_loop else ""
    told = {}
    for name, detector in experiment.detectors.items():
        learnt = detector.card.get("environment", name)
        other = "" if learnt == name else f"{learnt}: "
        told[name] = f"{other}{detector.card.get('data', 'its card does not say')}{also}"
    return told


def seen_by(experiment: "Experiment") -> dict[str, Json]:
    """Which detectors agents began with, and what those had seen: none of it is among the agents' interactions."""
    opened = experiment.in_loop  # who goes on learning wears no blinkers
    eyes = {name: detector.opened() if opened else detector for name, detector in experiment.detectors.items()}
    return {
        name: {"weights": fingerprint(eye)["weights"]}
        | {fact: eye.card[fact] for fact in ("pairs", "blinkers") if fact in eye.card}
        for name, eye in eyes.items()
    }


def doubts(experiment: "Experiment", rows: Sequence[Json]) -> list[str]:
    """What one should know before believing that these agents have learnt."""
    config = experiment.config
    if not config.all_updates:
        made, first = config.protocol.interactions, config.warm_up
        return [f"nothing was learnt: the first update comes after {first} interactions, and there were {made}"]
    bad = rows[-1].get("left_out", []) if rows else []
    return [
        f"{name}, seed {seed}: {doubt}"
        for (name, seed), count in zip(experiment.agents, bad, strict=False)
        if (doubt := left_out(config.all_updates, count))
    ]


def seconds(rows: Sequence[Json]) -> float:
    """How long the training took, pauses left out."""
    steps = [0, *(row["step"] for row in rows)]
    rates = [row["steps_per_second"] for row in rows]
    return sum((b - a) / rate for a, b, rate in zip(steps, steps[1:], rates, strict=False) if rate)

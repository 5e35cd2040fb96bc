"""A whole experiment in one run folder: learn, save as it goes, keep the agents, measure them, say what came of it."""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from transporter.control.keyqn.agent import KeyQN
from transporter.control.keyqn.config import KeyQNConfig
from transporter.control.keyqn.evaluation import evaluate
from transporter.control.keyqn.games import game
from transporter.control.keyqn.network import QNetwork
from transporter.control.keyqn.observe import Kind, Observer, observer
from transporter.control.keyqn.scores import human_normalised
from transporter.control.keyqn.training import Game, Training, prepare
from transporter.control.rollout import Arena
from transporter.envs import atari
from transporter.models.detector import Detector
from transporter.runs import Json, Run
from transporter.training.learner import Hardware

FRAME = 80  # side of the frames of agents without a detector
PROCESSES = 10  # players of an agent in evaluation where each needs a process


@dataclass(frozen=True)
class Experiment:
    """Games × seeds that learn together from one kind of observation."""

    games: tuple[str, ...]
    seeds: tuple[int, ...]
    kind: Kind
    config: KeyQNConfig
    detectors: dict[str, Detector] = field(default_factory=dict)  # by game, where the kind needs them

    @property
    def agents(self) -> list[tuple[str, int]]:
        return [(name, seed) for name in self.games for seed in self.seeds]

    @property
    def slots(self) -> int:
        """Room for the objects of every game, where they are what is observed."""
        return max(len(atari.scene(name).objects) for name in self.games) if self.kind == "objects" else 0

    def make_games(self) -> list[Game]:
        return [game(name, self.seeds, self.kind, self._size(name), self.config.protocol.sticky) for name in self.games]

    def observer(self, repeat: int = 1) -> Observer:
        """For an arena with every game, or with every game so many times in a row."""
        looks = self.kind in ("keypoints", "points", "features")
        detectors = [self.detectors[name] for name in self.games for _ in range(repeat)] if looks else []
        return observer(self.kind, detectors, self.slots)

    def _size(self, name: str) -> int:
        return self.detectors[name].config.size if name in self.detectors else FRAME


class Notices(NamedTuple):
    """Whom to tell, and whom to ask."""

    row: Callable[[Json], None] = lambda row: None  # of metrics.jsonl
    again: Callable[[int], None] = lambda step: None  # games played again after a resume, up to this step
    evaluated: Callable[[int], None] = lambda episodes: None
    stopping: Callable[[], bool] = lambda: False


QUIET = Notices()


def learn(
    experiment: Experiment,
    run: Run,
    hardware: Hardware,
    notices: Notices = QUIET,
    log_every: int = 1_000,
    checkpoint_every: int = 25_000,
) -> bool:
    """Train to the end and keep the agents; from the newest checkpoint where there is one. False: stopped early."""
    config = experiment.config
    if learnt(experiment, run):
        return True
    training = Training(config, experiment.make_games(), experiment.observer(), hardware)
    try:
        if (saved := run.latest()) is not None:
            training.restore(saved, notices.again)
        run.rewind(training.count)
        since, since_count, episodes = time.perf_counter(), training.count, []
        for step, finished in training.steps():
            episodes += [[f.player, f.score, f.length] for f in finished]
            stop = notices.stopping()
            saves = stop or (checkpoint_every and step % checkpoint_every == 0 and step < config.protocol.interactions)
            if saves or step % log_every == 0 or step == config.protocol.interactions:
                now = time.perf_counter()
                row = _row(training, step, episodes, (step - since_count) / (now - since))
                run.log(row)  # before the checkpoint: a row too many is forgotten on resume, one too few stays away
                notices.row(row)
                since, since_count, episodes = now, step, []
            if saves:
                run.save(training.checkpoint())
            if stop and step < config.protocol.interactions:
                return False
        for index, agent in enumerate(experiment.agents):
            _agent(experiment, training, index).save(agent_file(run, *agent))
    finally:
        training.close()
    return True


def _row(training: Training, step: int, episodes: list[list[float]], rate: float) -> Json:
    learner = training.learner
    return {
        "step": step,
        "episodes": episodes,  # agent, score, length
        "loss": [round(value, 5) for value in learner.loss.tolist()],
        "value": [round(value, 4) for value in learner.value.tolist()],
        "left_out": learner.bad.tolist(),
        "epsilon": round(training.config.protocol.epsilon(step), 4),
        "steps_per_second": round(rate, 1),
    }


def _agent(experiment: Experiment, training: Training, index: int) -> KeyQN:
    name, seed = experiment.agents[index]
    detector = experiment.detectors.get(name)
    return KeyQN(
        experiment.config,
        experiment.kind,
        training.learner.acting[index].clone(),
        actions=int(training.legal[index]),
        heads=training.network.actions,
        slots=getattr(training.observer, "slots", 0),
        depth=getattr(training.observer, "depth", 0),
        detector=detector,
        card={"environment": name, "seed": seed, "interactions": training.count},
        device=str(training.device),
    )


def agent_file(run: Run, name: str, seed: int) -> Path:
    return run.path / "agents" / f"{name}-seed{seed}.safetensors"


def learnt(experiment: Experiment, run: Run) -> bool:
    """Whether the training is over."""
    return all(agent_file(run, *agent).exists() for agent in experiment.agents)


def measure(
    experiment: Experiment, run: Run, hardware: Hardware, notices: Notices = QUIET
) -> dict[str, list[list[float]]]:
    """Scores of the agents' evaluation episodes: game → seed → episodes."""
    protocol, device = experiment.config.protocol, hardware.resolve()
    prepare(device)
    agents = [KeyQN.load(agent_file(run, *agent), str(device)) for agent in experiment.agents]
    weights = torch.stack([agent.weights for agent in agents])
    copies = min(protocol.episodes, PROCESSES if experiment.kind == "objects" else protocol.episodes)
    each = -(-protocol.episodes // copies)
    legal = torch.tensor([agent.actions for agent in agents], device=device)[:, None]
    seen = experiment.observer(repeat=len(experiment.seeds))
    inputs = seen.inputs(experiment.config.network)
    network = QNetwork(experiment.config.network, inputs, torch.arange(agents[0].heads, device=device) < legal)
    # Scores are those of whole games; but what was a new beginning in training is one for the memory here, too.
    games = [made.make(copies) for made in experiment.make_games() for _ in experiment.seeds]
    arena = Arena(games, life_loss_ends=protocol.life_loss_ends)
    try:
        scores = evaluate(
            network, seen, weights, arena, [seed for _, seed in experiment.agents], protocol.evaluation_epsilon, each,
            learnt_from=np.sign if experiment.config.learning.clip_rewards else lambda reward: reward,
            capture=hardware.graph and device.type == "cuda", progress=notices.evaluated,
        )  # fmt: skip
    finally:
        arena.close()
    found: dict[str, list[list[float]]] = defaultdict(list)
    for (name, _), row in zip(experiment.agents, scores, strict=True):
        found[name].append([float(score) for score in row[: protocol.episodes]])
    return dict(found)


def figures(scores: dict[str, list[list[float]]]) -> dict[str, float]:
    """Mean over seeds of each game's mean score, spread over seeds, and human-normalised."""
    flat: dict[str, float] = {}
    for name, seeds in scores.items():
        means = np.array([np.mean(episodes) for episodes in seeds])
        flat[f"{name} mean"] = round(float(means.mean()), 2)
        flat[f"{name} std"] = round(float(means.std(ddof=1)) if len(means) > 1 else 0.0, 2)
        for index, mean in enumerate(means):
            flat[f"{name} seed {index}"] = round(float(mean), 2)
        if (share := human_normalised(name, float(means.mean()))) is not None:
            flat[f"{name} human-normalised"] = round(share, 4)
    return flat


def curves(rows: Sequence[Json], agents: int, window: int = 20) -> list[list[tuple[int, float]]]:
    """Learning curves from metrics.jsonl: for each agent (step, mean score of its last episodes)."""
    lines: list[list[tuple[int, float]]] = [[] for _ in range(agents)]
    recent: list[list[float]] = [[] for _ in range(agents)]
    for row in rows:
        for agent, score, _ in row["episodes"]:
            recent[int(agent)].append(score)
        for line, scores in zip(lines, recent, strict=True):
            if scores:
                line.append((row["step"], float(np.mean(scores[-window:]))))
    return lines


def seconds(rows: Sequence[Json]) -> float:
    """How long the training took, pauses left out."""
    steps = [0, *(row["step"] for row in rows)]
    rates = [row["steps_per_second"] for row in rows]
    return sum((b - a) / rate for a, b, rate in zip(steps, steps[1:], rates, strict=False) if rate)


def settings(experiment: Experiment) -> dict[str, Any]:
    """What a run folder remembers, and refuses to change."""
    return {
        "keyqn": {"games": list(experiment.games), "seeds": list(experiment.seeds), "observation": experiment.kind},
        "config": experiment.config.to_json(),
        "detectors": {name: d.config.to_json() for name, d in experiment.detectors.items()},
    }

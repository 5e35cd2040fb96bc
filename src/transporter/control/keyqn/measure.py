"""What trained agents score: the evaluation episodes of a whole experiment, game by game.

Games differ in length by far. On a GPU each is a process of its own, as many at once as there are cores, so that none
waits for another and a game that is over costs nothing. What a game's agents scored is kept as soon as it is known:
whoever is stopped goes on with the games that are left.
"""

import dataclasses
import gc
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from transporter.control.gpu import prepare
from transporter.control.keyqn.agent import KeyQN
from transporter.control.keyqn.evaluation import evaluate
from transporter.control.keyqn.experiment import FRAME, Experiment, agent_file
from transporter.control.keyqn.games import game
from transporter.control.keyqn.network import QNetwork
from transporter.control.keyqn.observe import observer
from transporter.control.keyqn.outcome import Scores
from transporter.control.rollout import Arena
from transporter.files import parse_json, sealed, unsealed, write_text
from transporter.runs import Run
from transporter.training.learner import Hardware
from transporter.workers import advance, cores, side_by_side

PLAYERS = 25  # of an agent, at once: whoever is through with an episode begins the next


class EvaluationError(RuntimeError):
    """Some game could not be played to its end."""


class Task(NamedTuple):
    """One game's agents, as another process can be told of them: their files bring the detectors."""

    experiment: Experiment
    run: Run
    hardware: Hardware


def measure(
    experiment: Experiment,
    run: Run,
    hardware: Hardware,
    progress: Callable[[int], None] = lambda episodes: None,
    workers: int | None = None,
) -> Scores:
    """Scores of all agents' evaluation episodes; `workers` games at once, by default what `at_once` says."""
    alone = dataclasses.replace(experiment, detectors={})
    device = hardware.resolve()
    own = [dataclasses.replace(alone, games=(name,)) for name in experiment.games]
    tasks = [Task(each, run, hardware) for each in own if kept(each, run) is None]
    each = len(experiment.seeds) * experiment.config.protocol.episodes
    before = each * (len(own) - len(tasks))
    workers = min(len(tasks), workers or at_once(len(tasks), device))
    if workers <= 1:
        for number, task in enumerate(tasks):
            done = before + number * each
            play_one(task, lambda episodes, done=done: progress(done + episodes))  # type: ignore[misc]
    else:
        if device.type == "cuda":  # what the training has left there is for those who play now
            gc.collect()
            torch.cuda.empty_cache()

        def look(done: int) -> bool:
            progress(before + done)
            return False

        for ended in side_by_side(_play_elsewhere, tasks, workers, look=look):
            if ended.error:
                raise EvaluationError(f"{ended.job.experiment.games[0]} could not be evaluated: {ended.error}")
    found = {each.games[0]: kept(each, run) for each in own}
    if missing := [name for name, scores in found.items() if scores is None]:
        raise EvaluationError(
            f"what was scored in {missing[0]} is not what was written: {scores_file(run, missing[0])}"
        )
    return {name: scores for name, scores in found.items() if scores is not None}


def scores_file(run: Run, name: str) -> Path:
    """Seed by seed, what the agents of a game scored in each episode."""
    return run.path / "scores" / f"{name}.json"


def keep(experiment: Experiment, run: Run, scores: list[list[float]]) -> None:
    """What the agents of one game scored, sealed, and with what tells these agents from others."""
    file = scores_file(run, experiment.games[0])
    file.parent.mkdir(exist_ok=True)
    write_text(file, json.dumps(sealed({"agents": _agents(experiment, run), "scores": scores})))


def kept(experiment: Experiment, run: Run) -> list[list[float]] | None:
    """That again; None where there is none, it is damaged, or it is of other agents: the game is to be played."""
    try:
        record = unsealed(parse_json(scores_file(run, experiment.games[0]).read_bytes()))
        return record["scores"] if record["agents"] == _agents(experiment, run) else None
    except (OSError, ValueError, KeyError):
        return None


def _agents(experiment: Experiment, run: Run) -> list[str]:
    """A digest of each one's file."""
    return [hashlib.sha256(agent_file(run, *agent).read_bytes()).hexdigest()[:12] for agent in experiment.agents]


def at_once(games: int, device: torch.device) -> int:
    """How many to play side by side: on a GPU all, as far as there are cores for their emulators; on a CPU one."""
    return min(games, cores()) if device.type == "cuda" else 1


def play_one(task: Task, progress: Callable[[int], None] = lambda episodes: None) -> None:
    """All episodes of the agents of one game, side by side, their networks batched; into its file."""
    experiment, run, hardware = task
    config, protocol, device = experiment.config, experiment.config.protocol, hardware.resolve()
    prepare(device)
    agents = [KeyQN.load(agent_file(run, *agent), str(device)) for agent in experiment.agents]
    copies = min(protocol.episodes, PLAYERS)
    first = agents[0]
    detectors = [agent.detector for agent in agents if agent.detector is not None]
    seen = observer(experiment.kind, config.network, detectors, first.slots, first.depth)
    legal = torch.tensor([agent.actions for agent in agents], device=device)[:, None]
    legal = torch.arange(first.heads, device=device) < legal
    size = detectors[0].config.size if detectors else FRAME
    elsewhere = device.type == "cuda" or experiment.kind == "objects"  # a CPU gains nothing by film
    # Every game takes all cores: they share them, and whoever plays longest has them for itself in the end.
    processes = -(-cores() // len(agents)) if elsewhere else None
    played = game(experiment.games[0], experiment.seeds, experiment.kind, size, protocol.sticky, processes)
    # Scores are those of whole games; but what was a new beginning in training is one for the memory here, too.
    wiped = protocol.life_loss_forgets
    arena = Arena(
        [played.make(copies) for _ in agents], life_loss_ends=protocol.life_loss_ends, life_loss_forgets=wiped
    )
    try:
        scores = evaluate(
            QNetwork(config.network, seen.inputs(config.network), legal),
            seen,
            torch.stack([agent.weights for agent in agents]),
            arena,
            experiment.seeds,
            protocol.evaluation_epsilon,
            protocol.episodes,
            learnt_from=np.sign if config.learning.clip_rewards else lambda reward: reward,
            capture=hardware.graph and device.type == "cuda",
            progress=progress,
        )
    finally:
        arena.close()
    keep(experiment, run, scores.tolist())


def _play_elsewhere(task: Task) -> None:
    said = 0

    def tell(episodes: int) -> None:
        nonlocal said
        advance(episodes - said)
        said = episodes

    play_one(task, tell)

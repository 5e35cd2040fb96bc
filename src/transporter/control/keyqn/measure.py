"""What trained agents score: the evaluation episodes of a whole experiment, game by game.

Games differ in length by far. On a GPU each is a process of its own, as many at once as there are cores, so that none
waits for another and a game that is over costs nothing.
"""

import dataclasses
import gc
from collections.abc import Callable
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
from transporter.control.rollout import Arena
from transporter.runs import Run
from transporter.training.learner import Hardware
from transporter.workers import advance, cores, side_by_side

PLAYERS = 25  # of an agent, at once: whoever is through with an episode begins the next
Scores = dict[str, list[list[float]]]  # game → seed → episodes


class EvaluationError(RuntimeError):
    """Some game could not be played to its end."""


class Task(NamedTuple):
    """One game's agents, as another process can be told of them: their files bring the detectors."""

    experiment: Experiment
    run: Run
    hardware: Hardware
    cores: int  # for its emulators


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
    workers = min(len(experiment.games), workers or at_once(len(experiment.games), device))
    share = -(-cores() // workers)
    tasks = [Task(dataclasses.replace(alone, games=(name,)), run, hardware, share) for name in experiment.games]
    found: dict[str, list[list[float]]] = {}
    if workers == 1:
        for number, task in enumerate(tasks):
            before = number * len(experiment.seeds) * experiment.config.protocol.episodes
            found |= play_one(task, lambda episodes, before=before: progress(before + episodes))  # type: ignore[misc]
        return found

    def look(done: int) -> bool:
        progress(done)
        return False

    if device.type == "cuda":  # what the training has left there is for those who play now
        gc.collect()
        torch.cuda.empty_cache()
    for ended in side_by_side(_play_elsewhere, tasks, workers, look=look):
        if ended.outcome is None:
            raise EvaluationError(f"{ended.job.experiment.games[0]} could not be evaluated: {ended.error}")
        found |= ended.outcome
    return {name: found[name] for name in experiment.games}


def at_once(games: int, device: torch.device) -> int:
    """How many to play side by side: on a GPU all, as far as there are cores for their emulators; on a CPU one."""
    return min(games, cores()) if device.type == "cuda" else 1


def play_one(task: Task, progress: Callable[[int], None] = lambda episodes: None) -> Scores:
    """All episodes of the agents of one game, side by side, their networks batched."""
    experiment, run, hardware, share = task
    config, protocol, device = experiment.config, experiment.config.protocol, hardware.resolve()
    prepare(device)
    agents = [KeyQN.load(agent_file(run, *agent), str(device)) for agent in experiment.agents]
    copies = min(protocol.episodes, PLAYERS)
    first = agents[0]
    detectors = [agent.detector for agent in agents if agent.detector is not None]
    level = config.network.level_features
    seen = observer(experiment.kind, detectors, first.slots, first.depth, level=level)
    legal = torch.tensor([agent.actions for agent in agents], device=device)[:, None]
    legal = torch.arange(first.heads, device=device) < legal
    size = detectors[0].config.size if detectors else FRAME
    elsewhere = device.type == "cuda" or experiment.kind == "objects"  # a CPU gains nothing by film
    processes = -(-share // len(agents)) if elsewhere else None
    played = game(experiment.games[0], experiment.seeds, experiment.kind, size, protocol.sticky, processes)
    # Scores are those of whole games; but what was a new beginning in training is one for the memory here, too.
    arena = Arena([played.make(copies) for _ in agents], life_loss_ends=protocol.life_loss_ends)
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
    return {played.name: scores.tolist()}


def _play_elsewhere(task: Task) -> Scores:
    said = 0

    def tell(episodes: int) -> None:
        nonlocal said
        advance(episodes - said)
        said = episodes

    return play_one(task, tell)

"""How long an interaction of all agents takes, and what it is made of: games, seeing and acting, learning.

python benchmarks/keyqn.py --out results/keyqn/speed.json
"""

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import torch
import tyro

from transporter.cli import leave
from transporter.control.keyqn.config import PRESETS, KeyQNConfig, LearningConfig, ProtocolConfig
from transporter.control.keyqn.experiment import Experiment
from transporter.control.keyqn.observe import Kind
from transporter.control.keyqn.scores import GAMES
from transporter.envs import scene
from transporter.models.blocks import SMALL
from transporter.models.detector import Detector
from transporter.models.factory import ModelConfig
from transporter.results import Result
from transporter.training.learner import Hardware

WARM_UP = 100


def milliseconds(work: Callable[[], object], times: int) -> float:
    """Mean over calls, the GPU's work included."""
    _wait()
    begun = time.perf_counter()
    for _ in range(times):
        work()
    _wait()
    return 1000 * (time.perf_counter() - begun) / times


def parts(experiment: Experiment, hardware: Hardware, steps: int) -> dict[str, float]:
    """Milliseconds of an interaction of all agents, and of its parts one by one."""
    begun = time.perf_counter()
    training = experiment.training(hardware)
    walk = training.steps()
    for _ in range(WARM_UP + experiment.config.protocol.first_updates):
        next(walk)
    _wait()
    found = {"seconds to start": time.perf_counter() - begun}
    found["interaction ms"] = milliseconds(lambda: next(walk), steps)
    actions, count = training.actions, training.actor.step
    found["games ms"] = milliseconds(lambda: training.arena.step(actions), steps)
    reward = training.moment.reward
    found["see and act ms"] = milliseconds(lambda: training.actor(training.moment, actions, reward), steps)
    training.actor.step = count
    found["one update ms"] = milliseconds(training.learner.update, steps)
    found["gpu GiB"] = torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else 0.0
    found["minutes for 100,000 interactions"] = found["interaction ms"] * 100_000 / 60_000
    training.close()
    assert np.isfinite(training.learner.loss.tolist()).all()
    del training, walk
    return {name: round(value, 3) for name, value in found.items()}


def main(
    games: tuple[str, ...] = GAMES,
    seeds: int = 3,
    observation: Literal["keypoints", "points", "features", "objects", "pixels"] = "keypoints",
    updates: int = 1,
    batch: int = 32,
    steps: int = 500,
    hidden: int = 256,
    device: str = "auto",
    compile: Literal["no", "yes", "both"] = "both",
    out: Path | None = None,
) -> None:
    """Times on this machine. Detectors have random weights: they take as long as trained ones."""
    kind: Kind = observation
    config = KeyQNConfig(
        dataclasses.replace(PRESETS["full"].network, hidden=hidden, memory=hidden),
        LearningConfig(updates=updates, batch=batch),
        ProtocolConfig(interactions=4 * steps + 1_000, first_updates=300),
    )
    where = str(Hardware(device).resolve())
    shape = ModelConfig(size=80, shape=SMALL, standardise=True)
    models = {name: dataclasses.replace(shape, keypoints=scene(name).keypoints) for name in games}
    detectors = {name: Detector(model, device=where) for name, model in models.items()}
    experiment = Experiment(tuple(games), tuple(range(seeds)), kind, config, detectors)
    figures = {}
    for compiled in {"no": (False,), "yes": (True,), "both": (False, True)}[compile]:
        found = parts(experiment, Hardware(device, compile=compiled), steps)
        name = "compiled" if compiled else "plain"
        figures |= {f"{name}: {part}": value for part, value in found.items()}
        print(name, found, flush=True)
    result = Result("keyqn speed", figures, {**config.to_json(), "observation": kind}, {"agents": list(range(seeds))})
    if out is not None:
        result.write(out)


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


if __name__ == "__main__":
    leave(lambda: tyro.cli(main))

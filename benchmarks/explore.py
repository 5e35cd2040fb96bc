"""Exploration without reward: how fast it is and where the time goes; and sprites with keypoints learnt in the loop.

python benchmarks/explore.py speed --seconds 40 --out results/exploration/speed.json
python benchmarks/explore.py sprites --out results/exploration/sprites.json
python benchmarks/explore.py sprites --workers 4 --out results/exploration/sprites-ray.json
"""

import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path

import torch
import tyro

from transporter.cli import leave
from transporter.control.options.config import (
    ActingConfig,
    EyesConfig,
    LearningConfig,
    NetworkConfig,
    OptionsConfig,
)
from transporter.control.options.evaluation import measure_control
from transporter.control.options.experiment import Experiment, Exploring
from transporter.control.options.eyes import Learning
from transporter.control.options.training import Exploration
from transporter.control.rollout import Arena
from transporter.envs import make_vector, scene
from transporter.errors import InputError
from transporter.results import Result
from transporter.training.learner import Hardware


def milliseconds(work: Callable[[], object], seconds: float) -> float:
    """Mean over calls for about so long, the GPU's work included."""
    _wait()
    begun, calls = time.perf_counter(), 0
    while time.perf_counter() - begun < seconds:
        work()
        calls += 1
    _wait()
    return 1000 * (time.perf_counter() - begun) / calls


def parts(made: Exploration, seconds: float) -> dict[str, float]:
    """Milliseconds of each part of a step, one by one, nothing beside it."""
    study, players = made.study, made.players
    c, eyes = study.config.learning, study.eyes
    assert isinstance(eyes, Learning)
    drawn = players.commitment.next(players.moment.first)
    sequences, pairs = study.drawn(c.batch, c.length), study.pairs(eyes.config.pairs)
    frames = study.frames(c.batch * (c.unroll + 1))
    step = players.actor.step
    work: dict[str, Callable[[], object]] = {
        "games": lambda: players.arena.step(players.taken),
        "look and act": lambda: players.actor(players.moment, players.taken, drawn),
        "update of the options": lambda: study.learner.update(*sequences),
        "of which keypoints of a batch, not captured": lambda: eyes(frames),
        "update of the eyes": lambda: eyes.learn(*pairs),
        "draw a batch and pairs": lambda: (study.drawn(c.batch, c.length), study.pairs(eyes.config.pairs)),
    }
    found = {name: milliseconds(each, seconds) for name, each in work.items()}
    players.actor.step = step
    return {f"{name} ms": round(value, 3) for name, value in found.items()}


def speed(
    game: str = "montezuma_revenge",
    seconds: float = 20.0,
    players: int = 256,
    batch: int = 64,
    every: int = 2,
    eyes_every: int = 1,
    size: int = 80,
    replay: int = 400_000,
    tiny: bool = False,
    device: str = "auto",
    out: Path | None = None,
) -> None:
    """Frames a second end to end, with acting, both learners and replay running; then each part by itself."""
    config = OptionsConfig(
        learning=LearningConfig(batch=batch, every=every),
        acting=ActingConfig(players=players, replay=replay),
        eyes=EyesConfig(size=size, every=eyes_every, tiny=tiny),
    )
    experiment = Experiment(game, 0, config)
    begun = time.perf_counter()
    made = experiment.make(Hardware(device))
    walk = made.steps(10**9)
    for _ in range(config.acting.warm_up + 10):  # until both learners have been captured
        next(walk)
    _wait()
    figures = {"seconds to start": round(time.perf_counter() - begun, 2)}
    took = milliseconds(lambda: next(walk), seconds)
    figures["step ms"] = round(took, 3)
    figures["frames per second"] = round(1000 * experiment.frames / took)
    figures["transitions learnt per step played"] = batch * config.learning.unroll / (every * players)
    print(figures, flush=True)
    figures |= parts(made, seconds / 20)
    if torch.cuda.is_available():
        figures["gpu GiB"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
    print(figures, flush=True)
    made.close()
    if out is not None:
        where = str(made.study.device)
        Result(f"exploration speed {game}", figures, config.to_json(), {"explore": 0}, device=where).write(out)


SPRITES = OptionsConfig(
    NetworkConfig(layers=((16, 4, 2), (32, 4, 2), (32, 3, 2)), hidden=128, memory=64),
    LearningConfig(batch=32, burn_in=4, unroll=12, every=1, discount=0.9, rate=5e-4, target_rate=0.01),
    ActingConfig(players=32, commit=20, warm_up=64, replay=64_000, epsilon_low=0.05),
    EyesConfig(size=48, batch=32, rate=2e-3, decay_every=200, sigma_steps=360, tiny=True),
)


def make(experiment: Experiment, hardware: Hardware, workers: int) -> Exploring:
    """Here, or with so many processes that play."""
    if not workers:
        return experiment.make(hardware)
    from transporter.cluster.exploration import Spread

    return Spread(experiment, hardware, workers)


def sprites(
    steps: int = 2_000, seeds: int = 3, rounds: int = 8, device: str = "auto", workers: int = 0, out: Path | None = None
) -> None:
    """One shape that can be moved among others, keypoints learnt in the same loop: is it found, and moved?

    A seed is written as soon as it is through; those that the file holds already are kept.
    """
    world = "sprites_control"
    config = {**dataclasses.asdict(SPRITES), "steps": steps, "rounds": rounds, "workers": workers}
    figures: dict[str, float] = {}
    if out is not None and out.exists():
        before = json.loads(out.read_text(encoding="utf-8"))
        if before["config"] != json.loads(json.dumps(config)):
            raise InputError(f"{out} holds figures of other settings: name another file")
        figures = before["figures"]
    for seed in range(seeds):
        if f"seed {seed} chosen" in figures:
            continue
        made = make(Experiment(world, seed, SPRITES), Hardware(device), workers)
        swaps = []
        for step, _ in made.steps(steps):
            if step % max(1, steps // 20) == 0:
                swaps.append(round(made.study.drift().swapped, 4))
                print(
                    f"seed {seed} step {step}: gaps {[round(g, 3) for g in made.study.learner.gaps.tolist()]}",
                    flush=True,
                )
        games = make_vector(world, 64, SPRITES.eyes.size)
        arena = Arena([games], life_loss_ends=False)
        radius, commit = scene(world).radius, SPRITES.acting.commit
        found = measure_control(made.study.network, made.study.eyes, arena, games.truth, radius, commit, rounds)
        figures |= {f"seed {seed} {name}": round(value, 4) for name, value in found._asdict().items()}
        figures[f"seed {seed} times as far"] = round(found.farther, 2)
        figures[f"seed {seed} keypoints swapped, last"] = swaps[-1]
        print({name: value for name, value in figures.items() if name.startswith(f"seed {seed}")}, flush=True)
        made.close()
        if out is not None:
            done = [s for s in range(seeds) if f"seed {s} chosen" in figures]
            Result("exploration sprites", figures, config, {"explore": done}, device=device).write(out)


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


if __name__ == "__main__":
    leave(lambda: tyro.extras.subcommand_cli_from_dict({"speed": speed, "sprites": sprites}))

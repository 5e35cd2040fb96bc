"""Exploration without reward: how fast it is and where the time goes; sprites with keypoints learnt in the loop; where
options lead, and what caution brings.

python benchmarks/explore.py speed --seconds 40 --out results/exploration/speed.json
python benchmarks/explore.py sprites --out results/exploration/sprites.json
python benchmarks/explore.py sprites --workers 4 --out results/exploration/sprites-ray.json
python benchmarks/explore.py ends --options runs/explore-montezuma_revenge-seed0/options.safetensors
python benchmarks/explore.py caution --out results/exploration/caution.json
"""

import dataclasses
import json
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
import tyro
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from transporter.cli import leave
from transporter.control.options.actor import Actor
from transporter.control.options.agent import OptionsAgent
from transporter.control.options.choice import KEEP, Commitment
from transporter.control.options.config import (
    ActingConfig,
    EyesConfig,
    LearningConfig,
    NetworkConfig,
    OptionsConfig,
)
from transporter.control.options.evaluation import AVATAR, measure_control
from transporter.control.options.experiment import Experiment, Exploring
from transporter.control.options.eyes import Learning
from transporter.control.options.network import OptionsNet
from transporter.control.options.rewards import DIRECTIONS
from transporter.control.options.training import Exploration
from transporter.control.rollout import Arena
from transporter.envs import make_vector, scene
from transporter.envs.atari import AtariEnv
from transporter.envs.base import Truth
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


CELLS = 40
SPRITES = OptionsConfig(
    NetworkConfig(layers=((16, 4, 2), (32, 4, 2), (32, 3, 2)), hidden=128, memory=64, caution=0),
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


def ends(
    options: Path, players: int = 24, steps: int = 700, seed: int = 0, device: str = "auto", out: Path | None = None
) -> None:
    """Where options of the most controllable keypoint lead in a game whose truth is known, and which cost a life.

    `cells reached` counts those, of 40 × 40, in which the avatar was seen.
    """
    agent = OptionsAgent.load(options, None if device == "auto" else device)
    game = agent.card["environment"]
    with closing(make_vector(game, players, agent.config.eyes.size, film=True)) as games:
        figures = lead(agent.network, games, games.truth, agent.config.acting.commit, steps, seed)
    print(figures)
    if out is not None:
        settings = {"options": agent.card, **agent.config.to_json(), "players": players, "steps": steps}
        Result(f"where options lead {game}", figures, settings, {"play": seed}, device=device).write(out)


def lead(
    network: OptionsNet, games: VectorEnv, truth: Callable[[], Truth], commit: int, steps: int, seed: int
) -> dict[str, int]:
    """So many steps of options of the most controllable keypoint: how many begin, cost a life, and score."""
    players = games.num_envs
    arena = Arena([games], life_loss_ends=True)
    actor = Actor(network, players)
    commitment = Commitment(players, network.keypoints, commit, "controllable", np.random.default_rng((seed, 1)))
    moment, taken = arena.reset(np.arange(players) + 1_000_003 * (seed + 1)), np.zeros(players, np.int64)
    begun, lost, gained = np.zeros((3, len(DIRECTIONS)), np.int64)
    reached = np.zeros((CELLS, CELLS), bool)
    for _ in range(steps):
        drawn = commitment.next(moment.first)
        acted = actor(moment, taken, drawn)
        centres, present = (found[:, AVATAR] for found in truth())
        x, y = np.clip((centres + 1) / 2 * CELLS, 0, CELLS - 1).astype(int)[present].T
        reached[y, x] = True
        np.add.at(begun, acted.direction[drawn.keypoint != KEEP], 1)
        taken = acted.best
        moment = arena.step(taken)
        np.add.at(lost, acted.direction[moment.discount == 0], 1)
        np.add.at(gained, acted.direction[moment.reward > 0], 1)
    figures = {
        "steps": players * steps,
        "options": int(begun.sum()),
        "lives lost": int(lost.sum()),
        "steps with a score": int(gained.sum()),
        "cells reached": int(reached.sum()),
    }
    for name, all_of_them, fatal in zip(DIRECTIONS, begun, lost, strict=True):
        figures |= {f"{name} options": int(all_of_them), f"{name} lives lost": int(fatal)}
    return figures


SMALL = 42  # side of frames that one core can learn from
CAUTIOUS = OptionsConfig(
    NetworkConfig(layers=((16, 6, 3), (32, 4, 2), (32, 3, 1)), hidden=128, memory=64),
    LearningConfig(batch=32, every=4, rate=4e-4),
    ActingConfig(players=32, replay=200_000),
    EyesConfig(size=SMALL, tiny=True),
)


class Told(gymnasium.Wrapper):
    """A game that writes where its things are into the upper left corner of its frames."""

    def __init__(self, game: str) -> None:
        super().__init__(AtariEnv(game, SMALL))

    def reset(self, **given: Any) -> tuple[np.ndarray, dict[str, Any]]:
        frame, info = self.env.reset(**given)
        return self._written(frame), info

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        frame, *rest = self.env.step(action)
        return self._written(frame), *rest  # type: ignore[return-value]

    def _written(self, frame: np.ndarray) -> np.ndarray:
        centres, present = self.unwrapped.truth()  # type: ignore[attr-defined]
        frame[0, : len(centres), :2] = np.rint((np.where(present[:, None], centres, 0).clip(-1, 1) + 1) * 127.5)
        return frame


class Reading:
    """Eyes that read it."""

    def __init__(self, keypoints: int) -> None:
        self.keypoints = keypoints

    def __call__(self, frames: torch.Tensor) -> torch.Tensor:
        return frames[:, 0, : self.keypoints, :2].float() / 127.5 - 1


def caution(
    cautions: tuple[float, ...] = (0.0, 0.1),
    game: str = "montezuma_revenge",
    updates: int = 4_500,
    looks: int = 3,
    out: Path | None = None,
) -> None:
    """What it brings not to die on purpose: small networks on one core, the truth for eyes, so many updates each.

    Looked at so many times on the way, each time for 500 steps of 16 games.
    """
    objects, actions = len(scene(game).objects), len(scene(game).actions)

    def games(count: int) -> SyncVectorEnv:
        return SyncVectorEnv([partial(Told, game)] * count, autoreset_mode=AutoresetMode.NEXT_STEP)

    figures: dict[str, float] = {}
    seen = games(16)

    def truth() -> Truth:
        found = [env.unwrapped.truth() for env in seen.envs]  # type: ignore[attr-defined]
        return Truth(*(np.stack(parts) for parts in zip(*found, strict=True)))

    config = {**dataclasses.asdict(CAUTIOUS), "updates": updates, "cautions": list(cautions)}
    for each in cautions:
        settings = dataclasses.replace(CAUTIOUS, network=dataclasses.replace(CAUTIOUS.network, caution=each))
        made = Exploration(settings, games, actions, Reading(objects), Hardware("cpu"))
        learner, told = made.study.learner, 0
        for _ in made.steps(10**9):
            if learner.done == told or learner.done % (updates // looks):
                continue
            told = learner.done
            found = lead(made.study.network, seen, truth, settings.acting.commit, 500, seed=0)
            figures |= {f"caution {each:g}, {told} updates: {name}": value for name, value in found.items()}
            print(f"caution {each:g}, {told} updates: {found}", flush=True)
            if told >= updates:
                break
        made.close()
        if out is not None:
            Result(f"caution {game}", figures, config, {"explore": 0}, device="cpu").write(out)


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


if __name__ == "__main__":
    leave(
        lambda: tyro.extras.subcommand_cli_from_dict(
            {"speed": speed, "sprites": sprites, "ends": ends, "caution": caution}
        )
    )

"""What Frostbite asks of an agent: with small networks on one core, of what it sees the truth or the shipped keypoints.

    python benchmarks/frostbite.py --sees igloo --out runs/igloo.json
    python benchmarks/frostbite.py --sees keypoints --protocol.epsilon-end 0.03 --protocol.epsilon-fade 1
    python benchmarks/frostbite.py --built 12 --protocol.interactions 30000 --protocol.episodes 25 --out runs/door.json

Sixteen hops onto white floes finish an igloo, and its door pays hundreds; where things are tells of none of this.
Agents see that alone (`places`), also which rows of floes are white (`colours`, as features under keypoints show), or
also how far the igloo is (`igloo`); or frames, by way of keypoints and their features (`keypoints`). With `--built 12`
its door is near: who finds it, and finds it again, shows soon.
"""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import gymnasium
import numpy as np
import torch
import tyro
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from transporter.cli import leave
from transporter.cli.given import at_least
from transporter.control.keyqn.config import KeyQNConfig, LearningConfig, NetworkConfig, ProtocolConfig
from transporter.control.keyqn.evaluation import evaluate
from transporter.control.keyqn.observe import Objects, Observer, observer
from transporter.control.keyqn.training import Game, training
from transporter.control.rollout import Arena
from transporter.envs import atari_truth
from transporter.envs.atari import AtariEnv, scene
from transporter.errors import InputError
from transporter.frames import resize
from transporter.models.zoo import load
from transporter.results import Result
from transporter.tensors import write_tensors
from transporter.training.learner import Hardware

GAME = "frostbite"
COLOURS, WHITE = slice(43, 47), 12  # RAM: the colour of each row of floes
IGLOO, NONE, BLOCKS = 77, 255, 16  # RAM: how many blocks there are, less one; of how many
LEVEL = 75  # RAM: counts from 0; a door leads to the next
STRETCH = 5_000
Sees = Literal["places", "colours", "igloo", "keypoints"]
SMALL = KeyQNConfig(
    NetworkConfig(thermometer=20, speeds=8, hidden=128, memory=64),
    LearningConfig(batch=8, anneal=10_000, steady=1 / 2_000),
    ProtocolConfig(epsilon_end=0.01, epsilon_fade=0),
)


def one_of_each_row(names: Sequence[str]) -> list[int]:
    """The rows of truth that say all: the three floes of a row keep their distance."""
    return [i for i, name in enumerate(names) if not (name.startswith("floe") and not name.endswith("_0"))]


class Told(gymnasium.Env[np.ndarray, int]):
    """The game as its true objects, and as much more as the agent is to see: (n, 3) present, x, y; or as frames."""

    def __init__(self, sees: Sees, built: int, size: int, sticky: float = 0.0) -> None:
        self.game, self.sees, self.built = AtariEnv(GAME, size, sticky=sticky), sees, built
        self.rows = one_of_each_row(self.game.scene.objects)
        self.doors = 0  # entered so often since the game was switched on
        seen = self._seen()
        least, most = (0, 255) if sees == "keypoints" else (-1, 1)
        self.observation_space = gymnasium.spaces.Box(least, most, seen.shape, seen.dtype.type)
        self.action_space = self.game.action_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        self.game.begin(seed)
        if self.built:
            self.game.ale.setRAM(IGLOO, self.built - 1)
        return self._seen(), self._info()

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        before = self.game.ale.getRAM()[LEVEL]
        reward = self.game.play(action)
        self.doors += int(self.game.ale.getRAM()[LEVEL] > before)
        return self._seen(), reward, *self.game.ended(), self._info()

    def _info(self) -> dict[str, Any]:
        return {"lives": self.game.ale.lives()}

    def _blocks(self) -> int:
        told = int(self.game.ale.getRAM()[IGLOO])
        return 0 if told == NONE else told + 1

    def _seen(self) -> np.ndarray:
        if self.sees == "keypoints":
            return resize(self.game.render(), self.game.size, self.game.size)
        ram = self.game.ale.getRAM()
        seen = atari_truth.truth(GAME, ram).rows()[self.rows]
        if self.sees != "places":
            seen = np.concatenate((seen, [(1, 2 * (colour == WHITE) - 1, 0) for colour in ram[COLOURS]]))
        if self.sees == "igloo":
            seen = np.concatenate((seen, [(1, 2 * self._blocks() / BLOCKS - 1, float(self._blocks() == BLOCKS))]))
        return seen.astype(np.float32)


def main(
    sees: Sees = "colours",
    seeds: int = 4,
    first_seed: int = 0,
    built: int = 0,
    out: Path | None = None,
    settings: Annotated[KeyQNConfig, tyro.conf.arg(name="")] = SMALL,
) -> None:
    """Learn, evaluate, and write one file, which grows with every stretch.

    Args:
        sees: places of things; also the colours of floes; also the igloo; or what the shipped detector finds.
        seeds: How many agents learn.
        first_seed: The first of their seeds.
        built: So many blocks of the igloo stand when a game begins: with 12, its door is four hops away.
        out: Where the JSON goes, and beside it the weights; figures `steady` are of a slow mean of them.
        settings: What decides an agent.
    """
    at_least(1, seeds=seeds)
    at_least(0, built=built, first_seed=first_seed)
    if built > BLOCKS:
        raise InputError(f"an igloo has {BLOCKS} blocks, not {built}")
    torch.set_num_threads(1)
    chosen = tuple(range(first_seed, first_seed + seeds))

    eyes: Observer
    if sees == "keypoints":
        detector = load(GAME, "cpu")
        eyes, size = observer("keypoints", settings.network, [detector]), detector.config.size
        judges = observer("keypoints", settings.network, [detector] * seeds)  # whose players are apart
    else:
        eyes, size = Objects(len(Told(sees, built, 1).reset()[0])), 1
        judges = eyes

    def make(count: int) -> SyncVectorEnv:
        return SyncVectorEnv(
            [partial(Told, sees, built, size, settings.protocol.sticky)] * count, autoreset_mode=AutoresetMode.NEXT_STEP
        )

    config = {**settings.to_json(), "sees": sees, "built": built}
    figures: dict[str, float] = {}
    curves: dict[str, list[float | None]] = {f"seed {seed}": [] for seed in chosen}
    doors: dict[str, list[int]] = {f"seed {seed}": [] for seed in chosen}

    def write() -> None:
        if out is not None:
            told = {"curves": curves, "doors entered so far": doors, "stretch": STRETCH}
            Result(f"frostbite from {sees}", figures, config, {"agents": list(chosen)}, told, device="cpu").write(out)

    with training(settings, [Game(GAME, chosen, len(scene(GAME).actions), make)], eyes, Hardware("cpu")) as learning:
        scores: list[list[float]] = [[] for _ in chosen]
        for number, finished in learning.steps():
            for player, score, _ in finished:
                scores[player].append(score)
            if number % STRETCH == 0 or number == settings.protocol.interactions:
                games = learning.arena.games[0].envs  # type: ignore[attr-defined]
                for seed, own, env in zip(chosen, scores, games, strict=True):
                    curves[f"seed {seed}"].append(round(float(np.mean(own)), 1) if own else None)
                    doors[f"seed {seed}"].append(env.doors)
                scores = [[] for _ in chosen]
                print(
                    sees, number, [curve[-1] for curve in curves.values()], [d[-1] for d in doors.values()], flush=True
                )
                write()
        copies = min(25, settings.protocol.episodes)
        arena = Arena(
            [make(copies) for _ in chosen], life_loss_ends=True, life_loss_forgets=settings.protocol.life_loss_forgets
        )
        protocol, network = settings.protocol, learning.network
        ways = {"": learning.learner.acting}
        if settings.learning.steady:
            ways[" steady"] = learning.learner.kept
        for name, weights in ways.items():
            found = evaluate(
                network, judges, weights, arena, chosen, protocol.evaluation_epsilon, protocol.episodes,
                learnt_from=np.sign if settings.learning.clip_rewards else lambda reward: reward,
            )  # fmt: skip
            means = found.mean(1)
            figures |= {f"seed {seed}{name}": round(float(mean), 1) for seed, mean in zip(chosen, means, strict=True)}
            figures[f"mean{name}"] = round(float(means.mean()), 1)
    print(figures, flush=True)
    write()
    if out is not None:
        write_tensors(
            out.with_suffix(".safetensors"), {f"weights{n}": w for n, w in ways.items()}, {"config": json.dumps(config)}
        )


if __name__ == "__main__":
    leave(lambda: tyro.cli(main))

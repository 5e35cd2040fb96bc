"""Many agents that play and learn in step: one row of each, then some updates of all, again and again.

Nobody waits: while an update goes on, the games move, and the next actions are chosen with the weights from before it.
"""

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from jaxtyping import Float32, Int64
from torch import Tensor

from transporter.checkpoints import Checkpoint
from transporter.control.gpu import prepare
from transporter.control.keyqn.actor import Actor
from transporter.control.keyqn.config import KeyQNConfig
from transporter.control.keyqn.in_loop import InLoop
from transporter.control.keyqn.learner import Learner
from transporter.control.keyqn.network import QNetwork
from transporter.control.keyqn.observe import Grounded, Keypoints, Observer
from transporter.control.lstm import compiled, one_step
from transporter.control.replay import Memory, SequenceReplay
from transporter.control.rollout import Arena, Finished
from transporter.errors import InputError
from transporter.training.batches import there
from transporter.training.learner import Hardware


@dataclass(frozen=True)
class Game:
    """A game and the agents that learn it, one for each seed."""

    name: str
    seeds: tuple[int, ...]
    actions: int
    make: Callable[[int], VectorEnv]  # so many copies, restarting at the next step


class Step(NamedTuple):
    """One interaction of every agent."""

    number: int  # counts from 1
    finished: list[Finished]  # episodes that ended with it; a player is an agent


class Training:
    """Everything that changes while agents learn, and one way forward: `for step in training.steps()`."""

    def __init__(
        self,
        config: KeyQNConfig,
        games: Sequence[Game],
        observer: Observer,
        hardware: Hardware,
        *,
        in_loop: bool = False,
    ) -> None:
        """`in_loop`: detectors go on learning; then each agent is a game by itself, with a detector of its own."""
        self.config, self.games, self.observer = config, list(games), observer
        self.device = hardware.resolve()
        prepare(self.device)
        capture = hardware.graph and self.device.type == "cuda"
        learning, protocol = config.learning, config.protocol
        self.agents = [(game.name, seed) for game in games for seed in game.seeds]
        seeds = [seed for _, seed in self.agents]
        self.seeds = np.array(seeds, np.int64)
        self.legal = np.array([game.actions for game in games for _ in game.seeds])
        legal = torch.arange(int(self.legal.max())) < torch.from_numpy(self.legal)[:, None]
        recall = compiled(self.device) if hardware.compile else one_step
        self.network = QNetwork(config.network, observer.inputs(config.network), legal.to(self.device), recall)
        self.replay = SequenceReplay(
            len(seeds), protocol.interactions + 1, observer.row, observer.dtype, config.network.memory, self.device
        )
        self.learner = Learner(learning, self.network, self.replay, seeds, config.all_updates, capture)
        self.actor = Actor(self.network, observer, self.learner.playing, replay=self.replay, capture=capture)
        self.arena = Arena(
            [game.make(len(game.seeds)) for game in games],
            life_loss_ends=protocol.life_loss_ends,
            life_loss_forgets=protocol.life_loss_forgets,
        )
        self.eyes: InLoop | None = None
        if in_loop:
            assert isinstance(observer, Keypoints | Grounded)
            self.eyes = InLoop(config.eyes, observer, self.replay, seeds, hardware)
        self.chance = [np.random.default_rng((seed, 0)) for seed in seeds]
        self.moment = self.arena.reset(self.seeds)
        self.actions = np.zeros(len(seeds), np.int64)  # those that led to the moment
        self.history = np.zeros((len(seeds), protocol.interactions), np.int16)
        self.count = 0

    def steps(self) -> Iterator[Step]:
        """Interactions from here to the last."""
        while self.count < self.config.protocol.interactions:
            best = self.actor(self.moment, self.actions, self._learnt_from(self.moment.reward))
            self.actions = self._explore(best)
            self.arena.send(self.actions)
            self.history[:, self.count] = self.actions
            if self.eyes is not None:
                self._look(self.eyes)
            if self.count >= self.config.warm_up:
                self._learn()  # while the games move, and until the actions after the next
            self.moment = self.arena.receive()
            self.count += 1
            yield Step(self.count, self.moment.finished)

    def _learnt_from(self, reward: Float32[np.ndarray, "n"]) -> Float32[np.ndarray, "n"]:
        return np.sign(reward) if self.config.learning.clip_rewards else reward

    def _explore(self, best: Int64[np.ndarray, "n"]) -> Int64[np.ndarray, "n"]:
        return explore(best, self.config.protocol.epsilon(self.count), self.legal, self.chance)

    def _learn(self) -> None:
        """Updates from windows of the rows so far, each agent's drawn by its own generator."""
        c = self.config.learning
        shape = (c.updates, c.batch, self.learner.numbers)
        draws = there(np.stack([chance.random(shape) for chance in self.chance], 1), self.device)
        self.learner.hand_over()
        self.actor.follow()
        for each in draws:
            # The row seen last is a window's last at most: what becomes of the action on it may be written meanwhile,
            # and is not learnt from yet.
            self.learner.draw(each, self.count)
            self.learner.update()

    def _look(self, eyes: InLoop) -> None:
        """Frames are kept, Transporters learn; with new eyes the row seen last is seen anew, like all before it."""
        eyes.see(self.count, self.actor.views)
        if eyes.learn(self.count):
            self.actor.row.copy_(self.replay.rows[:, self.count])
        self.actor.follow()

    # State

    def checkpoint(self, **state: object) -> Checkpoint:
        """All of it after an interaction: the games by the actions that led to where they are."""
        parts = {
            "learner": self.learner.tensors(),
            "replay": self.replay.tensors(self.count),
            "actor": {"h": self.actor.memory.h, "c": self.actor.memory.c, "row": self.actor.row},
            "eyes": self.eyes.tensors() if self.eyes else {},
        }
        tensors = {f"{part}.{name}": t for part, named in parts.items() for name, t in named.items()}
        tensors["history"] = torch.from_numpy(self.history[:, : self.count].copy())
        own: dict[str, Any] = {
            "updates": [self.learner.done, self.learner.since],
            "chance": [chance.bit_generator.state for chance in self.chance],
            "shown": self._shown(),
            "place": self.arena.place(self.moment),
        }
        if self.eyes is not None:
            own["eyes"] = self.eyes.state()
        return Checkpoint(self.count, tensors, {**state, **json.loads(json.dumps(own))})

    def restore(self, saved: Checkpoint, progress: Callable[[int], None] = lambda step: None) -> None:
        """Back to where it was saved; games are played again, as far as they must be, while nobody learns."""
        self.learner.restore(saved.part("learner."), *saved.state["updates"])
        self.replay.restore(saved.part("replay."))
        actor: dict[str, Tensor] = saved.part("actor.")
        self.actor.restore(saved.step, Memory(actor["h"], actor["c"]), actor["row"])
        if self.eyes is not None:
            self.eyes.restore(saved._replace(tensors=saved.part("eyes.")), saved.state["eyes"])
        for chance, state in zip(self.chance, saved.state["chance"], strict=True):
            chance.bit_generator.state = state
        self.count = saved.step
        self.history[:, : self.count] = saved.tensors["history"].numpy()
        actions = self.history[:, : self.count].astype(np.int64)
        self.actions = actions[:, -1] if self.count else self.actions
        place = saved.state.get("place")  # which earlier versions did not keep
        if self.eyes is None and place and (moment := self.arena.come_back(self.seeds, actions, place)):
            self.moment = moment
            if self._shows(saved.state["shown"]):
                return
        for step, moment in enumerate(self.arena.again(self.seeds, actions)):
            self.moment = moment
            if self.eyes is not None and step < self.count:
                self.eyes.see(step, [torch.from_numpy(view) for view in moment.views])
            progress(step)
        if not self._shows(saved.state["shown"]):
            raise InputError(
                "the games do not come back to where they were: another version of the emulator, or of this program?"
            )

    def _shown(self) -> list[str]:
        """What games show, in short."""
        return [hashlib.sha256(np.ascontiguousarray(view).tobytes()).hexdigest() for view in self.moment.views]

    def _shows(self, shown: list[str] | list[int]) -> bool:
        """Whether games are where they were when that was kept; earlier versions kept sums."""
        return shown in (self._shown(), [int(np.asarray(view, np.float64).sum()) for view in self.moment.views])

    def close(self) -> None:
        self.arena.close()


def explore(
    best: Int64[np.ndarray, "n"], epsilon: float, actions: Int64[np.ndarray, "n"], chance: Sequence[np.random.Generator]
) -> Int64[np.ndarray, "n"]:
    """ε-greedy, each player by its own generator; two draws each, whatever comes of them."""
    draws = np.array([generator.random(2) for generator in chance])
    return np.where(draws[:, 0] < epsilon, (draws[:, 1] * actions).astype(np.int64), best)


@contextlib.contextmanager
def training(
    config: KeyQNConfig, games: Sequence[Game], observer: Observer, hardware: Hardware | None = None
) -> Iterator[Training]:
    """A Training whose games are closed in the end."""
    made = Training(config, games, observer, hardware or Hardware())
    try:
        yield made
    finally:
        made.close()

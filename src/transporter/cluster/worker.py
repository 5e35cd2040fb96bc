"""A worker: some of the players, in a process of their own. What they did goes out in chunks, numbered one by one."""

import os
import threading
import uuid
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from transporter import envs
from transporter.cluster.processes import Watch
from transporter.control.options.config import OptionsConfig
from transporter.control.options.network import OptionsNet
from transporter.control.options.players import Players
from transporter.control.replay import Outcome, SequenceReplay
from transporter.control.rollout import Finished


class Role(NamedTuple):
    """What a worker is told with every request: who is someone else, or no one yet, becomes this one first."""

    worker: int  # its number
    part: range  # of all players
    game: str
    config: OptionsConfig
    keypoints: int
    seed: int
    rows: int  # of each player, in a chunk
    term: int = 0  # counts those that have had this role


class Published(NamedTuple):
    """Weights that play, by the learner's count of updates."""

    version: int
    weights: Sequence[np.ndarray]


class Chunk(NamedTuple):
    """Rows of a worker's players one after another: the next chunk of the same life goes on where this one ends."""

    worker: int
    process: int  # its number on its machine
    life: str  # changes when a worker dies and another one takes its role, with new games
    serial: int  # counts the chunks of a life from 0
    version: int
    tensors: dict[str, np.ndarray]  # as SequenceReplay.tensors names them
    finished: list[Finished]


def _end_after(learner: int) -> None:
    """Ends this process once the learner's has ended, on whose machine it is."""
    Watch(learner).wait()
    os._exit(1)


class Worker:
    """Plays on where it was; a new role begins new games, in a life of its own."""

    players: Players

    def __init__(self, learner: int | None = None) -> None:
        """`learner`: a process on this machine that it ends with. Ray sees to that too, but takes its time."""
        torch.set_num_threads(1)  # there are as many workers as cores
        self.role: Role | None = None
        if learner is not None:
            threading.Thread(target=_end_after, args=(learner,), daemon=True).start()

    def here(self) -> None:
        """An answer: whoever gives it has everything imported, and can take a role at once."""

    def become(self, role: Role) -> None:
        if self.role is not None:
            self.role = None
            self.players.close()
        self.life, self.serial, self.version = uuid.uuid4().hex, 0, -1
        c, size, device = role.config, role.config.eyes.size, torch.device("cpu")
        actions = len(envs.scene(role.game).actions)
        self.network = OptionsNet(c.network, size, role.keypoints, actions).requires_grad_(False)
        self.staged = SequenceReplay(len(role.part), role.rows, (size, size, 3), torch.uint8, c.network.memory, device)
        self.players = Players(
            c.acting, lambda n: envs.make_vector(role.game, n, size), self.network, self.staged, role.seed, role.part
        )
        self.role = role  # last: where anything above fails, the next request fails there too

    def play(self, role: Role, published: Published, step: int, at_random: bool) -> Chunk:
        """A chunk, with these weights. `step` is how far everyone is: with it a new life knows which games to begin."""
        if role != self.role:
            self.become(role)
        if self.serial == 0:
            self.players.begin(step)
        if published.version != self.version:
            for parameter, weight in zip(self.network.parameters(), published.weights, strict=True):
                parameter.copy_(torch.tensor(weight))
            self.version = published.version
        finished: list[Finished] = []
        for _ in range(role.rows):
            self.players.send(at_random=at_random)
            finished += self.players.receive()
        # What became of the last row's action would only be told with the next row.
        moment = self.players.moment
        told = (self.players.taken, moment.reward, moment.discount, moment.real)
        self.staged.end(torch.tensor([role.rows - 1]), Outcome(*(torch.from_numpy(part) for part in told)))
        self.serial += 1
        rows = {name: t.numpy().copy() for name, t in self.staged.tensors(role.rows).items()}
        return Chunk(role.worker, os.getpid(), self.life, self.serial - 1, self.version, rows, finished)

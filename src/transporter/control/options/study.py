"""Those who learn: options and keypoints, both from one replay, wherever what is in it was played.

Several learners, each a process with its own players and its own part of the replay, learn as one: what they make of
their parts of a batch is averaged before it changes anything.
"""

import json

import numpy as np
import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor

from transporter.checkpoints import Checkpoint
from transporter.control.gpu import prepare
from transporter.control.options.config import OptionsConfig
from transporter.control.options.eyes import Drift, Eyes, Learning, drift
from transporter.control.options.learner import Learner
from transporter.control.options.network import OptionsNet
from transporter.control.replay import SequenceReplay
from transporter.errors import InputError
from transporter.models.devices import room
from transporter.training.batches import there
from transporter.training.distributed import begin_alike, place
from transporter.training.learner import Hardware
from transporter.workers import free_memory

PROBES = 64  # frames on which keypoints before and after are compared
FITTED = 2_048  # frames that the mean and deviation of each pixel are taken from
SPARE = 8 * 2**30  # bytes of a GPU that are left to the learners …
SPARE_HERE = 2**30  # … and of a CPU's memory
KEPT = 2**30  # bytes of a replay that is saved with what was learnt; a larger one is filled anew after a break


class Study:
    """Everything that is learnt, the replay that it is learnt from, and how to draw from it.

    `config` is of this learner's share, where there are several.
    """

    def __init__(self, config: OptionsConfig, actions: int, eyes: Eyes, hardware: Hardware, seed: int) -> None:
        self.config, self.eyes = config, eyes
        self.device = hardware.resolve()
        prepare(self.device)
        torch.backends.cudnn.benchmark = True  # shapes never change
        self.capture = hardware.graph and self.device.type == "cuda"
        size, players = config.eyes.size, config.acting.players
        torch.manual_seed(seed)
        self.network = OptionsNet(
            config.network, size, eyes.keypoints, actions, lambda: hardware.autocast(self.device)
        ).to(self.device)
        begin_alike(self.network.state_dict().values())
        check_room(config, self.device)
        frame, memory = (size, size, 3), config.network.memory
        self.replay = SequenceReplay(players, config.capacity, frame, torch.uint8, memory, self.device)
        self.learner = Learner(config.learning, self.network, eyes, self.replay, self.capture)
        self.rows = np.zeros(players, np.int64)  # of each player that the replay has been given
        # Sums on a GPU come in any order: there a kept replay would not make a break without a trace either.
        self.rank, world = place()
        self.alone = world == 1
        self.keeps = self.device.type == "cpu" and self.replay.nbytes <= KEPT and self.alone
        self.seed = seed
        self.needs = self._least
        self.chance = self._chance(0)
        self._probes: tuple[UInt8[Tensor, "n h w 3"], Float[np.ndarray, "n k 2"]] | None = None

    def _chance(self, step: int) -> np.random.Generator:
        """Draws of this learner, from a step on."""
        return np.random.default_rng((self.seed, 1, self.rank, step) if self.rank else (self.seed, 1))

    @property
    def _least(self) -> int:
        c = self.config
        return max(c.acting.warm_up, c.learning.length + 1, c.eyes.offset + 1)

    @property
    def ready(self) -> bool:
        """Whether there is enough of every player to learn from."""
        return bool(self.rows.min() >= self.needs)

    @property
    def knows_nothing(self) -> bool:
        """Whether who plays does so at random: later, also while a replay is filled again, by what was learnt."""
        return not self.ready and self.learner.done == 0

    def learn(self, step: int) -> None:
        """What is due after so many steps of all players; on a GPU it is queued, not waited for."""
        c = self.config
        if isinstance(self.eyes, Learning) and step % c.eyes.every == 0:
            if self.eyes.done % c.eyes.fit_every == 0 and self.eyes.done <= c.eyes.sigma_steps:
                self.eyes.fit(self.frames(FITTED))
            self.eyes.learn(*self.pairs(self.eyes.config.pairs))
        if step % c.learning.every == 0:
            self.learner.update(*self.drawn(c.learning.batch, c.learning.length))

    def drawn(
        self, count: int, length: int, chance: np.random.Generator | None = None
    ) -> tuple[Int64[Tensor, "b"], Int64[Tensor, "b"]]:
        """Players, and rows at which sequences of this length may begin, with a row before them."""
        draws = (chance or self.chance).random((2, count))
        players = (draws[0] * len(self.rows)).astype(np.int64)
        rows = self.rows[players]
        low, high = np.maximum(0, rows - self.config.capacity) + 1, rows - length
        starts = low + (draws[1] * (high - low + 1)).astype(np.int64)
        return there(players, self.device), there(starts, self.device)

    def pairs(self, count: int) -> tuple[UInt8[Tensor, "b h w 3"], UInt8[Tensor, "b h w 3"]]:
        """Two frames of one episode each, up to `offset` steps apart, in either order."""
        offset = self.config.eyes.offset
        players, starts = self.drawn(count, offset + 1)
        later = there(self.chance.integers(1, offset + 1, count), self.device)
        later = torch.minimum(later, self.replay.steps_left(players, starts, offset))
        swap = there(self.chance.random(count) < 0.5, self.device)
        one, other = torch.where(swap, starts + later, starts), torch.where(swap, starts, starts + later)
        return self._at(players, one), self._at(players, other)

    def frames(self, count: int, chance: np.random.Generator | None = None) -> UInt8[Tensor, "n h w 3"]:
        return self._at(*self.drawn(count, 1, chance))

    def _at(self, players: Int64[Tensor, "b"], rows: Int64[Tensor, "b"]) -> UInt8[Tensor, "b h w 3"]:
        return self.replay.rows[players, rows % self.config.capacity]

    def drift(self) -> Drift:
        """How keypoints have changed on the same frames since it was last asked; then other frames are chosen.

        By a generator of its own: how often one asks changes nothing of what is learnt.
        """
        found = Drift(0.0, 0.0)
        if self._probes is not None:
            frames, before = self._probes
            found = drift(before, self.eyes(frames).cpu().numpy())
        if self.rows.min() > 1:
            frames = self.frames(PROBES, np.random.default_rng((self.seed, 4, self.rank, self.learner.done)))
            self._probes = frames, self.eyes(frames).cpu().numpy()
        return found

    # State

    def checkpoint(self, step: int, *, replay: bool = False) -> Checkpoint:
        """What was learnt, and the generator that draws; with the replay, all that decides what will be learnt next."""
        tensors = {f"options.{name}": t for name, t in self.learner.tensors().items()}
        state: dict[str, object] = {"updates": self.learner.done, "chance": self.chance.bit_generator.state}
        if isinstance(self.eyes, Learning):
            saved = self.eyes.checkpoint()
            tensors |= {f"eyes.{name}": t for name, t in saved.tensors.items()}
            state["seen"] = saved.step
        if replay:
            state |= {"rows": self.rows.tolist(), "needs": self.needs}
            tensors |= {f"replay.{name}": t for name, t in self.replay.tensors(self.replay.capacity).items()}
            if self._probes is not None:
                tensors |= {"probes.frames": self._probes[0], "probes.points": torch.from_numpy(self._probes[1])}
        return Checkpoint(step, tensors, json.loads(json.dumps(state)))

    def restore(self, saved: Checkpoint) -> None:
        """Go on from what was learnt, with the replay if it was kept; else new games fill one before learning goes on.

        A large replay is tens of gigabytes that would be read and written for what the games make again within a minute
        or two, and by the policies of that moment. Learnt from too soon, it would hold little but beginnings of games.
        """
        self.learner.restore(saved.part("options."), saved.state["updates"])
        if isinstance(self.eyes, Learning):
            self.eyes.restore(Checkpoint(saved.state["seen"], saved.part("eyes."), {}))
        self.chance = self._chance(saved.step)
        if self.rank == 0:  # who saved it
            self.chance.bit_generator.state = saved.state["chance"]
        self.rows[:] = saved.state.get("rows", 0) if self.alone else 0
        if self.alone and (kept := saved.part("replay.")):
            self.replay.restore(kept)
            self.needs = saved.state.get("needs", self._least)
        else:  # no more than there was
            self.needs = max(self._least, min(saved.step, int(self.config.acting.refill * self.config.capacity)))
        if probes := saved.part("probes."):
            self._probes = probes["frames"].to(self.device), probes["points"].numpy()


def check_room(config: OptionsConfig, device: torch.device) -> None:
    """Frames stay on the device that learns from them; refuse what does not fit there, with room for the learners."""
    row = 3 * config.eyes.size**2 + 4 * config.network.memory + 32
    on_gpu = device.type == "cuda"
    fits = max(0, (room(device, SPARE) if on_gpu else free_memory() - SPARE_HERE) // row)
    if config.acting.replay > fits:
        raise InputError(
            f"a replay of {config.acting.replay:,} steps does not fit {'the GPU' if on_gpu else 'this memory'}: "
            f"at most {fits:,} do (--acting.replay)"
        )

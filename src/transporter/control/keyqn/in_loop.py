"""Transporters that keep learning while agents play, each from the frames of its own agent.

What an agent has seen is kept as frames. Now and then it gets the eyes that its Transporter has learnt since, and at
that moment all of its past is seen anew: no row of the replay is of other eyes. Memories that were stored beside rows
are as they were: they are of older weights in any case, and rows that are burnt in bring them up to date.
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from transporter.checkpoints import Checkpoint
from transporter.control.keyqn.config import EyesConfig
from transporter.control.keyqn.observe import Grounded, Keypoints
from transporter.control.replay import SequenceReplay
from transporter.errors import InputError
from transporter.models.detector import Detector
from transporter.models.devices import room
from transporter.runs import Json
from transporter.training.batches import there
from transporter.training.config import TrainConfig
from transporter.training.learner import Hardware, Learner
from transporter.training.loop import NotFiniteError

AT_ONCE = 1_024  # frames that are seen anew together
SPARE = 16 * 2**30  # bytes of a GPU that are left to the learners


class InLoop:
    """For each agent its frames, a Transporter in training, and the detector that it sees with, all of them its own."""

    def __init__(
        self,
        config: EyesConfig,
        observer: Keypoints | Grounded,
        replay: SequenceReplay,
        seeds: Sequence[int],
        hardware: Hardware,
    ) -> None:
        """`observer` has a detector for each agent, which is changed here, in place."""
        self.config, self.observer, self.replay = config, observer, replay
        self.detectors, device = observer.detectors, hardware.resolve()
        sides = [detector.config.size for detector in self.detectors]
        check_room(sum(3 * side**2 for side in sides) * replay.capacity, device)
        self.frames: list[UInt8[Tensor, "t h w 3"]] = [
            torch.zeros(replay.capacity, side, side, 3, dtype=torch.uint8, device=device) for side in sides
        ]
        self.learners = [_learner(config, d, s, hardware) for d, s in zip(self.detectors, seeds, strict=True)]
        self.chance = [np.random.default_rng((seed, 4)) for seed in seeds]
        self.losses = torch.zeros(len(self.learners), device=device)
        self.done = 0  # updates of each

    def see(self, row: int, views: Sequence[UInt8[Tensor, "1 h w 3"]]) -> None:
        """The frames behind row `row` of the replay."""
        for frames, view in zip(self.frames, views, strict=True):
            frames[row].copy_(view[0])

    def learn(self, newest: int) -> bool:
        """What is due after rows 0 … newest; True if all of them are now seen with other eyes."""
        c = self.config
        if newest < c.first or newest % c.every:
            return False
        for agent, learner in enumerate(self.learners):
            held = self._weights(agent) if self.done < c.settle else []
            kept = [tensor.clone() for tensor in held]
            source, target = (self.frames[agent][rows] for rows in self.pairs(agent, newest))
            self.losses[agent] = learner.step(self.done, source, target)
            with torch.no_grad():  # until the part that draws can draw, it has nothing to teach
                for tensor, old in zip(held, kept, strict=True):
                    tensor.copy_(old)
        self.done += 1
        if newest % c.renew:
            return False
        self.check()  # here it may be waited for
        self._renew(newest)
        return True

    def check(self) -> None:
        """From its first update that is not finite on, a Transporter learns nothing more: say so. Waits for the GPU."""
        for agent, learner in enumerate(self.learners):
            if (bad := learner.failed_at()) is not None:
                raise NotFiniteError(f"loss or gradient not finite at update {bad + 1} of agent {agent}'s Transporter")

    def pairs(self, agent: int, newest: int) -> tuple[Int64[Tensor, "b"], Int64[Tensor, "b"]]:
        """Two rows of one episode each, up to `offset` steps apart, in either order."""
        c, chance, device = self.config, self.chance[agent], self.replay.first.device
        count = c.batch // 2  # each frame is rebuilt from the other
        # Any row but the last of an episode, as the n-th of those whose next begins none: nothing waits for a count.
        going_on = (~self.replay.first[agent, 1 : newest - c.offset + 2]).cumsum(0)
        nth = 1 + (there(chance.random(count), device) * going_on[-1]).long()
        starts = torch.searchsorted(going_on, nth).clamp(max=len(going_on) - 1)
        later = there(chance.integers(1, c.offset + 1, count), device)
        later = torch.minimum(later, self.replay.steps_left(torch.full_like(starts, agent), starts, c.offset))
        swap = there(chance.random(count) < 0.5, device)
        return torch.where(swap, starts + later, starts), torch.where(swap, starts, starts + later)

    @torch.no_grad()
    def _renew(self, newest: int) -> None:
        """Everyone sees with what was learnt since, in place, for acting is captured; and sees its past anew."""
        for agent, detector in enumerate(self.detectors):
            learnt = self.learners[agent].model.state_dict()
            for name, tensor in detector.net.state_dict().items():
                tensor.copy_(learnt[name])
            for at in range(0, newest + 1, AT_ONCE):
                part = slice(at, min(at + AT_ONCE, newest + 1))
                self.replay.rows[agent, part] = self.observer.rows(detector, self.frames[agent][part])

    def _weights(self, agent: int) -> list[Tensor]:
        """Those of a Transporter that a detector has, too."""
        own = self.learners[agent].model.state_dict()
        return [own[name] for name in self.detectors[agent].net.state_dict()]

    # State: but for the frames, which the games show again

    def tensors(self) -> dict[str, Tensor]:
        self.check()  # what is saved can go on
        found = {"losses": self.losses}
        for agent, (learner, detector) in enumerate(zip(self.learners, self.detectors, strict=True)):
            found |= {f"{agent}.learner.{name}": t for name, t in learner.checkpoint(self.done).tensors.items()}
            found |= {f"{agent}.detector.{name}": t for name, t in detector.net.state_dict().items()}
        return found

    def state(self) -> Json:
        return {"done": self.done, "chance": [chance.bit_generator.state for chance in self.chance]}

    @torch.no_grad()
    def restore(self, saved: Checkpoint, state: Json) -> None:
        """`saved` has the tensors under their names."""
        self.done = state["done"]
        self.losses.copy_(saved.tensors["losses"])
        for agent, (learner, detector) in enumerate(zip(self.learners, self.detectors, strict=True)):
            learner.restore(Checkpoint(self.done, saved.part(f"{agent}.learner."), {}))
            detector.net.load_state_dict(saved.part(f"{agent}.detector."))
            self.chance[agent].bit_generator.state = state["chance"][agent]


def _learner(config: EyesConfig, detector: Detector, seed: int, hardware: Hardware) -> Learner:
    """A Transporter that begins with what the detector knows; only the part that draws is new."""
    made = Learner(
        TrainConfig(
            detector.config, steps=10**9, batch=config.batch, both_ways=True, learning_rate=config.rate, seed=seed
        ),
        hardware,
    )
    made.model.load_state_dict(detector.net.state_dict(), strict=False)
    return made


def own_copies(detectors: Sequence[Detector]) -> list[Detector]:
    """Detectors that can be changed without anyone else's noticing; not blinkered: they shall learn what is new."""
    return [detector.opened() for detector in detectors]


def check_room(needed: int, device: torch.device) -> None:
    """Frames stay on the device; refuse what does not fit there, with room for the learners."""
    if needed > (free := room(device, SPARE)):
        needs, has = (f"{count / 2**30:.0f} GiB" for count in (needed, free))
        raise InputError(f"where detectors go on learning, all frames stay on the GPU: {needs} of them, {has} are free")

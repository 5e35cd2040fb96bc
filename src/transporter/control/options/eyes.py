"""Where keypoints come from: a detector that stays as it is, or a Transporter that learns from the same replay.

Rewards are made when a sequence is learnt from, from frames, with the keypoints of that moment: what was seen by an
older detector is never compared with what is seen by a newer one.
"""

import copy
from typing import NamedTuple, Protocol

import numpy as np
import torch
from jaxtyping import Float, Int64, UInt8
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn

from transporter.checkpoints import Checkpoint
from transporter.control.options.config import EyesConfig
from transporter.frames import resize_tensor
from transporter.models.detector import Detector
from transporter.models.pixels import Pixels
from transporter.training.config import Preset, TrainConfig
from transporter.training.distributed import average
from transporter.training.learner import Hardware, Learner
from transporter.training.loop import NotFiniteError
from transporter.training.recipes import configure


class Eyes(Protocol):
    """Keypoints of frames, on the frames' own device; nothing in it waits for the CPU."""

    keypoints: int

    def __call__(self, frames: UInt8[Tensor, "n h w 3"]) -> Float[Tensor, "n k 2"]: ...


class Frozen:
    """A trained detector."""

    def __init__(self, detector: Detector, hardware: Hardware) -> None:
        self.detector, self.hardware, self.keypoints = detector, hardware, detector.keypoints

    @torch.no_grad()
    def __call__(self, frames: UInt8[Tensor, "n h w 3"]) -> Float[Tensor, "n k 2"]:
        size = self.detector.config.size
        with self.hardware.autocast(self.detector.device):
            return self.detector.net.points(resize_tensor(frames, size, size))


class Learning:
    """A Transporter in training; what looks is a copy of it as it is in use, brought up to date after every update."""

    def __init__(self, config: TrainConfig, hardware: Hardware) -> None:
        self.config, self.hardware, self.keypoints = config, hardware, config.model.keypoints
        self.learner = Learner(config, hardware)
        self.loss = torch.zeros((), device=self.learner.device)
        self._ours = nn.ModuleList([self.learner.model.pixels, self.learner.model.keypoints])
        self._seen = copy.deepcopy(self._ours).eval().requires_grad_(False)
        both = zip(self._seen.state_dict().values(), self._ours.state_dict().values(), strict=True)
        self._copies = [(seen, own) for seen, own in both if own.is_floating_point()]  # not the norms' counters

    @torch.no_grad()
    def __call__(self, frames: UInt8[Tensor, "n h w 3"]) -> Float[Tensor, "n k 2"]:
        pixels, keypoints = self._seen
        assert isinstance(pixels, Pixels)
        with self.hardware.autocast(self.learner.device):
            return keypoints(pixels.encode(frames))

    @property
    def done(self) -> int:
        """Updates made."""
        return self.learner.done

    def learn(self, source: UInt8[Tensor, "b h w 3"], target: UInt8[Tensor, "b h w 3"]) -> None:
        """One update from pairs of frames."""
        self.loss = self.learner.step(self.done, source, target)
        self._look_again()

    @torch.no_grad()
    def fit(self, frames: UInt8[Tensor, "n h w 3"]) -> None:
        """Mean and deviation of every pixel, from what has been seen of late."""
        if self.config.model.standardise:
            values = frames.double()
            mean, squares = values.mean(0), values.square().mean(0)
            average([mean, squares])  # with those of other learners
            std = (squares - mean.square()).clamp_min(0).sqrt()
            mean, std = (x.permute(2, 0, 1).float() for x in (mean, std))
            self.learner.model.pixels.fit(mean, std, self.config.model.floor)
            self._look_again()

    @torch.no_grad()
    def _look_again(self) -> None:
        """In place: what was captured with it goes on."""
        seen, own = zip(*self._copies, strict=True)
        torch._foreach_copy_(seen, own)

    def detector(self) -> Detector:
        """What has been learnt so far, for everyone else."""
        tensors = {name: t.detach().clone() for name, t in self.learner.model.state_dict().items()}
        return Detector.from_tensors(self.config.model, tensors, device=str(self.learner.device))

    def checkpoint(self) -> Checkpoint:
        """From its first update that is not finite on, it learns nothing more: there is nothing to go on from."""
        if (bad := self.learner.failed_at()) is not None:
            raise NotFiniteError(f"loss or gradient not finite at update {bad + 1} of the Transporter")
        saved = self.learner.checkpoint(self.done)
        return saved._replace(tensors={**saved.tensors, "loss": self.loss.detach().clone()})

    def restore(self, saved: Checkpoint) -> None:
        self.learner.restore(saved)
        self.loss = saved.tensors.get("loss", self.loss).to(self.learner.device)  # version 0.1 did not keep it
        self._look_again()


def transporter(config: EyesConfig, keypoints: int, seed: int) -> TrainConfig:
    """The training of a Transporter in the loop; how long it lasts is for the loop to say.

    Its features reach as far as Ψ sees: what those of the preset, which reach less far, do in a loop is not known.
    """
    name: Preset = "tiny" if config.tiny else "fast"
    return configure(
        "far", name, keypoints=keypoints, size=config.size, seed=seed, steps=10**9, batch=config.batch,
        both_ways=True, learning_rate=config.rate, decay=config.decay,
        decay_every=config.decay_every, sigma_steps=config.sigma_steps,
    )  # fmt: skip


class Drift(NamedTuple):
    """What has become of keypoints between two detectors that look at the same frames."""

    moved: float  # mean distance between before and after
    swapped: float  # share of keypoints of which another, after, is where they were before


def drift(before: Float[np.ndarray, "n k 2"], after: Float[np.ndarray, "n k 2"]) -> Drift:
    """Whether keypoints have kept to their objects: the best matching of before and after is each with itself."""
    apart = np.linalg.norm(before[:, :, None] - after[:, None], axis=-1)  # (n, k, k)
    own = np.arange(before.shape[1])
    matched: list[Int64[np.ndarray, "k"]] = [linear_sum_assignment(frame)[1] for frame in apart]
    return Drift(float(apart[:, own, own].mean()), float((np.array(matched) != own).mean()))

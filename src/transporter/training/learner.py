"""A model with its optimiser: one step, and all of its state."""

import contextlib
import warnings
from dataclasses import dataclass

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from transporter.checkpoints import Checkpoint
from transporter.models.branches import one_by_one
from transporter.models.devices import Precision, is_half
from transporter.models.factory import build
from transporter.models.fused import MISSING
from transporter.models.kernels import ASIDE, kernels_ahead
from transporter.models.pixels import TURNS
from transporter.models.transporter import Output
from transporter.training.config import TrainConfig
from transporter.training.distributed import SharedStep, begin_alike, place


@dataclass(frozen=True)
class Hardware:
    """Where and how to compute: it changes the speed and the last digits, not what is learnt."""

    device: str = "auto"  # auto: the GPU where there is one
    precision: Precision = "auto"  # auto: bf16 on a GPU that has it; coordinates and loss stay in fp32
    compile: bool = False  # torch.compile the networks: a minute to start, then faster
    graph: bool = True  # on a GPU, replay the step as one CUDA graph; as two, where several processes share it
    beside: bool = True  # and let the parts of a step that need not wait for one another run at once

    def resolve(self) -> torch.device:
        name = ("cuda" if torch.cuda.is_available() else "cpu") if self.device == "auto" else self.device
        return torch.device(name)

    def autocast(self, device: torch.device) -> contextlib.AbstractContextManager[object]:
        if not is_half(self.precision, device):
            return contextlib.nullcontext()
        return torch.autocast(device.type, torch.bfloat16, cache_enabled=False)


class Learner:
    """Everything that changes while training."""

    def __init__(self, config: TrainConfig, hardware: Hardware) -> None:
        torch.manual_seed(config.seed)
        self.config = config
        self.hardware = hardware
        self.device = hardware.resolve()
        if self.device.index is not None:  # streams, graphs and Triton's kernels go where the current device is
            torch.cuda.set_device(self.device)
        if self.device.type == "cuda" and MISSING is not None:
            warnings.warn(f"{MISSING} is missing: training is slower without our own kernels", stacklevel=2)
        self.model = build(config.model).to(self.device)
        begin_alike(self.model.state_dict().values())
        self.done = 0  # updates made
        torch.backends.cudnn.benchmark = True  # shapes never change: the first steps find the fastest kernels for them
        if hardware.compile:
            for part in (self.model.features, self.model.keypoints, self.model.refine):
                part.compile()
        # What changes from step to step lives in tensors, so that a captured step sees it.
        self.rate = torch.tensor(config.learning_rate, device=self.device)
        self.now = torch.tensor(0, device=self.device)
        self.first_bad = torch.tensor(-1, device=self.device)
        on_gpu = self.device.type == "cuda"
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=self.rate, fused=True, capturable=on_gpu)
        self._statistics = _together([m for m in self.model.modules() if isinstance(m, nn.BatchNorm2d)])
        self._captures = on_gpu and hardware.graph
        self._pairs: tuple[Tensor, Tensor] | None = None  # where an update reads them
        self._before: list[Tensor] = []  # the norms' statistics, as they were before an update
        self._update: SharedStep[Tensor] | None = None

    def step(self, step: int, source: UInt8[Tensor, "b H W 3"], target: UInt8[Tensor, "b H W 3"]) -> Float[Tensor, ""]:
        """One update, the loss of which is good until the next. Nothing here waits for the GPU."""
        self.model.train()
        self.model.sigma.fill_(self.config.sigma(step))
        self.rate.fill_(self.config.rate(step))
        self.now.fill_(step)
        if self.config.model.disturbs:
            self.model.pixels.turn.fill_(hash((self.config.seed, place().rank, step)) % TURNS)
        self.done = step + 1
        return self.update(source, target)

    def update(self, source: UInt8[Tensor, "b H W 3"], target: UInt8[Tensor, "b H W 3"]) -> Float[Tensor, ""]:
        """Forward, backward, Adam. From the first step with a loss or gradient that is not finite, nothing changes."""
        if not self._captures:
            self._pairs = source, target
            return self._shared_step()()
        if self._pairs is None or self._update is None:
            self._pairs, self._update = (source.clone(), target.clone()), self._shared_step()
        for kept, new in zip(self._pairs, (source, target), strict=True):
            kept.copy_(new)
        return self._update()

    def _shared_step(self) -> SharedStep[Tensor]:
        return SharedStep(self._differentiate, self._apply, self._shared, self._state, self._captures)

    def _differentiate(self) -> Float[Tensor, ""]:
        """The loss, which is good until the next; gradients are left at the parameters."""
        assert self._pairs is not None
        self._before = [statistic.clone() for statistic in self._statistics]
        self.optimiser.zero_grad(set_to_none=True)
        queue = contextlib.nullcontext() if self.hardware.beside else one_by_one()
        # A compiled step makes its own kernels: given from outside, it would be compiled anew each time.
        ahead = contextlib.nullcontext() if self.hardware.compile else kernels_ahead(self.model)
        with queue, self.hardware.autocast(self.device), ahead:
            how = (True, self.config.carried) if self.config.both_ways else ()
            output: Output = self.model(*self._pairs, *how)
        with ASIDE if self.hardware.beside else contextlib.nullcontext():
            output.loss.backward()
        self._loss = output.loss.detach()
        return self._loss

    def _shared(self) -> list[Tensor]:
        """What several processes average. Each norm sees its own share of a batch; their statistics are everyone's."""
        return [self._loss, *self._gradients(), *(t for t in self._statistics if t.is_floating_point())]

    def _gradients(self) -> list[Tensor]:
        return [p.grad for p in self.model.parameters() if p.grad is not None]

    def _apply(self) -> None:
        # One question for both: their sum is finite only where both are.
        finite = torch.isfinite(self._loss + torch.nn.utils.get_total_norm(self._gradients()))
        self.first_bad.copy_(torch.where((self.first_bad < 0) & ~finite, self.now, self.first_bad))
        well = self.first_bad < 0
        # The way torch's own loss scaler makes Adam leave out a step, without asking the CPU.
        self.optimiser.found_inf = (~well).float()  # type: ignore[attr-defined]
        self.optimiser.step()
        for statistic, old in zip(self._statistics, self._before, strict=True):
            statistic.copy_(torch.where(well, statistic, old))

    def failed_at(self) -> int | None:
        """The step whose loss or gradient was not finite; this does wait for the GPU."""
        bad = int(self.first_bad)
        return None if bad < 0 else bad

    def checkpoint(self, step: int, **state: object) -> Checkpoint:
        """`step` updates have been made."""
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        names = {id(p): name for name, p in self.model.named_parameters()}
        for parameter, slots in self.optimiser.state.items():
            for slot, value in slots.items():
                tensors[f"adam.{slot}.{names[id(parameter)]}"] = value
        tensors["random.torch"] = torch.get_rng_state()
        return Checkpoint(step, {name: t.detach().clone() for name, t in tensors.items()}, dict(state))

    def restore(self, checkpoint: Checkpoint) -> None:
        tensors = checkpoint.tensors
        self.model.load_state_dict(checkpoint.part("model."))
        for name, parameter in self.model.named_parameters():
            if f"adam.step.{name}" in tensors:
                # Moments must lie in memory as their parameter does: the fused kernel goes through both in one sweep.
                moments = {
                    slot: torch.empty_like(parameter).copy_(tensors[f"adam.{slot}.{name}"])
                    for slot in ("exp_avg", "exp_avg_sq")
                }
                self.optimiser.state[parameter] = {"step": tensors[f"adam.step.{name}"].to(self.device), **moments}
        torch.set_rng_state(tensors["random.torch"])
        self.done = checkpoint.step
        self._update = None  # it holds on to the moments that were there before

    def _state(self) -> list[Tensor]:
        """Every tensor that an update changes; Adam's last, since they are made by the first one."""
        moments = [t for slots in self.optimiser.state.values() for t in slots.values()]
        return [*self.model.state_dict().values(), self.first_bad, *moments]


def _together(norms: list[nn.BatchNorm2d]) -> list[Tensor]:
    """One tensor for each type of running statistics, with the norms' own as views: put back at a stroke."""
    whole = []
    for names in (("running_mean", "running_var"), ("num_batches_tracked",)):
        places = [(norm, name) for norm in norms for name in names]
        if places:
            tensors = [getattr(norm, name) for norm, name in places]
            flat = torch.cat([tensor.flatten() for tensor in tensors])
            views = flat.split([tensor.numel() for tensor in tensors])
            for (norm, name), tensor, view in zip(places, tensors, views, strict=True):
                setattr(norm, name, view.view_as(tensor))
            whole.append(flat)
    return whole

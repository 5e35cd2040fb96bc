"""A model with its optimiser: one step, and all of its state."""

import contextlib
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor, nn

from transporter.models.factory import build
from transporter.models.transporter import Output
from transporter.runs import Checkpoint
from transporter.training.config import TrainConfig


@dataclass(frozen=True)
class Hardware:
    """Where and how to compute: it changes the speed and the last digits, not what is learnt."""

    device: str = "auto"  # auto: the GPU where there is one
    precision: Literal["auto", "fp32", "bf16"] = "auto"  # auto: bf16 on a GPU; coordinates and loss stay in fp32
    compile: bool = False  # torch.compile the networks: minutes to start, then faster

    def resolve(self) -> torch.device:
        name = ("cuda" if torch.cuda.is_available() else "cpu") if self.device == "auto" else self.device
        return torch.device(name)

    def autocast(self, device: torch.device) -> contextlib.AbstractContextManager[object]:
        half = self.precision == "bf16" or (self.precision == "auto" and device.type == "cuda")
        return torch.autocast(device.type, torch.bfloat16) if half else contextlib.nullcontext()


class StepResult(NamedTuple):
    loss: Float[Tensor, ""]
    finite: Bool[Tensor, ""]


class Learner:
    """Everything that changes while training."""

    def __init__(self, config: TrainConfig, hardware: Hardware) -> None:
        torch.manual_seed(config.seed)
        self.config = config
        self.hardware = hardware
        self.device = hardware.resolve()
        self.model = build(config.model).to(self.device)
        self.parallel: nn.Module = self.model
        if hardware.compile:
            for part in (self.model.features, self.model.keypoints, self.model.refine):
                part.compile()
        if torch.distributed.is_initialized():
            self.parallel = nn.parallel.DistributedDataParallel(self.model)
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=config.learning_rate, fused=True)
        self._buffers = [b for m in self.model.modules() if isinstance(m, nn.BatchNorm2d) for b in m.buffers()]
        self._kept = [b.clone() for b in self._buffers]

    def step(self, step: int, source: UInt8[Tensor, "b H W 3"], target: UInt8[Tensor, "b H W 3"]) -> StepResult:
        """One update; where the loss or a gradient is not finite, everything stays as it was before the step."""
        self.model.train()
        self.model.sigma.fill_(self.config.sigma(step))
        for group in self.optimiser.param_groups:
            group["lr"] = self.config.rate(step)
        self.optimiser.zero_grad(set_to_none=True)
        with self.hardware.autocast(self.device):
            output: Output = self.parallel(source, target)
        output.loss.backward()
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        finite = torch.isfinite(output.loss.detach()) & torch.isfinite(torch.nn.utils.get_total_norm(gradients))
        if finite:
            self.optimiser.step()
            _copy(self._buffers, to=self._kept)
        else:
            _copy(self._kept, to=self._buffers)  # the norms' running statistics saw the bad batch
        return StepResult(output.loss.detach(), finite)

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
        self._kept = [b.clone() for b in self._buffers]


def _copy(tensors: list[Tensor], to: list[Tensor]) -> None:
    if tensors:  # norms other than batch norm keep no statistics
        torch._foreach_copy_(to, tensors)

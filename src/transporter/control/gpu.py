"""What control asks of a GPU: quick products, room, and work as one CUDA graph."""

import sys
import warnings
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from transporter.models.graphs import record


def prepare(device: torch.device) -> None:
    """Products with ten bits of mantissa (TF32), several times as fast, are enough for values."""
    if device.type == "cuda":
        torch.cuda.set_device(device.index or 0)
        torch.set_float32_matmul_precision("high")


def room(device: torch.device, spare: int) -> int:
    """Bytes that are free on a GPU, `spare` left to the learners; what a CPU has is not asked."""
    return max(0, torch.cuda.mem_get_info(device)[0] - spare) if device.type == "cuda" else sys.maxsize


class Captured:
    """Calls `work`, which reads and writes tensors that stay where they are; on a GPU, from the first call, as a graph.

    `changed` are the tensors that `work` changes and also reads: warming up must leave them as they were. Graphs of
    several of these may run at once; `urgent` ones have their turn first.
    """

    def __init__(
        self, work: Callable[[], None], changed: Sequence[Tensor], capture: bool, *, urgent: bool = False
    ) -> None:
        self.work, self.changed, self.capture, self.urgent = work, changed, capture, urgent
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        if self.capture and self._graph is None:
            self._try()
        if self._graph is None:
            self.work()
        else:
            self._graph.replay()

    def _try(self) -> None:
        kept = [tensor.detach().clone() for tensor in self.changed]
        try:
            self._graph, _ = record(self.work, urgent=self.urgent)
        except RuntimeError as error:
            self.capture = False
            warnings.warn(f"not captured as a CUDA graph: {str(error).splitlines()[0]}", stacklevel=3)
        finally:
            with torch.no_grad():
                for tensor, old in zip(self.changed, kept, strict=True):
                    tensor.copy_(old)

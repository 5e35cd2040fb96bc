"""A trained net for those who only use it: norms folded into convolutions, half precision, replay as a CUDA graph."""

import copy
from collections import OrderedDict
from collections.abc import Callable
from itertools import pairwise
from typing import Any, TypeVar

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from transporter.frames import area_weights
from transporter.models.blocks import Encoder
from transporter.models.convolutions import DoublingConv
from transporter.models.graphs import record
from transporter.models.kernels import Kernelled
from transporter.models.zhang import Hourglass

Net = TypeVar("Net", bound=nn.Module)
Infer = Callable[[Tensor], tuple[Tensor, ...]]
GRAPHS = 8  # kept at a time, one for each size and number of frames; the one unused for longest goes


def swift(net: Net, half: bool) -> Net:
    """A copy that gives the same answers sooner. In half precision the coordinates stay in fp32, from the maps on."""
    fast = fold(copy.deepcopy(net).eval()).requires_grad_(False)
    if half:
        for parent in list(fast.modules()):
            for name, part in list(parent.named_children()):
                if isinstance(part, Encoder) or (isinstance(part, Hourglass) and not isinstance(parent, Hourglass)):
                    setattr(parent, name, nn.Sequential(To(torch.bfloat16), part.bfloat16(), To(torch.float32)))
    for layer in fast.modules():
        if isinstance(layer, Kernelled) and layer.weight.is_cuda:
            layer.fix()
    return fast


class To(nn.Module):
    """From here on in this type."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def forward(self, x: Tensor) -> Tensor:
        return x.to(self.dtype)


@torch.no_grad()
def fold(module: Net) -> Net:
    """Batch norms, as they are in use, into the convolutions before them; the module itself is changed."""
    for parent in list(module.modules()):
        children = list(parent.named_children())
        for (_, convolution), (name, norm) in pairwise(children):
            if isinstance(convolution, DoublingConv):
                continue  # it has no place for a bias
            if isinstance(convolution, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
                _fold(convolution, norm)
                setattr(parent, name, nn.Identity())
    return module


def _fold(convolution: nn.Conv2d, norm: nn.BatchNorm2d) -> None:
    assert norm.running_mean is not None
    assert norm.running_var is not None
    # In float64, so that what is left of the difference is the rounding of the folded weights.
    scale = norm.weight.double() / (norm.running_var.double() + norm.eps).sqrt()
    shift = norm.bias.double() - norm.running_mean.double() * scale
    if convolution.bias is not None:
        shift += convolution.bias.double() * scale
    kernel = convolution.weight
    kernel.copy_(kernel.double() * scale[:, None, None, None])
    convolution.bias = nn.Parameter(shift.to(kernel.dtype))


class Graphs:
    """Runs a function of frames as CUDA graphs: one launch instead of a hundred, and nothing waits."""

    def __init__(self, infer: Infer, size: int) -> None:
        self.infer, self.size = infer, size
        self._captured: OrderedDict[tuple[int, ...], FixedSize] = OrderedDict()
        self._pool = torch.cuda.graph_pool_handle()  # one for all: they run in turn, and outcomes are copied out
        self._done = torch.cuda.Event()

    def __call__(self, frames: UInt8[Tensor, "t h w 3"]) -> tuple[Tensor, ...]:
        with torch.cuda.device(frames.device):  # graphs are of the current device, which need not be the frames'
            graph, here = self._of(frames.shape), torch.cuda.current_stream()
            here.wait_event(self._done)  # of another caller's, on a stream of its own: both read from one place
            found = graph(frames)
            self._done.record(here)
            return found

    def _of(self, shape: torch.Size) -> "FixedSize":
        count, height, width, _ = shape
        rows = 1 << (count - 1).bit_length()  # powers of two: few graphs serve every number of frames
        key = (rows, height, width)
        if key not in self._captured:
            while len(self._captured) >= GRAPHS:
                self._captured.popitem(last=False)
            self._captured[key] = FixedSize(self.infer, rows, height, width, self.size, self._pool)
        self._captured.move_to_end(key)
        return self._captured[key]


class FixedSize:
    """One number of frames of one size."""

    def __init__(self, infer: Infer, rows: int, height: int, width: int, size: int, pool: Any) -> None:
        device = torch.device("cuda", torch.cuda.current_device())
        self.frames: UInt8[Tensor, "t h w 3"] = torch.zeros(rows, height, width, 3, dtype=torch.uint8, device=device)
        # A graph remembers addresses only: what it reads must live as long as it does.
        self.kept = (infer, area_weights(height, size, device), area_weights(width, size, device))
        before, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, True
        self.found: tuple[Float[Tensor, "t ..."], ...]
        try:
            self.graph, self.found = record(lambda: infer(self.frames), pool)
        finally:
            torch.backends.cudnn.benchmark = before

    def __call__(self, frames: UInt8[Tensor, "t h w 3"]) -> tuple[Tensor, ...]:
        self.frames[: len(frames)].copy_(frames, non_blocking=True)
        self.graph.replay()
        return tuple(part[: len(frames)].clone() for part in self.found)

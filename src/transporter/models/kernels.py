"""From a layer's weights to the kernel that a GPU runs, and back with the gradient: neither in anyone's way."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import zip_longest
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from transporter.models.branches import beside


class Convolve(torch.autograd.Function):
    """A convolution by a kernel that a layer makes of its weights; their gradient is worked out aside.

    Nothing waits for the gradient of weights but the optimiser, while the gradient of x is waited for by all layers
    before; so the first may go on a stream of its own (see `Aside`).
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, layer: "Kernelled", stride: tuple[int, ...], padding: tuple[int, ...]
    ) -> Tensor:
        kernel = layer.kernel()
        x = x.to(kernel.dtype)
        ctx.save_for_backward(x, kernel)
        ctx.layer, ctx.how = layer, (None, stride, padding, (1, 1), False, (0, 0), 1)
        with torch.autocast(x.device.type, enabled=False):
            return F.conv2d(x, kernel, None, stride, padding)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, kernel = ctx.saved_tensors
        (gradient,), to_x, to_weight = gradients, None, None
        backward = torch.ops.aten.convolution_backward
        if ctx.needs_input_grad[0]:
            to_x = backward(gradient, x, kernel, *ctx.how, (True, False, False))[0]
        if ctx.needs_input_grad[1]:
            # Autograd keeps a first gradient as it is; to one that is there already it would add at once, unwaited for.
            with ASIDE.of(gradient, x) if ctx.layer.weight.grad is None else nullcontext():
                to_kernel = backward(gradient, x, kernel, *ctx.how, (False, True, False))[1]
                to_weight = ctx.layer.to_weight(to_kernel)
        return to_x, to_weight, None, None, None


class Aside:
    """Streams for gradients that only the optimiser waits for, one to each branch: `with ASIDE: loss.backward()`."""

    def __init__(self) -> None:
        self.open = False
        self._streams: set[torch.cuda.Stream] = set()

    def __enter__(self) -> None:
        self.open = True

    def __exit__(self, *error: object) -> None:
        used, self._streams, self.open = self._streams, set(), False
        for stream in used:
            torch.cuda.current_stream().wait_stream(stream)

    @contextmanager
    def of(self, *read: Tensor) -> Iterator[None]:
        """What is done here reads these tensors, which others may give up before it has."""
        if not self.open or not read[0].is_cuda:
            yield
            return
        stream = beside("weights")
        self._streams.add(stream)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            yield
        for tensor in read:
            tensor.record_stream(stream)


ASIDE = Aside()


class Kernelled(nn.Conv2d):
    """A layer whose kernel on a GPU is a linear map of its weights, channels last and in the type autocast asks for."""

    _fixed: Tensor | None = None
    _ahead: tuple[Tensor, torch.cuda.Event] | None = None

    def kernel(self) -> Float[Tensor, "O I K L"]:
        if self._fixed is not None:
            return self._fixed
        if self._ahead is not None:
            kernel, made = self._ahead
            here = torch.cuda.current_stream()
            here.wait_event(made)
            kernel.record_stream(here)
            return kernel
        device = self.weight.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else self.weight.dtype
        return self.from_weight(self.weight.detach(), dtype)

    def fix(self) -> None:
        """Weights change no more: the kernel need not be made again for every call."""
        self._fixed = self.kernel()

    def from_weight(self, weight: Float[Tensor, "o i k k"], dtype: torch.dtype) -> Float[Tensor, "O I K L"]:
        return weight.to(dtype)

    def to_weight(self, to_kernel: Float[Tensor, "O I K L"]) -> Float[Tensor, "o i k k"]:
        """The gradient of the weights, given that of the kernel; laid out as they are."""
        return torch.empty_like(self.weight).copy_(to_kernel)

    def convolve(
        self, x: Float[Tensor, "b I h w"], padding: tuple[int, int], stride: tuple[int, int] = (1, 1)
    ) -> Float[Tensor, "b O H W"]:
        """With the kernel, and without a bias."""
        return Convolve.apply(x, self.weight, self, stride, padding)


@contextmanager
def kernels_ahead(model: nn.Module) -> Iterator[None]:
    """Within it every layer finds its kernel made, on a stream beside: small work, which a layer would wait for."""
    networks = [[part for part in child.modules() if isinstance(part, Kernelled)] for child in model.children()]
    layers = [layer for row in zip_longest(*networks) for layer in row if layer is not None and layer.weight.is_cuda]
    if not layers:
        yield
        return
    here, side = torch.cuda.current_stream(), beside("kernels")
    side.wait_stream(here)
    try:
        with torch.cuda.stream(side):
            for layer in layers:  # the first of each network first: they are wanted soonest
                kernel, made = layer.kernel(), torch.cuda.Event()
                made.record(side)
                layer._ahead = kernel, made
        yield
    finally:
        for layer in layers:
            layer._ahead = None
        here.wait_stream(side)

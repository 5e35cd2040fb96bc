"""Φ and RefineNet: plain convolutional stacks, given by their shape."""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

Norm = Literal["batch", "instance", "layer"]


@dataclass(frozen=True)
class Shape:
    """Φ layer by layer; Ψ shares it, RefineNet is its transpose unless it has filters of its own."""

    filters: tuple[int, ...]
    kernels: tuple[int, ...]
    strides: tuple[int, ...]
    norm: Norm = "batch"
    refine: tuple[int, ...] | None = None  # 3×3 filters before each doubling, then at full size; None: transpose of Φ

    def __post_init__(self) -> None:
        if not len(self.filters) == len(self.kernels) == len(self.strides):
            raise ValueError(f"filters, kernels and strides differ in length: {self}")
        if self.refine is not None and len(self.refine) != self.doublings + 1:
            raise ValueError(f"refine needs {self.doublings + 1} entries to undo the strides: {self}")

    @property
    def doublings(self) -> int:
        """How many factors of two lie between the frame and the feature map."""
        return sum(stride == 2 for stride in self.strides)

    @property
    def reduction(self) -> int:
        """A frame's side is this many times the feature map's."""
        return 2**self.doublings


# Appendix A.
PAPER = Shape(filters=(32, 32, 64, 64, 128, 128), kernels=(7, 3, 3, 3, 3, 3), strides=(1, 1, 2, 1, 2, 1))
# The notebook that came with the authors' release: a 64×64 feature map of a 128×128 frame, and a narrow decoder.
NOTEBOOK = Shape(filters=(16, 16, 32, 32), kernels=(7, 3, 3, 3), strides=(1, 1, 2, 1), refine=(128, 64))
# The notebook's, with half the decoder: as good on Pong, and most of a step's arithmetic is in the decoder.
SMALL = replace(NOTEBOOK, refine=(64, 32))
# What two CPU cores can train while one waits.
TINY = Shape(filters=(16, 16, 32), kernels=(3, 3, 3), strides=(1, 2, 1), refine=(32, 16))


def make_norm(kind: Norm, channels: int) -> nn.Module:
    match kind:
        case "batch":
            return nn.BatchNorm2d(channels)
        case "instance":
            return nn.InstanceNorm2d(channels, affine=True)
        case "layer":
            return nn.GroupNorm(1, channels)
    raise ValueError(f"no norm called {kind!r}")


def conv_block(inputs: int, outputs: int, kernel: int, stride: int, norm: Norm) -> nn.Sequential:
    """Conv-Norm-ReLU; the norm's own shift makes a bias of the convolution idle."""
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
    return nn.Sequential(convolution, make_norm(norm, outputs), nn.ReLU(inplace=True))


class Encoder(nn.Sequential):
    """(b, 3, H, W) frames to (b, d, H / reduction, W / reduction) features."""

    def __init__(self, shape: Shape, inputs: int = 3) -> None:
        channels = (inputs, *shape.filters)
        super().__init__(
            *(
                conv_block(before, after, kernel, stride, shape.norm)
                for before, after, kernel, stride in zip(
                    channels[:-1], channels[1:], shape.kernels, shape.strides, strict=True
                )
            )
        )
        self.channels = shape.filters[-1]


class Double(nn.Module):
    """Twice the height and width, bilinear."""

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c 2h 2w"]:
        return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)


class RefineNet(nn.Sequential):
    """(b, d, h, w) transported features to a (b, 3, H, W) frame; the last layer is linear."""

    def __init__(self, shape: Shape, inputs: int | None = None, outputs: int = 3) -> None:
        inputs = inputs or shape.filters[-1]
        if shape.refine is None:
            super().__init__(*self._transpose(shape, inputs, outputs))
        else:
            super().__init__(*self._narrowing(shape, shape.refine, inputs, outputs))

    @staticmethod
    def _transpose(shape: Shape, inputs: int, outputs: int) -> list[nn.Module]:
        """Φ's layers backwards: each gives what its twin took, and a stride becomes a doubling before it."""
        layers: list[nn.Module] = []
        for index in reversed(range(len(shape.filters))):
            if shape.strides[index] == 2:
                layers.append(Double())
            kernel = shape.kernels[index]
            if index == 0:
                layers.append(nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2))
            else:
                layers.append(conv_block(inputs, shape.filters[index - 1], kernel, 1, shape.norm))
                inputs = shape.filters[index - 1]
        return layers

    @staticmethod
    def _narrowing(shape: Shape, filters: tuple[int, ...], inputs: int, outputs: int) -> list[nn.Module]:
        """The release's way: 3×3 layers only, fewer filters after each doubling."""
        layers: list[nn.Module] = []
        for index, count in enumerate(filters):
            if index > 0:
                layers.append(Double())
            layers.append(conv_block(inputs, count, 3, 1, shape.norm))
            inputs = count
        return [*layers, nn.Conv2d(inputs, outputs, 3, padding=1)]


def to_channels_last(module: nn.Module) -> nn.Module:
    """The memory order in which convolutions are fastest, on GPUs and CPUs alike."""
    return module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

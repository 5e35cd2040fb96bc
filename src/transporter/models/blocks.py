"""Φ and RefineNet: plain convolutional stacks, given by their shape."""

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transporter.models.convolutions import BlockConv, ColumnConv, DoublingConv, FrameConv, PlainConv
from transporter.models.norm_relu import norm_relu

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
        if min((1, *self.filters, *self.kernels, *(self.refine or ()))) < 1 or not {1, 2}.issuperset(self.strides):
            raise ValueError(f"filters and kernels are at least 1, strides 1 or 2: {self}")
        if self.refine is not None and len(self.refine) != self.doublings + 1:
            raise ValueError(f"refine needs {self.doublings + 1} entries to undo the strides: {self}")
        if self.refine is None and any(
            stride == 2 and (index == 0 or self.kernels[index] != 3) for index, stride in enumerate(self.strides)
        ):
            raise ValueError(f"only 3×3 layers after the first can have a stride where RefineNet transposes Φ: {self}")

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
# The paper's at half its width, with a narrow decoder: sees twice as far as SMALL.
HALF = Shape(
    filters=(16, 16, 32, 32, 64, 64), kernels=(7, 3, 3, 3, 3, 3), strides=(1, 1, 2, 1, 2, 1), refine=(64, 64, 32)
)
# A KeyNet that sees 51 of an 80×80 frame's pixels at once: what a thing is can depend on what lies beside it.
WIDE = Shape(
    filters=(16, 16, 32, 32, 64, 64, 64, 64),
    kernels=(7, 3, 3, 3, 3, 3, 3, 3),
    strides=(1, 1, 2, 1, 2, 1, 2, 1),
)
# Nothing that lies more than three pixels from a keypoint can be painted with its help: many keypoints cannot share out
# a frame among them like tiles, and let things pass. For Φ; Ψ should see further.
NEAR = Shape(filters=(16, 32), kernels=(3, 1), strides=(1, 1), refine=(32,))
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


class ConvBlock(nn.Sequential):
    """Conv-Norm-ReLU; the norm's own shift makes a bias of the convolution idle."""

    def __init__(self, convolution: nn.Conv2d, norm: Norm, blocked: bool = False) -> None:
        """`blocked`: what follows can take 4×4 blocks as channels."""
        super().__init__(convolution, make_norm(norm, convolution.out_channels), nn.ReLU(inplace=True))
        self.blocked = blocked

    def forward(self, x: Float[Tensor, "b i h w"]) -> Float[Tensor, "b _ H W"]:
        convolution, norm, _ = self
        if isinstance(convolution, DoublingConv) or (isinstance(convolution, FrameConv) and convolution.in_phases(x)):
            return norm_relu(convolution.phases(x), norm, "unphased")
        return norm_relu(convolution(x), norm, "blocked" if self.blocked else "plain")


def conv(inputs: int, outputs: int, kernel: int, stride: int = 1, bias: bool = False) -> nn.Conv2d:
    """A convolution that keeps the size, but for the stride, in the form that is fastest."""
    few = min(inputs, outputs)
    if stride == 1 and inputs < 8:
        return FrameConv(inputs, outputs, kernel, bias)
    if stride == 1 and outputs < 8 and kernel > 3:
        return BlockConv(inputs, outputs, kernel, bias)
    if stride == 1 and few < 64:
        return ColumnConv(inputs, outputs, kernel, columns=4 if few < 32 else 2, bias=bias)
    return PlainConv(inputs, outputs, kernel, stride, padding=kernel // 2, bias=bias)


def conv_block(inputs: int, outputs: int, kernel: int, stride: int, norm: Norm) -> ConvBlock:
    return ConvBlock(conv(inputs, outputs, kernel, stride), norm)


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


class RefineNet(nn.Sequential):
    """(b, d, h, w) transported features to a (b, 3, H, W) frame; the last layer is linear."""

    def __init__(self, shape: Shape, inputs: int | None = None, outputs: int = 3, doubles: bool = True) -> None:
        """`doubles`: features are as much smaller than the frame as the strides say; otherwise they are of its size."""
        layers: list[ConvBlock] = []
        inputs = inputs or shape.filters[-1]
        for count, kernel, doubling in _transpose(shape) if shape.refine is None else _narrowing(shape.refine):
            if doubles and doubling:
                layers.append(ConvBlock(DoublingConv(inputs, count), shape.norm))
            else:
                layers.append(conv_block(inputs, count, kernel, 1, shape.norm))
            inputs = count
        last = conv(inputs, outputs, shape.kernels[0] if shape.refine is None else 3, bias=True)
        layers[-1].blocked = isinstance(last, BlockConv) and not isinstance(layers[-1][0], DoublingConv)
        super().__init__(*layers, last)


class Refining(NamedTuple):
    """A layer of RefineNet."""

    filters: int
    kernel: int
    doubling: bool  # of height and width, before the convolution


def _transpose(shape: Shape) -> list[Refining]:
    """Φ's layers backwards: each gives what its twin took, and a stride becomes a doubling before it."""
    return [
        Refining(shape.filters[index - 1], shape.kernels[index], shape.strides[index] == 2)
        for index in reversed(range(1, len(shape.filters)))
    ]


def _narrowing(filters: tuple[int, ...]) -> list[Refining]:
    """The release's way: 3×3 layers only, fewer filters after each doubling."""
    return [Refining(count, 3, doubling=index > 0) for index, count in enumerate(filters)]


def to_channels_last(module: nn.Module) -> nn.Module:
    """The memory order in which convolutions are fastest, on GPUs and CPUs alike."""
    return module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

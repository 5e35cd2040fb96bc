"""The same sums in shapes that a GPU likes: few channels at full size leave its tensor cores idle.

Each layer here has the weights of the plain one; the kernel that runs on a GPU is a rearrangement of them.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from transporter.models.branches import once
from transporter.models.fused import HAS_TRITON
from transporter.models.kernels import Kernelled


class PlainConv(Kernelled):
    """Nothing to rearrange."""

    def forward(self, x: Float[Tensor, "b i h w"]) -> Float[Tensor, "b o h w"]:
        if not x.is_cuda or self.bias is not None:
            return super().forward(x)
        return self.convolve(x, self.padding, self.stride)  # type: ignore[arg-type]


class FewOutputs(Kernelled):
    """1×1, to any number of outputs: tensor cores take them by the eight, so they are filled up with nothing."""

    bias: Tensor

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, 1)

    def from_weight(self, weight: Float[Tensor, "o i 1 1"], dtype: torch.dtype) -> Float[Tensor, "O i 1 1"]:
        return F.pad(weight.to(dtype), (0, 0, 0, 0, 0, 0, 0, -self.out_channels % 8))

    def to_weight(self, to_kernel: Float[Tensor, "O i 1 1"]) -> Float[Tensor, "o i 1 1"]:
        return super().to_weight(to_kernel[: self.out_channels])

    def forward(self, x: Float[Tensor, "b i h w"]) -> Float[Tensor, "b o h w"]:
        if not x.is_cuda:
            return super().forward(x)
        return self.convolve(x, padding=(0, 0))[:, : self.out_channels] + self.bias[:, None, None]


class Rearranged(Kernelled):
    """A convolution of stride 1 whose weights `spread` copies into a larger kernel: each to equally many places."""

    index: Tensor
    places: Tensor

    def __init__(self, inputs: int, outputs: int, kernel: int, bias: bool) -> None:
        super().__init__(inputs, outputs, kernel, padding=kernel // 2, bias=bias)
        # Spreading each weight's number instead of the weight itself tells where all of them go.
        numbers = torch.arange(1.0, self.weight.numel() + 1, dtype=torch.float64, device="cpu").view(self.weight.shape)
        index = self.spread(numbers).permute(0, 2, 3, 1).contiguous().long() - 1
        self.register_buffer("index", index, persistent=False)
        order = index.flatten().argsort(stable=True)
        places = order[(index < 0).sum() :].view(self.weight.numel(), -1)
        self.register_buffer("places", places, persistent=False)

    def spread(self, weight: Float[Tensor, "o i k k"]) -> Float[Tensor, "O I K L"]:
        raise NotImplementedError

    def from_weight(self, weight: Float[Tensor, "o i k k"], dtype: torch.dtype) -> Float[Tensor, "O I K L"]:
        return F.pad(weight.flatten().to(dtype), (0, 1))[self.index].permute(0, 3, 1, 2)  # -1: the zero at the end

    def to_weight(self, to_kernel: Float[Tensor, "O I K L"]) -> Float[Tensor, "o i k k"]:
        each = to_kernel.permute(0, 2, 3, 1).reshape(-1)[self.places].sum(1, dtype=self.weight.dtype)
        return torch.empty_like(self.weight).copy_(each.view(self.weight.shape))

    def gives_frames(self, y: Float[Tensor, "b O h w"]) -> bool:
        """Whether these are the few colours of a frame, and a kernel can lay them out; it counts in 32 bits."""
        return y.is_cuda and HAS_TRITON and self.bias is not None and self.out_channels < 8 and y.numel() < 2**31

    def frames(self, y: Float[Tensor, "b O h w"], rows: int, columns: int) -> Float[Tensor, "b o H W"]:
        """Blocks of so many rows and columns as the pixels that they are, in fp32, with the bias."""
        from transporter.models.fused.frames import LayOut

        return LayOut.apply(y, self.bias, rows, columns)


def grouped_taps(taps: int, size: int, away: int) -> Float[Tensor, "t p q g"]:
    """1 where a tap of an output at place p of its group meets the input at place q, g - `away` groups on."""
    line = torch.zeros(taps, size, size, 2 * away + 1, device="cpu")
    for tap in range(taps):
        for place in range(size):
            group, other = divmod(place + tap - taps // 2, size)
            line[tap, place, other, group + away] = 1
    return line


class ColumnConv(Rearranged):
    """On groups of columns, each seen as one place with more channels: for maps of few channels.

    Channels-last memory makes that another view of the same numbers.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, columns: int, bias: bool = False) -> None:
        self.columns = columns
        self.groups_away = math.ceil(kernel // 2 / columns)
        # Tensor cores take channels by the eight: outputs that are short of it are filled up with nothing.
        self.spare = -outputs % (8 // math.gcd(8, columns))
        super().__init__(inputs, outputs, kernel, bias)

    def spread(self, weight: Float[Tensor, "o i k k"]) -> Float[Tensor, "O I K L"]:
        line = grouped_taps(weight.shape[3], self.columns, self.groups_away).to(weight.dtype)
        weight = F.pad(weight, (0, 0, 0, 0, 0, 0, 0, self.spare))
        return torch.einsum("oiyt,tcpg->copiyg", weight, line).flatten(0, 1).flatten(1, 2)

    def forward(self, x: Float[Tensor, "b i h w"]) -> Float[Tensor, "b o h w"]:
        return self.by_columns(x) if x.is_cuda and x.shape[3] % self.columns == 0 else super().forward(x)

    def by_columns(self, x: Float[Tensor, "b i h w"]) -> Float[Tensor, "b o h w"]:
        b, _, h, w = x.shape
        grouped = x.permute(0, 2, 3, 1).reshape(b, h, w // self.columns, -1).permute(0, 3, 1, 2)
        y = self.convolve(grouped, padding=(self.kernel_size[0] // 2, self.groups_away))
        if self.gives_frames(y):
            return self.frames(y, 1, self.columns)
        y = y.permute(0, 2, 3, 1).reshape(b, h, w, -1)[..., : self.out_channels].permute(0, 3, 1, 2)
        return y if self.bias is None else y + self.bias[:, None, None]


class BlockConv(Rearranged):
    """On 4×4 blocks, each seen as one place: for few outputs, such as a frame's colours.

    Blocks are taken as `norm_relu` lays them out; a map as it is goes the plain way.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, bias: bool = False) -> None:
        self.blocks_away = math.ceil(kernel // 2 / 4)
        self.spare = -outputs % 4  # the sixty-four of three colours and a spare one are faster than forty-eight
        super().__init__(inputs, outputs, kernel, bias)

    def spread(self, weight: Float[Tensor, "o i k k"]) -> Float[Tensor, "O I K L"]:
        line = grouped_taps(weight.shape[3], 4, self.blocks_away).to(weight.dtype)
        weight = F.pad(weight, (0, 0, 0, 0, 0, 0, 0, self.spare))
        # (row, column and output) of a place, (row, column and input) of another, (row, column) of its block
        kernel = torch.einsum("oiyx,ydph,xeqw->deopqihw", weight, line, line)
        return kernel.flatten(3, 5).flatten(0, 2)

    def forward(self, x: Float[Tensor, "b _ h w"]) -> Float[Tensor, "b o H W"]:
        return super().forward(x) if x.shape[1] == self.in_channels else self.by_blocks(x)

    def by_blocks(self, x: Float[Tensor, "b 16i h w"]) -> Float[Tensor, "b o 4h 4w"]:
        b, _, h, w = x.shape
        y = self.convolve(x, padding=(self.blocks_away, self.blocks_away))
        if self.gives_frames(y):
            return self.frames(y, 4, 4)
        y = y.unflatten(1, (4, 4, -1))[:, :, :, : self.out_channels]
        y = y.permute(0, 4, 1, 5, 2, 3).reshape(b, 4 * h, 4 * w, -1).permute(0, 3, 1, 2)
        return y if self.bias is None else y + self.bias[:, None, None]


class FrameConv(Rearranged):
    """On 2×2 blocks, each seen as one place with four times the channels: for frames, whose colours are only three.

    The blocks that a kernel reaches in one row are seen as one place, too. It gives the four places of each block as
    channels: `unphase` lays them out.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, bias: bool = False) -> None:
        self.spare = -inputs % 4
        self.outer = kernel // 2 % 2  # blocks begin where the reach of the first output does
        self.before = (kernel // 2 - self.outer) // 2  # blocks that lie outside
        super().__init__(inputs, outputs, kernel, bias)

    def spread(self, weight: Float[Tensor, "o i k k"]) -> Float[Tensor, "O I K 1"]:
        shifted = [F.pad(weight, (x, 1 - x, y, 1 - y)) for y in (0, 1) for x in (0, 1)]
        blocks = F.pad(F.pixel_unshuffle(torch.cat(shifted), 2), (0, 0, 0, 0, 0, 4 * self.spare))
        return blocks.permute(0, 3, 1, 2).flatten(1, 2)[..., None]

    def forward(self, x: Float[Tensor, "b i h w"]) -> Float[Tensor, "b o h w"]:
        return unphase(self.phases(x)) if self.in_phases(x) else super().forward(x)

    def in_phases(self, x: Float[Tensor, "b i h w"]) -> bool:
        return x.is_cuda and x.shape[2] % 2 == 0 and x.shape[3] % 2 == 0

    def phases(self, x: Float[Tensor, "b i 2h 2w"]) -> Float[Tensor, "b 4o h w"]:
        device = x.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype
        y = self.convolve(self._rows_of_blocks(x, dtype), padding=(self.before, 0))
        return y if self.bias is None else y + self.bias.repeat(4)[:, None, None]

    def _rows_of_blocks(self, x: Float[Tensor, "b i 2h 2w"], dtype: torch.dtype) -> Float[Tensor, "b 4ij H w"]:
        reached = (self.kernel_size[0] + 1) // 2
        # The kernel counts in 32 bits.
        if x.is_cuda and HAS_TRITON and not x.requires_grad and 2 * reached * x.numel() < 2**31:
            from transporter.models.fused.blocks import rows_of_blocks

            how = (self.outer, self.before, reached, self.spare, dtype)
            if not torch.is_grad_enabled() or torch.compiler.is_compiling():
                return rows_of_blocks(x, *how)
            # What learns keeps them anyway; Φ and Ψ read the same ones, where their first kernels are of one size.
            return once(x, how, lambda: rows_of_blocks(x, *how))
        ring = (self.outer,) * 4
        blocks = F.pixel_unshuffle(F.pad(x.to(dtype), (*ring, 0, self.spare)), 2)
        blocks, w = F.pad(blocks, (self.before, self.before)), x.shape[3] // 2
        return torch.cat([blocks[..., i : i + w] for i in range(reached)], dim=1)


class DoublingConv(Kernelled):
    """Twice the height and width, bilinear, then a 3×3 convolution: one 3×3 convolution of the map as it is.

    It gives the four places of each 2×2 block of the doubled map as channels: `unphase` lays them out. Beyond the
    edges the map is zero before it is doubled. No map of four times the size is written, and none is scattered back.
    """

    mix: Tensor

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, 3, padding=1, bias=False)
        halves = {0: (0.25, 0.75, 0.0), 1: (0.0, 0.75, 0.25)}  # a fine row from the coarse rows before, here and after
        rows = torch.zeros(2, 3, 3, device="cpu")  # (place in block, tap, coarse row)
        for place in (0, 1):
            for tap in range(3):
                coarse, fine = divmod(place + tap - 1, 2)
                rows[place, tap] = torch.tensor(halves[fine], device="cpu").roll(coarse)
        self.register_buffer("mix", torch.einsum("pyh,qxw->yxpqhw", rows, rows).reshape(9, 36), persistent=False)

    def from_weight(self, weight: Float[Tensor, "o i 3 3"], dtype: torch.dtype) -> Float[Tensor, "4o i 3 3"]:
        # Products and a sum: autocast would take a matrix product to bf16, and sixteenths need more bits than that has.
        kernel = (weight.flatten(2)[..., None] * self.mix).sum(2)
        kernel = kernel.unflatten(2, (4, 3, 3)).permute(2, 0, 1, 3, 4).flatten(0, 1)
        return kernel.to(dtype, memory_format=torch.channels_last)

    def to_weight(self, to_kernel: Float[Tensor, "4o i 3 3"]) -> Float[Tensor, "o i 3 3"]:
        mixed = to_kernel.unflatten(0, (4, -1)).permute(1, 2, 0, 3, 4).flatten(2).to(self.weight.dtype)
        each = (mixed[..., None, :] * self.mix).sum(3)
        return torch.empty_like(self.weight).copy_(each.view(self.weight.shape))

    def forward(self, x: Float[Tensor, "b i h w"]) -> Float[Tensor, "b o 2h 2w"]:
        return unphase(self.phases(x))

    def phases(self, x: Float[Tensor, "b i h w"]) -> Float[Tensor, "b 4o h w"]:
        return self.convolve(x, padding=(1, 1))


def unphase(z: Float[Tensor, "b 4c h w"]) -> Float[Tensor, "b c 2h 2w"]:
    """The fine map whose 2×2 blocks are z's channels, in the order (row in block, column in block, channel)."""
    b, channels, h, w = z.shape
    fine = z.unflatten(1, (2, 2, channels // 4)).permute(0, 3, 4, 1, 5, 2).reshape(b, channels // 4, 2 * h, 2 * w)
    return fine.contiguous(memory_format=torch.channels_last)

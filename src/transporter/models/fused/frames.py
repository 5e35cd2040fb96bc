"""A frame out of the blocks in which the last layer gives its colours, with the bias, in fp32: one sweep each way.

A layer gives blocks of `rows` × `columns` pixels as channels, with some to spare: (row, column, colour) in that order.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

ELEMENTS = 2048  # that a program holds at a time


@triton.jit
def lay_out_kernel(
    blocks, bias, frames, count, height: tl.constexpr, width: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    GIVEN: tl.constexpr, COLOURS: tl.constexpr, ELEMENTS: tl.constexpr,
):  # fmt: skip
    """frames[b, y, x, colour]; height and width are theirs."""
    element = tl.program_id(0) * ELEMENTS + tl.arange(0, ELEMENTS)
    colour, pixel = element % COLOURS, element // COLOURS
    x, y, b = pixel % width, (pixel // width) % height, pixel // (width * height)
    block = (b * (height // ROWS) + y // ROWS) * (width // COLUMNS) + x // COLUMNS
    at = ((block * ROWS + y % ROWS) * COLUMNS + x % COLUMNS) * GIVEN + colour
    value = tl.load(blocks + at, mask=element < count, other=0.0).to(tl.float32)
    tl.store(frames + element, value + tl.load(bias + colour).to(tl.float32), mask=element < count)


@triton.jit
def lay_out_gradient_kernel(
    gradient, blocks, partial, count, height: tl.constexpr, width: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, GIVEN: tl.constexpr, COLOURS: tl.constexpr, ELEMENTS: tl.constexpr,
):  # fmt: skip
    """The blocks' gradient, nothing for spare channels; and partial[program] = Σ of each colour's."""
    element = tl.program_id(0) * ELEMENTS + tl.arange(0, ELEMENTS)
    colour, place = element % GIVEN, element // GIVEN
    column, row, block = place % COLUMNS, (place // COLUMNS) % ROWS, place // (COLUMNS * ROWS)
    across, down = width // COLUMNS, height // ROWS
    x, y = (block % across) * COLUMNS + column, ((block // across) % down) * ROWS + row
    at = (((block // (across * down)) * height + y) * width + x) * COLOURS + colour
    value = tl.load(gradient + at, mask=(colour < COLOURS) & (element < count), other=0.0)
    tl.store(blocks + element, value.to(blocks.dtype.element_ty), mask=element < count)
    for one in tl.static_range(COLOURS):
        tl.store(partial + tl.program_id(0) * COLOURS + one, tl.sum(tl.where(colour == one, value, 0.0)))


class LayOut(torch.autograd.Function):
    """(b, rows · columns · given, h, w) blocks, channels last, to (b, colours, rows · h, columns · w) frames."""

    @staticmethod
    def forward(
        ctx: Any, blocks: Float[Tensor, "b p h w"], bias: Float[Tensor, "c"], rows: int, columns: int
    ) -> Float[Tensor, "b c H W"]:
        blocks = blocks.contiguous(memory_format=torch.channels_last)
        b, channels, h, w = blocks.shape
        frames = torch.empty(b, rows * h, columns * w, len(bias), device=blocks.device)
        ctx.how = {
            "height": rows * h, "width": columns * w, "ROWS": rows, "COLUMNS": columns,
            "GIVEN": channels // (rows * columns), "COLOURS": len(bias), "ELEMENTS": ELEMENTS,
        }  # fmt: skip
        ctx.blocks = blocks.shape, blocks.dtype
        count = frames.numel()
        lay_out_kernel[(triton.cdiv(count, ELEMENTS),)](blocks, bias, frames, count, **ctx.how)
        return frames.permute(0, 3, 1, 2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Float[Tensor, "b c H W"]) -> tuple[Tensor | None, ...]:
        gradient = gradients[0].contiguous(memory_format=torch.channels_last)
        shape, dtype = ctx.blocks
        to_blocks = torch.empty(shape, dtype=dtype, device=gradient.device, memory_format=torch.channels_last)
        count = to_blocks.numel()
        programs = triton.cdiv(count, ELEMENTS)
        partial = torch.empty(programs, ctx.how["COLOURS"], device=gradient.device)
        lay_out_gradient_kernel[(programs,)](gradient, to_blocks, partial, count, **ctx.how)
        return to_blocks, partial.sum(0), None, None

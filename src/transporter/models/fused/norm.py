"""Batch norm and ReLU as one, on channels-last maps: two sweeps forwards and two backwards.

Maps are seen as (rows, channels). What comes out may lie in another order than what went in: `place` tells it.
Sums are made in two stages, without atomics, so that the same step gives the same bits again.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

TILE = 4096  # elements that a program holds at a time
SUMMED = 2048  # likewise where it adds them up, eight for each of its threads …
AHEAD = 4  # … and so many tiles are on their way from memory while one is added
PROGRAMS = 528  # at most, for sums: four on each of an H100's or H200's 132 multiprocessors
PLAIN, UNPHASED, BLOCKED = 0, 1, 2
MEAN, RSTD, SCALE, SHIFT = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2), tl.constexpr(3)


@triton.jit
def place(row, height, width, LAYOUT: tl.constexpr):
    """Where a row of z lies in the map that comes of it; height and width are those of z."""
    if LAYOUT == 1:  # the places of 2×2 blocks come one after the other: lay them out
        block = row // 4
        j, i, b = block % width, (block // width) % height, block // (width * height)
        row = ((b * height + i) * 2 + (row // 2) % 2) * 2 * width + 2 * j + row % 2
    if LAYOUT == 2:  # gather the places of 4×4 blocks
        j, i, b = row % width, (row // width) % height, row // (width * height)
        row = (((b * (height // 4) + i // 4) * (width // 4) + j // 4) * 4 + i % 4) * 4 + j % 4
    return row


@triton.jit
def sum_kernel(z, partial, rows, each, C: tl.constexpr, ROWS: tl.constexpr, AHEAD: tl.constexpr):
    """partial[program] = (Σz, Σz²) over the program's rows."""
    program = tl.program_id(0)
    channel = tl.arange(0, C)[None, :]
    total = tl.zeros((ROWS, C), tl.float32)
    square = tl.zeros((ROWS, C), tl.float32)
    for start in range(program * each, (program + 1) * each, AHEAD * ROWS):
        for tile in tl.static_range(AHEAD):
            row = (start + tile * ROWS + tl.arange(0, ROWS))[:, None]
            x = tl.load(z + row * C + channel, mask=row < rows, other=0.0).to(tl.float32)
            total += x
            square += x * x
    out = partial + program * 2 * C + tl.arange(0, C)
    tl.store(out, tl.sum(total, 0))
    tl.store(out + C, tl.sum(square, 0))


@triton.jit
def total_of(partial, programs, channel, C: tl.constexpr, PART: tl.constexpr, MANY: tl.constexpr):
    """Σ over programs, (PART,) channels at a time."""
    total = tl.zeros((MANY, PART), tl.float32)
    for start in range(0, programs, MANY):
        program = (start + tl.arange(0, MANY))[:, None]
        total += tl.load(partial + program * 2 * C + channel[None, :], mask=program < programs, other=0.0)
    return tl.sum(total, 0)


@triton.jit
def moments_kernel(
    partial, programs, rows, weight, bias, running_mean, running_var, momentum, eps, moments,
    C: tl.constexpr, PART: tl.constexpr, MANY: tl.constexpr,
):  # fmt: skip
    """From sums to mean, 1/std and the scale and shift that normalise; and the running statistics."""
    channel = tl.program_id(0) * PART + tl.arange(0, PART)
    mean = total_of(partial, programs, channel, C, PART, MANY) / rows
    var = tl.maximum(total_of(partial + C, programs, channel, C, PART, MANY) / rows - mean * mean, 0.0)
    rstd = 1 / tl.sqrt(var + eps)
    scale = tl.load(weight + channel) * rstd
    tl.store(moments + MEAN * C + channel, mean)
    tl.store(moments + RSTD * C + channel, rstd)
    tl.store(moments + SCALE * C + channel, scale)
    tl.store(moments + SHIFT * C + channel, tl.load(bias + channel) - mean * scale)
    kept = tl.load(running_mean + channel)
    tl.store(running_mean + channel, kept + momentum * (mean - kept))
    kept = tl.load(running_var + channel)
    tl.store(running_var + channel, kept + momentum * (var * (rows / (rows - 1.0)) - kept))


@triton.jit
def apply_kernel(z, moments, y, rows, height, width, C: tl.constexpr, ROWS: tl.constexpr, LAYOUT: tl.constexpr):
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    channel = tl.arange(0, C)[None, :]
    x = tl.load(z + row * C + channel, mask=row < rows, other=0.0).to(tl.float32)
    x = x * tl.load(moments + SCALE * C + channel) + tl.load(moments + SHIFT * C + channel)
    at = place(row, height, width, LAYOUT)
    tl.store(y + at * C + channel, tl.maximum(x, 0.0).to(y.dtype.element_ty), mask=row < rows)


@triton.jit
def through_relu(gradient, z, scale, shift, row, rows, height, width, C: tl.constexpr, LAYOUT: tl.constexpr):
    """The gradient where the ReLU let it through, and z."""
    channel = tl.arange(0, C)[None, :]
    x = tl.load(z + row * C + channel, mask=row < rows, other=0.0).to(tl.float32)
    at = place(row, height, width, LAYOUT)
    g = tl.load(gradient + at * C + channel, mask=row < rows, other=0.0).to(tl.float32)
    return tl.where(x * scale + shift > 0, g, 0.0), x


@triton.jit
def gradient_sum_kernel(
    gradient, z, moments, partial, rows, each, height, width,
    C: tl.constexpr, ROWS: tl.constexpr, AHEAD: tl.constexpr, LAYOUT: tl.constexpr,
):  # fmt: skip
    """partial[program] = (Σ g·z, Σ g) over the program's rows."""
    program = tl.program_id(0)
    channel = tl.arange(0, C)[None, :]
    scale, shift = tl.load(moments + SCALE * C + channel), tl.load(moments + SHIFT * C + channel)
    with_z = tl.zeros((ROWS, C), tl.float32)
    alone = tl.zeros((ROWS, C), tl.float32)
    for start in range(program * each, (program + 1) * each, AHEAD * ROWS):
        for tile in tl.static_range(AHEAD):
            row = (start + tile * ROWS + tl.arange(0, ROWS))[:, None]
            g, x = through_relu(gradient, z, scale, shift, row, rows, height, width, C, LAYOUT)
            with_z += g * x
            alone += g
    out = partial + program * 2 * C + tl.arange(0, C)
    tl.store(out, tl.sum(with_z, 0))
    tl.store(out + C, tl.sum(alone, 0))


@triton.jit
def gradient_total_kernel(partial, programs, moments, totals, C: tl.constexpr, PART: tl.constexpr, MANY: tl.constexpr):
    """The gradients of weight, Σ g·ẑ, and bias, Σ g."""
    channel = tl.program_id(0) * PART + tl.arange(0, PART)
    to_bias = total_of(partial + C, programs, channel, C, PART, MANY)
    centred = total_of(partial, programs, channel, C, PART, MANY) - tl.load(moments + MEAN * C + channel) * to_bias
    tl.store(totals + channel, centred * tl.load(moments + RSTD * C + channel))
    tl.store(totals + C + channel, to_bias)


@triton.jit
def gradient_kernel(
    gradient, z, moments, totals, out, rows, height, width, C: tl.constexpr, ROWS: tl.constexpr, LAYOUT: tl.constexpr
):  # fmt: skip
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    channel = tl.arange(0, C)[None, :]
    scale, shift = tl.load(moments + SCALE * C + channel), tl.load(moments + SHIFT * C + channel)
    g, x = through_relu(gradient, z, scale, shift, row, rows, height, width, C, LAYOUT)
    hat = (x - tl.load(moments + MEAN * C + channel)) * tl.load(moments + RSTD * C + channel)
    to_weight, to_bias = tl.load(totals + channel), tl.load(totals + C + channel)
    g = (g - (to_bias + hat * to_weight) / rows) * scale
    tl.store(out + row * C + channel, g.to(out.dtype.element_ty), mask=row < rows)


class Split:
    """How a sum over rows is split into programs."""

    def __init__(self, rows: int, channels: int) -> None:
        self.tile = SUMMED // channels
        steps = triton.cdiv(rows, AHEAD * self.tile)
        each = triton.cdiv(steps, PROGRAMS)
        self.each = each * AHEAD * self.tile
        self.programs = triton.cdiv(steps, each)

    def start(self, channels: int) -> dict[str, int]:
        return {"C": channels, "ROWS": self.tile, "AHEAD": AHEAD, "num_warps": 8}

    def finish(self, channels: int) -> dict[str, int]:
        """For the kernels that add up the programs' sums: all at a time, lest they wait for memory again and again."""
        return {"C": channels, "PART": 8, "MANY": triton.next_power_of_2(self.programs), "num_warps": 8}


class BatchNormReLU(torch.autograd.Function):
    """Only z is kept for the backward sweeps; what the ReLU let through is worked out again."""

    @staticmethod
    def forward(
        ctx: Any,
        z: Float[Tensor, "b p h w"],
        weight: Float[Tensor, "c"],
        bias: Float[Tensor, "c"],
        running_mean: Float[Tensor, "c"],
        running_var: Float[Tensor, "c"],
        momentum: float,
        eps: float,
        layout: int,
    ) -> Float[Tensor, "b q H W"]:
        z = z.contiguous(memory_format=torch.channels_last)
        (b, _, h, w), channels = z.shape, weight.numel()
        rows, split = z.numel() // channels, Split(z.numel() // channels, channels)
        partial = torch.empty(split.programs, 2, channels, device=z.device)
        sum_kernel[(split.programs,)](z, partial, rows, split.each, **split.start(channels))
        moments = torch.empty(4, channels, device=z.device)
        moments_kernel[(channels // 8,)](
            partial, split.programs, rows, weight, bias, running_mean, running_var, momentum, eps, moments,
            **split.finish(channels),
        )  # fmt: skip
        shape = {PLAIN: (h, w, channels), UNPHASED: (2 * h, 2 * w, channels), BLOCKED: (h // 4, w // 4, 16 * channels)}
        y = z.new_empty((b, *shape[layout])).permute(0, 3, 1, 2)
        tile = TILE // channels
        apply_kernel[(triton.cdiv(rows, tile),)](z, moments, y, rows, h, w, C=channels, ROWS=tile, LAYOUT=layout)
        ctx.save_for_backward(z, moments)
        ctx.layout = layout
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Float[Tensor, "b q H W"]) -> tuple[Tensor | None, ...]:
        z, moments = ctx.saved_tensors
        gradient = gradients[0].contiguous(memory_format=torch.channels_last)
        (_, _, h, w), channels = z.shape, moments.shape[1]
        rows, split = z.numel() // channels, Split(z.numel() // channels, channels)
        partial = torch.empty(split.programs, 2, channels, device=z.device)
        gradient_sum_kernel[(split.programs,)](
            gradient, z, moments, partial, rows, split.each, h, w, LAYOUT=ctx.layout, **split.start(channels)
        )
        totals = torch.empty(2, channels, device=z.device)
        gradient_total_kernel[(channels // 8,)](partial, split.programs, moments, totals, **split.finish(channels))
        to_z, tile = torch.empty_like(z), TILE // channels
        gradient_kernel[(triton.cdiv(rows, tile),)](
            gradient, z, moments, totals, to_z, rows, h, w, C=channels, ROWS=tile, LAYOUT=ctx.layout
        )
        return to_z, totals[0], totals[1], None, None, None, None, None

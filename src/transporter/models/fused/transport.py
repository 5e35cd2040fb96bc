"""Eq. 1 from points and features at once: heatmaps and their union are never written, but for one value a cell."""

from typing import Any

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

CELLS = 256  # of the feature map, that a program holds at a time
TILE = 4096  # elements of features likewise


@triton.jit
def heat(points, at, sigma, cx, cy):
    """exp(-d² / σ²) at some cells around one point, and how far they are from it along each axis."""
    dx = cx - tl.load(points + 2 * at)
    dy = cy - tl.load(points + 2 * at + 1)
    return tl.exp(-(dx * dx + dy * dy) / (sigma * sigma)), dx, dy


@triton.jit
def centre(index, count):
    return (2 * index + 1) / count - 1.0


@triton.jit
def union_kernel(points, sigmas, out, K, height, width, CELLS: tl.constexpr):
    """1 - ∏ₖ(1 - Hₖ)"""
    image = tl.program_id(0)
    cell = tl.program_id(1) * CELLS + tl.arange(0, CELLS)
    cx, cy = centre(cell % width, width), centre(cell // width, height)
    sigma = tl.load(sigmas)
    left = tl.full((CELLS,), 1.0, tl.float32)
    for k in range(K):
        h, _, _ = heat(points, image * K + k, sigma, cx, cy)
        left *= 1 - h
    tl.store(out + image * height * width + cell, 1 - left, mask=cell < height * width)


@triton.jit
def union_gradient_kernel(gradient, points, sigmas, out, K, height, width, CELLS: tl.constexpr):
    """∂/∂point k: through its own heatmap, as far as the others leave it visible."""
    image, own = tl.program_id(0), tl.program_id(1)
    sigma = tl.load(sigmas)
    to_x = tl.zeros((CELLS,), tl.float32)
    to_y = tl.zeros((CELLS,), tl.float32)
    for start in range(0, height * width, CELLS):
        cell = start + tl.arange(0, CELLS)
        cx, cy = centre(cell % width, width), centre(cell // width, height)
        seen = tl.load(gradient + image * height * width + cell, mask=cell < height * width, other=0.0)
        for k in range(K):
            h, _, _ = heat(points, image * K + k, sigma, cx, cy)
            seen *= tl.where(k == own, 1.0, 1 - h)
        h, dx, dy = heat(points, image * K + own, sigma, cx, cy)
        to_x += seen * h * dx
        to_y += seen * h * dy
    scale = 2 / (sigma * sigma)
    at = out + (image * K + own) * 2
    tl.store(at, tl.sum(to_x) * scale)
    tl.store(at + 1, tl.sum(to_y) * scale)


@triton.jit
def transport_kernel(source, target, h_s, h_t, out, rows, turn, C: tl.constexpr, ROWS: tl.constexpr):
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    channel = tl.arange(0, C)[None, :]
    other, at = (row + turn) % rows, row * C + channel
    s = tl.load(source + other * C + channel, mask=row < rows, other=0.0).to(tl.float32)
    t = tl.load(target + at, mask=row < rows, other=0.0).to(tl.float32)
    a, b = tl.load(h_s + other, mask=row < rows, other=0.0), tl.load(h_t + row, mask=row < rows, other=0.0)
    tl.store(out + at, ((1 - a) * (1 - b) * s + b * t).to(out.dtype.element_ty), mask=row < rows)


@triton.jit
def transport_gradient_kernel(
    gradient, source, target, h_s, h_t, to_target, to_heat, rows, turn, C: tl.constexpr, ROWS: tl.constexpr
):  # fmt: skip
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    channel = tl.arange(0, C)[None, :]
    other, at = (row + turn) % rows, row * C + channel
    g = tl.load(gradient + at, mask=row < rows, other=0.0).to(tl.float32)
    s = tl.load(source + other * C + channel, mask=row < rows, other=0.0).to(tl.float32)
    t = tl.load(target + at, mask=row < rows, other=0.0).to(tl.float32)
    a, b = tl.load(h_s + other, mask=row < rows, other=0.0), tl.load(h_t + row, mask=row < rows, other=0.0)
    tl.store(to_target + at, (g * b).to(to_target.dtype.element_ty), mask=row < rows)
    flat = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    tl.store(to_heat + flat, tl.sum(g * (t - (1 - a) * s), 1), mask=flat < rows)


def union(points: Float[Tensor, "b k 2"], sigma: Float[Tensor, ""], h: int, w: int) -> Float[Tensor, "b h w"]:
    b, k, _ = points.shape
    out = torch.empty(b, h, w, device=points.device)
    union_kernel[(b, triton.cdiv(h * w, CELLS))](points, sigma, out, k, h, w, CELLS=CELLS)
    return out


class Transport(torch.autograd.Function):
    """(1 - H_s) · (1 - H_t) · Φ(x_s) + H_t · Φ(x_t); the source is given, so only the target learns.

    Each target's source is `turn` images on, round the batch.
    """

    @staticmethod
    def forward(
        ctx: Any,
        source: Float[Tensor, "b d h w"],
        target: Float[Tensor, "b d h w"],
        source_points: Float[Tensor, "b k 2"],
        target_points: Float[Tensor, "b k 2"],
        sigma: Float[Tensor, ""],
        turn: int,
    ) -> Float[Tensor, "b d h w"]:
        source, target = (f.contiguous(memory_format=torch.channels_last) for f in (source, target))
        source_points, target_points = source_points.contiguous(), target_points.contiguous()
        (_, channels, h, w), tile = source.shape, TILE // source.shape[1]
        h_s, h_t = union(source_points, sigma, h, w), union(target_points, sigma, h, w)
        moved = torch.empty_like(target)
        rows, ctx.turn = h_s.numel(), turn * h * w
        transport_kernel[(triton.cdiv(rows, tile),)](
            source, target, h_s, h_t, moved, rows, ctx.turn, C=channels, ROWS=tile
        )
        ctx.save_for_backward(source, target, h_s, h_t, target_points, sigma)
        return moved

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Float[Tensor, "b d h w"]) -> tuple[Tensor | None, ...]:
        source, target, h_s, h_t, points, sigma = ctx.saved_tensors
        gradient = gradients[0].contiguous(memory_format=torch.channels_last)
        (b, channels, h, w), tile, k = source.shape, TILE // source.shape[1], points.shape[1]
        to_target, to_heat, rows = torch.empty_like(target), torch.empty_like(h_t), h_t.numel()
        transport_gradient_kernel[(triton.cdiv(rows, tile),)](
            gradient, source, target, h_s, h_t, to_target, to_heat, rows, ctx.turn, C=channels, ROWS=tile
        )
        to_points = torch.empty_like(points)
        union_gradient_kernel[(b, k)](to_heat, points, sigma, to_points, k, h, w, CELLS=CELLS)
        return None, to_target, None, to_points, None, None

"""Frames as rows of 2×2 blocks: the form in which the first layer reads them."""

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

ELEMENTS = 1024


@triton.jit
def rows_of_blocks_kernel(
    frames, out, count,
    height: tl.constexpr, width: tl.constexpr, h: tl.constexpr, w: tl.constexpr, outer: tl.constexpr,
    before: tl.constexpr, C: tl.constexpr, SPARE: tl.constexpr, REACHED: tl.constexpr, ELEMENTS: tl.constexpr,
):  # fmt: skip
    """out[b, i, j, (block, channel, row, column)] is a frame's pixel, or nothing beyond its edges."""
    element = tl.program_id(0) * ELEMENTS + tl.arange(0, ELEMENTS)
    depth = 4 * (C + SPARE)
    part, block, at = element % depth, (element // depth) % REACHED, element // (depth * REACHED)
    channel, row, column = part // 4, (part // 2) % 2, part % 2
    y = 2 * ((at // w) % h) + row - outer
    x = 2 * (at % w + block - before) + column - outer
    inside = (channel < C) & (y >= 0) & (y < height) & (x >= 0) & (x < width) & (element < count)
    value = tl.load(frames + (((at // (w * h)) * height + y) * width + x) * C + channel, mask=inside, other=0.0)
    tl.store(out + element, value.to(out.dtype.element_ty), mask=element < count)


def rows_of_blocks(
    x: Float[Tensor, "b c 2h 2w"], outer: int, before: int, reached: int, spare: int, dtype: torch.dtype
) -> Float[Tensor, "b d H w"]:
    """Blocks from a map with `outer` rings and `spare` channels of nothing; `reached` at a time, from `before` on."""
    b, c, height, width = x.shape
    h, w = height // 2 + outer, width // 2
    frames = x.permute(0, 2, 3, 1).contiguous()
    out = torch.empty(b, h, w, 4 * (c + spare) * reached, dtype=dtype, device=x.device)
    count = out.numel()
    rows_of_blocks_kernel[(triton.cdiv(count, ELEMENTS),)](
        frames, out, count, height, width, h, w, outer, before,
        C=c, SPARE=spare, REACHED=reached, ELEMENTS=ELEMENTS,
    )  # fmt: skip
    return out.permute(0, 3, 1, 2)

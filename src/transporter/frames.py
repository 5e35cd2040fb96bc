"""Frames are uint8, (..., height, width, 3), RGB; this is the one way they change size."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float, UInt8

from transporter.errors import InputError


@lru_cache(maxsize=64)
def _area_weights(before: int, after: int) -> Float[np.ndarray, "after before"]:
    """Row i holds how much of each old cell lies in new cell i, in the largest unit that makes all of it whole numbers.

    Sums of whole numbers are exact in whatever order a library adds them, so a frame comes out the same to the bit
    alone or among others, by one thread or many, here or on a GPU (as long as they stay below 2²⁴, as a console's do).
    """
    unit = math.gcd(before, after)
    old, new = after // unit, before // unit  # widths of cells
    low, cells = np.arange(after)[:, None] * new, np.arange(before)[None, :] * old
    overlap = np.minimum(low + new, cells + old) - np.maximum(low, cells)
    return np.clip(overlap, 0, None).astype(np.float32)


@lru_cache(maxsize=64)
def area_weights(before: int, after: int, device: torch.device) -> Float[torch.Tensor, "after before"]:
    """The same on a device, copied there once."""
    with torch.inference_mode(False):  # whoever asks first, others may want gradients
        return torch.from_numpy(_area_weights(before, after)).to(device)


def one_frame(seen: object) -> UInt8[np.ndarray, "h w 3"]:
    """What someone else shows to a model as a frame, refused where it is none."""
    try:
        frame = np.asarray(seen)
    except ValueError:  # rows of unequal length
        raise InputError("a frame must be (H, W, 3) uint8, and this is no array at all") from None
    if frame.ndim != 3 or frame.shape[-1] != 3 or frame.dtype != np.uint8 or 0 in frame.shape:
        raise InputError(f"a frame must be (H, W, 3) uint8, not {frame.shape} {frame.dtype}")
    return frame


def resize(frames: UInt8[np.ndarray, "*batch h w 3"], height: int, width: int) -> UInt8[np.ndarray, "*batch h2 w2 3"]:
    """Average by area, so that a ball of two pixels keeps its light when a frame shrinks."""
    if frames.shape[-3:-1] == (height, width):
        return frames
    rows, columns = _area_weights(frames.shape[-3], height), _area_weights(frames.shape[-2], width)
    # Rows first: frames are usually wider than high, and (rows @ frame) is one large matrix product.
    lines = rows @ frames.astype(np.float32).reshape(*frames.shape[:-2], -1)
    lines = lines.reshape(*lines.shape[:-1], frames.shape[-2], 3)
    sums = np.einsum("wv,...vc->...wc", columns, lines, optimize=True)
    return np.rint(sums / (rows[0].sum() * columns[0].sum())).astype(np.uint8)


def resize_tensor(frames: UInt8[torch.Tensor, "b h w 3"], height: int, width: int) -> Float[torch.Tensor, "b h2 w2 3"]:
    """The same on the tensor's own device, as floats that are whole numbers in 0..255.

    Whole as in all frames that models learnt from: what never changes there is seen through a magnifying glass, in
    which half a grey level is a thing of its own.
    """
    values = frames.float()
    if tuple(frames.shape[1:3]) == (height, width):
        return values
    rows = area_weights(frames.shape[1], height, frames.device)
    columns = area_weights(frames.shape[2], width, frames.device)
    with _exactly(frames.device):
        # One axis after the other: all at once would pair every row with every column.
        lines = (rows @ values.flatten(2)).unflatten(2, (frames.shape[2], 3))
        sums = torch.einsum("xw,bywc->byxc", columns, lines)
        # By a tensor, since a GPU would multiply by the inverse of a number, which is off by a bit.
        return (sums / (rows[0].sum() * columns[0].sum())).round()


@contextmanager
def _exactly(device: torch.device) -> Iterator[None]:
    """With all bits of a float: half as many (bf16, TF32), which whoever asks may be content with, are a level off."""
    before = torch.backends.cuda.matmul.fp32_precision
    with torch.autocast(device.type, enabled=False):
        if device.type != "cuda" or before == "ieee":
            yield
            return
        torch.backends.cuda.matmul.fp32_precision = "ieee"
        try:
            yield
        finally:
            torch.backends.cuda.matmul.fp32_precision = before

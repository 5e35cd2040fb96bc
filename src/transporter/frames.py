"""Frames are uint8, (..., height, width, 3), RGB; this is the one way they change size."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float, UInt8


@lru_cache(maxsize=64)
def _area_weights(before: int, after: int) -> Float[np.ndarray, "after before"]:
    """Row i holds the share of each old cell in new cell i: an exact average by area, fractions included."""
    edges = np.arange(after + 1) * (before / after)
    low, high = edges[:-1, None], edges[1:, None]
    cells = np.arange(before)[None, :]
    overlap = np.clip(np.minimum(high, cells + 1) - np.maximum(low, cells), 0, None)
    return (overlap / overlap.sum(1, keepdims=True)).astype(np.float32)


@lru_cache(maxsize=64)
def area_weights(before: int, after: int, device: torch.device) -> Float[torch.Tensor, "after before"]:
    """The same on a device, copied there once."""
    with torch.inference_mode(False):  # whoever asks first, others may want gradients
        return torch.from_numpy(_area_weights(before, after)).to(device)


def resize(frames: UInt8[np.ndarray, "*batch h w 3"], height: int, width: int) -> UInt8[np.ndarray, "*batch h2 w2 3"]:
    """Average by area, so that a ball of two pixels keeps its light when a frame shrinks."""
    if frames.shape[-3:-1] == (height, width):
        return frames
    rows, columns = _area_weights(frames.shape[-3], height), _area_weights(frames.shape[-2], width)
    # Rows first: frames are usually wider than high, and (rows @ frame) is one large matrix product.
    lines = rows @ frames.astype(np.float32).reshape(*frames.shape[:-2], -1)
    lines = lines.reshape(*lines.shape[:-1], frames.shape[-2], 3)
    return np.rint(np.einsum("wv,...vc->...wc", columns, lines, optimize=True)).astype(np.uint8)


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
        return torch.einsum("xw,bywc->byxc", columns, lines).round()


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

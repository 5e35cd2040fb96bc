"""Tracks as arrays, and what a kind of file has to know to hold them."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, Float64, Int64


class Row(NamedTuple):
    """One keypoint in one frame; the names of the fields are the columns of CSV and Parquet."""

    frame: int
    time: float  # seconds
    keypoint: int
    x: float  # in [-1, 1]
    y: float
    pixel_x: float  # the centre of the first pixel is 0.5
    pixel_y: float


class Tracks(NamedTuple):
    """Some frames of a clip, or all of them."""

    frames: Int64[np.ndarray, "t"]
    times: Float64[np.ndarray, "t"]
    points: Float32[np.ndarray, "t k 2"]
    pixels: Float32[np.ndarray, "t k 2"]

    @property
    def keypoints(self) -> int:
        return self.points.shape[1]


class Head(NamedTuple):
    """What a file may say of its clip besides the tracks."""

    width: int
    height: int
    clip: str = "clip"


Write = Callable[[Tracks], None]


class Format(NamedTuple):
    """How a kind of file is written, part by part, and read; what must be closed is left to the stack."""

    ending: str  # of the file's name
    says: str
    open: Callable[[Path, ExitStack, Head], Write]
    read: Callable[[Path], Tracks]

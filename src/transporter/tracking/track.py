"""Keypoints of a video as it streams: one thread decodes, one detects, and the caller draws and writes meanwhile."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, UInt8

from transporter.ahead import ahead
from transporter.envs.video import VideoFrame

Detect = Callable[[UInt8[np.ndarray, "t h w 3"]], Float32[np.ndarray, "t k 2"]]

BATCHES_AHEAD = 1  # that may wait for the detector, and again for the caller
BYTES_PER_BATCH = 64 * 2**20  # large frames come in smaller batches, so that memory stays small for 4K too


class Tracked(NamedTuple):
    """One frame and its keypoints."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which no one misses
    time: float
    image: UInt8[np.ndarray, "h w 3"]
    points: Float32[np.ndarray, "k 2"]


def track(video: Iterable[VideoFrame], detector: Detect, batch: int = 32) -> Iterator[Tracked]:
    """Every frame of the video with its keypoints, in order; closing the iterator ends the threads."""
    with (
        ahead(_batches(video, batch), BATCHES_AHEAD) as decoded,
        ahead(_detected(decoded, detector), BATCHES_AHEAD) as detected,
    ):
        for found in detected:
            yield from found


def _detected(decoded: Iterable[list[VideoFrame]], detector: Detect) -> Iterator[list[Tracked]]:
    for frames in decoded:
        images = np.stack([frame.image for frame in frames])
        points = np.asarray(detector(images), np.float32)
        if points.ndim != 3 or points.shape[::2] != (len(images), 2):
            raise ValueError(f"a detector gives ({len(images)}, K, 2) points, not {points.shape}")
        yield [Tracked(*frame, found) for frame, found in zip(frames, points, strict=True)]


def _batches(video: Iterable[VideoFrame], batch: int) -> Iterator[list[VideoFrame]]:
    """Frames by the batch; those before one that cannot be had still come."""
    waiting: list[VideoFrame] = []
    try:
        for frame in video:
            waiting.append(frame)
            if len(waiting) >= min(batch, BYTES_PER_BATCH // frame.image.nbytes):
                yield waiting
                waiting = []
    except Exception:
        if waiting:
            yield waiting
        raise
    if waiting:
        yield waiting

"""Keypoints of a video as it streams: one thread decodes while the other detects."""

from collections.abc import Callable, Iterable, Iterator
from queue import Empty, Queue
from threading import Event, Thread
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, UInt8

from transporter.envs.video import VideoFrame

Detect = Callable[[UInt8[np.ndarray, "t h w 3"]], Float32[np.ndarray, "t k 2"]]

BATCHES_AHEAD = 2  # decoded batches that may wait for the detector
BYTES_PER_BATCH = 64 * 2**20  # large frames come in smaller batches, so that memory stays small for 4K too


class Tracked(NamedTuple):
    """One frame and its keypoints."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which no one misses
    time: float
    image: UInt8[np.ndarray, "h w 3"]
    points: Float32[np.ndarray, "k 2"]


class Batch(NamedTuple):
    indices: list[int]
    times: list[float]
    images: UInt8[np.ndarray, "t h w 3"]


def track(video: Iterable[VideoFrame], detector: Detect, batch: int = 32) -> Iterator[Tracked]:
    """Every frame of the video with its keypoints, in order; closing the iterator ends the decoding."""
    queue: Queue[Batch | BaseException | None] = Queue(BATCHES_AHEAD)
    stop = Event()
    thread = Thread(target=_decode, args=(video, batch, queue, stop), name="decode", daemon=True)
    thread.start()
    try:
        while (item := queue.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            points = np.asarray(detector(item.images), np.float32)
            if points.ndim != 3 or points.shape[::2] != (len(item.images), 2):
                raise ValueError(f"a detector gives ({len(item.images)}, K, 2) points, not {points.shape}")
            for found in zip(item.indices, item.times, item.images, points, strict=True):
                yield Tracked(*found)
    finally:
        # The decoder looks at the flag before each frame and puts at most once more: an emptied queue has room for it.
        stop.set()
        while True:
            try:
                queue.get_nowait()
            except Empty:
                break
        thread.join()


def _decode(video: Iterable[VideoFrame], batch: int, queue: "Queue[Batch | BaseException | None]", stop: Event) -> None:
    """Fill the queue with batches and end it with None, or with what went wrong."""
    waiting: list[VideoFrame] = []
    try:
        for frame in video:
            if stop.is_set():
                return
            waiting.append(frame)
            if len(waiting) >= min(batch, BYTES_PER_BATCH // frame.image.nbytes):
                queue.put(_stack(waiting))
                waiting = []
        if waiting:
            queue.put(_stack(waiting))
        end: BaseException | None = None
    except BaseException as error:  # the consumer raises it; here it would only be printed
        end = error
    if not stop.is_set():
        queue.put(end)


def _stack(frames: list[VideoFrame]) -> Batch:
    indices, times, images = zip(*frames, strict=True)
    return Batch(list(indices), list(times), np.stack(images))

"""Tables of tracks, in the format that the end of the name says, written as the frames come."""

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from jaxtyping import Float32

from transporter.coords import to_pixels
from transporter.errors import InputError
from transporter.files import replacing
from transporter.report.formats import format_of
from transporter.report.tracked import Head, Tracks

__all__ = ["TrackWriter", "Tracks", "read_tracks", "write_tracks"]

POINTS_AT_ONCE = 16_384  # held in memory, and the size of a row group in Parquet


class TrackWriter:
    """`with TrackWriter("tracks.csv", width, height) as table: table.add(frame, time, points)`.

    The file gets its name when the block ends well; when it does not, nothing is left of it.
    """

    def __init__(self, path: str | Path, width: int, height: int, clip: str = "clip") -> None:
        self.path, self.head = Path(path), Head(width, height, clip)
        self._open = format_of(self.path).open
        if self.path.is_dir():
            raise InputError(f"{self.path}: is a folder")
        self._waiting: list[tuple[int, float, Float32[np.ndarray, "k 2"]]] = []

    def add(self, frame: int, time: float, points: Float32[np.ndarray, "k 2"]) -> None:
        """The keypoints of one frame."""
        self._waiting.append((frame, time, points))
        if len(self._waiting) * len(points) >= POINTS_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            frames, times, points = zip(*self._waiting, strict=True)
            together = np.stack(points)
            pixels = to_pixels(together, self.head.width, self.head.height)
            self._write(Tracks(np.array(frames, np.int64), np.array(times, np.float64), together, pixels))
        self._waiting = []

    def _end(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._flush()

    def __enter__(self) -> Self:
        try:
            with ExitStack() as stack:
                # Undone from the last to the first: the last rows, closing the file, its name (or its removal).
                self._write = self._open(stack.enter_context(replacing(self.path)), stack, self.head)
                stack.push(self._end)
                self._stack = stack.pop_all()
        except OSError as error:
            raise InputError(f"{self.path}: cannot be written ({error.strerror})") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)


def write_tracks(path: str | Path, tracks: Tracks, width: int, height: int, clip: str = "clip") -> None:
    """A whole table at once, for instance in another format."""
    with TrackWriter(path, width, height, clip) as table:
        for frame, time, points in zip(tracks.frames.tolist(), tracks.times.tolist(), tracks.points, strict=True):
            table.add(frame, time, points)


def read_tracks(path: str | Path) -> Tracks:
    """The table that TrackWriter wrote. DeepLabCut's and SLEAP's files know pixels only: times and points are NaN."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        return format_of(path).read(path)
    except InputError as error:
        raise InputError(f"{path}: {error}" if str(path) not in str(error) else str(error)) from None
    except (KeyError, ValueError, TypeError, OSError, IndexError) as error:
        raise InputError(f"{path}: not a table of tracks") from error

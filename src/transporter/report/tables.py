"""Tables of tracks: one row per frame and keypoint, CSV or Parquet by suffix, written as the frames come."""

import csv
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np
from jaxtyping import Float32, Float64, Int64

from transporter.coords import to_pixels
from transporter.errors import InputError
from transporter.files import replacing

ROWS_AT_ONCE = 16_384  # held in memory, and the size of a row group in Parquet


class Row(NamedTuple):
    """One keypoint in one frame; the names of the fields are the columns of the table."""

    frame: int
    time: float  # seconds
    keypoint: int
    x: float  # in [-1, 1]
    y: float
    pixel_x: float  # the centre of the first pixel is 0.5
    pixel_y: float


class Tracks(NamedTuple):
    """A table read back."""

    frames: Int64[np.ndarray, "t"]
    times: Float64[np.ndarray, "t"]
    points: Float32[np.ndarray, "t k 2"]
    pixels: Float32[np.ndarray, "t k 2"]


class TrackWriter:
    """`with TrackWriter("tracks.csv", width, height) as table: table.add(frame, time, points)`.

    The file gets its name when the block ends well; when it does not, nothing is left of it.
    """

    def __init__(self, path: str | Path, width: int, height: int) -> None:
        self.path, self.width, self.height = Path(path), width, height
        self._open = _format(self.path).open
        if self.path.is_dir():
            raise InputError(f"{self.path}: is a folder")
        self._rows: list[Row] = []

    def add(self, frame: int, time: float, points: Float32[np.ndarray, "k 2"]) -> None:
        """The keypoints of one frame."""
        pixels = to_pixels(points, self.width, self.height)
        for keypoint, (point, pixel) in enumerate(zip(points.tolist(), pixels.tolist(), strict=True)):
            self._rows.append(Row(frame, time, keypoint, *point, *pixel))
        if len(self._rows) >= ROWS_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._write(self._rows)
        self._rows = []

    def _end(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._flush()

    def __enter__(self) -> Self:
        try:
            with ExitStack() as stack:
                # Undone from the last to the first: the last rows, closing the file, its name (or its removal).
                self._write = self._open(stack.enter_context(replacing(self.path)), stack)
                stack.push(self._end)
                self._stack = stack.pop_all()
        except OSError as error:
            raise InputError(f"{self.path}: cannot be written ({error.strerror})") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)


def read_tracks(path: str | Path) -> Tracks:
    """The table that TrackWriter wrote."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        columns = _format(path).read(path)
    except (KeyError, ValueError) as error:
        raise InputError(f"{path}: not a table of tracks") from error
    keypoints = int(columns[Row._fields.index("keypoint")].max(initial=-1)) + 1
    rows = len(columns[0])
    if keypoints and rows % keypoints:
        raise InputError(f"{path}: not every frame has {keypoints} keypoints")
    shape = (rows // keypoints if keypoints else 0, keypoints)
    frame, time, _, x, y, pixel_x, pixel_y = (column.reshape(shape) for column in columns)
    first = slice(None), slice(0, 1)
    return Tracks(
        frame[first].reshape(-1).astype(np.int64),
        time[first].reshape(-1).astype(np.float64),
        np.stack([x, y], -1).astype(np.float32),
        np.stack([pixel_x, pixel_y], -1).astype(np.float32),
    )


Write = Callable[[list[Row]], None]


class Format(NamedTuple):
    """How a kind of file is written and read; what must be closed is left to the stack."""

    open: Callable[[Path, ExitStack], Write]
    read: Callable[[Path], list[np.ndarray]]  # columns in the order of Row


def _format(path: Path) -> Format:
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path}: a table of tracks is {' or '.join(FORMATS)}")
    return FORMATS[path.suffix.lower()]


def _open_csv(path: Path, stack: ExitStack) -> Write:
    writer = csv.writer(stack.enter_context(path.open("w", newline="", encoding="utf-8")), lineterminator="\n")
    writer.writerow(Row._fields)
    return writer.writerows


def _read_csv(path: Path) -> list[np.ndarray]:
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.reader(file)
        if next(rows, None) != list(Row._fields):
            raise ValueError("other columns")
        table = np.array([[float(value) for value in row] for row in rows]).reshape(-1, len(Row._fields))
    return list(table.T)


def _open_parquet(path: Path, stack: ExitStack) -> Write:
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    kinds = {"frame": "int64", "time": "float64", "keypoint": "int32"}
    schema = pyarrow.schema([(name, kinds.get(name, "float32")) for name in Row._fields])
    writer = stack.enter_context(ParquetWriter(path, schema))

    def write(rows: list[Row]) -> None:
        writer.write_table(pyarrow.table(list(zip(*rows, strict=True)), schema=schema))

    return write


def _read_parquet(path: Path) -> list[np.ndarray]:
    from pyarrow.parquet import read_table

    table = read_table(path)
    return [table[name].to_numpy() for name in Row._fields]


FORMATS = {".csv": Format(_open_csv, _read_csv), ".parquet": Format(_open_parquet, _read_parquet)}

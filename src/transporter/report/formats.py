"""Every format of a table of tracks, by the end of its name; CSV and Parquet have one row per frame and keypoint."""

import csv
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from transporter.errors import InputError
from transporter.report.foreign import COCO, DEEPLABCUT, SLEAP
from transporter.report.tracked import Format, Head, Row, Tracks, Write


def _rows(part: Tracks) -> Iterator[Row]:
    for frame, time, points, pixels in zip(*part, strict=True):
        for k, (point, pixel) in enumerate(zip(points.tolist(), pixels.tolist(), strict=True)):
            yield Row(int(frame), float(time), k, *point, *pixel)


def _to_columns(part: Tracks) -> list[np.ndarray]:
    """In the order of Row."""
    frames, times = (np.repeat(values, part.keypoints) for values in part[:2])
    keypoints = np.tile(np.arange(part.keypoints), len(part.frames))
    return [frames, times, keypoints, *part.points.reshape(-1, 2).T, *part.pixels.reshape(-1, 2).T]


def _from_columns(columns: list[np.ndarray]) -> Tracks:
    keypoints = int(columns[Row._fields.index("keypoint")].max(initial=-1)) + 1
    rows = len(columns[0])
    if keypoints and rows % keypoints:
        raise InputError(f"not every frame has {keypoints} keypoints")
    shape = (rows // keypoints if keypoints else 0, keypoints)
    frame, time, _, x, y, pixel_x, pixel_y = (column.reshape(shape) for column in columns)
    first = slice(None), slice(0, 1)
    return Tracks(
        frame[first].reshape(-1).astype(np.int64),
        time[first].reshape(-1).astype(np.float64),
        np.stack([x, y], -1).astype(np.float32),
        np.stack([pixel_x, pixel_y], -1).astype(np.float32),
    )


def _open_csv(path: Path, stack: ExitStack, head: Head) -> Write:
    writer = csv.writer(stack.enter_context(path.open("w", newline="", encoding="utf-8")), lineterminator="\n")
    writer.writerow(Row._fields)
    return lambda part: writer.writerows(_rows(part))


def _read_csv(path: Path) -> Tracks:
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.reader(file)
        if next(rows, None) != list(Row._fields):
            raise ValueError("other columns")
        table = np.array([[float(value) for value in row] for row in rows]).reshape(-1, len(Row._fields))
    return _from_columns(list(table.T))


def _open_parquet(path: Path, stack: ExitStack, head: Head) -> Write:
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    kinds = {"frame": "int64", "time": "float64", "keypoint": "int32"}
    schema = pyarrow.schema([(name, kinds.get(name, "float32")) for name in Row._fields])
    writer = stack.enter_context(ParquetWriter(path, schema))

    return lambda part: writer.write_table(pyarrow.table(_to_columns(part), schema=schema))


def _read_parquet(path: Path) -> Tracks:
    from pyarrow.parquet import read_table

    table = read_table(path)
    return _from_columns([table[name].to_numpy() for name in Row._fields])


FORMATS = {
    "csv": Format(".csv", "one row per frame and keypoint", _open_csv, _read_csv),
    "parquet": Format(".parquet", "the same, typed and small", _open_parquet, _read_parquet),
    "deeplabcut": DEEPLABCUT,
    "sleap": SLEAP,
    "coco": COCO,
}


def format_of(path: Path) -> Format:
    """By the longest ending that fits the name."""
    fits = [kind for kind in FORMATS.values() if path.name.lower().endswith(kind.ending)]
    if not fits:
        raise InputError(f"{path}: a table of tracks is {' or '.join(kind.ending for kind in FORMATS.values())}")
    return max(fits, key=lambda kind: len(kind.ending))

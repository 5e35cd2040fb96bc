"""Rows of metrics.jsonl as curves: any column of numbers is one, whoever wrote it."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from transporter.files import is_number, parse_json
from transporter.report.studio.answers import Refused

MOST_POINTS = 2_000  # of a curve that is sent: more than a screen is wide
SMALL, TAIL = 32 * 1024, 6 * 1024  # bytes: a larger file is sampled for the list, and its end is read
WIDEST = 256  # values in a row's list that still make curves
LONGEST_READ = 256 * 2**20  # bytes of metrics that are read at once

Row = dict[str, Any]


class Curve(NamedTuple):
    """One column: y is a number at each x, or a list with one number per keypoint."""

    x: list[float]
    y: list[Any]


class Update(NamedTuple):
    """What is new since a cursor; `whole` says that everything before is void."""

    cursor: str
    whole: bool
    curves: dict[str, Curve]


def rows_of(data: bytes) -> list[Row]:
    """The lines that are whole rows; others are passed over."""
    rows = []
    for line in data.splitlines():
        try:
            row = parse_json(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            rows.append(row | returns(row.get("episodes")))
    return rows


def returns(episodes: Any) -> Row:
    """What agents scored in the episodes that ended since the row before: rows of agent, score, length."""
    if not isinstance(episodes, list) or not all(map(_is_episode, episodes)):
        return {}
    scores: dict[int, list[float]] = {}
    for agent, score, *_ in episodes:
        scores.setdefault(int(agent), []).append(float(score))
    if not scores or not 0 <= min(scores) <= max(scores) < WIDEST:
        return {}
    means = {agent: sum(values) / len(values) for agent, values in scores.items()}
    each = [means.get(agent) for agent in range(max(means) + 1)]
    return {"return_of_each_agent": each, "mean_return": sum(means.values()) / len(means)}


def _is_episode(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 1 and is_number(value[0]) and is_number(value[1])


def read_rows(path: Path | None) -> list[Row]:
    """All rows there are."""
    file = _opened(path)
    if file is None:
        return []
    with file:
        return rows_of(file.read(LONGEST_READ))


def _opened(path: Path | None) -> BinaryIO | None:
    """A file that may be gone again since someone looked: its run may have begun anew."""
    try:
        return path.open("rb") if path is not None else None
    except FileNotFoundError:
        return None


def read_update(path: Path | None, cursor: str = "") -> Update:
    """New rows since the cursor, which names a file and a place in it; a file that was rewritten starts anew."""
    file = _opened(path)
    if file is None:
        return Update("", bool(cursor), {})
    with file:
        found = os.fstat(file.fileno())
        inode, _, place = cursor.partition(":")
        start = int(place) if inode == str(found.st_ino) and place.isdigit() else 0
        whole = not 0 < start <= found.st_size
        start = 0 if whole else start
        file.seek(start)
        data = file.read(LONGEST_READ)
    end = data.rfind(b"\n") + 1  # a line that is still being written waits for its end
    curves = as_curves(rows_of(data[:end]))
    if whole:
        curves = {name: thinned(curve) for name, curve in curves.items()}
    return Update(f"{found.st_ino}:{start + end}", whole, curves)


def as_curves(rows: Iterable[Row]) -> dict[str, Curve]:
    """Every column that holds numbers, or lists of them, against the step (or the row, where there is none)."""
    curves: dict[str, Curve] = {}
    for index, row in enumerate(rows):
        x: Any = row.get("step", row.get("frames", index))
        if not _number(x):
            continue
        for name, value in row.items():
            if name == "step" or not (_number(value) or _numbers(value)):
                continue
            curve = curves.setdefault(name, Curve([], []))
            if curve.y and isinstance(curve.y[-1], list) != isinstance(value, list):
                continue  # a column that is now a number and then a list is no curve
            curve.x.append(x)
            curve.y.append(value)
    return curves


def thinned(curve: Curve, most: int = MOST_POINTS) -> Curve:
    """Evenly chosen points, the first and the last among them."""
    count = len(curve.x)
    if count <= most:
        return curve
    chosen = [round(i * (count - 1) / (most - 1)) for i in range(most)]
    return Curve([curve.x[i] for i in chosen], [curve.y[i] for i in chosen])


class Sample(NamedTuple):
    """A file in short."""

    spread: list[Row]  # from the first row to the last
    newest: list[Row]


def sampled(path: Path | None, count: int) -> Sample:
    """Some rows from all over the file and the last ones, in little time however long it is."""
    if path is None:
        return Sample([], [])
    with path.open("rb", buffering=1024) as file:
        size = file.seek(0, 2)
        if size <= SMALL:
            file.seek(0)
            rows = rows_of(file.read())
            return Sample(rows[:: max(1, len(rows) // count)], rows)
        spread = []
        for i in range(count):
            file.seek(size * i // count)
            if i:
                file.readline(SMALL)  # the rest of a line
            spread += rows_of(file.readline(SMALL))
        file.seek(size - TAIL)
        return Sample(spread, rows_of(file.read())[1:])


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _numbers(value: Any) -> bool:
    return isinstance(value, list) and 0 < len(value) <= WIDEST and all(_number(part) or part is None for part in value)


def checked_cursor(cursor: str) -> str:
    if len(cursor) > 64 or not all(part.isdigit() for part in cursor.split(":") if part):
        raise Refused(400, "not a cursor")
    return cursor

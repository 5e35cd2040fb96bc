"""What came of an exploration, told from its metrics."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from transporter.control.doubts import left_out
from transporter.control.options.evaluation import WAYS, Way
from transporter.runs import Json

PERCENTILES = (5, 25, 50, 75, 95, 100)
FIRE = "FIRE"  # in the names of actions with the button, which shoots or jumps


class Point(NamedTuple):
    """Returns of one way to play, after so many frames."""

    frames: int
    returns: list[float]


def curves(rows: Sequence[Json]) -> dict[Way, list[Point]]:
    """From metrics.jsonl; random actions are the same throughout."""
    measured = [row for row in rows if "returns" in row]
    lines: dict[Way, list[Point]] = {way: [] for way in WAYS}
    for row in measured:
        for way in WAYS:
            returns = row["returns"].get(way) or (lines[way][-1].returns if lines[way] else None)
            if returns:
                lines[way].append(Point(row["frames"], returns))
    return lines


def figures(rows: Sequence[Json]) -> dict[str, float]:
    """The last of each curve: mean, spread and percentiles; avatar, rooms, speed."""
    flat: dict[str, float] = {}
    for way, points in curves(rows).items():
        if points:
            last = np.array(points[-1].returns)
            flat[f"{way} mean"] = round(float(last.mean()), 3)
            flat[f"{way} std"] = round(float(last.std()), 3)
            flat |= {f"{way} p{p}": round(float(np.percentile(last, p)), 3) for p in PERCENTILES}
    measured = [row for row in rows if "returns" in row]
    if measured:
        last_row = measured[-1]
        flat |= {n: float(last_row[n]) for n in ("avatar", "rooms", "frames") if last_row[n] is not None}
        if (most := [row["rooms"] for row in measured if row["rooms"]]) != []:
            flat["rooms, most"] = float(max(most))
        for row in measured:  # the newest that is known: random actions are measured once
            flat |= {f"{way} rooms": float(rooms) for way, rooms in row.get("rooms_by_way", {}).items()}
            for way, shares in row.get("taken", {}).items():
                if pressed := [share for name, share in shares.items() if FIRE in name]:
                    flat[f"{way} button"] = round(sum(pressed), 4)
    if speeds := [row["frames_per_second"] for row in rows if "frames_per_second" in row]:
        flat["frames per second"] = float(np.median(speeds))
        flat["eyes swapped, last"] = rows[-1]["eyes_swapped"]
    return flat


def doubts(rows: Sequence[Json]) -> list[str]:
    """What one should know before believing that these options were learnt."""
    if not rows or not rows[-1]["updates"]:
        return ["nothing was learnt: there was no update"]
    doubt = left_out(rows[-1]["updates"], rows[-1]["left_out"])
    return [doubt] if doubt else []

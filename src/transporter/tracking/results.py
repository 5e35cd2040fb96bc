"""What an evaluation found, in a form that files and reports can hold: no environment, no model."""

import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Self

from transporter.errors import InputError
from transporter.tracking.metrics import Following, TrackingCurve

HEADLINES = (1, 20, 50, 100, 200)  # the lengths that `figures` names, where they were measured


class KeypointRow(NamedTuple):
    """The object that a keypoint follows most."""

    keypoint: int
    follows: str | None
    share: float  # of the object's windows, in which this keypoint follows it


class ObjectRow(NamedTuple):
    """How well an object is followed, by whichever keypoint."""

    name: str
    windows: int  # in which it counts
    recall: float
    error: float  # mean distance of its matches, in [-1, 1] units
    keypoint: int | None  # the one that follows it most


@dataclass(frozen=True)
class Evaluation:
    """All that a play with a detector tells: the curve, and who follows whom."""

    scene: str
    seed: int
    frames: int
    episodes: int
    curve: TrackingCurve
    following_length: int
    keypoints: tuple[KeypointRow, ...]
    objects: tuple[ObjectRow, ...]

    @property
    def figures(self) -> dict[str, float]:
        """Flat, for results files: "precision@20", "recall_ceiling@200", …; what is undefined is left out."""
        found: dict[str, float] = {}
        for length in HEADLINES:
            if length in self.curve.lengths:
                point = self.curve.at(length)
                for name in ("precision", "recall"):
                    found[f"{name}@{length}"] = getattr(point, name)
                    found[f"{name}_ceiling@{length}"] = getattr(point, f"{name}_ceiling")
                    found[f"{name}_ratio@{length}"] = point.ratio
        return {name: value for name, value in found.items() if not math.isnan(value)}

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; an undefined figure is null."""
        rows = {
            "keypoints": [row._asdict() for row in self.keypoints],
            "objects": [
                {name: None if value != value else value for name, value in row._asdict().items()}
                for row in self.objects
            ],
        }
        return {**asdict(self), **rows, "figures": self.figures, "curve": self.curve.to_json()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        try:
            return cls(
                **{name: data[name] for name in ("scene", "seed", "frames", "episodes", "following_length")},
                curve=TrackingCurve.from_json(data["curve"]),
                keypoints=tuple(KeypointRow(**row) for row in data["keypoints"]),
                objects=tuple(ObjectRow(**{**row, **_undefined(row)}) for row in data["objects"]),
            )
        except (KeyError, TypeError) as error:
            raise InputError(f"not an evaluation this version knows: {error}") from error


def _undefined(row: dict[str, Any]) -> dict[str, float]:
    return {name: math.nan for name in ("recall", "error") if row[name] is None}


def keypoint_rows(followed: Following, names: tuple[str, ...]) -> tuple[KeypointRow, ...]:
    """One row per keypoint, named after the object that it is matched with most."""
    rows = []
    for keypoint, matches in enumerate(followed.matches):
        best = int(matches.argmax())
        if matches[best]:
            rows.append(KeypointRow(keypoint, names[best], float(matches[best] / followed.objects[best])))
        else:
            rows.append(KeypointRow(keypoint, follows=None, share=0.0))
    return tuple(rows)


def object_rows(followed: Following, names: tuple[str, ...]) -> tuple[ObjectRow, ...]:
    """One row per object of the scene."""
    rows = []
    for n, name in enumerate(names):
        matches = followed.matches[:, n]
        keypoint = int(matches.argmax()) if matches.any() else None
        rows.append(
            ObjectRow(name, int(followed.objects[n]), float(followed.recall[n]), float(followed.error[n]), keypoint)
        )
    return tuple(rows)

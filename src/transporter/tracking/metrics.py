"""Precision and recall of keypoint trajectories against their length (§4.1 of the paper)."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from jaxtyping import Float, Int

from transporter.errors import InputError
from transporter.tracking.match import Episode, lay_out, match

LENGTHS = range(1, 201)  # the paper's: 200 steps are 13 seconds at 15 frames per second


class TrackingPoint(NamedTuple):
    """The curve at one length."""

    length: int
    precision: float
    recall: float
    precision_ceiling: float
    recall_ceiling: float
    ratio: float
    windows: int

    @property
    def precision_ratio(self) -> float:
        return self.ratio

    @property
    def recall_ratio(self) -> float:
        return self.ratio


@dataclass(frozen=True)
class TrackingCurve:
    """Counts summed over all windows of each length, and the precision and recall that they give.

    The ceiling is what a perfect tracker with as many keypoints would get on the same windows. Both ratios to it are
    matches / possible, hence equal. A figure is NaN where there was nothing to find.
    """

    radius: float
    keypoints: int
    lengths: Int[np.ndarray, "l"]
    windows: Int[np.ndarray, "l"]
    matches: Int[np.ndarray, "l"]
    objects: Int[np.ndarray, "l"]
    possible: Int[np.ndarray, "l"]  # matches of a perfect tracker: min(keypoints, objects) of each window, summed

    @property
    def precision(self) -> Float[np.ndarray, "l"]:
        return _share(self.matches, self.keypoints * self.windows)

    @property
    def recall(self) -> Float[np.ndarray, "l"]:
        return _share(self.matches, self.objects)

    @property
    def precision_ceiling(self) -> Float[np.ndarray, "l"]:
        return _share(self.possible, self.keypoints * self.windows)

    @property
    def recall_ceiling(self) -> Float[np.ndarray, "l"]:
        return _share(self.possible, self.objects)

    @property
    def ratio(self) -> Float[np.ndarray, "l"]:
        return _share(self.matches, self.possible)

    precision_ratio = recall_ratio = ratio

    def at(self, length: int) -> TrackingPoint:
        """Precision, recall and ceilings at one of the lengths."""
        found = np.flatnonzero(self.lengths == length)
        if not len(found):
            raise InputError(f"no figures at length {length}: lengths are {self.lengths.min()} to {self.lengths.max()}")
        i = int(found[0])
        shares = (self.precision, self.recall, self.precision_ceiling, self.recall_ceiling, self.ratio)
        precision, recall, precision_ceiling, recall_ceiling, ratio = (float(share[i]) for share in shares)
        windows = int(self.windows[i])
        return TrackingPoint(length, precision, recall, precision_ceiling, recall_ceiling, ratio, windows)

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(value, "tolist", lambda v=value: v)() for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        arrays = {name: np.array(value, int) for name, value in data.items() if isinstance(value, list)}
        return cls(radius=data["radius"], keypoints=data["keypoints"], **arrays)


@dataclass(frozen=True)
class Following:
    """Who follows whom in windows of one length."""

    length: int
    windows: int
    matches: Int[np.ndarray, "k n"]  # windows in which keypoint k is matched with object n
    objects: Int[np.ndarray, "n"]  # windows in which object n counts
    error: Float[np.ndarray, "n"]  # mean distance of the object's matches, NaN where it has none

    @property
    def recall(self) -> Float[np.ndarray, "n"]:
        """Share of each object's windows in which some keypoint follows it."""
        return _share(self.matches.sum(axis=0), self.objects)


def tracking_curve(episodes: Sequence[Episode], radius: float, lengths: Iterable[int] = LENGTHS) -> TrackingCurve:
    """Precision and recall at each length, ε = radius in [-1, 1] units."""
    tracks, chosen = lay_out(episodes), _checked(radius, lengths)
    keypoints = tracks.distance.shape[1]
    rows = []
    for length in chosen:
        counted, _, matched = match(tracks, length, radius)
        objects = counted.sum(axis=1)
        rows.append((len(counted), matched.sum(), objects.sum(), np.minimum(keypoints, objects).sum()))
    return TrackingCurve(radius, keypoints, np.array(chosen), *np.array(rows, int).T)


def following(episodes: Sequence[Episode], radius: float, length: int) -> Following:
    """What each keypoint follows, and how well each object is followed, in windows of one length."""
    _checked(radius, [length])
    counted, distance, matched = match(lay_out(episodes), length, radius)
    total = np.where(matched, distance, 0).sum(axis=(0, 1))
    return Following(
        length=length,
        windows=len(counted),
        matches=matched.sum(axis=0),
        objects=counted.sum(axis=0),
        error=_share(total, matched.sum(axis=(0, 1))),
    )


def _checked(radius: float, lengths: Iterable[int]) -> list[int]:
    chosen = sorted({int(length) for length in lengths})
    if not chosen or chosen[0] < 1:
        raise InputError("trajectory lengths must be whole numbers from 1 upwards")
    if not 0 < radius < np.inf:
        raise InputError(f"the matching radius must be a positive number, not {radius}")
    return chosen


def _share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """part / whole, NaN where there is nothing."""
    return np.divide(part, whole, out=np.full(np.shape(whole), np.nan), where=np.asarray(whole) > 0)

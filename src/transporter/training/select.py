"""Which seed and which checkpoint to take, judged from validation loss and keypoint health alone: no labels.

Losses can be compared between runs on the same data with the same pixels and as many keypoints, that is between seeds
and checkpoints of one recipe. A low loss alone can hide a keypoint that died early; the number of live keypoints alone
cannot tell two runs that have them all apart. So: the lowest loss among the healthiest.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from transporter.errors import InputError

TOLERANCE = 10  # one keypoint in so many may be missing before a run counts as less healthy than another


class Candidate(NamedTuple):
    """One set of weights, as training saw it."""

    name: str
    step: int
    keypoints: int
    validation_loss: float
    alive: int  # that live and are not duplicates

    @classmethod
    def from_row(cls, name: str, keypoints: int, row: dict[str, Any]) -> "Candidate":
        """From a row of metrics.jsonl that has a validation."""
        return cls(name, row["step"], keypoints, row["validation_loss"], row["alive"])


def checkpoints(name: str, keypoints: int, rows: Sequence[dict[str, Any]], after: int = 0) -> list[Candidate]:
    """Every validated step of a run; those up to `after`, while heatmaps still shrink, cannot be compared."""
    validated = [row for row in rows if "alive" in row and "validation_loss" in row]
    late = [row for row in validated if row["step"] > after]
    return [Candidate.from_row(name, keypoints, row) for row in late or validated[-1:]]


def ranked(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Best first: those as healthy as the healthiest by their loss, then the others, healthier ones first."""
    if not candidates:
        raise InputError("nothing to choose from")
    if len({c.keypoints for c in candidates}) > 1:
        raise InputError("models with different numbers of keypoints cannot be compared")
    enough = max(c.alive for c in candidates) - candidates[0].keypoints // TOLERANCE
    return sorted(candidates, key=lambda c: (max(0, enough - c.alive), c.validation_loss))


def choose(candidates: Sequence[Candidate]) -> Candidate:
    """The one to take."""
    return ranked(candidates)[0]

"""Which seed and which checkpoint to take, judged from held-out pairs and keypoint health alone: no labels.

Within a run the loss tells which checkpoint to keep. Between the seeds of a recipe the error in colours tells more:
standardised pixels make a loss weigh what changes rarely, and that can hide a large thing that nothing follows. Either
alone can hide a keypoint that died early, and the number of live keypoints cannot tell two runs that have them all
apart. So: the lowest error among the healthiest.
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
    error: float | None = None  # in colours; older runs did not measure it

    @classmethod
    def from_row(cls, name: str, keypoints: int, row: dict[str, Any]) -> "Candidate":
        """From a row of metrics.jsonl that has a validation."""
        return cls(name, row["step"], keypoints, row["validation_loss"], row["alive"], row.get("reconstruction_error"))


def checkpoints(name: str, keypoints: int, rows: Sequence[dict[str, Any]], after: int = 0) -> list[Candidate]:
    """Every validated step of a run; those up to `after`, while heatmaps still shrink, cannot be compared."""
    validated = [row for row in rows if "alive" in row and "validation_loss" in row]
    late = [row for row in validated if row["step"] > after]
    return [Candidate.from_row(name, keypoints, row) for row in late or validated[-1:]]


def ranked(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Best first: those as healthy as the healthiest by their error, then the others, healthier ones first."""
    if not candidates:
        raise InputError("nothing to choose from")
    if len({c.keypoints for c in candidates}) > 1:
        raise InputError("models with different numbers of keypoints cannot be compared")
    enough = max(c.alive for c in candidates) - candidates[0].keypoints // TOLERANCE
    missing = [max(0, enough - c.alive) for c in candidates]
    order = sorted(zip(missing, judged(candidates), range(len(candidates)), strict=True))
    return [candidates[i] for _, _, i in order]


def judged(candidates: Sequence[Candidate]) -> list[float]:
    """What each is judged by: its error, or its loss where one of them has no error."""
    errors = [c.error for c in candidates if c.error is not None]
    return errors if len(errors) == len(candidates) else [c.validation_loss for c in candidates]


def judged_by(candidates: Sequence[Candidate]) -> str:
    """What that is called."""
    return "validation loss" if any(c.error is None for c in candidates) else "reconstruction error"


def choose(candidates: Sequence[Candidate]) -> Candidate:
    """The one to take."""
    return ranked(candidates)[0]

"""Which keypoint follows which object over a stretch of time (§4.1 of the paper)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float32, Int
from scipy.optimize import linear_sum_assignment

from transporter.errors import InputError

# Coordinates are float32 in [-1, 1], each off by up to 6e-8: a distance of exactly ε must survive that.
ROUNDING = 1e-6


class Episode(NamedTuple):
    """Detected and true trajectories of one episode, step by step."""

    points: Float32[np.ndarray, "t k 2"]
    centres: Float32[np.ndarray, "t n 2"]  # meaningless where the object is absent
    present: Bool[np.ndarray, "t n"]


class Tracks(NamedTuple):
    """Episodes laid end to end as running sums, so that the mean over any window is one subtraction."""

    steps: tuple[int, ...]  # length of each episode
    distance: Float[np.ndarray, "t+1 k n"]
    present: Int[np.ndarray, "t+1 n"]


class Matches(NamedTuple):
    """Every window of one length: its objects, its distances, and who follows whom."""

    counted: Bool[np.ndarray, "w n"]  # present in at least one step
    distance: Float[np.ndarray, "w k n"]  # mean over the steps with the object; inf where it does not count
    matched: Bool[np.ndarray, "w k n"]  # at most one per keypoint and one per object


def lay_out(episodes: Sequence[Episode]) -> Tracks:
    """Check the episodes and sum their distances over time."""
    if not episodes:
        raise InputError("no episode to evaluate")
    for episode in episodes:
        _check(episode, like=episodes[0])
    points, centres, present = (np.concatenate(parts) for parts in zip(*episodes, strict=True))
    with np.errstate(invalid="ignore", over="ignore"):  # the centre of an absent object may be anything
        offsets = points[:, :, None, :].astype(np.float64) - centres[:, None, :, :]
        distance = np.where(present[:, None, :], np.hypot(offsets[..., 0], offsets[..., 1]), 0.0)
    return Tracks(
        steps=tuple(len(episode.points) for episode in episodes),
        distance=np.concatenate([np.zeros_like(distance[:1]), np.cumsum(distance, axis=0)]),
        present=np.concatenate([np.zeros((1, present.shape[1]), int), np.cumsum(present, axis=0)]),
    )


def windows(steps: int, length: int) -> Int[np.ndarray, "w 2"]:
    """First step and end of consecutive windows that cover an episode.

    A remainder is covered by a full window that ends with the episode; a shorter episode is one window.
    """
    if steps <= length:
        return np.array([[0, steps]])
    starts = np.arange(0, steps - length + 1, length)
    if steps % length:
        starts = np.append(starts, steps - length)
    return np.stack([starts, starts + length], axis=1)


def match(tracks: Tracks, length: int, radius: float) -> Matches:
    """Match keypoints and objects in each window of a length, as §4.1 does."""
    first_steps = np.cumsum((0, *tracks.steps[:-1]))
    spans = np.concatenate([first + windows(n, length) for first, n in zip(first_steps, tracks.steps, strict=True)])
    start, end = spans.T
    seen = tracks.present[end] - tracks.present[start]
    counted = seen > 0
    total = tracks.distance[end] - tracks.distance[start]
    distance = np.where(counted[:, None, :], total / np.maximum(seen, 1)[:, None, :], np.inf)
    return Matches(counted, distance, assign(distance, radius))


def assign(distance: Float[np.ndarray, "w k n"], radius: float) -> Bool[np.ndarray, "w k n"]:
    """One-to-one assignment within the radius: as many matches as possible, and of those the least total distance."""
    candidate = distance <= radius + ROUNDING
    contested = (candidate.sum(axis=2) > 1).any(axis=1) | (candidate.sum(axis=1) > 1).any(axis=1)
    matched = candidate & ~contested[:, None, None]
    # An excluded pair costs more than all allowed ones together, so that it is never worth losing a match.
    excluded = 1 + min(distance.shape[1:]) * (radius + ROUNDING)
    for window in np.flatnonzero(contested):
        rows, columns = linear_sum_assignment(np.where(candidate[window], distance[window], excluded))
        matched[window, rows, columns] = candidate[window, rows, columns]
    return matched


def _check(episode: Episode, like: Episode) -> None:
    points, centres, present = episode
    steps = len(points)
    if points.ndim != 3 or points.shape[2] != 2 or centres.shape != (*present.shape, 2) or len(present) != steps:
        shapes = f"points {points.shape}, centres {centres.shape}, present {present.shape}"
        raise InputError(f"an episode needs points (T, K, 2), centres (T, N, 2) and present (T, N), not {shapes}")
    if not steps or not points.shape[1] or not present.shape[1]:
        raise InputError("an episode needs at least one step, one keypoint and one object")
    if points.shape[1:] != like.points.shape[1:] or present.shape[1:] != like.present.shape[1:]:
        raise InputError("all episodes must have the same number of keypoints and of objects")
    if not np.isfinite(points).all() or not np.isfinite(centres[present]).all():
        raise InputError("keypoints and the centres of present objects must be finite numbers")

"""Windows and assignments that a person can check by hand."""

import numpy as np
import pytest

from transporter.errors import InputError
from transporter.tracking.match import Episode, assign, lay_out, match, windows

NO = np.inf


@pytest.mark.parametrize(
    ("steps", "length", "expected"),
    [
        (6, 2, [(0, 2), (2, 4), (4, 6)]),
        (6, 6, [(0, 6)]),
        (7, 3, [(0, 3), (3, 6), (4, 7)]),  # the remainder: a full window that ends with the episode
        (5, 4, [(0, 4), (1, 5)]),
        (3, 200, [(0, 3)]),  # shorter than the length: one window of its own length
        (1, 1, [(0, 1)]),
    ],
)
def test_windows_cover_the_episode(steps: int, length: int, expected: list[tuple[int, int]]) -> None:
    assert [tuple(span) for span in windows(steps, length).tolist()] == expected


@pytest.mark.parametrize(
    ("distance", "expected"),
    [
        ([[0.1, NO], [NO, 0.1]], [(0, 0), (1, 1)]),
        ([[NO, NO], [NO, NO]], []),
        # Greedy takes (0, 0) at 0.1 and must then pay 0.9: 1.0 in all. The least is 0.2 + 0.2.
        ([[0.1, 0.2], [0.2, 0.9]], [(0, 1), (1, 0)]),
        # Greedy, and the least cost alone, take (0, 0) at 0.1 and stop: (1, 1) is too far. Two matches come first.
        ([[0.1, 0.9], [0.9, NO]], [(0, 1), (1, 0)]),
        ([[0.3], [0.2], [0.4]], [(1, 0)]),  # more keypoints than objects: the nearest has it
        ([[0.3, 0.2, 0.4]], [(0, 1)]),  # fewer keypoints than objects
    ],
)
def test_assignment_takes_most_matches_then_least_distance(
    distance: list[list[float]], expected: list[tuple[int, int]]
) -> None:
    matched = assign(np.array([distance]), radius=0.9)[0]
    assert [tuple(pair) for pair in np.argwhere(matched).tolist()] == expected


def test_each_window_is_assigned_on_its_own() -> None:
    free = [[0.1, NO], [NO, 0.1]]
    contested = [[0.1, 0.2], [0.2, 0.9]]
    both = assign(np.array([free, contested, free]), radius=0.9)
    np.testing.assert_array_equal(both[0], np.eye(2))
    np.testing.assert_array_equal(both[1], 1 - np.eye(2))
    np.testing.assert_array_equal(both[2], np.eye(2))


def test_distance_is_the_mean_over_the_steps_with_the_object() -> None:
    """One keypoint at the origin; the object is at 0.1, away (its centre is junk), at 0.3: the mean is 0.2."""
    centres = np.array([[[0.1, 0.0]], [[np.nan, 1e30]], [[0.0, 0.3]]], np.float32)
    episode = Episode(np.zeros((3, 1, 2), np.float32), centres, np.array([[True], [False], [True]]))
    assert match(lay_out([episode]), length=3, radius=1).distance[0, 0, 0] == pytest.approx(0.2)


def test_windows_do_not_reach_into_the_next_episode() -> None:
    far = _episode(steps=2)._replace(points=np.ones((2, 1, 2), np.float32))
    matches = match(lay_out([_episode(steps=3), far]), length=2, radius=0.5)
    np.testing.assert_allclose(matches.distance[:, 0, 0], [0, 0, np.sqrt(2)])


def _episode(steps: int = 2, keypoints: int = 1, objects: int = 1) -> Episode:
    points, centres = np.zeros((steps, keypoints, 2), np.float32), np.zeros((steps, objects, 2), np.float32)
    return Episode(points, centres, np.ones((steps, objects), bool))


@pytest.mark.parametrize(
    ("episodes", "message"),
    [
        ([], "no episode"),
        ([_episode(steps=0)], "at least one step"),
        ([_episode(), _episode(keypoints=2)], "same number"),
        ([_episode()._replace(points=np.full((2, 1, 2), np.nan, np.float32))], "finite"),
        ([_episode()._replace(centres=np.full((2, 1, 2), np.inf, np.float32))], "finite"),
        ([_episode()._replace(points=np.zeros((3, 1, 2), np.float32))], "points \\(T, K, 2\\)"),
    ],
)
def test_bad_episodes_are_refused(episodes: list[Episode], message: str) -> None:
    with pytest.raises(InputError, match=message):
        lay_out(episodes)

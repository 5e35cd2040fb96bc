"""Precision and recall worked by hand, and against a slow, plain reading of §4.1."""

import json
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transporter.errors import InputError
from transporter.tracking.match import Episode
from transporter.tracking.metrics import TrackingCurve, following, tracking_curve


def episode(points: list[list[float]], objects: list[list[float | None]]) -> Episode:
    """Rows are steps, columns keypoints and objects, values x (y is 0); None is an absent object."""
    x = np.array(points, np.float32)
    centres = np.array(objects, np.float32)  # None becomes NaN
    return Episode(np.stack([x, 0 * x], -1), np.stack([centres, 0 * centres], -1), ~np.isnan(centres))


def test_two_tracks_three_steps() -> None:
    """Keypoint 0 follows its object to the letter, keypoint 1 drifts 0.0, 0.2, 0.4 away; ε = 0.25."""
    drift = episode([[0, 0.5], [0.1, 0.7], [0.2, 0.9]], [[0, 0.5], [0.1, 0.5], [0.2, 0.5]])
    curve = tracking_curve([drift], radius=0.25, lengths=[1, 3])
    assert curve.at(1).precision == pytest.approx(5 / 6)  # steps one by one: 2 + 2 + 1 of 6
    assert curve.at(3).precision == pytest.approx(1)  # over all three the mean drift is 0.2
    tighter = tracking_curve([drift], radius=0.15, lengths=[1, 3])
    assert tighter.at(1).recall == pytest.approx(4 / 6)
    assert tighter.at(3).recall == pytest.approx(1 / 2)


def test_absent_steps_are_ignored() -> None:
    """The object is seen in steps 0 and 3 only, where the keypoint is on it; what happens between does not count."""
    curve = tracking_curve([episode([[0], [1], [1], [0]], [[0], [None], [None], [0]])], radius=0.1, lengths=[1, 2, 4])
    assert curve.at(4).precision == curve.at(4).recall == 1
    assert (curve.at(2).precision, curve.at(2).recall) == (1, 1)  # each half sees it once
    at_1 = curve.at(1)
    assert (at_1.precision, at_1.recall) == (0.5, 1)  # in steps 1 and 2 the keypoint has nothing to match,
    assert (at_1.precision_ceiling, at_1.recall_ceiling, at_1.ratio) == (0.5, 1, 1)  # nor had a perfect one


@pytest.mark.parametrize("radius", [0.1, 0.2, 0.3, 0.7])
def test_a_distance_of_exactly_epsilon_matches(radius: float) -> None:
    here = episode([[0.1]] * 7, [[0.1 + radius]] * 7)
    assert tracking_curve([here], radius, lengths=[1, 3, 7]).recall.tolist() == [1, 1, 1]
    beyond = episode([[0.1]] * 7, [[0.1 + radius + 1e-4]] * 7)
    assert tracking_curve([beyond], radius, lengths=[1, 3, 7]).recall.tolist() == [0, 0, 0]


def test_more_keypoints_than_objects() -> None:
    """Three keypoints sit on one object: one match, so precision 1/3 is the best there is."""
    point = tracking_curve([episode([[0, 0, 0]] * 2, [[0]] * 2)], radius=0.1, lengths=[2]).at(2)
    assert (point.precision, point.recall) == (pytest.approx(1 / 3), 1)
    assert (point.precision_ceiling, point.recall_ceiling, point.ratio) == (pytest.approx(1 / 3), 1, 1)


def test_fewer_keypoints_than_objects() -> None:
    point = tracking_curve([episode([[0]] * 2, [[0, 0.5, -0.5, 0.9]] * 2)], radius=0.1, lengths=[2]).at(2)
    assert (point.precision, point.recall, point.recall_ceiling, point.ratio) == (1, 0.25, 0.25, 1)


def test_episode_shorter_than_the_length() -> None:
    short, long = episode([[0], [0]], [[0], [0]]), episode([[1]] * 5, [[0]] * 5)
    curve = tracking_curve([short, long], radius=0.1, lengths=[5])
    assert curve.at(5).windows == 2
    assert curve.at(5).precision == 0.5


def test_identities_swapped_in_mid_window() -> None:
    """Perfect step by step; but each keypoint is half its time 1.0 away from either object."""
    swapped = episode([[-0.5, 0.5], [-0.5, 0.5], [0.5, -0.5], [0.5, -0.5]], [[-0.5, 0.5]] * 4)
    curve = tracking_curve([swapped], radius=0.3, lengths=[1, 2, 4])
    assert curve.recall.tolist() == [1, 1, 0]
    assert curve.ratio.tolist() == [1, 1, 0]


def test_remainder_is_a_full_window_that_overlaps() -> None:
    """Five steps, windows of two: (0, 1), (2, 3), (3, 4). The keypoint is lost in step 3, so two of three fail."""
    curve = tracking_curve([episode([[0], [0], [0], [1], [0]], [[0]] * 5)], radius=0.4, lengths=[2])
    assert curve.at(2).windows == 3
    assert curve.at(2).precision == pytest.approx(1 / 3)


def test_window_without_any_object() -> None:
    curve = tracking_curve([episode([[0]] * 4, [[0], [0], [None], [None]])], radius=0.1, lengths=[2])
    point = curve.at(2)
    assert (point.windows, point.precision, point.precision_ceiling, point.recall) == (2, 0.5, 0.5, 1)
    nothing = tracking_curve([episode([[0]], [[None]])], radius=0.1, lengths=[1]).at(1)
    assert (nothing.precision, nothing.precision_ceiling) == (0, 0)
    assert np.isnan(nothing.recall)
    assert np.isnan(nothing.ratio)


def test_following_names_the_keypoint_of_each_object() -> None:
    """Keypoint 1 follows object 0 at 0.1; object 1 is followed in its first two steps only, object 2 never shows."""
    play = episode([[0.5, 0.1]] * 2 + [[-0.9, 0.1]] * 2, [[0, 0.5, None]] * 4)
    result = following([play], radius=0.2, length=2)
    assert result.matches.tolist() == [[0, 1, 0], [2, 0, 0]]
    assert result.objects.tolist() == [2, 2, 0]
    np.testing.assert_allclose(result.recall, [1, 0.5, np.nan])
    np.testing.assert_allclose(result.error, [0.1, 0, np.nan], atol=1e-7)


def test_lengths_and_radius_are_checked() -> None:
    play = [episode([[0]], [[0]])]
    for lengths in ([], [0, 1], [-3]):
        with pytest.raises(InputError, match="from 1 upwards"):
            tracking_curve(play, 0.1, lengths)
    for radius in (0, -1, np.nan, np.inf):
        with pytest.raises(InputError, match="radius"):
            tracking_curve(play, radius)
    with pytest.raises(InputError, match="no figures at length 7"):
        tracking_curve(play, 0.1, [1, 2]).at(7)


def test_curve_survives_json() -> None:
    curve = tracking_curve([episode([[0]] * 4, [[0], [0], [1], [None]])], radius=0.1)
    again = TrackingCurve.from_json(json.loads(json.dumps(curve.to_json())))
    np.testing.assert_array_equal(again.lengths, range(1, 201))
    for name in ("precision", "recall", "precision_ceiling", "recall_ceiling", "ratio", "windows"):
        np.testing.assert_array_equal(getattr(again, name), getattr(curve, name))


def plain_counts(episodes: list[Episode], radius: float, length: int) -> tuple[int, int, int, int]:
    """Windows, matches, objects and possible matches: every pair, every permutation, no shared code."""
    window_count = matches = object_count = possible = 0
    for play in episodes:
        steps, keypoints, n = len(play.points), play.points.shape[1], play.present.shape[1]
        starts = [s for s in range(0, steps, length) if s + length <= steps]
        if steps < length:
            starts = [0]
        elif steps % length:
            starts.append(steps - length)
        for start in starts:
            pairs = set()
            objects = 0
            for j in range(n):
                seen = [t for t in range(start, min(start + length, steps)) if play.present[t, j]]
                objects += bool(seen)
                for k in range(keypoints):
                    away = [float(np.linalg.norm(play.points[t, k] - play.centres[t, j])) for t in seen]
                    if seen and sum(away) / len(away) <= radius + 1e-6:
                        pairs.add((k, j))
            small, large = sorted((keypoints, n))
            flipped = pairs if keypoints <= n else {(j, k) for k, j in pairs}
            matches += max(
                sum((a, b) in flipped for a, b in enumerate(order[:small])) for order in permutations(range(large))
            )
            window_count += 1
            object_count += objects
            possible += min(keypoints, objects)
    return window_count, matches, object_count, possible


# A grid of tenths: ties, exact radii and crowded windows are common on it.
TENTHS = st.integers(-4, 4).map(lambda value: value / 10)


@st.composite
def plays(draw: st.DrawFn) -> list[Episode]:
    keypoints, objects = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    episodes = []
    for steps in draw(st.lists(st.integers(1, 7), min_size=1, max_size=3)):

        def grid(n: int, steps: int = steps) -> np.ndarray:
            values = draw(st.lists(TENTHS, min_size=steps * n * 2, max_size=steps * n * 2))
            return np.array(values, np.float32).reshape(steps, n, 2)

        seen = draw(st.lists(st.booleans(), min_size=steps * objects, max_size=steps * objects))
        episodes.append(Episode(grid(keypoints), grid(objects), np.array(seen).reshape(steps, objects)))
    return episodes


@settings(max_examples=150, deadline=None)
@given(plays(), st.sampled_from([0.1, 0.2, 0.3, 0.5]))
def test_counts_agree_with_a_plain_reading_of_the_paper(episodes: list[Episode], radius: float) -> None:
    lengths = [1, 2, 3, 5, 200]
    curve = tracking_curve(episodes, radius, lengths)
    counts = zip(curve.windows, curve.matches, curve.objects, curve.possible, strict=True)
    assert [tuple(map(int, row)) for row in counts] == [plain_counts(episodes, radius, length) for length in lengths]
    for length, matches in zip(lengths, curve.matches, strict=True):
        assert following(episodes, radius, length).matches.sum() == matches

"""The figures show the numbers that they were given."""

import io

import numpy as np
import pytest
from PIL import Image

from transporter.errors import InputError
from transporter.report.draw import COLOURS
from transporter.report.plots import (
    Seed,
    choice_figure,
    has_something_to_draw,
    methods_figure,
    tracking_figure,
    training_figure,
)
from transporter.tracking.metrics import TrackingCurve


def curve(matches: list[int], lengths: tuple[int, ...] = (1, 2, 4)) -> TrackingCurve:
    """Ten windows at each length, two keypoints, two objects in each window but one."""
    n = len(lengths)
    return TrackingCurve(0.2, 2, np.array(lengths), *(np.array(v) for v in ([10] * n, matches, [19] * n, [19] * n)))


def test_tracking_figure_draws_each_curve_below_its_ceiling() -> None:
    figure = tracking_figure({"ours": curve([19, 10, 0]), "theirs": curve([5, 5, 5])})
    precision, recall = figure.axes
    assert [axis.get_title(loc="left") for axis in (precision, recall)] == ["Precision", "Recall"]
    ceiling, ours = precision.get_lines()[:2]
    np.testing.assert_allclose(ours.get_data(), [[1, 2, 4], [0.95, 0.5, 0]])
    np.testing.assert_allclose(ceiling.get_ydata(), [0.95, 0.95, 0.95])
    assert ceiling.get_linestyle() == "--"
    np.testing.assert_allclose(recall.get_lines()[1].get_ydata(), [1, 10 / 19, 0])
    assert [text.get_text() for text in figure.legends[0].get_texts()][:2] == ["ours", "theirs"]


def test_tracking_figure_can_be_saved_without_a_screen() -> None:
    for curves in ({"one length": curve([19], (20,))}, {"nothing there": curve([0, 0, 0])}):
        buffer = io.BytesIO()
        tracking_figure(curves).savefig(buffer, format="png", dpi=60)
        assert np.asarray(Image.open(buffer)).std() > 5
    with pytest.raises(InputError, match="no curve"):
        tracking_figure({})


ROWS = [
    {"step": 1, "loss": 0.5, "rate": 0.1, "sigma": 0.1},
    {"step": 2, "loss": 0.4, "rate": 0.1, "sigma": 0.1, "validation_loss": 0.6, "alive": 1, "duplicates": 0},
    {"step": 3, "loss": 0.2, "rate": 0.05, "sigma": 0.1, "travel": [0.1, 0.3], "steps_per_second": 7},
]


def test_training_figure_draws_what_is_there() -> None:
    panels = {axis.get_title(loc="left"): axis for axis in training_figure(ROWS).axes}
    # σ never changes and is left to the table of settings; steps_per_second is no result.
    assert list(panels) == ["Loss", "Keypoints", "Travel of each keypoint", "Learning rate"]
    training, validation = panels["Loss"].get_lines()
    np.testing.assert_allclose(training.get_data(), [[1, 2, 3], [0.5, 0.4, 0.2]])
    np.testing.assert_allclose(validation.get_data(), [[2], [0.6]])
    assert [line.get_color() for line in panels["Travel of each keypoint"].get_lines()] == list(COLOURS[:2])


def test_training_figure_without_anything_to_draw() -> None:
    assert not has_something_to_draw([{"step": 1}, {"loss": 3.0}])
    for rows in ([], [{"step": 1, "note": "x"}]):
        with pytest.raises(InputError, match="nothing to draw"):
            training_figure(rows)


def test_methods_figure_draws_means_and_the_range_over_seeds() -> None:
    drawn = {"pong": {"ours": [curve([19, 19, 19]), curve([19, 9, 9])], "theirs": [curve([0, 0, 0])]}}
    figure = methods_figure({**drawn, "frostbite": {"theirs": [curve([5, 5, 5])]}})
    assert [axis.get_title(loc="left") for axis in figure.axes[:2]] == ["pong", "frostbite"]
    precision, _, recall, _ = figure.axes
    ceiling, ours, theirs = precision.get_lines()[:3]
    np.testing.assert_allclose(ceiling.get_ydata(), [0.95, 0.95, 0.95])
    np.testing.assert_allclose(ours.get_ydata(), [0.95, 0.70, 0.70])
    np.testing.assert_allclose(recall.get_lines()[1].get_ydata(), [1, 14 / 19, 14 / 19])
    band = precision.collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == (0.45, 0.95)
    elsewhere = figure.axes[1].get_lines()[1]
    assert elsewhere.get_color() == theirs.get_color()  # a method keeps its colour
    assert [text.get_text() for text in figure.legends[0].get_texts()][:2] == ["ours", "theirs"]
    taken = methods_figure(drawn, {"pong": {"ours": curve([19, 9, 9]), "theirs": curve([0, 0, 0])}})
    np.testing.assert_allclose(taken.axes[0].get_lines()[2].get_ydata(), [0.95, 0.45, 0.45])
    assert taken.legends[0].get_texts()[-1].get_text() == "the seed chosen without labels"
    with pytest.raises(InputError, match="no curve"):
        methods_figure({"pong": {"ours": []}})


def test_choice_figure_rings_what_was_chosen() -> None:
    seeds = {"pong": {"ours": [Seed(0.1, 1.0, True), Seed(0.2, 0.5, False)], "theirs": [Seed(9.0, 0.2, True)]}}
    (axis,) = choice_figure(seeds).axes
    dots, ring = axis.collections[:2]
    np.testing.assert_allclose(dots.get_offsets(), [[0.1, 1.0], [0.2, 0.5]])
    np.testing.assert_allclose(ring.get_offsets(), [[0.1, 1.0]])
    with pytest.raises(InputError, match="no seed"):
        choice_figure({"pong": {}})

"""Tables and figures where documents show them."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from transporter.errors import InputError
from transporter.report.draw import rebuilt_side_by_side, side_by_side
from transporter.report.plots import tracking_figure
from transporter.report.published import markdown_table, put_between_markers, save_figure, save_picture
from transporter.tracking.metrics import TrackingCurve


def test_a_table_in_markdown() -> None:
    assert markdown_table(["a", "b"], [["x|y", "1"]]) == "| a | b |\n| --- | ---: |\n| x/y | 1 |"
    with pytest.raises(InputError, match="as many cells"):
        markdown_table(["a"], [["x", "y"]])


def test_what_stands_between_the_markers_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    page = tmp_path / "results.md"
    assert not put_between_markers(page, "tracking", "new")
    page.write_text("# Title\n\n<!-- tracking -->\nold\n<!-- /tracking -->\n\n<!-- pixels -->\n<!-- /pixels -->\n")
    for text in ("first\n", r"second \1"):
        assert put_between_markers(page, "tracking", text)
    expected = "# Title\n\n<!-- tracking -->\nsecond \\1\n<!-- /tracking -->\n\n<!-- pixels -->\n<!-- /pixels -->\n"
    assert page.read_text() == expected
    assert put_between_markers(page, "pixels", "p")
    assert not put_between_markers(page, "keyqn", "k")


def test_the_same_figure_gives_the_same_files(tmp_path: Path) -> None:
    curve = TrackingCurve(0.2, 2, np.array([1, 2]), *(np.array(v) for v in ([9, 9], [9, 4], [18, 18], [18, 18])))
    first, again = (
        [path.read_bytes() for path in save_figure(tracking_figure({"ours": curve}), tmp_path / name, "curves")]
        for name in ("one", "two")
    )
    assert [path.name for path in sorted((tmp_path / "one").iterdir())] == ["curves.png", "curves.svg"]
    assert first == again


def test_a_row_of_frames_for_each_method(tmp_path: Path) -> None:
    frames = np.zeros((21, 16, 16, 3), np.uint8)
    points = {"ours": np.zeros((21, 1, 2), np.float32), "theirs": np.full((21, 1, 2), 0.5, np.float32)}
    path = save_picture(side_by_side(frames, points, every=10), tmp_path / "picture.png")
    picture = np.asarray(Image.open(path))
    ours, theirs = np.array_split(picture, 2)
    assert picture.shape[1] > 3 * 192  # three frames side by side
    assert (ours != theirs).any()
    with pytest.raises(InputError, match="points of each method"):
        side_by_side(frames, {"ours": points["ours"][:-1]})


def test_a_row_of_reconstructions_for_each_pair() -> None:
    source, target = np.zeros((2, 16, 16, 3), np.uint8), np.full((2, 16, 16, 3), 255, np.uint8)
    picture = rebuilt_side_by_side(source, target, {"features": target, "pixels": source})
    assert picture.shape[1] > picture.shape[0] * 1.5  # four in a row, two rows
    with pytest.raises(InputError, match="as many predictions"):
        rebuilt_side_by_side(source, target, {"features": target[:1]})

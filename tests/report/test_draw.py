"""Dots lie where the points are, in their own colours, and sheets hold every panel."""

from itertools import combinations

import numpy as np
import pytest

from transporter.errors import InputError
from transporter.report.draw import COLOURS, GAP, colour, draw_keypoints, heatmaps, reconstructions, strip


def rgb(name: str) -> np.ndarray:
    return np.array([int(name[i : i + 2], 16) for i in (1, 3, 5)])


def lab(linear: np.ndarray) -> np.ndarray:
    """Linear RGB to CIELAB (D65)."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = np.clip(linear, 0, 1) @ to_xyz.T / [0.9505, 1, 1.089]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], -1)


# Machado, Oliveira and Fernandes (2009), severity 1: what a colour-blind eye makes of linear RGB.
VISIONS = {
    "normal": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


@pytest.mark.parametrize(("vision", "first_eight", "all_twenty"), [
    ("normal", 45, 24), ("protan", 20, 10), ("deutan", 20, 10), ("tritan", 20, 10),
])  # fmt: skip
def test_colours_are_far_apart(vision: str, first_eight: float, all_twenty: float) -> None:
    """In CIELAB a distance of 2 is just seen, 10 is plain."""
    values = np.stack([rgb(name) for name in COLOURS]) / 255
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    seen = lab(linear @ np.transpose(VISIONS[vision]))
    distance = {pair: float(np.linalg.norm(seen[pair[0]] - seen[pair[1]])) for pair in combinations(range(20), 2)}
    assert len(COLOURS) == 20
    assert min(distance.values()) > all_twenty
    assert min(d for (_, j), d in distance.items() if j < 8) > first_eight


def test_colour_belongs_to_the_keypoint() -> None:
    assert [colour(k) for k in (0, 19, 20)] == [COLOURS[0], COLOURS[19], COLOURS[0]]


def centre_of(image: np.ndarray, name: str) -> np.ndarray:
    """Mean place (x, y) of the pixels with exactly this colour, their centres being at halves."""
    rows, columns = np.nonzero((image == rgb(name)).all(axis=-1))
    return np.array([columns.mean(), rows.mean()]) + 0.5


def test_dots_lie_on_their_points() -> None:
    """(0, 0) is the middle, (-0.5, 0.25) a quarter from the left and five eighths down."""
    grey = np.full((64, 96, 3), 128, np.uint8)
    image = draw_keypoints(grey, np.array([[0, 0], [-0.5, 0.25]], np.float32), scale=4)
    assert image.shape == (256, 384, 3)
    np.testing.assert_allclose(centre_of(image, COLOURS[0]), [192, 128], atol=0.5)
    np.testing.assert_allclose(centre_of(image, COLOURS[1]), [96, 160], atol=0.5)
    assert (grey == 128).all()


def test_a_dot_is_seen_on_its_own_colour() -> None:
    """White edge, dark rim: going out from the middle the colour is left and met again."""
    red = np.full((400, 400, 3), rgb(COLOURS[0]), np.uint8)
    line = draw_keypoints(red, np.zeros((1, 2), np.float32))[200, 200:225].astype(int)
    assert (line[0] == rgb(COLOURS[0])).all()
    assert line.sum(axis=1).max() > 720
    assert line.sum(axis=1).min() < 120
    assert (line[-1] == rgb(COLOURS[0])).all()


def test_points_at_the_edge_and_beyond() -> None:
    black = np.zeros((64, 64, 3), np.uint8)
    corner = draw_keypoints(black, np.array([[-1, -1]], np.float32), scale=4)
    assert (corner[0, 0] == rgb(COLOURS[0])).all()
    assert not corner[40:].any()
    nowhere = np.array([[np.nan, 0], [np.inf, 0], [50, 0]], np.float32)
    assert not draw_keypoints(black, nowhere).any()


def test_triangle_and_truth_change_the_marks() -> None:
    black = np.zeros((128, 128, 3), np.uint8)
    points = np.array([[-0.5, 0], [0.5, 0]], np.float32)
    plain, marked = draw_keypoints(black, points), draw_keypoints(black, points, triangle=1)
    np.testing.assert_array_equal(plain[:, :64], marked[:, :64])
    assert (plain[:, 64:] != marked[:, 64:]).any()
    truth = (np.array([[0, -0.5], [0, 0.5]], np.float32), np.array([True, False]))
    rings = draw_keypoints(black, points, truth=truth)
    assert rings[10:54, 50:78].max() > 200  # the one that is present
    assert not rings[74:118, 50:78].any()


def test_strip_takes_every_tenth_frame() -> None:
    """25 frames, three of them shown; each panel holds the brightness of its frame."""
    frames = np.arange(25, dtype=np.uint8)[:, None, None, None] * np.ones((1, 64, 64, 3), np.uint8) * 10
    image = strip(frames, np.zeros((25, 1, 2), np.float32), every=10, columns=2)
    side = 192  # 64 pixels, three times as large
    assert image.shape[1] == 2 * side + 3 * GAP
    head = (image.shape[0] - 2 * side - 3 * GAP) // 2
    first, second = GAP + head + 5, GAP + side + GAP + 2 * head + 5
    assert image[first, GAP + 5, 0] == 0
    assert image[first, 2 * GAP + side + 5, 0] == 100
    assert image[second, GAP + 5, 0] == 200
    assert (image[second, 2 * GAP + side + 5] == 255).all()  # no fourth frame


def test_reconstructions_stand_in_four_columns() -> None:
    shades = [np.full((2, 64, 64, 3), value, np.uint8) for value in (10, 90, 170)]
    image = reconstructions(*shades, np.zeros((2, 3, 2), np.float32))
    columns = [GAP + i * (192 + GAP) + 5 for i in range(4)]
    assert [int(image[-20, column, 0]) for column in columns] == [10, 90, 170, 90]


def test_heatmaps_glow_in_their_colour_at_their_peak() -> None:
    heat = np.zeros((2, 8, 8), np.float32)
    heat[0, 2, 2] = heat[1, 6, 6] = 0.3  # not normalised: the peak counts as 1
    image = heatmaps(np.full((64, 64, 3), 200, np.uint8), heat)
    top = image.shape[0] - GAP - 192
    cell = 192 // 8
    peak = image[top + 2 * cell + 12, GAP + 2 * cell + 12].astype(int)
    assert np.abs(peak - rgb(COLOURS[0])).max() <= 16  # the very middle lies between two pixels
    second = image[top + 6 * cell + 12, 2 * GAP + 192 + 6 * cell + 12].astype(int)
    assert np.abs(second - rgb(COLOURS[1])).max() <= 16
    assert (image[top + 3, GAP + 180] == 70).all()  # the frame, darkened to 35 %


def test_bad_pictures_are_refused() -> None:
    points = np.zeros((1, 2), np.float32)
    with pytest.raises(InputError, match="uint8"):
        draw_keypoints(np.zeros((8, 8, 3), np.float32), points)
    with pytest.raises(InputError, match="points for each frame"):
        strip(np.zeros((2, 8, 8, 3), np.uint8), np.zeros((3, 1, 2), np.float32))
    with pytest.raises(InputError, match="as many"):
        reconstructions(*[np.zeros((n, 8, 8, 3), np.uint8) for n in (1, 1, 2)], points[None])
    with pytest.raises(InputError, match="heatmaps must be"):
        heatmaps(np.zeros((8, 8, 3), np.uint8), np.zeros((8, 8), np.float32))

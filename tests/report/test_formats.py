"""Files for other tools, read back as those tools' own documentation says, not by our readers."""

import json
from pathlib import Path

import numpy as np
import pytest

from transporter.errors import InputError
from transporter.report.formats import FORMATS
from transporter.report.tables import TrackWriter, read_tracks, write_tracks

WIDTH, HEIGHT, FRAMES, KEYPOINTS = 100, 60, 7000, 3  # more than are held at once
FOREIGN = ("tracks.dlc.csv", "tracks.analysis.h5", "tracks.coco.json")


@pytest.fixture(scope="module")
def points() -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, (FRAMES, KEYPOINTS, 2)).astype(np.float32)


@pytest.fixture(scope="module")
def folder(points: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same tracks in every format."""
    folder = tmp_path_factory.mktemp("formats")
    for name in FOREIGN:
        with TrackWriter(folder / name, WIDTH, HEIGHT, "mouse.mp4") as table:
            for frame in range(FRAMES):
                table.add(frame, frame / 25, points[frame])
    return folder


def where(points: np.ndarray) -> np.ndarray:
    """As pixels are counted elsewhere: the centre of the first one is (0, 0)."""
    return (points + 1) / 2 * (WIDTH, HEIGHT) - 0.5


def test_deeplabcut_is_read_as_its_users_read_it(folder: Path, points: np.ndarray) -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.read_csv(folder / "tracks.dlc.csv", header=[0, 1, 2], index_col=0)
    assert table.columns.names == ["scorer", "bodyparts", "coords"]
    assert table.columns.get_level_values("bodyparts").unique().tolist() == ["keypoint0", "keypoint1", "keypoint2"]
    assert table.index.tolist() == list(range(FRAMES))  # every frame has its row
    for k in range(KEYPOINTS):
        of_one = table["transporter"][f"keypoint{k}"]
        np.testing.assert_allclose(of_one[["x", "y"]].to_numpy(), where(points[:, k]), atol=1e-4)
        assert (of_one["likelihood"] == 1).all()


def test_sleap_is_read_as_its_documentation_says(folder: Path, points: np.ndarray) -> None:
    """`tracks` transposed is frames × nodes × 2 × tracks; `track_occupancy` transposed is tracks × frames."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "tracks.analysis.h5") as file:
        tracks = file["tracks"][:].T
        assert tracks.shape == (FRAMES, KEYPOINTS, 2, 1)
        np.testing.assert_allclose(tracks[..., 0], where(points), atol=1e-4)
        occupancy = file["track_occupancy"][:].T
        assert occupancy.shape == (1, FRAMES)
        assert occupancy.all()
        assert [name.decode() for name in file["node_names"][:]] == ["keypoint0", "keypoint1", "keypoint2"]
        assert [name.decode() for name in file["track_names"][:]] == ["track_0"]
        assert file["point_scores"][:].T.shape == (FRAMES, KEYPOINTS, 1)
        assert file["instance_scores"][:].T.shape == file["tracking_scores"][:].T.shape == (FRAMES, 1)
        assert file["video_path"][()].decode() == "mouse.mp4"


def test_coco_is_read_as_its_format_page_says(folder: Path, points: np.ndarray) -> None:
    data = json.loads((folder / "tracks.coco.json").read_text())
    assert {"info", "images", "annotations", "categories"} <= data.keys()
    (category,) = data["categories"]
    assert category["keypoints"] == ["keypoint0", "keypoint1", "keypoint2"]
    images = {image["id"]: image for image in data["images"]}
    assert len(images) == len(data["annotations"]) == FRAMES
    assert len({row["id"] for row in data["annotations"]}) == FRAMES
    for row in data["annotations"]:
        image = images[row["image_id"]]
        assert (image["width"], image["height"]) == (WIDTH, HEIGHT)
        places = np.reshape(row["keypoints"], (KEYPOINTS, 3))
        np.testing.assert_allclose(places[:, :2], where(points[image["frame"]]), atol=1e-2)
        assert (places[:, 2] == 2).all()
        left, top, width, height = row["bbox"]
        assert (places[:, :2] >= (left - 0.01, top - 0.01)).all()
        assert (places[:, :2] <= (left + width + 0.01, top + height + 0.01)).all()
        assert row["num_keypoints"] == KEYPOINTS


@pytest.mark.parametrize("name", FOREIGN)
def test_what_we_wrote_we_read(folder: Path, points: np.ndarray, name: str) -> None:
    tracks = read_tracks(folder / name)
    np.testing.assert_array_equal(tracks.frames, np.arange(FRAMES))
    np.testing.assert_allclose(tracks.pixels, (points + 1) / 2 * (WIDTH, HEIGHT), atol=1e-2)
    if name.endswith(".json"):  # the only one of them that knows times and the size of the picture
        np.testing.assert_allclose(tracks.times, np.arange(FRAMES) / 25)
        np.testing.assert_allclose(tracks.points, points, atol=1e-3)
    else:
        assert np.isnan(tracks.times).all()
        assert np.isnan(tracks.points).all()


def test_one_frame_that_a_person_can_check(tmp_path: Path) -> None:
    """The middle of a 4×2 picture lies between its pixels 1 and 2, and 0 and 1."""
    with TrackWriter(tmp_path / "tracks.dlc.csv", width=4, height=2) as table:
        table.add(0, 0.0, np.zeros((1, 2), np.float32))
    assert (tmp_path / "tracks.dlc.csv").read_text().splitlines() == [
        "scorer,transporter,transporter,transporter",
        "bodyparts,keypoint0,keypoint0,keypoint0",
        "coords,x,y,likelihood",
        "0,1.5,0.5,1.0",
    ]


@pytest.mark.parametrize("kind", FORMATS)
def test_a_table_becomes_another(tmp_path: Path, kind: str) -> None:
    points = np.array([[[0.5, -0.5]], [[0.25, 0.0]]], np.float32)
    with TrackWriter(tmp_path / "tracks.parquet", 8, 8) as table:
        for frame in range(2):
            table.add(frame, frame / 10, points[frame])
    there = tmp_path / f"again{FORMATS[kind].ending}"
    write_tracks(there, read_tracks(tmp_path / "tracks.parquet"), 8, 8)
    np.testing.assert_allclose(read_tracks(there).pixels, (points + 1) * 4)


@pytest.mark.parametrize("name", FOREIGN)
def test_never_half_a_file(tmp_path: Path, name: str) -> None:
    def break_off() -> None:
        with TrackWriter(tmp_path / name, 64, 64) as table:
            table.add(0, 0.0, np.zeros((2, 2), np.float32))
            raise RuntimeError("the detector failed")

    with pytest.raises(RuntimeError, match="the detector failed"):
        break_off()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", FOREIGN)
def test_what_is_no_table_is_one_clear_line(tmp_path: Path, name: str) -> None:
    for content in ("", "some words\n", "{}", "[1, 2]"):
        (tmp_path / name).write_text(content)
        with pytest.raises(InputError, match="not a table of tracks"):
            read_tracks(tmp_path / name)

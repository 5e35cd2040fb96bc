"""Tables of tracks: by hand, there and back, and never half a file."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from transporter.errors import InputError
from transporter.report.tables import TrackWriter, read_tracks

POINTS = np.array([[0.0, 0.0], [-1.0, 0.5]], np.float32)


def test_a_csv_that_a_person_can_check(tmp_path: Path) -> None:
    with TrackWriter(tmp_path / "tracks.csv", width=100, height=60) as table:
        table.add(0, 0.0, POINTS)
        table.add(1, 0.04, POINTS)
    assert (tmp_path / "tracks.csv").read_text().splitlines() == [
        "frame,time,keypoint,x,y,pixel_x,pixel_y",
        "0,0.0,0,0.0,0.0,50.0,30.0",
        "0,0.0,1,-1.0,0.5,0.0,45.0",
        "1,0.04,0,0.0,0.0,50.0,30.0",
        "1,0.04,1,-1.0,0.5,0.0,45.0",
    ]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_what_is_written_is_read_back(tmp_path: Path, suffix: str) -> None:
    rng = np.random.default_rng(0)
    points = rng.uniform(-1, 1, (5000, 4, 2)).astype(np.float32)  # more rows than are held at once
    times = np.cumsum(rng.uniform(0.01, 0.1, 5000))
    with TrackWriter(tmp_path / f"tracks{suffix}", 101, 67) as table:
        for frame in range(5000):
            table.add(frame, float(times[frame]), points[frame])
    tracks = read_tracks(tmp_path / f"tracks{suffix}")
    np.testing.assert_array_equal(tracks.frames, np.arange(5000))
    np.testing.assert_array_equal(tracks.times, times)
    np.testing.assert_array_equal(tracks.points, points)
    np.testing.assert_allclose(tracks.pixels, (points + 1) / 2 * [101, 67], atol=1e-4)


def test_parquet_is_typed_for_other_programs(tmp_path: Path) -> None:
    from pyarrow.parquet import read_schema

    with TrackWriter(tmp_path / "tracks.parquet", 64, 64) as table:
        table.add(0, 0.0, POINTS)
    schema = read_schema(tmp_path / "tracks.parquet")
    assert schema.names == ["frame", "time", "keypoint", "x", "y", "pixel_x", "pixel_y"]
    assert [str(kind) for kind in schema.types] == ["int64", "double", "int32", "float", "float", "float", "float"]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_of_no_frames_is_still_a_table(tmp_path: Path, suffix: str) -> None:
    with TrackWriter(tmp_path / f"tracks{suffix}", 64, 64):
        pass
    tracks = read_tracks(tmp_path / f"tracks{suffix}")
    assert len(tracks.frames) == len(tracks.times) == len(tracks.points) == 0


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_nothing_has_the_name_until_it_is_complete(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"tracks{suffix}"
    with TrackWriter(path, 64, 64) as table:
        table.add(0, 0.0, POINTS)
        assert not path.exists()
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def break_off(path: Path) -> None:
    with TrackWriter(path, 64, 64) as table:
        for frame in range(20_000):
            table.add(frame, 0.0, POINTS)
        raise RuntimeError("the detector failed")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_after_an_exception_the_old_file_stands_and_nothing_else(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"tracks{suffix}"
    path.write_text("what was here before")
    with pytest.raises(RuntimeError, match="the detector failed"):
        break_off(path)
    assert path.read_text() == "what was here before"
    assert list(tmp_path.iterdir()) == [path]


def test_memory_stays_the_same(tmp_path: Path) -> None:
    tracemalloc.start()
    try:
        with TrackWriter(tmp_path / "tracks.csv", 64, 64) as table:
            for frame in range(30_000):
                table.add(frame, frame / 25, POINTS)
                if frame == 10_000:
                    tracemalloc.reset_peak()
                    first = tracemalloc.get_traced_memory()[1]
        last = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert last < first + 8e6  # a block of rows; all that follow would be some 14 MB


def test_bad_paths_are_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\.csv or \.parquet"):
        TrackWriter(tmp_path / "tracks.xlsx", 64, 64)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        TrackWriter(tmp_path / "folder.csv", 64, 64)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is a file, not a folder"), TrackWriter(tmp_path / "file" / "t.csv", 64, 64):
        pass
    with pytest.raises(InputError, match="no such file"):
        read_tracks(tmp_path / "none.csv")
    for name in ("other.csv", "other.parquet"):
        (tmp_path / name).write_text("a,b\n1,2\n")
        with pytest.raises(InputError, match="not a table of tracks"):
            read_tracks(tmp_path / name)

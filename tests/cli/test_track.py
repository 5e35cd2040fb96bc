"""transporter track: every frame of an awkward clip at its own time; and files that are no whole video."""

import shutil
import subprocess
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from transporter.envs.video import open_video
from transporter.models.zoo import load
from transporter.report.tables import read_tracks

# 25 frames a second of which every fifth is left out: what remains keeps its time.
KEPT = [n for n in range(75) if n % 5 != 3]
WIDTH, HEIGHT, KEYPOINTS = 101, 67, 3


@pytest.fixture(scope="module")
def uneven(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clip of an odd size and a variable rate, from FFmpeg's own command where there is one."""
    path = tmp_path_factory.mktemp("uneven") / "clip.mp4"
    if ffmpeg := shutil.which("ffmpeg"):
        source = f"testsrc=size={WIDTH}x{HEIGHT}:rate=25:duration=3"
        choose = ["-vf", "select='not(eq(mod(n,5),3))'", "-vsync", "vfr", "-movflags", "faststart"]
        subprocess.run([ffmpeg, "-v", "error", "-f", "lavfi", "-i", source, *choose, path], check=True)
        return path
    with av.open(str(path), "w", options={"movflags": "faststart"}) as container:
        stream = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt, stream.time_base = WIDTH, HEIGHT, "yuv444p", Fraction(1, 25)
        random = np.random.default_rng(0)
        for n in KEPT:
            # As much to say of each frame: of two thirds of the file some can be decoded.
            image = random.integers(30, 60, (HEIGHT, WIDTH, 3), dtype=np.uint8)
            image[20:30, n : n + 10] = 220
            frame = av.VideoFrame.from_ndarray(image, "rgb24")
            frame.pts, frame.time_base = n, Fraction(1, 25)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def test_an_odd_size_and_a_variable_rate(forked, whole_run, uneven: Path, tmp_path: Path) -> None:
    ended = forked("track", uneven, "--model", whole_run, "--out", "deep/down", cwd=tmp_path)
    assert (ended.code, ended.out) == (0, "")
    folder = tmp_path / "deep" / "down"
    assert f"{len(KEPT)} frames × {KEYPOINTS} keypoints: deep/down/tracks.csv" in ended.err
    assert len((folder / "tracks.csv").read_text().splitlines()) == 1 + len(KEPT) * KEYPOINTS
    for name in ("tracks.csv", "tracks.parquet"):
        table = read_tracks(folder / name)
        assert table.points.shape == (len(KEPT), KEYPOINTS, 2)
        np.testing.assert_array_equal(table.frames, np.arange(len(KEPT)))
        np.testing.assert_allclose(table.times, np.array(KEPT) / 25, atol=1e-6)
        # (x + 1) / 2 of the width: -1 is the left edge, 1 the right one.
        np.testing.assert_allclose(table.pixels, (table.points + 1) / 2 * (WIDTH, HEIGHT), atol=1e-4)
    with open_video(folder / "labelled.mp4") as clip:
        seen = list(clip)
        assert (clip.width, clip.height) == (WIDTH + 1, HEIGHT + 1)  # players want even sizes
    np.testing.assert_allclose([frame.time for frame in seen], np.array(KEPT) / 25, atol=1e-4)
    assert sorted(path.name for path in folder.iterdir()) == ["labelled.mp4", "tracks.csv", "tracks.parquet"]


def test_first_accustomed_to_the_clip(forked, whole_run, uneven: Path, tmp_path: Path) -> None:
    """Its frames are nothing like those that the model was trained on."""
    tables = []
    for name, more in {"as": [], "used": ["--accustom"]}.items():
        command = ("track", uneven, "--model", whole_run, "--out", name, "--no-clip", "--format", "csv", *more)
        ended = forked(*command, cwd=tmp_path)
        assert ended.code == 0, ended.err
        tables.append(read_tracks(tmp_path / name / "tracks.csv").points)
    with open_video(uneven) as clip:
        images = [frame.image for frame in clip]
    used = load(str(whole_run), "cpu").accustomed(images)
    np.testing.assert_allclose(tables[1], used(np.stack(images)), atol=1e-3)
    assert np.abs(tables[1] - tables[0]).max() > 0.01


def test_one_table_and_no_clip_beside_the_video(forked, whole_run, uneven: Path, tmp_path: Path) -> None:
    video = tmp_path / "my clip.mp4"
    shutil.copy(uneven, video)
    ended = forked("track", video, "--model", whole_run, "--format", "csv", "--no-clip", "--batch", "7", cwd=tmp_path)
    assert ended.code == 0
    assert [path.name for path in (tmp_path / "my clip-tracks").iterdir()] == ["tracks.csv"]


def cut(uneven: Path, path: Path) -> None:
    content = uneven.read_bytes()
    path.write_bytes(content[: len(content) * 2 // 3])


def cut_before_its_index(uneven: Path, path: Path) -> None:
    with av.open(str(uneven)) as given, av.open(str(path), "w") as written:  # without faststart the index comes last
        stream = written.add_stream_from_template(given.streams.video[0])
        for packet in given.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                written.mux(packet)
    cut(path, path)


BAD_FILES = {
    "cut short": (cut, "is cut short: --partial takes what there is of it"),
    "cut before its index": (cut_before_its_index, "cannot be read as a video"),
    "text": (lambda uneven, path: path.write_text("some words\n" * 100), "cannot be read as a video"),
    "empty": (lambda uneven, path: path.touch(), "the file is empty"),
    "missing": (lambda uneven, path: None, "no such file"),
    "a folder": (lambda uneven, path: path.mkdir(), "is a folder, not a video"),
}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_what_is_no_whole_video_ends_in_one_line_and_leaves_nothing(
    forked, whole_run, uneven: Path, tmp_path: Path, kind: str
) -> None:
    make, says = BAD_FILES[kind]
    make(uneven, tmp_path / "clip.mp4")
    before = sorted(tmp_path.iterdir())
    ended = forked("track", "clip.mp4", "--model", whole_run, cwd=tmp_path)
    assert (ended.code, ended.out, len(ended.err.splitlines())) == (2, "", 1), ended.err
    assert ended.err.startswith("transporter: clip.mp4")
    assert says in ended.err
    assert sorted(tmp_path.iterdir()) == before


def test_what_there_is_of_a_cut_file_can_be_asked_for(forked, whole_run, uneven: Path, tmp_path: Path) -> None:
    cut(uneven, tmp_path / "clip.mp4")
    ended = forked("track", "clip.mp4", "--model", whole_run, "--partial", "--no-clip", cwd=tmp_path)
    assert ended.code == 0
    found = read_tracks(tmp_path / "clip-tracks" / "tracks.csv")
    assert 0 < len(found.frames) < len(KEPT)
    assert f"{len(KEPT) - len(found.frames)} frames are missing" in ended.err


def test_a_model_that_is_none_leaves_no_folder(forked, uneven: Path, tmp_path: Path) -> None:
    ended = forked("track", uneven, "--model", "nowhere", "--out", "out", cwd=tmp_path)
    assert (ended.code, len(ended.err.splitlines())) == (2, 1)
    assert list(tmp_path.iterdir()) == []


def test_formats_of_other_tools(forked, whole_run, uneven: Path, tmp_path: Path) -> None:
    wanted = ["deeplabcut", "sleap", "coco"]
    ended = forked("track", uneven, "--model", whole_run, "--format", *wanted, "--no-clip", "--out", "o", cwd=tmp_path)
    assert ended.code == 0, ended.err
    names = ["tracks.analysis.h5", "tracks.coco.json", "tracks.dlc.csv"]
    assert sorted(path.name for path in (tmp_path / "o").iterdir()) == names
    for name in names:
        assert read_tracks(tmp_path / "o" / name).pixels.shape == (len(KEPT), KEYPOINTS, 2)


def test_a_folder_of_images_is_a_clip_in_the_order_of_its_numbers(forked, whole_run, tmp_path: Path) -> None:
    from PIL import Image

    from transporter.envs.images import Images

    folder = tmp_path / "images.1"
    folder.mkdir()
    for i in (10, 2, 1):
        Image.new("RGB", (40, 30), (i, 0, 0)).save(folder / f"img{i}.png")
    (folder / "img3.png").write_text("no image")
    (folder / "notes.txt").write_text("not one of them")
    with Images(folder, rate=10) as images:
        seen = list(images)
        assert ([frame.index for frame in seen], images.damaged) == ([0, 1, 3], 1)
    assert [int(frame.image[0, 0, 0]) for frame in seen] == [1, 2, 10]
    ended = forked("track", "images.1", "--model", whole_run, "--rate", "10", "--format", "csv", cwd=tmp_path)
    assert ended.code == 0, ended.err
    assert "1 frames are missing" in ended.err
    found = read_tracks(tmp_path / "images.1-tracks" / "tracks.csv")
    np.testing.assert_allclose(found.times, [0, 0.1, 0.3])


def test_a_folder_of_videos_is_followed_one_by_one(forked, whole_run, uneven: Path, tmp_path: Path) -> None:
    folder = tmp_path / "videos"
    folder.mkdir()
    for name in ("a.mp4", "b.mp4"):
        shutil.copy(uneven, folder / name)
    ended = forked("track", "videos", "--model", whole_run, "--format", "csv", "--no-clip", cwd=tmp_path)
    assert ended.code == 0, ended.err
    made = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("videos-tracks/**/*.csv"))
    assert made == ["videos-tracks/a/tracks.csv", "videos-tracks/b/tracks.csv"]
    (folder / "poster.png").write_bytes(b"a picture of it all")
    refused = forked("track", "videos", "--model", whole_run, "--out", "again", cwd=tmp_path)
    assert refused == (2, "", "transporter: videos holds 2 videos and 1 image: name the files\n")
    assert not (tmp_path / "again").exists()

"""Clips come back with the pictures, the times and the manners that they were written with."""

from pathlib import Path

import av
import numpy as np
import pytest

from transporter.envs.video import open_video
from transporter.errors import InputError
from transporter.report.clip import ClipWriter


def dot(x: int, height: int = 67, width: int = 101) -> np.ndarray:
    image = np.full((height, width, 3), (40, 60, 90), np.uint8)
    image[20:40, x : x + 20] = (230, 60, 50)
    return image


def test_an_odd_size_is_padded_to_an_even_one_and_colours_stay(tmp_path: Path) -> None:
    with ClipWriter(tmp_path / "clip.mp4", 101, 67) as clip:
        for i in range(20):
            clip.add(dot(i), i / 25)
    with open_video(tmp_path / "clip.mp4") as video:
        frames = list(video)
    assert len(frames) == 20
    assert frames[0].image.shape == (68, 102, 3)
    for i, frame in enumerate(frames):
        seen = frame.image[:67, :101].astype(int)
        assert abs(seen - dot(i)).mean() < 4
        np.testing.assert_allclose(seen[30, i + 10], (230, 60, 50), atol=10)
        np.testing.assert_allclose(frame.image[67, 5].astype(int), (40, 60, 90), atol=10)  # the edge goes on


def test_every_frame_keeps_its_own_time(tmp_path: Path) -> None:
    times = 0.2 + np.cumsum(np.random.default_rng(0).integers(5, 300, 30)) / 1000
    with ClipWriter(tmp_path / "clip.mp4", 64, 48) as clip:
        for i, time in enumerate(times):
            clip.add(dot(i, 48, 64), float(time))
    with open_video(tmp_path / "clip.mp4") as video:
        np.testing.assert_allclose([frame.time for frame in video], times, atol=1e-5)


@pytest.mark.parametrize("rate", [10.0, 25.0, 30000 / 1001])
def test_without_times_the_rate_is_even(tmp_path: Path, rate: float) -> None:
    with ClipWriter(tmp_path / "clip.mp4", 64, 48, rate=rate) as clip:
        for i in range(12):
            clip.add(dot(i, 48, 64))
    with open_video(tmp_path / "clip.mp4") as video:
        np.testing.assert_allclose([frame.time for frame in video], np.arange(12) / rate, atol=1e-4)
    assert video.rate == pytest.approx(rate, rel=1e-2)


def test_equal_and_negative_times_still_make_a_clip_in_order(tmp_path: Path) -> None:
    with ClipWriter(tmp_path / "clip.mp4", 64, 48) as clip:
        for i, time in enumerate([-0.5, -0.1, -0.1, 0.3]):
            clip.add(dot(i * 10, 48, 64), time)
    with open_video(tmp_path / "clip.mp4") as video:
        frames = list(video)
    np.testing.assert_allclose([frame.time for frame in frames], [0, 0.4, 0.4, 0.8], atol=1e-4)
    reds = [int((frame.image[30] > 150).any(-1).argmax()) for frame in frames]
    np.testing.assert_allclose(reds, [0, 10, 20, 30], atol=2)


def test_browsers_can_play_it(tmp_path: Path) -> None:
    with ClipWriter(tmp_path / "clip.mp4", 101, 67) as clip:
        for i in range(5):
            clip.add(dot(i))
    with av.open(str(tmp_path / "clip.mp4")) as container:
        stream = container.streams.video[0]
        assert (stream.codec_context.name, stream.codec_context.pix_fmt) == ("h264", "yuv420p")
    content = (tmp_path / "clip.mp4").read_bytes()
    assert content.index(b"moov") < content.index(b"mdat")  # the index first: plays while it loads


def break_off(path: Path) -> None:
    with ClipWriter(path, 101, 67) as clip:
        for i in range(60):
            clip.add(dot(i))
        assert not path.exists()
        raise RuntimeError("the detector failed")


def test_after_an_exception_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="the detector failed"):
        break_off(tmp_path / "clip.mp4")
    assert list(tmp_path.iterdir()) == []


def test_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a clip is \.mp4"):
        ClipWriter(tmp_path / "clip.avi", 64, 64)
    with pytest.raises(InputError, match="at least one frame"), ClipWriter(tmp_path / "clip.mp4", 64, 64):
        pass
    with pytest.raises(ValueError, match="64x64"), ClipWriter(tmp_path / "clip.mp4", 64, 64) as clip:
        clip.add(dot(0))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is a file, not a folder"), ClipWriter(tmp_path / "file" / "c.mp4", 64, 64):
        pass

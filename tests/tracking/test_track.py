"""Tracking a stream: all frames, in order, at their times, with decoding in a thread that always ends."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from transporter.coords import cell_centres
from transporter.envs.video import VideoFrame, open_video
from transporter.report.clip import ClipWriter
from transporter.report.tables import TrackWriter, read_tracks
from transporter.tracking.track import BATCHES_AHEAD, BYTES_PER_BATCH, track

WIDTH, HEIGHT, COUNT = 101, 67, 75
TIMES = np.cumsum(np.random.default_rng(0).integers(10, 100, COUNT)) / 1000


def bright_centroid(frames: np.ndarray) -> np.ndarray:
    """A detector of two keypoints: the centres of what is bright red and of what is bright green."""
    light = np.where(frames[..., :2] > 150, 1.0, 0.0)
    x, y = cell_centres(frames.shape[2]).numpy(), cell_centres(frames.shape[1]).numpy()
    mass = light.sum((1, 2))
    across = np.einsum("thwk,w->tk", light, x) / mass
    down = np.einsum("thwk,h->tk", light, y) / mass
    return np.stack([across, down], -1).astype(np.float32)


def red_and_green(i: int) -> np.ndarray:
    image = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    image[10:20, i : i + 10] = (250, 0, 0)
    image[40:50, 80 - i : 90 - i] = (0, 250, 0)
    return image


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("clip") / "clip.mp4"
    with ClipWriter(path, WIDTH, HEIGHT) as writer:
        for i in range(COUNT):
            writer.add(red_and_green(i), float(TIMES[i]))
    return path


def decoders() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "ahead"]


class Camera:
    """A stream that counts how far it was read."""

    def __init__(self, count: int, fails_at: int = -1, shape: tuple[int, int] = (8, 8)) -> None:
        self.count, self.fails_at, self.shape, self.read = count, fails_at, shape, 0

    def __iter__(self) -> Iterator[VideoFrame]:
        for i in range(self.count):
            if i == self.fails_at:
                raise RuntimeError("the camera broke")
            self.read += 1
            yield VideoFrame(i, i / 10, np.full((*self.shape, 3), i % 256, np.uint8))


def corner(frames: np.ndarray) -> np.ndarray:
    return np.full((len(frames), 1, 2), -1, np.float32)


def test_a_clip_of_variable_rate_becomes_a_row_per_frame_and_keypoint(clip: Path, tmp_path: Path) -> None:
    with open_video(clip) as video, TrackWriter(tmp_path / "tracks.csv", video.width, video.height) as table:
        for found in track(video, bright_centroid, batch=16):
            table.add(found.index, found.time, found.points)
    tracks = read_tracks(tmp_path / "tracks.csv")
    assert len((tmp_path / "tracks.csv").read_text().splitlines()) == 1 + COUNT * 2
    np.testing.assert_array_equal(tracks.frames, np.arange(COUNT))
    np.testing.assert_allclose(tracks.times, TIMES, atol=1e-5)
    red = np.stack([np.arange(COUNT) + 5, np.full(COUNT, 15)], -1)
    green = np.stack([85 - np.arange(COUNT), np.full(COUNT, 45)], -1)
    np.testing.assert_allclose(tracks.pixels, np.stack([red, green], 1), atol=1)


@pytest.mark.parametrize("batch", [1, 7, 32, 100])
def test_frames_come_in_order_with_their_own_points_whatever_the_batch(batch: int) -> None:
    sizes = []

    def value(frames: np.ndarray) -> np.ndarray:
        sizes.append(len(frames))
        return np.repeat(frames[:, 0, 0, None, :2].astype(np.float32), 3, axis=1)

    found = list(track(Camera(50), value, batch))
    assert [f.index for f in found] == list(range(50))
    assert [f.time for f in found] == [i / 10 for i in range(50)]
    assert all(f.points.shape == (3, 2) and (f.points == f.index).all() for f in found)
    assert all((f.image == f.index).all() for f in found)
    assert max(sizes) == min(batch, 50)
    assert not decoders()


def test_decoding_waits_for_a_slow_reader() -> None:
    camera, batch = Camera(1000), 5
    for found in track(camera, corner, batch):
        if found.index % 50 == 0:
            time.sleep(0.01)  # time enough to run ahead
        # The batch in use, those that wait, the ones in the detector's and the decoder's hands, the frame looked at.
        assert camera.read - found.index <= (2 * BATCHES_AHEAD + 3) * batch + 1
    assert camera.read == 1000


def test_large_frames_come_in_small_batches() -> None:
    sizes = []

    def count(frames: np.ndarray) -> np.ndarray:
        sizes.append(frames.nbytes)
        return corner(frames)

    assert len(list(track(Camera(12, shape=(2160, 3840)), count, batch=32))) == 12
    assert max(sizes) <= BYTES_PER_BATCH


def test_stopping_early_ends_the_thread() -> None:
    camera = Camera(10**9)
    stream = track(camera, corner, 4)
    assert not decoders()  # nothing runs before the first frame is asked for
    next(stream)
    assert decoders()
    stream.close()
    assert not decoders()
    assert camera.read < 100


def test_what_goes_wrong_in_the_thread_reaches_the_reader_after_the_good_frames() -> None:
    seen = []
    with pytest.raises(RuntimeError, match="the camera broke"):
        seen.extend(found.index for found in track(Camera(50, fails_at=20), corner, 10))
    assert seen == list(range(20))
    assert not decoders()


def test_what_goes_wrong_in_the_detector_ends_the_thread_too() -> None:
    with pytest.raises(ZeroDivisionError):
        next(track(Camera(10**9), lambda frames: 1 / 0, 4))
    with pytest.raises(ValueError, match=r"\(4, K, 2\) points, not \(4, 2\)"):
        next(track(Camera(10**9), lambda frames: np.zeros((4, 2)), 4))
    assert not decoders()


def test_decoding_detecting_and_what_the_caller_does_overlap() -> None:
    class SlowCamera(Camera):
        def __iter__(self) -> Iterator[VideoFrame]:
            for frame in super().__iter__():
                time.sleep(0.01)
                yield frame

    def slow(frames: np.ndarray) -> np.ndarray:
        time.sleep(0.01 * len(frames))
        return corner(frames)

    start = time.perf_counter()
    for _ in track(SlowCamera(60), slow, 5):
        time.sleep(0.01)
    assert time.perf_counter() - start < 0.65 * 3 * 60 * 0.01

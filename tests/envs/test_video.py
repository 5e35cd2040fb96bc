"""Videos of all kinds, made here with FFmpeg: sizes, time stamps, rotations, damage."""

import shutil
import subprocess
import tracemalloc
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from transporter.envs.video import open_video
from transporter.errors import InputError
from transporter.frames import resize

MILLISECOND = Fraction(1, 1000)
RED, GREEN, BLUE, WHITE = (220, 20, 20), (20, 200, 20), (20, 20, 220), (230, 230, 230)


def corners(height: int = 67, width: int = 101) -> np.ndarray:
    """Four corners of four colours: a turned or mirrored picture is easy to tell."""
    image = np.zeros((height, width, 3), np.uint8)
    top, left = slice(0, height // 2), slice(0, width // 2)
    bottom, right = slice(height // 2, None), slice(width // 2, None)
    image[top, left], image[top, right], image[bottom, left], image[bottom, right] = RED, GREEN, BLUE, WHITE
    return image


def moving_bar(count: int, height: int = 67, width: int = 101) -> list[np.ndarray]:
    """A bright bar that goes one pixel to the right per frame, on noise, so that packets have some size."""
    noise = np.random.default_rng(0).integers(0, 90, (height, width, 3), np.uint8)
    images = [noise.copy() for _ in range(count)]
    for i, image in enumerate(images):
        image[:, i % width : i % width + 8] = 250
    return images


def write(
    path: Path,
    images: Sequence[np.ndarray],
    times_ms: Sequence[int] | None = None,
    codec: str = "libx264",
    pixels: str = "yuv444p",
    **options: str,
) -> Path:
    with av.open(str(path), "w", options=options) as container:
        stream = container.add_stream(codec, rate=25)
        stream.height, stream.width, stream.pix_fmt = *images[0].shape[:2], pixels
        stream.codec_context.time_base = MILLISECOND
        stream.gop_size = 10
        for image, time in zip(images, times_ms or range(0, 40 * len(images), 40), strict=True):
            frame = av.VideoFrame.from_ndarray(image, "rgb24")
            frame.pts, frame.time_base = time, MILLISECOND
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def test_an_odd_size_comes_back_whole_and_in_order(tmp_path: Path) -> None:
    images = moving_bar(30)
    with open_video(write(tmp_path / "clip.mp4", images)) as video:
        frames = list(video)
    assert (video.width, video.height, video.frames_estimate, video.rate, video.damaged) == (101, 67, 30, 25.0, 0)
    assert [frame.index for frame in frames] == list(range(30))
    np.testing.assert_allclose([frame.time for frame in frames], np.arange(30) / 25)
    for frame, image in zip(frames, images, strict=True):
        assert frame.image.dtype == np.uint8
        assert abs(frame.image.astype(int) - image).mean() < 9


@pytest.mark.parametrize(
    ("name", "codec", "pixels"), [("clip.webm", "libvpx-vp9", "yuv420p"), ("clip.mkv", "libx264", "yuv420p")]
)
def test_variable_frame_rate_keeps_every_time_stamp(tmp_path: Path, name: str, codec: str, pixels: str) -> None:
    times = np.cumsum(np.random.default_rng(1).integers(5, 200, 24)).tolist()
    with open_video(write(tmp_path / name, moving_bar(24, 66, 100), times, codec, pixels)) as video:
        assert [round(frame.time * 1000) for frame in video] == times


def test_a_gif_is_a_video_too(tmp_path: Path) -> None:
    with open_video(write(tmp_path / "clip.gif", [corners()] * 5, codec="gif", pixels="rgb8")) as video:
        frames = list(video)
    assert len(frames) == 5
    assert frames[0].image[5, 5].argmax() == 0  # red


def test_frames_come_out_at_the_size_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path / "clip.mp4", moving_bar(5))
    with open_video(path) as full, open_video(path, size=(32, 48)) as small:
        for large, little in zip(full, small, strict=True):
            np.testing.assert_array_equal(little.image, resize(large.image, 32, 48))
    assert (small.width, small.height) == (101, 67)


# The display matrix (a, b, c, d): x' = a x + c y, y' = b x + d y; the colours expected clockwise from the upper left.
TURNS = {
    "none": ((1, 0, 0, 1), (RED, GREEN, WHITE, BLUE)),
    "quarter_clockwise": ((0, 1, -1, 0), (BLUE, RED, GREEN, WHITE)),
    "half": ((-1, 0, 0, -1), (WHITE, BLUE, RED, GREEN)),
    "quarter_back": ((0, -1, 1, 0), (GREEN, WHITE, BLUE, RED)),
    "mirror": ((-1, 0, 0, 1), (GREEN, RED, BLUE, WHITE)),
    "upside_down": ((1, 0, 0, -1), (BLUE, WHITE, GREEN, RED)),
}


@pytest.mark.parametrize("turn", TURNS)
def test_rotation_of_the_file_is_applied(tmp_path: Path, turn: str) -> None:
    (a, b, c, d), expected = TURNS[turn]
    path = write(tmp_path / "clip.mp4", [corners()] * 2)
    content = bytearray(path.read_bytes())
    matrix = (
        content.index(b"tkhd") + 4 + 40
    )  # ISO 14496-12: nine fixed-point numbers, 16.16 but for 2.30 in the last column
    numbers = np.array([a, b, 0, c, d, 0, 0, 0, 2**14], ">i4") * 2**16
    content[matrix : matrix + 36] = numbers.astype(">i4").tobytes()
    path.write_bytes(content)
    with open_video(path) as video:
        image = next(iter(video)).image
    assert image.shape == ((101, 67, 3) if a == 0 else (67, 101, 3))
    assert (video.height, video.width) == image.shape[:2]
    seen = [image[y, x] for y, x in ((10, 10), (10, -10), (-10, -10), (-10, 10))]
    np.testing.assert_allclose(seen, expected, atol=12)


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="needs the ffmpeg command")
@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_rotation_agrees_with_the_ffmpeg_command(tmp_path: Path, degrees: int) -> None:
    source, turned, raw = write(tmp_path / "a.mp4", [corners()] * 3), tmp_path / "b.mp4", tmp_path / "c.rgb"
    for arguments in (
        ["-i", source, "-c", "copy", "-metadata:s:v:0", f"rotate={degrees}", turned],
        ["-i", turned, "-frames:v", "1", "-f", "rawvideo", "-pix_fmt", "rgb24", raw],
    ):
        subprocess.run(["ffmpeg", "-loglevel", "error", *map(str, arguments)], check=True)
    with open_video(turned) as video:
        image = next(iter(video)).image
    shown = np.frombuffer(raw.read_bytes(), np.uint8).reshape(image.shape)
    np.testing.assert_allclose(image.astype(int), shown.astype(int), atol=6)


def test_damage_in_the_middle_is_counted_and_reading_goes_on(tmp_path: Path) -> None:
    path = write(tmp_path / "clip.mp4", moving_bar(100), movflags="faststart")
    content = bytearray(path.read_bytes())
    middle = (content.index(b"mdat") + len(content)) // 2
    content[middle : middle + 300] = np.random.default_rng(0).integers(0, 256, 300, np.uint8).tobytes()
    path.write_bytes(content)
    with open_video(path) as video:
        frames = list(video)
    assert 0 < video.damaged < 30
    assert 70 < len(frames) <= 100
    assert frames[-1].time == pytest.approx(99 / 25)  # went on to the end
    assert abs(frames[-1].image.astype(int) - moving_bar(100)[-1]).mean() < 15  # and found its feet again


def test_a_file_cut_short_gives_what_it_has_and_counts_what_it_lacks(tmp_path: Path) -> None:
    path = write(tmp_path / "clip.mp4", moving_bar(100), movflags="faststart")
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 2 // 3])
    with open_video(path) as video:
        frames = list(video)
    assert 10 < len(frames) < 95
    assert len(frames) + video.damaged == 100


def test_a_colon_in_the_name_is_just_a_name(tmp_path: Path) -> None:
    path = write(tmp_path / "plain.mp4", [corners()] * 2).rename(tmp_path / "http:clip.mp4")
    with open_video(path) as video:
        assert len(list(video)) == 2


def cut_before_its_index(folder: Path) -> Path:
    path = write(folder / "clip.mp4", moving_bar(20))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])  # the index (moov) comes last
    return path


def text(folder: Path, name: str) -> Path:
    path = folder / name
    path.write_text("some words\n" * 200)
    return path


def sound(folder: Path) -> Path:
    path = folder / "sound.wav"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000, layout="mono")
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), "s16", "mono")
        frame.sample_rate = 8000
        container.mux(stream.encode(frame))
    return path


def empty(folder: Path) -> Path:
    path = folder / "empty.mp4"
    path.touch()
    return path


def all_packets_broken(folder: Path) -> Path:
    path = write(folder / "clip.mp4", moving_bar(20), movflags="faststart")
    content = bytearray(path.read_bytes())
    start = content.index(b"mdat") + 4
    content[start:] = bytes([255]) * (len(content) - start)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda folder: folder / "nowhere.mp4", "no such file"),
        (lambda folder: folder, "not a file"),
        (empty, "the file is empty"),
        (lambda folder: text(folder, "words.mp4"), "cannot be read as a video"),
        (lambda folder: text(folder, "words.txt"), "holds no video"),
        (cut_before_its_index, "cannot be read as a video"),
        (sound, "holds no video"),
        (all_packets_broken, "no frame of this video can be decoded"),
    ],
)
def test_what_is_no_video_is_one_clear_line(tmp_path: Path, make, says: str) -> None:
    path = make(tmp_path)
    with pytest.raises(InputError, match=says) as caught:
        open_video(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_memory_does_not_grow_with_the_length_of_the_clip(tmp_path: Path) -> None:
    path = write(tmp_path / "clip.mp4", moving_bar(200))
    tracemalloc.start()
    try:
        with open_video(path) as video:
            for frame in video:
                if frame.index == 20:
                    tracemalloc.reset_peak()
                    before = tracemalloc.get_traced_memory()[0]
        grown = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert grown < 10 * frame.image.nbytes  # of 180 frames

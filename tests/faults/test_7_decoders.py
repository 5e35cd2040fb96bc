"""Decoders that fail or are killed: the line is there soon, no thread or process is left, no frame comes twice."""

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import av
import numpy as np
import pytest

from transporter.ahead import ahead
from transporter.envs.video import VideoFrame
from transporter.report.tables import read_tracks
from transporter.tracking.track import track

SOON = 5.0  # seconds
FRAMES = 100
GAVE_UP = "the decoder gave up on this file (code -9)"


def decoded(fails_at: int | None = None) -> Iterator[VideoFrame]:
    for i in range(FRAMES):
        if i == fails_at:
            raise OSError("the disk is gone")
        yield VideoFrame(i, i / 25, np.zeros((8, 8, 3), np.uint8))


def detect(images: np.ndarray) -> np.ndarray:
    return np.zeros((len(images), 2, 2), np.float32)


def no_memory(images: np.ndarray) -> np.ndarray:
    raise MemoryError("no memory")


def test_threads_that_fail_are_heard_and_end(scale, record) -> None:
    """They cannot be killed by themselves; what goes wrong in them may do so at any frame."""
    rng, before = np.random.default_rng(0), threading.active_count()
    for _ in range(scale.workers_killed):
        at = int(rng.integers(FRAMES))
        for frames, detector, error, heard in (
            (decoded(fails_at=at), detect, OSError, at),
            (decoded(), no_memory, MemoryError, 0),
        ):
            since = time.monotonic()
            seen: list[int] = []
            with pytest.raises(error):
                seen.extend(tracked.index for tracked in track(frames, detector, batch=16))
            assert seen == list(range(heard))  # each once, and all that came before
            assert time.monotonic() - since < SOON
    assert threading.active_count() == before
    record("7-workers", threads_that_failed=2 * scale.workers_killed)


def test_who_stops_listening_leaves_no_thread(scale) -> None:
    before = threading.active_count()
    for _ in range(scale.workers_killed):
        with ahead(iter(range(10**9)), 2) as numbers:
            assert next(numbers) == 0
    assert threading.active_count() == before


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("clip") / "clip.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for i in range(FRAMES):
            image = np.full((48, 64, 3), 30, np.uint8)
            image[10:20, i % 50 : i % 50 + 10] = 250
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, "rgb24")))
        container.mux(stream.encode())
    return path


def test_a_command_that_dies_with_its_decoder_leaves_all_of_a_table_or_none(
    start, trained, clip: Path, tmp_path: Path, scale, record
) -> None:
    command = ["track", clip, "--model", trained.path, "--device", "cpu", "--out"]
    since = time.monotonic()
    ended = start(*command, "whole", cwd=tmp_path).end()
    assert ended.code == 0, ended.err
    took, rng, killed = time.monotonic() - since, np.random.default_rng(0), 0
    whole = (tmp_path / "whole" / "tracks.csv").read_bytes()
    while killed < scale.workers_killed:
        life = start(*command, "killed", cwd=tmp_path)
        time.sleep(rng.uniform(0, took))
        if life.poll():
            continue
        killed += life.kill().code == -signal.SIGKILL
        for table in tmp_path.glob("killed/tracks.csv"):
            assert table.read_bytes() == whole
    assert start(*command, "killed", cwd=tmp_path).end().code == 0
    assert (tmp_path / "killed" / "tracks.csv").read_bytes() == whole
    assert read_tracks(tmp_path / "killed" / "tracks.csv").frames.tolist() == list(range(FRAMES))
    record("7-workers", commands_killed_while_they_decode=killed)


@pytest.mark.timeout(600)
def test_a_studio_whose_decoder_is_killed(
    trained, clip: Path, tmp_path: Path, alive: Callable[[int], bool], scale, record
) -> None:
    """A process for each video that is dropped: what kills it is said of that video, and the next one is followed."""
    pytest.importorskip("starlette")
    if not scale.whole:
        pytest.skip("a process for each: in the whole suite")
    from transporter.report.studio.answers import Refused
    from transporter.report.studio.clips import Clips

    tracker = (sys.executable, "-m", "transporter.cli.studio_track", "cpu")

    async def body() -> AsyncIterator[bytes]:
        yield clip.read_bytes()

    async def drop(after: float) -> tuple[Path, str | None, float]:
        """A video whose process is killed so many seconds after it began: its folder, what is said, and how soon."""
        clips = Clips(tmp_path, tracker, 10**9)

        async def kill() -> tuple[int, float]:
            while not (begun := [work.process for work in clips.working.values() if work.process]):
                await asyncio.sleep(0.005)
            await asyncio.sleep(after)
            if begun[0].returncode is None:
                os.kill(begun[0].pid, signal.SIGKILL)
            return begun[0].pid, time.monotonic()

        killing, folder = asyncio.create_task(kill()), tmp_path
        try:
            work = await clips.take("clip.mp4", "model", str(trained.path), body(), None)
            assert work.task is not None
            await work.task
            line, folder = work.line, work.folder
        except Refused as refused:
            line = str(refused)
        if line is None:
            killing.cancel()
            return folder, None, 0.0
        pid, since = await killing
        assert not alive(pid)
        return folder, line, time.monotonic() - since

    began, rng, killed, slowest = time.monotonic(), np.random.default_rng(0), 0, 0.0
    followed = [asyncio.run(drop(10**6))[0]]
    took = time.monotonic() - began
    while killed < scale.workers_killed:
        folder, line, seconds = asyncio.run(drop(rng.uniform(0, took)))
        if line is None:
            followed.append(folder)  # to its end, before its time came
            continue
        assert line == GAVE_UP
        assert seconds < SOON
        killed, slowest = killed + 1, max(slowest, seconds)
    followed.append(asyncio.run(drop(10**6))[0])
    for folder in followed:
        assert read_tracks(folder / "tracks.parquet").frames.tolist() == list(range(FRAMES))
    record("7-workers", decoders_killed_in_a_studio=killed, seconds_until_the_studio_says_so=round(slowest, 2))

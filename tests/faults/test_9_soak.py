"""An hour of training and tracking side by side: memory stays what it was after the first minutes, handles too."""

import gc
import os
import threading
import time
from pathlib import Path
from typing import NamedTuple

import av
import numpy as np
import pytest

from transporter.data.pairs import PairSet
from transporter.envs.video import open_video
from transporter.models.zoo import load
from transporter.report.clip import ClipWriter
from transporter.report.draw import draw_keypoints
from transporter.report.tables import TrackWriter
from transporter.runs import Run
from transporter.tracking.track import track
from transporter.training.config import preset
from transporter.training.learner import Hardware
from transporter.training.loop import train

WARM_UP = 0.25  # share of the time that allocators and caches may take to fill
CONFIG = preset("tiny", size=32, keypoints=3, steps=12, batch=8, sigma_steps=2, log_every=2, validate_every=6,
                checkpoint_every=4)  # fmt: skip


class Held(NamedTuple):
    """What this process holds on to."""

    megabytes: float
    handles: int
    threads: int


def held() -> Held:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Held(
        pages * os.sysconf("SC_PAGE_SIZE") / 2**20, len([*Path("/proc/self/fd").iterdir()]), threading.active_count()
    )


def clip(path: Path) -> Path:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        for i in range(60):
            image = np.full((64, 96, 3), 30, np.uint8)
            image[10:20, i : i + 10] = 250
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, "rgb24")))
        container.mux(stream.encode())
    return path


def train_once(folder: Path, pairs: PairSet) -> None:
    """A run with everything in it: rows, validations, checkpoints, a best one, a resume."""
    run = Run.create(folder, {"environment": "sprites", "config": CONFIG.to_json()})
    stops = iter(range(1, 100))
    with run.lock():
        train(CONFIG, pairs, run, Hardware(device="cpu"), stopping=lambda: next(stops) == 7)
        train(CONFIG, pairs, Run.open(folder), Hardware(device="cpu"))


def track_once(video: Path, run: Path, out: Path) -> None:
    detector = load(run, "cpu")
    with (
        open_video(video) as source,
        TrackWriter(out / "tracks.csv", source.width, source.height) as table,
        TrackWriter(out / "tracks.parquet", source.width, source.height) as typed,
        ClipWriter(out / "labelled.mp4", source.width, source.height, source.rate) as labelled,
    ):
        for seen in track(source, detector, batch=16):
            table.add(seen.index, seen.time, seen.points)
            typed.add(seen.index, seen.time, seen.points)
            labelled.add(draw_keypoints(seen.image, seen.points), seen.time)


@pytest.mark.timeout(2 * 3600)
def test_memory_and_handles_stay(data, tmp_path: Path, scale, record) -> None:
    video, rounds = clip(tmp_path / "clip.mp4"), 0
    seen: list[Held] = []
    since = time.monotonic()
    train_once(tmp_path / "model", PairSet.open(data.path))
    tracked = threading.Event()

    def track_on() -> None:
        while time.monotonic() - since < scale.soak_seconds:
            track_once(video, tmp_path / "model", tmp_path / "tracks")
            tracked.set()

    tracker = threading.Thread(target=track_on)
    tracker.start()
    while time.monotonic() - since < scale.soak_seconds:
        run = tmp_path / f"run-{rounds % 2}"
        if run.exists():
            for path in sorted(run.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
        train_once(run, PairSet.open(data.path))
        rounds += 1
        if time.monotonic() - since > WARM_UP * scale.soak_seconds:
            seen.append(held())
    tracker.join()
    assert tracked.is_set()
    assert len(seen) >= 2
    third = max(1, len(seen) // 3)
    first, last = (float(np.median([h.megabytes for h in part])) for part in (seen[:third], seen[-third:]))
    handles = [max(h.handles for h in part) for part in (seen[:third], seen[-third:])]
    record("9-soak", minutes=round((time.monotonic() - since) / 60, 1), trainings=rounds,
           megabytes_at_first=round(first), memory_growth_percent=round(100 * (last / first - 1), 2),
           handles_at_first=handles[0], handles_at_last=handles[1])  # fmt: skip
    assert last / first < (1.05 if scale.whole else 1.15)  # seconds are too few to be sure of less
    assert abs(handles[1] - handles[0]) <= 6  # a video and three files are open now and then

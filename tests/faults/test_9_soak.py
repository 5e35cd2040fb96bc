"""An hour of training, tracking and a studio in use: memory stays what it was after the first minutes, handles too."""

import gc
import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPCookieProcessor, Request, build_opener

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
LONG = 600  # seconds from which on growth can be told from filling
FRAMES, EPISODES = 60, 4
CONFIG = preset("tiny", size=32, keypoints=3, steps=12, batch=8, sigma_steps=2, log_every=2, validate_every=6,
                checkpoint_every=4)  # fmt: skip


class Held(NamedTuple):
    """What a process holds on to."""

    megabytes: float
    handles: int


def held(pid: int) -> Held:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return Held(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, len([*Path(f"/proc/{pid}/fd").iterdir()]))


class Growth(NamedTuple):
    """The first third of what was seen, beside the last; of handles the most that were open at a time."""

    first: Held
    last: Held

    @property
    def share(self) -> float:
        return self.last.megabytes / self.first.megabytes - 1


def growth(seen: list[Held]) -> Growth:
    assert len(seen) >= 2
    third = max(1, len(seen) // 3)
    parts = (seen[:third], seen[-third:])
    return Growth(*(Held(float(np.median([h.megabytes for h in p])), max(h.handles for h in p)) for p in parts))


def clip(path: Path) -> Path:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        for i in range(FRAMES):
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


class Visitor:
    """Someone who uses a studio, in a process of its own, over and over."""

    def __init__(self, root: Path) -> None:
        command = [sys.executable, "-m", "transporter", "studio", str(root), "--port", "0", "--json", "--device", "cpu"]
        self.studio = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.studio.stdout is not None
        address = urlsplit(json.loads("".join(self.studio.stdout.readline() for _ in range(4)))["address"])
        self.base, self.rounds = f"http://{address.netloc}", 0
        self.seen: list[Held] = []
        self.opener = build_opener(HTTPCookieProcessor())  # the cookie that the token is exchanged for
        self.ask(f"/?{address.query}")

    def ask(self, path: str, body: bytes | None = None, method: str = "GET", **query: str | int) -> bytes:
        url = self.base + path + (f"?{urlencode(query)}" if query else "")
        with self.opener.open(Request(url, body, {"Origin": self.base}, method=method), timeout=60) as answer:
            return answer.read()

    def visit(self, video: Path) -> None:
        """Lists, curves, an episode to scrub through; drop a video, wait until it is followed, look, throw it away."""
        for run in json.loads(self.ask("/api/runs"))["runs"]:
            try:
                self.ask("/api/run", id=run["id"])
                self.ask("/api/rows", id=run["id"])
            except HTTPError as error:  # that training began anew just now
                assert (error.code, run["id"] == "model") == (404, False)  # noqa: PT017
                error.close()
        self.ask("/api/models")
        self.ask("/api/episode", model="run:model", seed=self.rounds % EPISODES, frames=30)
        self.ask("/api/reconstruction", model="run:model", seed=self.rounds % EPISODES, frames=30, source=0, target=9)
        clip = json.loads(self.ask("/api/clips", video.read_bytes(), "POST", name="clip.mp4", model="run:model"))["id"]
        while (state := json.loads(self.ask("/api/clip", id=clip))["state"]) in ("opening", "waiting", "tracking"):
            time.sleep(0.2)
        assert state == "done"
        self.ask("/api/clips")
        assert len(self.ask("/api/clip/points", id=clip)) > FRAMES
        assert self.ask("/api/clip/video", id=clip, kind="preview")[4:8] == b"ftyp"
        self.ask("/api/clip", method="DELETE", id=clip)
        self.rounds += 1

    def close(self) -> None:
        self.studio.terminate()
        said = self.studio.communicate(timeout=30)[1]
        assert "Traceback" not in said, said


@pytest.mark.timeout(2 * 3600)
def test_memory_and_handles_stay(data, tmp_path: Path, scale, record, request: pytest.FixtureRequest) -> None:
    pytest.importorskip("starlette")
    runs, video, pairs = tmp_path / "runs", clip(tmp_path / "clip.mp4"), PairSet.open(data.path)
    train_once(runs / "model", pairs)
    visitor = Visitor(runs)
    request.addfinalizer(visitor.close)
    since, trainings, tracked = time.monotonic(), 0, 0
    seen: list[Held] = []
    others: list[Future[None]] = []

    def going_on(seen: list[Held] | None = None) -> bool:
        """Until the time is over, and there are two looks to compare; or until one of them fails."""
        if any(other.done() and other.exception() for other in others):
            return False
        return time.monotonic() - since < scale.soak_seconds or (seen is not None and len(seen) < 2)

    def warm() -> bool:
        return time.monotonic() - since > WARM_UP * scale.soak_seconds

    def track_on() -> None:
        nonlocal tracked
        while going_on():
            track_once(video, runs / "model", tmp_path / "tracks")
            tracked += 1

    def visit_on() -> None:
        while going_on(visitor.seen):
            visitor.visit(video)
            if warm():
                visitor.seen.append(held(visitor.studio.pid))

    with ThreadPoolExecutor(2) as pool:
        others += [pool.submit(work) for work in (track_on, visit_on)]
        while going_on(seen):
            run = runs / f"run-{trainings % 2}"
            shutil.rmtree(run, ignore_errors=True)
            train_once(run, PairSet.open(data.path))
            trainings += 1
            if warm():
                gc.collect()
                seen.append(held(os.getpid()))
        for other in others:
            other.result()
    own, studio = growth(seen), growth(visitor.seen)
    record("9-soak", minutes=round((time.monotonic() - since) / 60, 1), trainings=trainings, videos_tracked=tracked,
           visits_to_the_studio=visitor.rounds,
           **{f"{who}: {what}": figure for who, g in (("training and tracking", own), ("studio", studio))
              for what, figure in (("megabytes at first", round(g.first.megabytes)),
                                   ("memory growth percent", round(100 * g.share, 2)),
                                   ("handles at first", g.first.handles), ("handles at last", g.last.handles))},
           )  # fmt: skip
    for each in (own, studio):
        assert each.share < (0.05 if scale.soak_seconds >= LONG else 0.15)  # minutes are too few to be sure of less
        assert abs(each.last.handles - each.first.handles) <= 6  # a video and three files are open now and then

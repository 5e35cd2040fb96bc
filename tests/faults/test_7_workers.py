"""Workers that die: one line soon, no process left behind, and nothing counted twice when the command runs again."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from transporter.ahead import ahead
from transporter.data.collect import collect
from transporter.data.manifest import CollectSettings, Manifest
from transporter.envs import make
from transporter.envs.processes import Processes, WorkerDiedError
from transporter.envs.video import VideoFrame
from transporter.tracking.track import track

SOON = 5.0  # seconds
SETTINGS = CollectSettings(environment="sprites", size=16, pairs=128, length=10, budget=3 * 640, envs=2, diverse=False)


def sprites(name: str, count: int, size: int, seed: int) -> Processes:
    """What a stacker is, and quick to start: each in a process of its own."""
    builders = [partial(make, name, size) for i in range(count)]
    return Processes(builders, context="fork", autoreset_mode=AutoresetMode.NEXT_STEP)


def alive(pid: int) -> bool:
    """Whether a process still runs; one that only waits to be counted does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("moment", ["between steps", "within a step", "before the first"])
def test_an_environments_process(moment: str, scale, record) -> None:
    rng = np.random.default_rng(0)
    for _ in range(-(-scale.workers_killed // 3)):
        env = sprites("sprites", 3, 16, 0)
        players = [process.pid for process in env.processes]
        if moment != "before the first":
            env.reset(seed=0)
        if moment == "within a step":
            env.step_async(np.zeros(3, int))
        os.kill(players[rng.integers(3)], signal.SIGKILL)
        since = time.monotonic()
        with pytest.raises(WorkerDiedError, match="ended with code -9: run the same command again"):
            env.step_wait() if moment == "within a step" else env.reset(seed=0)
        env.close()
        assert time.monotonic() - since < SOON
        assert not any(alive(pid) for pid in players)
    record("7-workers", **{f"environments killed {moment}": -(-scale.workers_killed // 3)})


def test_a_collection_whose_player_dies_goes_on_without_a_pair_twice(tmp_path: Path) -> None:
    made: list[Processes] = []

    def keep(*given) -> Processes:
        made.append(sprites(*given))
        return made[-1]

    def kill_late(progress) -> None:
        if progress.steps > 700:
            os.kill(made[0].processes[0].pid, signal.SIGKILL)

    with pytest.raises(WorkerDiedError):
        collect(SETTINGS, tmp_path / "killed", kill_late, keep)
    assert Manifest.read(tmp_path / "killed").segments > 0
    resumed, whole = (collect(SETTINGS, tmp_path / name, None, sprites) for name in ("killed", "whole"))
    assert resumed.manifest.trajectory.tolist() == whole.manifest.trajectory.tolist()
    assert (resumed.load_all() == whole.load_all()).all()


STACKER = ["collect", "stack_2", "--size", "16", "--pairs", "200", "--budget", "40000", "--envs", "2", "--out", "data"]


def children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("victim", ["a worker", "the command"])
def test_the_stacker(victim: str, tmp_path: Path, scale) -> None:
    pytest.importorskip("dm_control")
    if not scale.whole:
        pytest.skip("starting MuJoCo takes half a minute: in the whole suite")
    command = [sys.executable, "-m", "transporter", *STACKER]
    life = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not (tmp_path / "data" / "lock").exists() or len(children(life.pid)) < 3:  # two players, and a counter
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(10)
    workers = children(life.pid)
    since = time.monotonic()
    os.kill(workers[-1] if victim == "a worker" else life.pid, signal.SIGKILL)
    said = life.communicate()[1]
    if victim == "a worker":
        assert life.returncode == 1
        assert said.splitlines()[-1].startswith("transporter: a process that plays ended with code -9")
        assert "Traceback" not in said
    while any(alive(pid) for pid in workers):
        assert time.monotonic() - since < 2 * SOON
        time.sleep(0.05)


def test_a_decoder_that_fails_is_heard_and_its_thread_ends() -> None:
    def frames(fails: bool):
        for i in range(100):
            if fails and i == 40:
                raise OSError("the disk is gone")
            yield VideoFrame(i, i / 25, np.zeros((8, 8, 3), np.uint8))

    def detect(images: np.ndarray) -> np.ndarray:
        return np.zeros((len(images), 2, 2), np.float32)

    def fail(images: np.ndarray) -> np.ndarray:
        raise MemoryError("no memory")

    for fails, detector, error in ((True, detect, OSError), (False, fail, MemoryError)):
        since = time.monotonic()
        seen: list[int] = []
        with pytest.raises(error):
            seen.extend(tracked.index for tracked in track(frames(fails), detector, batch=16))
        assert seen == list(range(40 if fails else 0))  # each once, and all that came before
        assert time.monotonic() - since < SOON


def test_who_stops_listening_leaves_no_thread(scale) -> None:
    import threading

    before = threading.active_count()
    for _ in range(scale.workers_killed):
        with ahead(iter(range(10**9)), 2) as numbers:
            assert next(numbers) == 0
    assert threading.active_count() == before

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

from transporter.data.collect import collect
from transporter.data.manifest import CollectSettings, Manifest
from transporter.envs import make
from transporter.envs.processes import Processes, WorkerDiedError

SOON = 5.0  # seconds
# More than is played ahead of what has been told: who is killed late still has something to play.
SETTINGS = CollectSettings(environment="sprites", size=16, pairs=768, length=10, budget=14 * 640, envs=2, diverse=False)


def sprites(name: str, count: int, size: int, seed: int) -> Processes:
    """What a stacker is, and quick to start: each in a process of its own."""
    builders = [partial(make, name, size) for i in range(count)]
    return Processes(builders, context="fork", autoreset_mode=AutoresetMode.NEXT_STEP)


@pytest.mark.parametrize("moment", ["between steps", "within a step", "before the first"])
def test_an_environments_process(moment: str, alive, scale, record) -> None:
    rng = np.random.default_rng(0)
    for _ in range(-(-scale.workers_killed // 3)):
        env = sprites("sprites", 3, 16, 0)
        players = [process.pid for process in env.processes]
        victim = players[rng.integers(3)]
        if moment != "before the first":
            env.reset(seed=0)
        if moment == "within a step":
            os.kill(victim, signal.SIGSTOP)  # or it might have answered already
            env.step_async(np.zeros(3, int))
        os.kill(victim, signal.SIGKILL)
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


@pytest.mark.timeout(600)
@pytest.mark.parametrize("victim", ["a worker", "the command"])
def test_the_stacker(victim: str, alive, descendants, tmp_path: Path, scale, record) -> None:
    pytest.importorskip("dm_control")
    if not scale.whole:
        pytest.skip("starting MuJoCo takes half a minute: in the whole suite")
    command = [sys.executable, "-m", "transporter", *STACKER]
    life = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not (tmp_path / "data" / "lock").exists() or len(descendants(life.pid)) < 3:  # two players, and a counter
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(10)
    workers = descendants(life.pid)
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
    record("7-workers", **{f"stackers that lost {victim}": 1})

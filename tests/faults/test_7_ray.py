"""Workers on Ray that are killed: another takes over soon, each chunk is kept once, and no process stays behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("ray")

from transporter.cluster.exploration import Spread
from transporter.control.options.config import (
    ActingConfig,
    EyesConfig,
    LearningConfig,
    NetworkConfig,
    OptionsConfig,
)
from transporter.control.options.experiment import Experiment
from transporter.training.learner import Hardware

SOON = 5.0  # seconds
HELPERS = 90.0  # for Ray's own dashboard and its agents, which spend a minute looking for what was killed
WORKERS, PLAYERS, ROWS = 2, 4, 10  # players of each worker, and rows of each player in a chunk
SMALL = OptionsConfig(
    NetworkConfig(layers=((4, 4, 2),), hidden=8, memory=6),
    LearningConfig(batch=4, burn_in=2, unroll=4, every=1),
    ActingConfig(players=WORKERS * PLAYERS, commit=5, warm_up=20, replay=8 * 60, epsilon_low=0.05),
    EyesConfig(size=16, offset=5, batch=4, tiny=True),
)


@pytest.fixture(autouse=True)
def _only_in_the_whole_suite(scale) -> None:
    if not scale.whole:
        pytest.skip("takes minutes: in the whole suite; tests/cluster kills a worker three times")


@pytest.mark.timeout(900)
def test_workers(
    alive: Callable[[int], bool],
    descendants: Callable[[int], list[int]],
    scale,
    record,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    others = set(descendants(os.getpid()))
    made = Spread(Experiment("sprites_control", 0, SMALL), Hardware("cpu"), workers=WORKERS, rows=ROWS)
    killed, slowest, kept = 0, 0.0, []  # lives and serials of the chunks that were taken
    take = made._take
    monkeypatch.setattr(
        made, "_take", lambda chunk: (kept.append((chunk.worker, chunk.life, chunk.serial)), take(chunk))[1]
    )
    try:
        victim, ended, since = 0, "", 0.0
        for _ in made.steps(10**9):
            life = made._last[victim][0]
            if not life or life == ended:
                time.sleep(0.02)  # leave the cores to those that play
                continue
            if ended:
                slowest = max(slowest, time.monotonic() - since)
                if killed == scale.workers_killed:
                    break
            while not made._stands_by():
                time.sleep(0.1)
            victim = killed % WORKERS
            ended = made._last[victim][0]
            os.kill(made.processes[victim], signal.SIGKILL)
            killed, since = killed + 1, time.monotonic()
        counts = made.counts
        assert counts.asked == counts.taken + counts.lost + sum(len(due) for due in made._due)
        assert len(kept) == len(set(kept)) == counts.taken  # none twice
        assert int(made.study.rows.sum()) == counts.taken * ROWS * PLAYERS  # and none lost that came
        lives = {life: sorted(s for _, other, s in kept if other == life) for _, life, _ in kept}
        assert all(serials == list(range(len(serials))) for serials in lives.values())
        processes = set(descendants(os.getpid())) - others
    finally:
        made.close()
    deadline = time.monotonic() + SOON
    while any(alive(pid) for pid in processes):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert slowest < SOON
    record(
        "7-ray", workers_on_ray_killed=killed, seconds_until_another_plays=round(slowest, 2),
        chunks_taken=counts.taken, chunks_taken_twice=len(kept) - len(set(kept)), chunks_asked_for_again=counts.lost,
    )  # fmt: skip


EXPLORE = ["explore", "sprites_control", "--ray", "local", "--actors", "2", "--frames", "100000000", "--video", "0",
           "--network.hidden", "8", "--network.memory", "6", "--network.layers", "4", "4", "2", "--learning.batch", "4",
           "--learning.unroll", "4", "--learning.burn-in", "2", "--acting.players", "8", "--acting.warm-up", "20",
           "--acting.replay", "480", "--eyes.size", "16", "--eyes.offset", "5", "--eyes.batch", "4", "--eyes.tiny",
           "--log-every", "80", "--checkpoint-every", "800", "--device", "cpu", "--out", "run"]  # fmt: skip


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
    except OSError:
        return ""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
def test_the_command(
    number: int, alive: Callable[[int], bool], descendants: Callable[[int], list[int]], tmp_path: Path, record
) -> None:
    """Asked to stop, or killed: all that it has started ends with it."""
    command = [sys.executable, "-m", "transporter", *EXPLORE]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    life = subprocess.Popen(command, cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 150
    while not list(tmp_path.glob("run/checkpoints/step-*")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    started: dict[int, str] = {}
    while sum("ray::Worker" in name for name in started.values()) < 3:  # two that play, and one that stands by
        assert time.monotonic() < deadline
        started = {pid: name for pid in descendants(life.pid) if (name := name_of(pid))}
        time.sleep(0.05)
    since = time.monotonic()
    life.send_signal(number)
    said = life.communicate()[1]
    seconds = time.monotonic() - since
    if number == signal.SIGTERM:
        assert life.returncode == 143
        assert said.splitlines()[-1].startswith("transporter: stopped, state saved in run")
        assert seconds < 2 * SOON
    patience = {
        pid: HELPERS if "Agent" in name or "dashboard.py" in name else 2 * SOON for pid, name in started.items()
    }
    while left := [pid for pid in started if alive(pid)]:
        assert all(time.monotonic() - since < patience[pid] for pid in left), [started[pid] for pid in left]
        time.sleep(0.05)
    record("7-ray", **{f"processes on Ray that outlive {signal.Signals(number).name}": len(left)})

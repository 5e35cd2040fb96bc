"""SIGTERM and Ctrl-C end work within ten seconds, all of it saved; impatience ends it at once; one writer a folder."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from transporter.cli import BAD_INPUT, INTERRUPTED, TERMINATED
from transporter.runs import Run

SOON = 10.0  # seconds
KEYQN = ["keyqn", "ms_pacman", "--observation", "objects", "--seeds", "1", "--device", "cpu",
         "--checkpoint-every", "20", "--network.hidden", "8", "--network.memory", "8", "--protocol.first-updates", "20",
         "--protocol.interactions", "5000", "--video", "0", "--out"]  # fmt: skip


EXPLORE = ["explore", "sprites_control", "--frames", "10000000", "--video", "0", "--network.hidden", "16",
           "--network.memory", "8", "--network.layers", "8", "8", "4", "--learning.batch", "2",
           "--learning.unroll", "4", "--learning.burn-in", "2", "--acting.players", "4", "--acting.warm-up", "8",
           "--acting.replay", "400", "--eyes.size", "32", "--eyes.batch", "4", "--eyes.offset", "5", "--eyes.tiny",
           "--log-every", "40", "--checkpoint-every", "40", "--device", "cpu", "--out"]  # fmt: skip
REPRODUCE = ["reproduce", "tracking", "--domains", "sprites", "--methods", "transporter", "--seeds", "2",
             "--steps", "100000", "--preset", "tiny", "--data", "sets", "--frames", "220", "--workers", "2",
             "--device", "cpu", "--out", "results", "--runs"]  # fmt: skip


def wait_for(folder: Path, files: str) -> None:
    deadline = time.monotonic() + 60
    while not list(folder.glob(files)):
        assert time.monotonic() < deadline
        time.sleep(0.002)


def stopped(life, number: int, everyone: bool = False) -> tuple[float, int, str]:
    """Seconds until it has ended, its exit code, and its last line; it alone hears, or all that it has started too."""
    since = time.monotonic()
    os.killpg(life.pid, number) if everyone else life.signal(number)
    ended = life.end()
    assert "Traceback" not in ended.err
    assert "failed" not in ended.err
    return time.monotonic() - since, ended.code, ended.line


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, INTERRUPTED), (signal.SIGTERM, TERMINATED)])
@pytest.mark.parametrize("verb", ["train", "collect", "keyqn", "explore"])
def test_asked_once(start, trained, data, beside_data, same_files, verb: str, number: int, code: int, record) -> None:
    command, marks, whole = {
        "train": (trained.command, "checkpoints/step-*", trained),
        "collect": (data.command, "pairs/1.0.0.0.0", data),
        "keyqn": (KEYQN, "checkpoints/step-*", None),
        "explore": (EXPLORE, "checkpoints/step-*", None),
    }[verb]
    life = start(*command, "new", cwd=beside_data)
    wait_for(beside_data / "new", marks)
    seconds, ended, line = stopped(life, number)
    assert seconds < SOON
    assert ended == code
    if verb != "collect":  # which keeps whole segments, and says no more
        assert line == "transporter: stopped, state saved in new: run the same command again to go on"
        assert Run.open(beside_data / "new").latest() is not None
    if whole:
        assert start(*command, "new", cwd=beside_data).end().code == 0
        same_files(beside_data / "new", whole.path)
    record("5-asked-to-stop", **{f"{verb}, seconds to stop ({code})": round(seconds, 2)})


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, INTERRUPTED), (signal.SIGTERM, TERMINATED)])
@pytest.mark.parametrize("everyone", [False, True], ids=["it alone", "all of its processes"])
def test_a_reproduction(
    start, data, tmp_path: Path, alive, descendants, everyone: bool, number: int, code: int, scale, record
) -> None:
    """A terminal tells all processes of a command, and so do those who run it for others."""
    if not scale.whole:
        pytest.skip("processes that train take long to start: in the whole suite")
    (tmp_path / "sets").mkdir()
    (tmp_path / "sets" / "sprites").symlink_to(data.path)
    life = start(*REPRODUCE, "runs", cwd=tmp_path)
    runs = [tmp_path / "runs" / f"sprites-transporter-seed{seed}" for seed in (0, 1)]
    for run in runs:
        wait_for(run, "metrics.jsonl")
    workers = descendants(life.pid)
    seconds, ended, line = stopped(life, number, everyone)
    assert seconds < SOON
    assert ended == code
    assert line == "transporter: stopped, state saved in runs: run the same command again to go on"
    assert all(Run.open(run).latest() is not None for run in runs)
    deadline = time.monotonic() + 2  # Python's own tracker of what processes share ends once it sees that they have
    while any(alive(pid) for pid in workers):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    who = "all" if everyone else "one"
    record("5-asked-to-stop", **{f"reproduce, seconds to stop ({code}, {who} told)": round(seconds, 2)})


def test_asked_twice(start, trained, beside_data, same_files, record) -> None:
    """A step of thousands of frames takes longer than an impatient user waits."""
    at = trained.command.index("--batch") + 1
    slow = [*trained.command[:at], "6000", *trained.command[at + 1 :]]
    life = start(*slow, "slow", cwd=beside_data)
    wait_for(beside_data / "slow", "metrics.jsonl")
    time.sleep(1)
    life.signal(signal.SIGINT)
    time.sleep(1.2)  # torchrun repeats a signal within the first second: that is not impatience
    assert not life.poll(), "the step was too quick for this test"
    seconds, code, line = stopped(life, signal.SIGINT)
    assert seconds < 5
    assert code == INTERRUPTED
    assert line == "transporter: stopped at once, nothing saved since the last checkpoint"
    assert Run.open(beside_data / "slow").latest() is None  # no checkpoint was due yet, and none is half there
    assert not list((beside_data / "slow").glob("checkpoints/.*"))
    record("5-asked-to-stop", seconds_to_stop_when_asked_twice=round(seconds, 2))


def test_a_second_writer_is_refused_and_the_first_one_never_notices(
    start, trained, data, beside_data, same_files, record
) -> None:
    for whole, folder, marks, line in (
        (trained, "run", "lock", "transporter: run is in use by another process"),
        (data, "set", "pairs/0.0.0.0.0", "transporter: another process is writing to set: wait for it or stop it"),
    ):
        first = start(*whole.command, folder, cwd=beside_data)
        wait_for(beside_data / folder, marks)
        second = start(*whole.command, folder, cwd=beside_data).end()
        assert (second.code, second.line) == (BAD_INPUT, line)
        assert first.end().code == 0
        same_files(beside_data / folder, whole.path)
    record("5-asked-to-stop", second_writers_refused=2)


DEAF = """
import sys, torch
from transporter.cli.stop import stop_when_asked
one = torch.ones(4000, 4000, dtype=torch.int64)  # whole numbers multiply slowly, in one call that hears nothing
with stop_when_asked():
    print("ready", flush=True)
    one @ one
print("not stopped", flush=True)
"""


def test_asked_twice_in_the_middle_of_one_long_call() -> None:
    life = subprocess.Popen(
        [sys.executable, "-c", DEAF], env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert life.stdout is not None
    assert life.stdout.readline() == "ready\n"
    time.sleep(0.2)
    life.send_signal(signal.SIGINT)
    time.sleep(1.2)
    since = time.monotonic()
    life.send_signal(signal.SIGINT)
    out, err = life.communicate(timeout=120)
    assert time.monotonic() - since < 5
    assert (life.returncode, out) == (INTERRUPTED, "")
    assert err == "transporter: stopped at once, nothing saved since the last checkpoint\n"

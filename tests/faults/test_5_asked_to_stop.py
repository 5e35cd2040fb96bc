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


def wait_for(folder: Path, files: str) -> None:
    deadline = time.monotonic() + 60
    while not list(folder.glob(files)):
        assert time.monotonic() < deadline
        time.sleep(0.002)


def stopped(life, number: int) -> tuple[float, int, str]:
    """Seconds until it has ended, its exit code, and its last line."""
    since = time.monotonic()
    life.signal(number)
    ended = life.end()
    assert "Traceback" not in ended.err
    return time.monotonic() - since, ended.code, ended.line


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, INTERRUPTED), (signal.SIGTERM, TERMINATED)])
@pytest.mark.parametrize("verb", ["train", "collect", "keyqn"])
def test_asked_once(start, trained, data, beside_data, same_files, verb: str, number: int, code: int, record) -> None:
    command, marks, whole = {
        "train": (trained.command, "checkpoints/step-*", trained),
        "collect": (data.command, "pairs/1.0.0.0.0", data),
        "keyqn": (KEYQN, "checkpoints/step-*", None),
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

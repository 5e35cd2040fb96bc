"""Processes side by side: outcomes, failures, and a stop that lets them end well."""

import os
import signal
import subprocess
import time

from transporter.errors import InputError
from transporter.workers import advance, side_by_side, stopping


def square(number: int) -> int:
    advance(number)
    if number == 3:
        raise InputError("three is bad")
    if number == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def until_told(number: int) -> str:
    advance(1)
    while not stopping():
        time.sleep(0.02)
    return f"{number} ended well"


def start_and_end_another(number: int) -> int:
    """How what a worker starts ends, when it is asked to."""
    with subprocess.Popen(["sleep", "60"]) as other:
        other.send_signal(number)
        try:
            return other.wait(10)
        except subprocess.TimeoutExpired:
            other.kill()
            raise


def test_every_job_comes_to_its_own_end() -> None:
    heard: list[int] = []

    def look(done: int) -> bool:
        heard.append(done)
        return False

    ended = {e.job: e for e in side_by_side(square, [2, 3, 4, 5], workers=2, look=look)}
    assert {job: e.outcome for job, e in ended.items()} == {2: 4, 3: None, 4: None, 5: 25}
    assert ended[3].error == "InputError: three is bad"
    assert ended[4].error == "its process ended with code -9"
    assert heard[-1] == 14


def test_once_told_to_stop_no_job_begins_and_those_that_run_end_well() -> None:
    ended = list(side_by_side(until_told, [0, 1, 2], workers=1, look=lambda done: done > 0))
    assert [(e.job, e.outcome) for e in ended] == [(0, "0 ended well")]


def test_what_a_worker_starts_can_be_asked_to_end() -> None:
    (ended,) = side_by_side(start_and_end_another, [signal.SIGTERM], workers=1)
    assert (ended.outcome, ended.error) == (-signal.SIGTERM, None)

"""Several pieces of work side by side, each in a process of its own.

Processes are spawned, not forked: neither GPU contexts nor threads are inherited. A program that uses this must start
from a real file or with `python -m`, not from standard input.
"""

import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from transporter.errors import InputError

Job = TypeVar("Job")
Outcome = TypeVar("Outcome")

LOOK = 0.5  # seconds between looks at what the processes have done


class Ended(NamedTuple, Generic[Job, Outcome]):
    """A job that came to its end: with an outcome, or with a line that says what went wrong."""

    job: Job
    outcome: Outcome | None
    error: str | None = None


class _Line(NamedTuple):
    """What a worker and the process that started it share."""

    stop: Event
    done: Any  # a counter


class _Running(NamedTuple, Generic[Job]):
    job: Job
    process: BaseProcess
    pipe: Connection  # brings its outcome


_line: _Line | None = None


def stopping() -> bool:
    """In a worker: whether to save and end."""
    return _line is not None and _line.stop.is_set()


def advance(by: int) -> None:
    """In a worker: say that so much more is done."""
    if _line is not None:
        with _line.done.get_lock():
            _line.done.value += by


def cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free_memory() -> int:
    """Bytes of main memory that can be had without swapping; where the system does not say, more than anyone asks."""
    try:
        told = Path("/proc/meminfo").read_text(encoding="ascii").split("MemAvailable:")[1]
        return 1024 * int(told.split()[0])
    except (OSError, IndexError, ValueError):
        return sys.maxsize


def side_by_side(
    work: Callable[[Job], Outcome],
    jobs: Sequence[Job],
    workers: int,
    *,
    threads: int = 1,
    look: Callable[[int], bool] = lambda done: False,
) -> Iterator[Ended[Job, Outcome]]:
    """Jobs as they end, in any order; one that fails, or is killed, does not end the others.

    `look` hears twice a second what the workers have said is done. Once it is true no more jobs begin, and those that
    run are asked to stop.
    """
    context = multiprocessing.get_context("spawn")
    line = _Line(context.Event(), context.Value("q", 0))
    waiting = list(jobs)
    running: list[_Running[Job]] = []
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                job = waiting.pop(0)
                ours, theirs = context.Pipe(duplex=False)
                process = context.Process(target=_run, args=(line, threads, theirs, work, job))
                process.start()
                theirs.close()  # so that the end of the process ends the pipe
                running.append(_Running(job, process, ours))
            ready = connection.wait([one.pipe for one in running], LOOK)
            for one in [one for one in running if one.pipe in ready]:
                running.remove(one)
                yield _ended(one)
            if look(line.done.value):
                line.stop.set()
                waiting.clear()
    finally:
        for one in running:
            one.process.kill()  # what it has written is whole at any moment
            one.process.join()


def _ended(one: _Running[Job]) -> Ended[Job, Any]:
    try:
        outcome, error = one.pipe.recv()
    except EOFError:
        one.process.join()
        return Ended(one.job, None, f"its process ended with code {one.process.exitcode}")
    finally:
        one.pipe.close()
    one.process.join()
    return Ended(one.job, outcome, error)


def _run(line: _Line, threads: int, pipe: Connection, work: Callable[[Job], Outcome], job: Job) -> None:
    """A worker's life. Who ends a command often signals all of its processes: that is for the one that started it."""
    import torch

    global _line
    _line = line
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)  # SIG_IGN would outlive exec: all that a worker starts would be deaf
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(threads)
    try:
        pipe.send((work(job), None))
    except Exception as error:
        if not isinstance(error, InputError):
            traceback.print_exc()
        pipe.send((None, f"{type(error).__name__}: {error}"))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)

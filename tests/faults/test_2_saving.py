"""Killed at every single step of a save: what was there before is there still, or all that is new is."""

import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

from transporter.checkpoints import Checkpoint
from transporter.data.manifest import CollectSettings
from transporter.data.pairs import CHUNK, PairSet
from transporter.files import is_temporary, write_text
from transporter.runs import Run
from transporter.tensors import read_tensors, write_tensors

# Of Python's audit events; fsync is none, and counted by hand.
STEPS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "os.truncate"}


class Save(NamedTuple):
    """Something that is written, and what a reader may find: before it, in the middle of it and after it."""

    before: Callable[[Path], None]
    write: Callable[[Path], None]
    found: Callable[[Path], object]
    may: tuple[object, ...]
    alone: bool = False  # a file without a folder of its own: no one may clear up around it


def checkpoint(step: int, value: float | None = None) -> Checkpoint:
    filled = torch.full((5_000,), float(step) if value is None else value)
    return Checkpoint(step, {"w": filled}, {"best": 0.5})


def run_with(*steps: int) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        run = Run.create(path / "run", {"seed": 1})
        for step in steps:
            run.log({"step": step})
            run.save(checkpoint(step))

    return make


def save(step: int, value: float | None = None, best: bool = False) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        run = Run.create(path / "run", {"seed": 1})
        with run.lock():
            run.save(checkpoint(step, value), best=best)

    return write


def newest(path: Path) -> tuple[int, float] | None:
    run = Run.open(path / "run") if (path / "run" / "run.json").exists() else None
    found = run.latest() if run else None
    assert run is None or run.warnings == []  # nothing half-written is even looked at
    return None if found is None else (found.step, float(found.tensors["w"].mean()))


def chosen(path: Path) -> int:
    return Run.open(path / "run").best().step


def rewind(path: Path) -> None:
    run = Run.open(path / "run")
    with run.lock():
        run.rewind(2)


def rows(path: Path) -> tuple[int, ...]:
    return tuple(row["step"] for row in Run.open(path / "run").metrics())


PAIRS = CollectSettings(environment="sprites", size=8, pairs=3 * CHUNK)


def commit(parts: int) -> Callable[[Path], None]:
    """So many parts of a set: those that are there already are not written again."""

    def write(path: Path) -> None:
        with PairSet.create(path / "set", PAIRS) as writer:
            for part in range(writer.manifest.segments, parts):
                for i in range(part * CHUNK, (part + 1) * CHUNK):
                    writer.append(np.full((2, 8, 8, 3), i, np.uint8), i, i)
                writer.commit(part + 1, part + 1, complete=part == 2)

    return write


def pairs_there(path: Path) -> int:
    if not (path / "set" / "manifest.json").exists():
        return 0
    with PairSet.create(path / "set", PAIRS) as writer:
        there = [int(pair[0, 0, 0, 0]) for block in writer.committed() for pair in block]
    assert there == list(range(len(there)))
    return len(there)


def weights(value: float) -> Callable[[Path], None]:
    return lambda path: write_tensors(path / "w.safetensors", {"w": torch.full((5_000,), value)}, {"format": "1"})


SAVES = {
    "the first checkpoint": Save(run_with(), save(1), newest, (None, (1, 1.0))),
    "the next one, and the oldest goes": Save(run_with(1, 2), save(3), newest, ((2, 2.0), (3, 3.0))),
    "the same step again": Save(run_with(1), save(1, 9.0), newest, ((1, 1.0), (1, 9.0))),
    "a best one": Save(run_with(1), save(1, best=True), chosen, (1,)),
    "another best one": Save(lambda p: (run_with(3)(p), save(2, best=True)(p)), save(3, best=True), chosen, (2, 3)),  # type: ignore[arg-type, return-value]
    "a new run": Save(lambda path: None, save(1), newest, (None, (1, 1.0))),
    "going back": Save(run_with(1, 2, 3), rewind, rows, ((1, 2, 3), (1, 2))),
    "the first pairs": Save(lambda path: None, commit(1), pairs_there, (0, CHUNK)),
    "more pairs": Save(commit(1), commit(3), pairs_there, (CHUNK, 2 * CHUNK, 3 * CHUNK)),
    "weights": Save(
        weights(1.0), weights(2.0), lambda p: float(read_tensors(p / "w.safetensors").tensors["w"].mean()), (1.0, 2.0),
        alone=True,
    ),
    "a text": Save(
        lambda p: write_text(p / "a.txt", "old"), lambda p: write_text(p / "a.txt", "new"),
        lambda p: (p / "a.txt").read_text(), ("old", "new"), alone=True,
    ),
}  # fmt: skip


def outcome(work: Callable[[], None], prepare: Callable[[], None]) -> int:
    """The exit code of work in a process of its own, negative for the signal that killed it."""
    if (child := os.fork()) == 0:
        code = 1
        try:
            prepare()
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def die_at(step: int) -> None:
    """In this process: SIGKILL just before the step of that number, counted from 1."""
    count = 0

    def take() -> None:
        nonlocal count
        count += 1
        if count == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def audit(event: str, arguments: tuple) -> None:
        reads = event == "open" and arguments[1] in ("r", "rb", None) and not (arguments[2] or 0) & os.O_CREAT
        if event in STEPS and not reads:
            take()

    sync = os.fsync
    os.fsync = lambda descriptor: (take(), sync(descriptor))[1]  # type: ignore[assignment, func-returns-value]
    sys.addaudithook(audit)


def die_beyond(size: int) -> None:
    """In this process: the kernel ends it in the middle of a write, where a file grows beyond so many bytes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def check(kind: Save, path: Path) -> None:
    """A reader finds one of what there may be; the same again then ends well, and nothing is left lying about."""
    assert kind.found(path) in kind.may
    kind.write(path)
    assert kind.found(path) == kind.may[-1]
    assert kind.alone or [p for p in path.rglob("*") if is_temporary(p.name)] == []


@pytest.mark.parametrize("name", SAVES)
def test_killed_at_every_step(name: str, tmp_path: Path, record) -> None:
    kind = SAVES[name]
    for step in range(1, 200):
        path = tmp_path / str(step)
        path.mkdir()
        kind.before(path)
        code = outcome(lambda path=path: kind.write(path), lambda step=step: die_at(step))
        assert code in (0, -signal.SIGKILL)
        check(kind, path)
        if code == 0:
            break
        shutil.rmtree(path)
    assert step > 4  # at least: open, fsync, rename, fsync
    record("2-saving", **{f"kills at each step of {name}": step - 1})


@pytest.mark.parametrize("name", SAVES)
def test_killed_in_the_middle_of_a_write(name: str, tmp_path: Path, record) -> None:
    kind, died = SAVES[name], 0
    for size in (0, 1, 2, 50, 150, 1_000, 10_000, 19_999):
        path = tmp_path / str(size)
        path.mkdir()
        kind.before(path)
        code = outcome(lambda path=path: kind.write(path), lambda size=size: die_beyond(size))
        assert code in (0, -signal.SIGXFSZ)
        died += code != 0
        check(kind, path)
    assert died
    record("2-saving", **{f"kills within the writes of {name}": died})

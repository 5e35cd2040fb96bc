"""A run folder: configuration, metrics.jsonl, checkpoints (atomic, verified), resume, lock.

run.json            what is being trained, and with which settings
metrics.jsonl       one row a line
checkpoints/        step-0000001000/ …: everything needed to go on
best/               likewise, the one with the lowest validation loss
"""

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

import safetensors
import safetensors.torch
from torch import Tensor

from transporter.errors import InputError
from transporter.files import READABLE, sync, write_text

FORMAT = 1
Json = dict[str, Any]


class Checkpoint(NamedTuple):
    """All of a run at one step: tensors by name, and everything else as JSON."""

    step: int
    tensors: dict[str, Tensor]
    state: Json

    def part(self, prefix: str) -> dict[str, Tensor]:
        """The tensors under a prefix, without it."""
        return {name.removeprefix(prefix): t for name, t in self.tensors.items() if name.startswith(prefix)}


class DamagedError(Exception):
    """A checkpoint on disk is not what was written."""


class Run:
    """A folder that one process writes and anyone reads."""

    def __init__(self, path: Path, settings: Json) -> None:
        self.path = path
        self.settings = settings
        self.warnings: list[str] = []  # what was found damaged and passed over

    @classmethod
    def create(cls, path: Path, settings: Json) -> Self:
        """A new run; or the one that is there, when its settings are the same."""
        if (path / "run.json").exists():
            run = cls.open(path)
            if run.settings != json.loads(json.dumps(settings)):
                raise InputError(f"{path} holds a run with other settings: {_difference(run.settings, settings)}")
            return run
        if path.exists() and not path.is_dir():
            raise InputError(f"{path} is a file, not a run folder")
        if path.is_dir() and any(path.iterdir()):
            raise InputError(f"{path} is not empty and holds no run")
        write_text(path / "run.json", json.dumps({"format": FORMAT, "settings": settings}, indent=2))
        return cls(path, json.loads(json.dumps(settings)))

    @classmethod
    def open(cls, path: Path) -> Self:
        try:
            head = json.loads((path / "run.json").read_text(encoding="utf-8"))
            if head["format"] > FORMAT:
                raise InputError(f"{path} was written by a newer version of transporter")
            return cls(path, head["settings"])
        except FileNotFoundError:
            raise InputError(f"{path} is not a run folder (no run.json)") from None
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{path / 'run.json'} is damaged: {error}") from error

    @contextmanager
    def lock(self) -> Iterator[None]:
        """One writer at a time; the lock ends with the process, however it ends."""
        with (self.path / "lock").open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise InputError(f"{self.path} is in use by another process") from None
            yield

    # Metrics

    def log(self, row: Json) -> None:
        with (self.path / "metrics.jsonl").open("a", encoding="utf-8") as handle:
            handle.write(json.dumps(row) + "\n")

    def metrics(self) -> list[Json]:
        """All complete rows; a last line cut short by a crash is left out."""
        path = self.path / "metrics.jsonl"
        if not path.exists():
            return []
        rows = []
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                rows.append(json.loads(line))
            except ValueError:
                break
        return rows

    def rewind(self, step: int) -> None:
        """Forget what came after `step`, metrics and best checkpoint alike: it will come again."""
        rows = [row for row in self.metrics() if row["step"] <= step]
        write_text(self.path / "metrics.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        for best in (self.path / "best").glob("step-*"):
            if int(best.name.removeprefix("step-")) > step:
                shutil.rmtree(best)

    # Checkpoints

    def save(self, checkpoint: Checkpoint, *, best: bool = False) -> None:
        """Publish a checkpoint by one rename, then let older ones go; the last two stay, of the best only one."""
        folder = self.path / ("best" if best else "checkpoints")
        written = folder / f"step-{checkpoint.step:010d}"
        _write_checkpoint(written, checkpoint)
        others = sorted(other for other in folder.glob("step-*") if other != written)
        for old in others if best else others[:-1]:
            shutil.rmtree(old)

    def latest(self) -> Checkpoint | None:
        """The newest checkpoint that is whole; damaged ones are passed over and named in `warnings`."""
        return self._newest(self.path / "checkpoints")

    def best(self) -> Checkpoint:
        """The best checkpoint, or the newest one while none has been chosen."""
        checkpoint = self._newest(self.path / "best") or self.latest()
        if checkpoint is None:
            raise InputError(f"{self.path} has no {'whole checkpoint left' if self.warnings else 'checkpoint yet'}")
        return checkpoint

    def _newest(self, folder: Path) -> Checkpoint | None:
        for candidate in sorted(folder.glob("step-*"), reverse=True):
            try:
                return read_checkpoint(candidate)
            except DamagedError as error:
                self.warnings.append(f"{candidate.name} is damaged ({error}): going back to the one before")
        return None


def _write_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in checkpoint.tensors.items()}
        safetensors.torch.save_file(tensors, temporary / "tensors.safetensors")
        (temporary / "tensors.safetensors").chmod(READABLE)
        (temporary / "state.json").write_text(json.dumps({"step": checkpoint.step, **checkpoint.state}))
        sums = {name: _sha256(temporary / name) for name in ("tensors.safetensors", "state.json")}
        (temporary / "manifest.json").write_text(json.dumps({"format": FORMAT, "sha256": sums}))
        for name in (*sums, "manifest.json"):
            sync(temporary / name)
        sync(temporary)
        shutil.rmtree(folder, ignore_errors=True)  # only a damaged one of the same step can be in the way
        temporary.rename(folder)
        sync(folder.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def read_checkpoint(folder: Path) -> Checkpoint:
    """A checkpoint whose every byte is what was written, or DamagedError."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text())
        for name, expected in manifest["sha256"].items():
            if _sha256(folder / name) != expected:
                raise DamagedError(f"{name} has changed since it was written")
        state = json.loads((folder / "state.json").read_text())
        return Checkpoint(state.pop("step"), safetensors.torch.load_file(folder / "tensors.safetensors"), state)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, safetensors.SafetensorError) as error:
        raise DamagedError(str(error)) from error


def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _difference(old: Json, new: Json) -> str:
    """The first few settings that differ, by dotted name."""
    flat_old, flat_new = dict(_flatten(old)), dict(_flatten(json.loads(json.dumps(new))))
    names = sorted(name for name in flat_old | flat_new if flat_old.get(name) != flat_new.get(name))
    return ", ".join(f"{name} {flat_old.get(name)} → {flat_new.get(name)}" for name in names[:4])


def _flatten(data: Json, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in data.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value

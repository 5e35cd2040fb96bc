"""A run folder: configuration, metrics.jsonl, checkpoints (atomic, verified), resume, lock.

run.json            what is being trained, and with which settings
metrics.jsonl       one row a line
checkpoints/        step-0000001000/ …: everything needed to go on
best/               likewise, the one with the lowest validation loss
"""

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Self

from transporter.checkpoints import Checkpoint, DamagedError, remove
from transporter.errors import InputError
from transporter.files import is_temporary, make_folder, parse_json, sealed, sweep, sync, unsealed, write_text

FORMAT = 1
Json = dict[str, Any]
CHOSEN = "chosen.json"  # beside several seeds that were trained together: names the run to take


class NoRunError(InputError):
    """There is no run where one was asked for."""


class GoneError(RuntimeError):
    """Someone took the folder away while it was written to."""


class Run:
    """A folder that one process writes and anyone reads."""

    def __init__(self, path: Path, settings: Json) -> None:
        self.path = path
        self.settings = settings
        self.warnings: list[str] = []  # what was found damaged and passed over
        self._damaged: set[Path] = set()

    @classmethod
    def check(
        cls, path: Path, settings: Json, today: Callable[[Json], Json] = lambda settings: settings
    ) -> Self | None:
        """The run that is there, None where there is none; refused is what create() would refuse. Changes nothing."""
        if not (path / "run.json").exists():
            _refuse_foreign(path)
            return None
        run = cls.open(path)
        try:
            found = today(run.settings)
        except InputError as error:
            kind = _of_another_kind(run.settings, settings)
            raise InputError(f"{path} {kind or f'holds a run that does not fit: {error}'}") from None
        there, here = (json.loads(json.dumps(part)) for part in (found, settings))
        if there != here:
            raise InputError(f"{path} {_difference(there, here)}")
        return run

    @classmethod
    def create(cls, path: Path, settings: Json, today: Callable[[Json], Json] = lambda settings: settings) -> Self:
        """A new run; or the one that is there, when its settings are the same.

        `today` makes of settings that an earlier version wrote what this one writes.
        """
        if (run := cls.check(path, settings, today)) is None:
            make_folder(path)
            with _alone(path):  # of two that begin at once, the second finds what the first has written
                if (run := cls.check(path, settings, today)) is None:
                    head = sealed({"format": FORMAT, "settings": settings})
                    write_text(path / "run.json", json.dumps(head, indent=2))
        return run or cls.open(path)

    @classmethod
    def open(cls, path: Path) -> Self:
        try:
            head = parse_json((path / "run.json").read_bytes())
            if head["format"] > FORMAT:
                raise InputError(f"{path} was written by a newer version of transporter")
            settings = unsealed(head)["settings"]
            if not isinstance(settings, dict):
                raise ValueError("it holds no settings")
            return cls(path, settings)
        except (FileNotFoundError, NotADirectoryError):
            raise NoRunError(f"{path} is not a run folder (no run.json)") from None
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{path / 'run.json'} is damaged: {error}; delete the folder and begin anew") from error

    @contextmanager
    def lock(self) -> Iterator[None]:
        """One writer at a time; the lock ends with the process, however it ends."""
        with _alone(self.path):
            for folder in (self.path / "checkpoints", self.path / "best"):
                sweep(folder)
            for name in (".run.", ".metrics."):  # others may be writing a report beside them just now
                sweep(self.path, name)
            yield

    # Metrics

    def log(self, row: Json) -> None:
        with self._still_there(), self.metrics_file.open("a", encoding="utf-8") as handle:
            handle.write(json.dumps(row) + "\n")

    def amend(self, row: Json) -> None:
        """The last row anew: more has become known of its step."""
        with self._still_there():
            self.metrics_file.stat()  # rather than made anew, in a folder made anew
            self._rewrite([*self.metrics()[:-1], row])

    def _rewrite(self, rows: Sequence[Json]) -> None:
        write_text(self.metrics_file, "".join(json.dumps(row) + "\n" for row in rows))

    @contextmanager
    def _still_there(self) -> Iterator[None]:
        """What is missing within may be all of it: that is no one's bad input."""
        try:
            yield
        except FileNotFoundError:
            if self.path.is_dir():
                raise
            raise GoneError(f"the run folder {self.path} was taken away: nothing was saved since") from None

    @property
    def metrics_file(self) -> Path:
        return self.path / "metrics.jsonl"

    def metrics(self) -> list[Json]:
        """All complete rows; a last line cut short by a crash is left out, and so is, with a word, a damaged one."""
        path = self.metrics_file
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
        rows = []
        for number, line in enumerate(lines, 1):
            try:
                rows.append(_row(line))
            except ValueError:
                if number < len(lines):
                    self.warnings.append(f"line {number} of metrics.jsonl is damaged: left out")
        return rows

    def plot(self, what: Literal["training", "tracking"] = "training") -> Any:
        """Its curves, a figure that shows itself in a notebook and can be saved (report.notebook.Plot)."""
        # Reports come after runs: by name, as `transporter.plot` itself is fetched.
        return import_module("transporter").plot(self, what)

    def rewind(self, step: int) -> None:
        """Forget what came after `step`, metrics and best checkpoint alike: it will come again."""
        self._rewrite([row for row in self.metrics() if row["step"] <= step])
        for best in (self.path / "best").glob("step-*"):
            if int(best.name.split("-")[1]) > step:
                remove(best)

    # Checkpoints

    def save(self, checkpoint: Checkpoint, *, best: bool = False) -> None:
        """Publish a checkpoint by one rename, then let older ones go; the last two stay, of the best only one."""
        with self._still_there():
            self._publish(self.path / ("best" if best else "checkpoints"), checkpoint, best)

    def _publish(self, folder: Path, checkpoint: Checkpoint, best: bool) -> None:
        written = folder / f"step-{checkpoint.step:010d}"
        if not folder.is_dir():
            folder.mkdir()  # without those above it: a run folder that was taken away must not come back as half of one
            sync(self.path)
        if self.metrics_file.exists():
            sync(self.metrics_file)  # no checkpoint outlives a loss of power that its rows do not
        checkpoint.save(written)
        others = sorted(other for other in folder.glob("step-*") if other != written)
        kept = [] if best else [other for other in others if other not in self._damaged][-1:]
        for old in others:
            if old not in kept:
                remove(old)

    def saved_step(self) -> int:
        """Of the newest checkpoint by its name, whole or not; 0 where there is none."""
        names = (path.name.removeprefix("step-") for path in self.path.glob("checkpoints/step-*"))
        return max((int(name) for name in names if name.isdecimal()), default=0)

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
        seen: set[Path] = set()
        while left := sorted(set(folder.glob("step-*")) - seen):
            candidate = left[-1]
            seen.add(candidate)
            try:
                return Checkpoint.load(candidate)
            except DamagedError as error:
                if candidate.exists():  # or a newer one took its place while it was read: look again
                    self._damaged.add(candidate)
                    self.warnings.append(f"{candidate.name} is damaged ({error}): passed over")
        return None


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    with (path / "lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"{path} is in use by another process") from None
        yield


def _refuse_foreign(path: Path) -> None:
    """Never begin among files that are not ours; what a run leaves that is killed at its very start is ours."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file, not a run folder")
    if path.is_dir() and any(e.name != "lock" and not is_temporary(e.name) for e in os.scandir(path)):
        raise InputError(f"{path} is not empty and holds no run")


def _row(line: str) -> Json:
    row = parse_json(line)
    if not isinstance(row, dict) or not isinstance(row.get("step"), int):
        raise ValueError("not a row")
    return row


def chosen(folder: Path) -> Path:
    """Of a folder with several seeds the one that training chose; any other folder is meant itself."""
    path = folder / CHOSEN
    if not path.exists():
        return folder
    try:
        name = parse_json(path.read_text(encoding="utf-8"))["run"]
        if Path(name).name != name:
            raise ValueError(f"{name!r} is no folder's name")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} does not say which run is meant: {error}") from None
    return folder / name


def _of_another_kind(old: Json, new: Json) -> str | None:
    different = old.keys() - new.keys() and new.keys() - old.keys()
    return "holds a run of another kind: name another folder" if different else None


def _difference(old: Json, new: Json) -> str:
    """What a folder holds that was not asked for: a run of another kind, or the first few settings that differ."""
    if kind := _of_another_kind(old, new):
        return kind
    flat_old, flat_new = dict(_flatten(old)), dict(_flatten(new))
    names = sorted(
        (name for name in flat_old | flat_new if flat_old.get(name) != flat_new.get(name)),
        key=lambda name: (name not in flat_old or name not in flat_new, name),  # what both have says more
    )
    first = ", ".join(f"{name} {flat_old.get(name)} → {flat_new.get(name)}" for name in names[:4])
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return f"holds a run with other settings: {first}{more} (its → yours): give its own, or another folder"


def _flatten(data: Json, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in data.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value

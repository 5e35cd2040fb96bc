"""What a user gives: kinds of options, and checks that refuse a bad one before any work is done."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import tyro

from transporter.errors import InputError
from transporter.files import parse_json, replaceable, temporary_beside

if TYPE_CHECKING:
    from transporter.models.detector import Detector

MOST = 2**31 - 1
MOST_SEEDS = 64  # each has its weights and its state in memory
# Of a run folder, which nobody else may write:
OWN_FILES = ("run.json", "metrics.jsonl", "lock")
OWN_FOLDERS = ("agents", "best", "checkpoints", "scores")
T = TypeVar("T")
# An option that may stay unset; its help says "by default …", which is better than "(default: None)".
Maybe = Annotated[T | None, tyro.conf.arg(help_behavior_hint="")]


def at_least(least: int, **values: int | None) -> None:
    """Refuse numbers below `least`, or beyond what seeds and sizes can be; None is an option that was not given."""
    for name, value in values.items():
        if value is not None and value < least:
            raise InputError(f"{_flag(name)} must be at least {least}, not {value}")
        if value is not None and value > MOST:
            raise InputError(f"{_flag(name)} must be at most {MOST:,}, not {value:,}")


def above_zero(**values: float | None) -> None:
    for name, value in values.items():
        if value is not None and not 0 < value < 1e9:
            raise InputError(f"{_flag(name)} must be above 0, not {value}")


def check_seeds(seeds: int) -> None:
    at_least(1, seeds=seeds)
    if seeds > MOST_SEEDS:
        raise InputError(f"--seeds can be at most {MOST_SEEDS}: they learn side by side, in one process")


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def device_named(name: str) -> str:
    """cpu, cuda or cuda:N, as it is there; auto is the GPU where there is one."""
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if not re.fullmatch(r"cpu|cuda(:\d+)?", name):
        raise InputError(f"no device named {name!r}: auto, cpu, cuda or cuda:N")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name != "cpu" and int(name.partition(":")[2] or 0) >= count:
        there = f"only {count} GPU{'s' * (count > 1)}" if count else "no GPU"
        raise InputError(f"--device {name}: this machine has {there} that torch can use")
    return name


@contextmanager
def no_empty_folders(path: Path) -> Iterator[None]:
    """Folders that the work makes on the way to this one, and itself, go again when it fails and leaves them empty."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    try:
        yield
    except BaseException:
        for folder in missing:
            with suppress(OSError):
                folder.rmdir()
        raise


@contextmanager
def room_for(path: Path) -> Iterator[Path]:
    """A place for a file, made now: long work whose result could not be written is refused before it begins."""
    place = replaceable(path)
    if place.name in OWN_FILES:
        raise InputError(f"{path}: a run folder has a file of that name for itself: name another")
    for folder in place.resolve().parents:
        if folder.name in OWN_FOLDERS and (folder.parent / "run.json").exists():
            raise InputError(f"{path}: a run folder has {folder.name} for itself: name another")
    with no_empty_folders(place.parent):
        place.parent.mkdir(parents=True, exist_ok=True)
        tried = temporary_beside(place)
        try:
            tried.touch()
            tried.unlink()
        except OSError as error:  # no right to, or too long a name
            raise InputError(f"{place}: cannot be written ({error.strerror})") from None
        yield path


@contextmanager
def room_for_json(path: Path | None) -> Iterator[None]:
    """The same for results of an experiment; what is there, and is something else, was not meant."""
    if path is None:
        yield
        return
    if path.is_file() and path.stat().st_size:
        try:
            found = parse_json(path.read_bytes())
        except (OSError, ValueError):
            found = None
        if not isinstance(found, dict) or "figures" not in found:
            raise InputError(f"{path} is there and holds no results: name another")
    with room_for(path):
        yield


def without_ending(path: Path) -> Path:
    """For what is named after a file or a folder: only a file has an ending; "." and ".." are no names."""
    named = path.resolve() if path.name in ("", "..") else path
    return named if named.is_dir() else named.with_suffix("")


def folder_named(path: Path) -> Path:
    """A folder for results, there or not."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file: name a folder")
    return path


def warn_of_another(detector: "Detector", environment: str) -> None:
    """A model of something else may be meant, or not."""
    from transporter.cli.console import warn

    if (learnt := detector.card.get("environment")) not in (None, environment):
        warn(f"the model learnt from {learnt}, not from {environment}")

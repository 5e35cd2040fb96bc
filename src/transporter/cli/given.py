"""What a user gives: kinds of options, and checks that refuse a bad one before any work is done."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import tyro

from transporter.errors import InputError

# "by default …" in the help text says it better than "(default: None)".
_unset = tyro.conf.arg
OptionalInt = Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="")]
OptionalFloat = Annotated[float | None, tyro.conf.arg(metavar="FLOAT", help_behavior_hint="")]
OptionalBool = Annotated[bool | None, tyro.conf.arg(metavar="True|False", help_behavior_hint="")]
OptionalPath = Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="")]


def at_least(least: int, **values: int | None) -> None:
    """Refuse numbers below `least`; None is an option that was not given."""
    for name, value in values.items():
        if value is not None and value < least:
            raise InputError(f"{_flag(name)} must be at least {least}, not {value}")


def above_zero(**values: float | None) -> None:
    for name, value in values.items():
        if value is not None and not 0 < value < float("inf"):
            raise InputError(f"{_flag(name)} must be above 0, not {value}")


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


def result_file(path: Path) -> Path:
    """A file that the work will write in the end: refused now where it could not be."""
    if path.is_dir():
        raise InputError(f"{path} is a folder: name a file")
    _check_above(path)
    return path


def result_folder(path: Path) -> Path:
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file: name a folder")
    _check_above(path / "file")
    return path


def _check_above(path: Path) -> None:
    above = next(folder for folder in path.absolute().parents if folder.exists())
    if not above.is_dir():
        raise InputError(f"{above} is a file, not a folder")
    if not os.access(above, os.W_OK | os.X_OK):
        raise InputError(f"{above} cannot be written to")


@contextmanager
def no_empty_folders(*paths: Path) -> Iterator[None]:
    """Folders that the work makes on the way to these paths go again when it fails and leaves them empty."""
    missing = [part for path in paths for part in (path, *path.parents) if not part.exists()]
    try:
        yield
    except BaseException:
        for folder in missing:
            with suppress(OSError):
                folder.rmdir()
        raise

"""Writing so that a reader finds the old file or the new one, never half of either; and reading that notices damage."""

import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from transporter.errors import InputError

READABLE = 0o644  # safetensors writes files that only their owner can read; colleagues share runs
SEAL = "sha256"


def sync(path: Path) -> None:
    """Make a file, or the names in a folder, outlive a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(path: Path) -> None:
    """With the folders above it, each of them there to stay."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file, not a folder")
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        sync(path.parent)


def replaceable(path: Path) -> Path:
    """Where a file of this name is to be, which may be elsewhere; refused where there is something else."""
    path = path.resolve() if path.is_symlink() else path
    if path.is_dir():
        raise InputError(f"{path} is a folder: name a file")
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is not a file that could be written anew")
    return path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`: takes its place when the block ends well, disappears when it does not."""
    path = replaceable(path)
    make_folder(path.parent)
    temporary = temporary_beside(path)
    try:
        yield temporary
        temporary.chmod(READABLE)
        sync(temporary)
        temporary.replace(path)
        sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def temporary_beside(path: Path) -> Path:
    """Where a file is written before it takes its place."""
    return path.with_name(f".{path.stem}.{os.getpid()}.part{path.suffix}")


def is_temporary(name: str) -> bool:
    """Whether a file is what a killed `replacing` left behind."""
    return name.startswith(".") and ".part" in name


def sweep(folder: Path, begins: str = ".") -> None:
    """Remove what killed processes left behind under such names; only for whoever alone may write them."""
    for entry in list(os.scandir(folder)) if folder.is_dir() else []:
        if is_temporary(entry.name) and entry.name.startswith(begins):
            shutil.rmtree(entry) if entry.is_dir(follow_symlinks=False) else Path(entry).unlink()


def write_text(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def parse_json(text: str | bytes) -> Any:
    """What JSON says, whoever wrote it; ValueError where it is none."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def is_number(value: Any) -> bool:
    """One to reckon with: not NaN, not infinite, and no whole number that is too large for a float."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


@contextmanager
def made_of(path: Path) -> Iterator[None]:
    """What cannot be made of a file's content is bad input: we have not written it so."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        what = f"there is no {error}" if isinstance(error, KeyError) else str(error)
        raise InputError(f"{path} is damaged: {what}") from error


def sealed(record: dict[str, Any]) -> dict[str, Any]:
    """A record of JSON with its own checksum."""
    return {**record, SEAL: _checksum(record)}


def unsealed(record: Any) -> dict[str, Any]:
    """The record without its checksum; ValueError where they do not agree. Records of version 0.1 have none."""
    if not isinstance(record, dict):
        raise ValueError("it is no record")
    inside = dict(record)
    seal = take_seal(inside)
    if seal is not None and seal != _checksum(inside):
        raise ValueError("it has changed since it was written")
    return inside


def take_seal(record: dict[str, Any]) -> Any:
    """The checksum, out of the record; ValueError for one under another name: damage makes no old file of a new one."""
    for name, value in record.items():
        if name != SEAL and isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value):
            raise ValueError("the name of its checksum has changed since it was written")
    return record.pop(SEAL, None)


def _checksum(record: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def stamp(path: Path) -> tuple[int, int] | None:
    """What tells a file from another of its name: not its number, which some shared file systems give anew."""
    try:
        found = path.stat()
        return found.st_size, found.st_mtime_ns
    except OSError:
        return None

"""Writing so that a reader finds the old file or the new one, never half of either; and reading that notices damage."""

import hashlib
import json
import os
import re
import shutil
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


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`: takes its place when the block ends well, disappears when it does not."""
    if path.is_dir():
        raise InputError(f"{path} is a folder, not a file to write")
    make_folder(path.parent)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.part{path.suffix}")
    try:
        yield temporary
        temporary.chmod(READABLE)
        sync(temporary)
        temporary.replace(path)
        sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


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

"""Writing so that a reader finds the old file or the new one, never half of either."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

READABLE = 0o644  # safetensors writes files that only their owner can read; colleagues share runs


def sync(path: Path) -> None:
    """Make a file, or the names in a folder, outlive a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`: takes its place when the block ends well, disappears when it does not."""
    path.parent.mkdir(parents=True, exist_ok=True)
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


def write_text(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")

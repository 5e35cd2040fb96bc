"""Files of a run folder, and none outside it; what cannot be read is as good as absent."""

from pathlib import Path
from typing import Any

from transporter.files import parse_json

LARGEST_JSON = 4 * 2**20  # bytes of a results file that is shown
# What comes of a file that holds something else than it should.
ODD = (ValueError, TypeError, ArithmeticError, LookupError, AttributeError, RecursionError)


def file_in(folder: Path, name: str) -> Path | None:
    """A file of a run, unless it is a link that leads out of its folder."""
    path = folder / name
    return path if path.is_file() and path.resolve().is_relative_to(folder.resolve()) else None


def json_in(folder: Path, name: str) -> dict[str, Any]:
    """What a JSON file of the folder holds; nothing, where there is none that can be read."""
    path = file_in(folder, name)
    try:
        if path is None or path.stat().st_size > LARGEST_JSON:
            return {}
        data = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def figures_in(folder: Path, name: str) -> dict[str, float]:
    """The flat `figures` of a results file (results.Result writes them)."""
    figures = json_in(folder, name).get("figures")
    try:
        return {str(key): float(value) for key, value in figures.items()} if isinstance(figures, dict) else {}
    except (TypeError, ValueError, OverflowError):
        return {}


def signature(path: Path) -> tuple[int, int, int] | None:
    """Changes whenever the file does."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def part(data: dict[str, Any], name: str) -> dict[str, Any]:
    found = data.get(name)
    return found if isinstance(found, dict) else {}

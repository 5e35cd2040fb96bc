import json
from pathlib import Path
from typing import Any

import pytest

from transporter.results import Result, _command

HEAD = ["name", "command", "figures", "config", "seeds", "commit", "machine", "torch", "date"]
FILES = sorted((Path(__file__).parent.parent / "results").rglob("*.json"))


def strict(path: Path) -> dict[str, Any]:
    """JSON as others read it."""

    def refuse(word: str) -> None:
        raise ValueError(f"{word} is not JSON")

    return json.loads(path.read_text(), parse_constant=refuse)


def test_a_result_begins_with_its_head(tmp_path: Path) -> None:
    Result("n", {"x": 1.0}, {"a": 1}, {"train": 0}, {"more": [1]}).write(tmp_path / "r.json")
    data = json.loads((tmp_path / "r.json").read_text())
    assert list(data) == [*HEAD, "more"]
    assert data["figures"] == {"x": 1.0}


def test_what_is_no_number_is_no_figure(tmp_path: Path) -> None:
    Result("n", {"x": 1.0, "y": float("nan")}, {}, {}, {"rows": [(1.0, float("inf"))]}).write(tmp_path / "r.json")
    data = strict(tmp_path / "r.json")
    assert data["figures"] == {"x": 1.0}
    assert data["rows"] == [[1.0, None]]


def test_a_command_is_named_as_one_types_it() -> None:
    assert _command(["/somewhere/bin/transporter", "models"]) == "transporter models"
    assert _command(["/somewhere/transporter/__main__.py", "models"]) == "transporter models"
    assert _command(["benchmarks/gpu.py", "--out", "x"]) == "python benchmarks/gpu.py --out x"
    assert _command(["/bin/transporter", "train", "my clips/*.mp4"]) == "transporter train 'my clips/*.mp4'"


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_published_file_has_the_head(path: Path) -> None:
    data = strict(path)
    assert set(HEAD) <= set(data)
    assert all(isinstance(value, int | float) for value in data["figures"].values())

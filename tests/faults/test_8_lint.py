"""The linter, with this repository's rules, refuses whatever would run code that a file holds."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "from pickle import loads",
        "import marshal",
        "import shelve",
        "import torch\n\ntorch.load('file')",
        "from torch import load",
        "import numpy as np\n\nnp.load('file')",
        "import yaml\n\nyaml.load(open('file'))",
        "eval('1')",
        "exec('1')",
    ],
)
def test_it_is_refused(line: str) -> None:
    command = [sys.executable, "-m", "ruff", "check", "--quiet", "--select", "TID251,S", "-"]
    found = subprocess.run(command, input=line + "\n", cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 1, found.stderr
    assert any(rule in found.stdout for rule in ("TID251", "S102", "S307")), found.stdout


def test_the_rules_are_among_those_of_make_check() -> None:
    rules = (ROOT / "pyproject.toml").read_text().split("[tool.ruff.lint]")[1].split("]")[0]
    for rule in ("TID251", "S102", "S301", "S302", "S307", "S506"):
        assert f'"{rule}"' in rules

"""The examples run as they stand, only shorter."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name: str, *arguments: str, cwd: Path) -> str:
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    ended = subprocess.run(command, cwd=cwd, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_own_video(tmp_path: Path) -> None:
    said = run("own_video.py", "--steps", "20", "--out", "out", cwd=tmp_path)
    assert "200 frames × 3 keypoints" in said
    assert len((tmp_path / "out" / "tracks.csv").read_text().splitlines()) == 1 + 200 * 3
    assert (tmp_path / "out" / "labelled.mp4").stat().st_size > 1000


def test_keypoints_in_stable_baselines3(tmp_path: Path) -> None:
    pytest.importorskip("stable_baselines3", reason="stable-baselines3 is missing: pip install '.[dev]'")
    said = run("keypoints_in_sb3.py", "--steps", "256", "--episode", "100", cwd=tmp_path)
    assert "observation (3, 2), 256 steps" in said


def test_truth_and_metrics(tmp_path: Path) -> None:
    said = run("truth_and_metrics.py", "pong", "--frames", "250", cwd=tmp_path)
    assert "over  20 steps: precision" in said
    assert "player     followed in" in said


def test_every_example_is_tested() -> None:
    """options_sb3.py beside the options that it needs."""
    tested = "".join(path.read_text() for path in Path(__file__).parent.rglob("test_*.py"))
    assert [path.name for path in EXAMPLES.glob("*.py") if f'"{path.name}"' not in tested] == []

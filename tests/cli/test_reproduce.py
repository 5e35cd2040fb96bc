"""transporter reproduce: stopped, gone on with, measured elsewhere, published; and refused in one line."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from PIL import Image

from transporter import load
from transporter.cli.reproduce import FIGURES
from transporter.cli.reproduce.study import Options

PAGE = "# Results\n\n<!-- tracking -->\n<!-- /tracking -->\n\nThe end.\n"


@pytest.fixture(scope="module")
def options(data: Path) -> list[str]:
    """Two tiny trainings of sprites."""
    return ["--domains", "sprites", "--methods", "transporter,jakab", "--seeds", "1", "--steps", "100", "--preset",
            "tiny", "--data", str(data.parent), "--frames", "220", "--workers", "1", "--device", "cpu"]  # fmt: skip


@pytest.fixture(scope="module")
def stopped(transporter_module, options: list[str], first_checkpoint, tmp_path_factory) -> Path:
    """A folder in which the command was asked to end in the middle of its first training."""
    cwd = tmp_path_factory.mktemp("study")
    process = transporter_module("reproduce", "tracking", *options, cwd=cwd)
    first_checkpoint(cwd / "runs" / "tracking" / "sprites-transporter-seed0")
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 143, said
    assert "state saved in runs/tracking: run the same command again to go on" in said
    return cwd


@pytest.fixture(scope="module")
def transporter_module():
    def start(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "transporter", *arguments]
        env = {**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
        return subprocess.Popen(command, cwd=cwd, env=env, stderr=subprocess.PIPE, text=True, start_new_session=True)

    return start


@pytest.fixture(scope="module")
def done(forked, stopped: Path, options: list[str]) -> Path:
    """The same command to its end."""
    before = json.loads((stopped / "runs/tracking/sprites-transporter-seed0/trained.json").read_text())["figures"]
    assert 0 < before["steps"] < 100
    (stopped / "docs").mkdir()
    (stopped / "docs" / "results.md").write_text(PAGE)
    ended = forked("reproduce", "tracking", *options, "--docs", "docs", cwd=stopped)
    assert ended.code == 0, ended.err
    assert "train tracking: 200/200 steps" in ended.err
    assert "2 of 2 trained" in ended.err
    return stopped


def test_results_summary_and_pictures(done: Path) -> None:
    results = done / "results" / "tracking"
    assert sorted(path.name for path in results.iterdir()) == [
        "sprites-jakab-seed0.json",
        "sprites-transporter-seed0.json",
        "summary.json",
        "table.md",
    ]
    one = json.loads((results / "sprites-jakab-seed0.json").read_text())
    assert one["figures"]["steps"] == 100
    assert {"precision_ratio@200", "alive", "duplicates", "seconds", "steps_per_second"} <= set(one["figures"])
    assert len(one["evaluation"]["curve"]["lengths"]) == 200
    together = json.loads((results / "summary.json").read_text())["figures"]
    assert together["sprites transporter chosen seed"] == 0
    assert "sprites transporter least lead over jakab" in together
    page = (done / "docs" / "results.md").read_text()
    assert page.startswith("# Results\n\n<!-- tracking -->\n| environment and method |")
    assert (results / "table.md").read_text() in page
    assert page.endswith("\n<!-- /tracking -->\n\nThe end.\n")
    for name in ("tracking.png", "tracking-choice.png", "tracking-sprites.png"):
        assert Image.open(done / "docs" / name).width > 300
    assert (done / "docs" / "tracking.svg").exists()


def test_measured_elsewhere_with_what_training_left(forked, done: Path, options: list[str], tmp_path: Path) -> None:
    for name in ("sprites-transporter-seed0", "sprites-jakab-seed0"):
        (tmp_path / "runs" / "tracking" / name).mkdir(parents=True)
        for file in ("trained.json", "detector.safetensors"):
            shutil.copy(done / "runs/tracking" / name / file, tmp_path / "runs/tracking" / name / file)
    ended = forked("reproduce", "tracking", *options, "--evaluate-only", cwd=tmp_path)
    assert ended.code == 0, ended.err
    here, there = (
        json.loads((folder / "results/tracking/sprites-transporter-seed0.json").read_text())["evaluation"]
        for folder in (tmp_path, done)
    )
    assert here == there


def test_pixels_take_what_is_trained_and_add_the_rest(forked, done: Path, options: list[str]) -> None:
    changed = [*options[:2], "--methods", "transporter,pixel", *options[4:]]
    ended = forked("reproduce", "pixels", *changed, cwd=done)
    assert ended.code == 0, ended.err
    figures = json.loads((done / "results/pixels/summary.json").read_text())["figures"]
    errors = [figures[f"sprites {method} reconstruction_error mean"] for method in ("transporter", "pixel")]
    assert min(errors) > 0
    assert errors[0] < figures["sprites transporter error_of_copying mean"] * 2
    assert Image.open(done / "results/pixels/pixels-sprites.png").width > 4 * 192


def test_export_takes_the_figures_of_a_result_along(forked, done: Path) -> None:
    result = done / "results/tracking/sprites-transporter-seed0.json"
    run = "runs/tracking/sprites-transporter-seed0"
    ended = forked("export", run, "out.safetensors", "--card", result, "--failures", "Hardly trained.", cwd=done)
    assert ended.code == 0, ended.err
    card = load(done / "out.safetensors", "cpu").card
    assert card["environment"] == "sprites"
    assert card["measured"]["figures"].keys() >= {"precision@1", "recall@200"}
    assert card["failures"].startswith("Hardly trained.")
    (done / "words.json").write_text("{}")
    ended = forked("export", run, "other.safetensors", "--card", "words.json", cwd=done)
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert not (done / "other.safetensors").exists()


def test_what_is_shipped_is_the_chosen_seed_with_its_card(done: Path) -> None:
    script = Path(__file__).parents[2] / "benchmarks" / "ship.py"
    given = ["results/tracking", "--runs", "runs/tracking", "--out", "shipped", "--recipe", "transporter"]
    ended = subprocess.run([sys.executable, script, *given], cwd=done, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("shipped/sprites.safetensors: seed 0")
    card = load(done / "shipped" / "sprites.safetensors", "cpu").card
    assert (card["recipe"], card["preset"], card["seed"]) == ("transporter", "tiny", 0)


BAD = {
    "reproduce nothing": "Available subcommands: tracking, pixels",
    "reproduce tracking --domains nosuchgame": "no environment named 'nosuchgame'",
    "reproduce tracking --domains tennis": "tennis has no ground truth",
    "reproduce tracking --domains ,": "--domains needs at least one name",
    "reproduce tracking --methods cake": "no recipe named 'cake': there are transporter, jakab",
    "reproduce tracking --seeds 0": "--seeds must be at least 1",
    "reproduce pixels --frames -1": "--frames must be at least 1",
    "reproduce pixels --minutes 0": "--minutes must be above 0",
    "reproduce pixels --train-only --evaluate-only": "leave nothing to do",
    "reproduce tracking --evaluate-only": "nothing to measure: there is no trained model in runs/tracking",
}


@pytest.mark.parametrize("command", BAD)
def test_bad_input_is_one_line_and_leaves_nothing(forked, tmp_path: Path, command: str) -> None:
    ended = forked(*command.split(), cwd=tmp_path)
    assert (ended.code, ended.out, len(ended.err.splitlines())) == (2, "", 1), ended.err
    assert BAD[command] in ended.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["tracking", "pixels"])
def test_help_explains_every_option(forked, name: str, tmp_path: Path) -> None:
    assert name in FIGURES
    assert name in forked("reproduce", "--help", cwd=tmp_path).out
    said = re.sub(r"[│╭╮╰╯─]+", " ", forked("reproduce", name, "--help", cwd=tmp_path).out)
    for field in fields(Options):
        assert re.search(rf"--{field.name.replace('_', '-')}\b(, --no-\S+)?\s+(\S+\s+)?\S*[A-Z]", said), field.name

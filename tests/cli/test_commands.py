"""The manners of every command: help that explains, one line for bad input, nothing left behind."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import transporter as package
from transporter.cli import VERBS
from transporter.models.zoo import load
from transporter.runs import Run


@pytest.fixture(scope="module")
def things(data: Path, whole_run: Path, dots: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the commands are pointed at: whole, damaged, or not what it should be."""
    folder = tmp_path_factory.mktemp("things")
    (folder / "data").symlink_to(data)
    (folder / "run").symlink_to(whole_run)
    shutil.copy(dots, folder / "dots.mp4")
    (folder / "words.txt").write_text("no model, no video, no folder\n" * 20)
    (folder / "words.mp4").write_text("no model, no video, no folder\n" * 20)
    (folder / "words.safetensors").write_text("no model, no video, no folder\n" * 20)
    (folder / "empty.mp4").touch()
    (folder / "plain").mkdir()
    (folder / "plain" / "note.txt").write_text("mine")
    shutil.copytree(data, folder / "short")
    chunk = next((folder / "short" / "pairs").glob("0.0*"))
    chunk.write_bytes(chunk.read_bytes()[:-9])
    shutil.copytree(data, folder / "rotten")
    chunk = next((folder / "rotten" / "pairs").glob("0.0*"))
    content = bytearray(chunk.read_bytes())
    content[len(content) // 2] ^= 255
    chunk.write_bytes(content)
    (folder / "locked").mkdir(mode=0o500)
    return folder


def unwritable(things: Path) -> str:
    """Nobody can make a folder under /proc; root can in any other."""
    locked = things / "locked"
    return "/proc/nowhere" if os.access(locked, os.W_OK) else f"{locked}/in"


# What is wrong, and what the one line says. {t} is the folder of things, {no} one that cannot be written to.
BAD = {
    "train": "name an environment",
    "train nosuchgame": "no environment named 'nosuchgame': there are sprites,",
    "train sprite": "did you mean sprites",
    "collect Pong!": "did you mean pong",
    "train sprites pong": "one environment at a time",
    "train {t}/plain": "is a folder that holds neither videos nor images",
    "train nowhere.mp4": "no such file: nowhere.mp4",
    "track . --model pong": "is a folder, not a video",
    "train sprites --seed 99999999999999999999": "--seed must be at most",
    "collect sprites --size 100000": "size must be at most 2048",
    "train {t}/words.mp4": "cannot be read as a video",
    "collect {t}/empty.mp4": "the file is empty",
    "collect {t}/dots.mp4 {t}/words.mp4": "cannot be read as a video",
    "train sprites --recipe=": "no recipe named ''",
    "train sprites --batch 99999999": "batch 1 to 65,536",
    "train sprites --out {t}/words.txt/run": "words.txt is a file, not a folder",
    "train sprites --recipe cake": "no recipe named 'cake': there are transporter, jakab,",
    "train sprites --recipe wide+sigma=x": "'x' is no number that sigma could be",
    "train sprites --size 33": "frame size 33 must be",
    "train sprites --size 8": "frame size 8 must be",
    "train sprites --keypoints 0": "--keypoints must be at least 1, not 0",
    "train sprites --steps -5": "--steps must be at least 1, not -5",
    "train sprites --batch 0": "--batch must be at least 1",
    "train sprites --seed -1": "--seed must be at least 0",
    "train sprites --learning-rate -0.1": "--learning-rate must be above 0",
    "train sprites --sigma nan": "--sigma must be above 0",
    "train sprites --pairs -1": "--pairs must be at least 1",
    "train sprites --checkpoint-every 0": "--checkpoint-every must be at least 1",
    "train sprites --steps many": "--steps",
    "train sprites --stepz 3": "--stepz",
    "train sprites --norm group": "invalid choice 'group'",
    "train sprites --seeds 1000": "--seeds can be at most 64",
    "train sprites --device cpu --compile": "--compile is for a GPU",
    "train sprites --device gpu": "no device named 'gpu': auto, cpu, cuda or cuda:N",
    "train sprites --data {t}/nowhere": "there is no data set at",
    "train sprites --data {t}/plain": "is not a data set",
    "train sprites --data {t}/short": "is damaged (chunk 0 has",
    "train sprites --data {t}/rotten": "is damaged (chunk 0 fails its checksum)",
    "train pong --data {t}/data": "holds pairs of sprites, not of pong",
    "train sprites --data {t}/data --size 48": "holds frames of 32×32, not 48×48",
    "train sprites --data {t}/data --pairs 9": "--pairs says how many to collect",
    "train sprites --data {t}/data --out {t}/run --steps 7": "holds a run with other settings: config.",
    "train sprites --data {t}/data --out {t}/words.txt": "is a file, not a run folder",
    "train sprites --data {t}/data --out {t}/plain": "is not empty and holds no run",
    "train sprites --data {t}/data --out {t}/words.txt/in": "words.txt",
    "train sprites --data {t}/data --out {no}": "{no}",
    "train sprites --out {t}/plain": "is not empty and holds no run",
    "collect sprites --out {t}/words.txt": "is a file: name a folder",
    "collect sprites --out {t}/plain": "holds other files and no data set",
    "collect sprites --out {t}/data": "was begun with other settings (",
    "collect sprites --out {no}": "{no}",
    "collect sprites --pairs 0": "--pairs must be at least 1",
    "collect sprites --budget 0": "--budget must be at least 1",
    "collect sprites --rate 0": "rate must be above 0",
    "evaluate": "--model",
    "evaluate sprites --model nowhere": "nowhere is neither a shipped model",
    "evaluate sprites --model {t}/plain": "is not a run folder",
    "evaluate sprites --model {t}/words.txt": "is not a detector",
    "evaluate sprites --model {t}/words.safetensors": "is not a detector",
    "evaluate tennis --model {t}/run": "tennis has no ground truth",
    "evaluate nosuchgame --model {t}/run": "no environment named",
    "evaluate {t}/dots.mp4 --model {t}/run": "a video has no ground truth",
    "evaluate sprites --model {t}/run --frames 0": "--frames must be at least 1",
    "evaluate sprites --model {t}/run --seed -1": "--seed must be at least 0",
    "evaluate sprites --model {t}/run --json {t}/plain": "is a folder: name a file",
    "evaluate sprites --model {t}/run --json {no}/x.json": "{no}",
    "track {t}/dots.mp4 --model {t}/run --out {t}/words.txt": "is a file: name a folder",
    "track {t}/dots.mp4 --model {t}/run --out {no}": "{no}",
    "track {t}/dots.mp4 --model {t}/run --batch 0": "--batch must be at least 1",
    "report {t}/plain": "is not a run folder",
    "report nowhere": "neither a run folder nor a shipped model",
    "report {t}/run --out {t}/plain": "is a folder: name a file",
    "report {t}/run --out {no}/x.html": "{no}",
    "report {t}/run --frames -3": "--frames must be at least 1",
    "export {t}/run model.txt": "the ending must be .safetensors or .onnx",
    "export {t}/words.safetensors model.onnx": "is not a detector",
    "export {t}/run {t}/words.txt/model.onnx": "words.txt",
    "export {t}/run {no}/model.onnx": "{no}",
    "demo --steps 0": "--steps must be at least 1",
    "demo --out {t}/words.txt": "is a file: name a folder",
    "nosuchcommand": "demo, collect, train",
}
if not torch.cuda.is_available():
    BAD["train sprites --device cuda"] = "--device cuda: this machine has no GPU"
    BAD["evaluate sprites --model {t}/run --device cuda:1"] = "--device cuda:1: this machine has no GPU"
    BAD["track {t}/dots.mp4 --model {t}/run --device cuda"] = "--device cuda: this machine has no GPU"
    BAD["collect sprites --device cuda"] = "--device cuda: this machine has no GPU"


def contents(folder: Path) -> dict[str, str]:
    """Every file below a folder, links followed, by the sum of its bytes; a lock holds nothing."""
    files = [Path(top) / name for top, _, names in os.walk(folder, followlinks=True) for name in names]
    return {str(f): hashlib.sha256(f.read_bytes()).hexdigest() for f in files if f.name != "lock"}


@pytest.mark.parametrize("command", BAD)
def test_bad_input_is_one_line_and_leaves_nothing(forked, things: Path, tmp_path: Path, command: str) -> None:
    filled = {"t": things, "no": unwritable(things)}
    before = contents(things)
    ended = forked(*command.format(**filled).split(), cwd=tmp_path)
    assert (ended.code, ended.out, len(ended.err.splitlines())) == (2, "", 1), ended.err
    assert ended.err.startswith("transporter: ")
    assert BAD[command].format(**filled) in ended.err
    assert list(tmp_path.iterdir()) == []
    assert contents(things) == before


def test_bad_input_in_a_process_of_its_own(transporter, tmp_path: Path) -> None:
    ended = transporter("train", "sprites", "--keypoints", "0", cwd=tmp_path)
    assert ended == (2, "", "transporter: --keypoints must be at least 1, not 0\n")
    assert list(tmp_path.iterdir()) == []


def test_a_run_folder_that_another_process_writes_is_refused(forked, data, whole_run, tiny, tmp_path: Path) -> None:
    shutil.copytree(whole_run, tmp_path / "run")
    shutil.copytree(data, tmp_path / "data")
    command = ["train", "sprites", "--data", "data", *tiny, "--out", "run"]
    settings = json.loads((tmp_path / "run" / "run.json").read_text())
    settings["settings"]["data"] = "../data"
    del settings["sha256"]  # as a folder of version 0.1
    (tmp_path / "run" / "run.json").write_text(json.dumps(settings))
    with Run.open(tmp_path / "run").lock():
        ended = forked(*command, cwd=tmp_path)
    assert ended == (2, "", "transporter: run is in use by another process\n")
    assert forked(*command, cwd=tmp_path).code == 0  # nothing left to do, and no one in the way


def test_a_folder_named_like_an_environment_is_not_in_the_way(forked, tmp_path: Path) -> None:
    (tmp_path / "sprites").mkdir()
    ended = forked("collect", "sprites", "--pairs", "4", "--budget", "400", "--size", "16", cwd=tmp_path)
    assert ended.code == 0, ended.err


@pytest.mark.parametrize("verb", VERBS)
def test_help_explains_every_option_and_comes_quickly(verb: str, tmp_path: Path) -> None:
    code = f"""
import sys
from transporter.cli import main
try:
    main([{verb!r}, "--help"])
finally:
    assert not {{"torch", "matplotlib", "gymnasium", "av", "zarr"}} & set(sys.modules)
"""
    since = time.perf_counter()
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "COLUMNS": "80"}
    )
    assert time.perf_counter() - since < 5
    assert (ended.returncode, ended.stderr) == (0, "")
    text = re.sub(r"[│╭╮╰╯─]+", " ", ended.stdout)
    one = r"^ {1,3}(-h, )?(--[a-z-]+|\[?[A-Z]{2,}\]?)(, --no-[a-z-]+)?( [^ ].*?)?(  +|\n)"
    options = list(re.finditer(one, text, re.MULTILINE))
    names = {match[2] for match in options}
    given = set(VERBS[verb].__annotations__) - {"return", "settings"}  # settings: options with a dot, each explained
    assert {name.strip("-[]").replace("-", "_").lower() for name in names} == {*given, "help"}
    for match, following in zip(options, [*options[1:], None], strict=True):
        said = text[match.end() : following.start() if following else None].strip()
        assert re.match(r"[A-Za-z].{10}", said, re.DOTALL), (match[2], said)


def test_alone_it_prints_its_help_and_exit_codes(transporter, tmp_path: Path) -> None:
    ended = transporter(cwd=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    for word in (*VERBS, "130", "143"):
        assert word in ended.out


def test_models_are_listed_for_people_and_for_programs(forked, tmp_path: Path) -> None:
    assert forked("models", cwd=tmp_path).code == 0
    listed = forked("models", "--json", cwd=tmp_path)
    assert (listed.code, listed.err) == (0, "")
    assert all({"model"} <= card.keys() for card in json.loads(listed.out).values())


def test_export_writes_a_file_that_load_reads_and_one_for_other_runtimes(forked, whole_run, tmp_path: Path) -> None:
    import numpy as np
    import onnxruntime

    for name in ("half.safetensors", "new/full.safetensors", "model.onnx"):
        ended = forked("export", whole_run, name, *(["--full"] if "full" in name else []), cwd=tmp_path)
        assert (ended.code, len(ended.err.splitlines())) == (0, 1), ended.err
        assert f"written: {name}" in ended.err
    frames = np.random.default_rng(0).integers(0, 256, (3, 32, 32, 3), np.uint8)
    expected = package.load(whole_run, "cpu")(frames)
    np.testing.assert_array_equal(package.load(tmp_path / "new" / "full.safetensors", "cpu")(frames), expected)
    np.testing.assert_allclose(package.load(tmp_path / "half.safetensors", "cpu")(frames), expected, atol=0.05)
    points = onnxruntime.InferenceSession(tmp_path / "model.onnx").run(["points"], {"frames": frames.astype("f4")})[0]
    np.testing.assert_allclose(points, expected, atol=1e-4)
    assert (tmp_path / "half.safetensors").stat().st_size < (tmp_path / "new" / "full.safetensors").stat().st_size


def test_a_shipped_model_is_measured_beside_its_card(forked, tmp_path: Path) -> None:
    ended = forked("evaluate", "pong", "--model", "pong", "--frames", "400", "--device", "cpu", cwd=tmp_path)
    assert ended.code == 0, ended.err
    card = load("pong", "cpu").card["measured"]
    at_1 = card["figures"]["precision_ratio@1"]
    assert f"its card, from {card['frames']:,} frames: {at_1:.3f} at 1," in " ".join(ended.err.split())
    other = forked("evaluate", "sprites", "--model", "pong", "--frames", "100", "--device", "cpu", cwd=tmp_path)
    assert other.code == 0, other.err
    assert "its card" not in other.err  # which is of another game


def test_lengths_that_no_episode_has_are_said_to_be_whole_episodes(forked, tmp_path: Path) -> None:
    short = forked("evaluate", "pong", "--model", "pong", "--frames", "30", "--device", "cpu", cwd=tmp_path)
    assert short.code == 0, short.err
    assert "no episode here has more than 100 steps: at 100, 200 these are whole episodes" in " ".join(
        short.err.split()
    )
    longer = forked("evaluate", "pong", "--model", "pong", "--frames", "250", "--device", "cpu", cwd=tmp_path)
    assert longer.code == 0, longer.err
    assert "whole episodes" not in longer.err

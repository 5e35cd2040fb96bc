"""transporter keyqn from beginning to end, with a break in between, and what it refuses."""

import json
import re
import subprocess
import time
from pathlib import Path

import pytest
import safetensors.torch
import torch

from transporter.models.zoo import load
from transporter.runs import Run
from transporter.tensors import read_tensors

# Small enough for seconds: true objects need no detector, and players at random come to their end soon.
SMALL = ["--observation", "objects", "--seeds", "2",
         "--device", "cpu", "--log-every", "50", "--checkpoint-every", "100", "--video", "2",
         "--network.hidden", "16", "--network.memory", "8", "--learning.batch", "2", "--learning.updates", "1",
         "--protocol.interactions", "700", "--protocol.first-updates", "50", "--protocol.episodes", "1",
         "--protocol.evaluation-epsilon", "1"]  # fmt: skip


def small(**changes: str) -> list[str]:
    """The same with other values, and without a clip."""
    options = dict(zip(SMALL[::2], SMALL[1::2], strict=True)) | {"--video": "0"} | changes
    return [word for pair in options.items() for word in pair]


def test_learn_stop_go_on_evaluate(transporter, stopped, tmp_path: Path) -> None:
    command = ["keyqn", "ms_pacman", *SMALL]
    whole = transporter(*command, "--out", "whole", "--json", "table.json", cwd=tmp_path)
    assert whole.code == 0, whole.err
    assert "KeyQN" in whole.err
    assert "± over seeds" in whole.err
    assert "done: whole (agents/, keyqn.json, curves.png, ms_pacman.mp4)" in whole.err
    assert "were left out" not in whole.err
    result = json.loads((tmp_path / "table.json").read_text())
    assert len(result["scores"]["ms_pacman"]) == 2
    assert result["figures"]["ms_pacman mean"] > 50
    assert min(result["figures"][f"{what} seconds"] for what in ("training", "evaluation")) > 0
    names = {path.name for path in (tmp_path / "whole").iterdir()}
    assert {"agents", "keyqn.json", "curves.png", "ms_pacman.mp4", "metrics.jsonl"} <= names

    asked = stopped(*command)
    assert 100 <= Run.open(asked).latest().step < 700  # type: ignore[union-attr]
    assert transporter(*command, "--out", "run", cwd=tmp_path).code == 0
    for seed in (0, 1):
        one, other = (
            safetensors.torch.load_file(tmp_path / name / "agents" / f"ms_pacman-seed{seed}.safetensors")
            for name in ("whole", "run")
        )
        assert torch.equal(one["weights"], other["weights"])
    scores = [json.loads((tmp_path / name / "keyqn.json").read_text())["scores"] for name in ("whole", "run")]
    assert scores[0] == scores[1]

    (tmp_path / "run" / "keyqn.json").write_text('{"figures": {}')  # damaged: made again from the scores
    assert transporter(*command, "--out", "run", cwd=tmp_path).code == 0
    again = json.loads((tmp_path / "run" / "keyqn.json").read_text())
    assert again["scores"] == scores[0]
    assert "evaluation seconds" not in again["figures"]  # nobody played: how long it took is not known

    result = tmp_path / "run" / "keyqn.json"
    result.write_text(result.read_text().replace('"ms_pacman mean"', '"ms_pacman meen"'))
    agent = tmp_path / "run" / "agents" / "ms_pacman-seed1.safetensors"
    before = read_tensors(agent)
    agent.write_bytes(agent.read_bytes()[:-100])
    ended = transporter(*command, "--out", "run", cwd=tmp_path)
    assert ended.code == 2
    assert "ms_pacman-seed1.safetensors" in ended.err
    assert "delete it, and the same command makes it anew" in ended.err
    agent.unlink()
    assert transporter(*command, "--out", "run", cwd=tmp_path).code == 0
    again = read_tensors(agent)
    assert again.head == before.head
    assert torch.equal(again.tensors["weights"], before.tensors["weights"])
    assert json.loads(result.read_text())["scores"] == scores[0]

    metrics = tmp_path / "run" / "metrics.jsonl"
    metrics.write_text(metrics.read_text().replace('"episodes"', '"epis0des"', 1))
    result.unlink()
    ended = transporter(*command, "--out", "run", cwd=tmp_path)
    assert (ended.code, ended.err.splitlines()[-1]) == (
        2,
        "transporter: run/metrics.jsonl is damaged: there is no 'episodes'",
    )


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("keyqn boxing", "no model of boxing is shipped: train one, then give --model boxing=MODEL"),
        ("keyqn nosuchgame", "no Atari game named 'nosuchgame'"),
        ("keyqn pong pong", "each once"),
        ("keyqn pong ms_pacman --model pong", "say which model is whose"),
        ("keyqn pong --model breakout=pong", "breakout is not among the games"),
        ("keyqn tetris --observation objects", "tetris has no ground truth to play from"),
        ("keyqn pong --json /", "/ is a folder: name a file"),
        ("keyqn pong --json /dev/null", "/dev/null is not a file that could be written anew"),
        ("keyqn pong --json run.json", "run.json: a run folder has a file of that name for itself: name another"),
        (f"keyqn pong --json {'x' * 250}.json", "cannot be written (File name too long)"),
        ("keyqn pong --seeds 65", "--seeds can be at most 64"),
        ("keyqn pong --learning.trace 2", "trace lies between 0 and 1"),
        ("keyqn pong --network.ground 81", "at most 80 by 80 parts of the ground, not 81"),
        ("keyqn pong --network.ground -1", "speeds and ground at least 0"),
        ("keyqn pong --network.speeds -1", "speeds and ground at least 0"),
        ("keyqn pong --preset heavy", "invalid choice 'heavy' for argument '--preset'"),
        ("keyqn pong --preset light --learning.batch 0", "updates, batch, unroll, steps and anneal must be"),
        ("keyqn pong --network.forget nan", "forget must be a finite number, not nan"),
        ("keyqn pong --network.limit 1e300", "limit above 0 and at most 1,000,000"),
        ("keyqn pong --protocol.life-loss-keeps --protocol.no-life-loss-ends", "without life_loss_ends none does"),
        ("keyqn pong --preset", "Missing value for argument '--preset'"),
        ("keyqn pong --seeds 0", "--seeds must be at least 1"),
        ("keyqn pong --protocol.interactions 0", "interactions and episodes must be at least 1"),
        ("keyqn pong --learning.batch 0", "transporter: learning: updates, batch, unroll, steps and anneal must be"),
        ("keyqn pong --learning.rate inf", "rate, epsilon and clip must be above 0, and finite"),
        ("keyqn pong --learning.clip nan", "rate, epsilon and clip must be above 0, and finite"),
        ("keyqn pong --learning.shrink 2", "target_rate and shrink lie between 0 and 1"),
        ("keyqn pong --learning.priority 2", "priority and correction lie between 0 and 1"),
        ("keyqn pong --observation pixels --learning.jitter 0.1", "jitter is of places: pixels have none"),
        ("keyqn pong --observation pixels --network.ground 4", "ground is seen beside keypoints: pixels have none"),
        ("keyqn pong --learning.reset-until nan", "jitter, cool, steady and reset_until lie between 0 and 1"),
        ("keyqn pong --model pong=pong pong=breakout", "--model names one detector for each game"),
        ("keyqn pong --model pong=", "--model names one detector for each game"),
        ("keyqn pong --network.opinions 100000000", "at most 16 opinions"),
        ("keyqn pong --model pong --observation objects", "agents that see objects have none"),
        ("keyqn pong --in-loop --observation pixels", "pixels have no detector to teach"),
        ("keyqn pong --eyes.renew 7", "renew must be a multiple of every"),
        ("keyqn pong --model nowhere", "nowhere is neither a shipped model"),
        ("reproduce keyqn --observations cake", "no observation named 'cake': there are keypoints, points, features"),
        ("reproduce keyqn --games pong,pong", "each once"),
        ("reproduce keyqn --observations points,points", "name observations, each once"),
        ("reproduce keyqn --gather", "keypoints.json cannot be read: No such file or directory"),
        ("reproduce keyqn --games tetris", "no model of tetris is shipped"),
        ("reproduce keyqn --games pong --out /dev/null/x", "/dev/null"),
        ("reproduce keyqn --games pong --docs /dev/null", "/dev/null is a file: name a folder"),
        ("reproduce keyqn --games pong --docs nowhere", "--docs nowhere: there is no results.md in it"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(refused, command: str, line: str) -> None:
    refused(command, line)


@pytest.mark.parametrize("verb", [["keyqn"], ["reproduce", "keyqn"]])
@pytest.mark.parametrize(("given", "hidden"), [([], 128), (["--preset", "full"], 256), (["--preset=full"], 256)])
def test_settings_begin_from_a_preset(forked, tmp_path: Path, verb: list[str], given: list[str], hidden: int) -> None:
    said = " ".join(forked(*verb, *given, "--help", cwd=tmp_path).out.replace("│", " ").split())
    assert f"units of the layers before and after the memory (default: {hidden})" in said


def test_what_is_given_changes_the_preset(forked, tmp_path: Path) -> None:
    """Also where it is what it would have been without one."""
    small = ["--protocol.interactions", "40", "--protocol.episodes", "1", "--protocol.evaluation-epsilon", "1"]
    given = ["--preset", "full", "--learning.batch", "8", "--observation", "objects", "--seeds", "1", "--video", "0"]
    ended = forked("keyqn", "ms_pacman", *given, *small, "--json", "told.json", cwd=tmp_path)
    assert ended.code == 0, ended.err
    assert "done: runs/keyqn-ms_pacman-objects-full" in ended.err
    config = json.loads((tmp_path / "told.json").read_text())["config"]
    assert (config["learning"]["batch"], config["network"]["hidden"]) == (8, 256)


def said_when_stopped_at(file: Path, asked: subprocess.Popen[str]) -> str:
    """What a command says that is asked to stop as soon as it has written a file."""
    deadline = time.monotonic() + 120
    while not file.exists():
        assert time.monotonic() < deadline
        time.sleep(0.005)
    asked.terminate()
    _, said = asked.communicate(timeout=60)
    assert asked.returncode == 143
    return str(said)


def test_an_evaluation_that_is_stopped_says_how_to_go_on(started, tmp_path: Path) -> None:
    few = small(**{"--protocol.interactions": "90"})
    asked = started("keyqn", "ms_pacman", "pong", *few, "--out", "run", cwd=tmp_path)
    said = said_when_stopped_at(tmp_path / "run" / "scores" / "ms_pacman.json", asked)  # from then on Pong is played
    assert "interrupted: the agents are saved in run, run the same command again to evaluate them" in said


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--learning.rate", "1e30", "ms_pacman, seed 0: 9[0-9]% of the updates were left out"),
        ("--learning.unroll", "5000", "nothing was learnt: the first update comes after 5010 interactions"),
    ],
)
def test_a_training_in_which_nothing_was_learnt_says_so(
    forked, tmp_path: Path, option: str, value: str, said: str
) -> None:
    few = small(**{"--protocol.interactions": "90", "--seeds": "1", option: value})
    ended = forked("keyqn", "ms_pacman", *few, "--out", "run", cwd=tmp_path)
    assert ended.code == 0, ended.err
    assert re.search(said, ended.err), ended.err
    assert "±" not in ended.err  # of one seed there is no spread


def test_a_run_knows_its_detector_and_does_not_go_on_with_another(forked, tmp_path: Path) -> None:
    detector = load("breakout", "cpu")
    with torch.no_grad():
        next(detector.net.parameters()).mul_(1.01)
    detector.save(tmp_path / "other.safetensors")
    command = ["keyqn", "pong", "--out", "run", "--seeds", "1", "--device", "cpu", "--video", "0",
               "--network.hidden", "16", "--network.memory", "8", "--protocol.interactions", "40",
               "--protocol.first-updates", "50", "--protocol.episodes", "1",
               "--protocol.evaluation-epsilon", "1"]  # fmt: skip
    ended = forked(*command, "--model", "breakout", "--json", "told.json", cwd=tmp_path)
    assert ended.code == 0, ended.err
    assert "the model learnt from breakout, not from pong" in ended.err
    told = json.loads((tmp_path / "told.json").read_text())
    assert told["detectors"]["pong"].keys() == {"weights", "pairs", "blinkers"}
    learnt_from = told["config"]["detectors learnt from"]["pong"]
    assert learnt_from.startswith("breakout: ")
    again = forked(*command, "--model", "other.safetensors", cwd=tmp_path)
    assert again.code == 2
    assert "run holds a run with other settings: detectors.pong.weights " in again.err.splitlines()[-1]


def test_results_are_told_before_clips_are_made(started, tmp_path: Path) -> None:
    few = small(**{"--protocol.interactions": "90", "--video": "600", "--json": "told.json"})
    asked = started("keyqn", "ms_pacman", *few, "--out", "run", cwd=tmp_path)
    said = said_when_stopped_at(tmp_path / "told.json", asked)
    assert "interrupted: the scores are in run, run the same command again for its pictures" in said
    assert json.loads((tmp_path / "told.json").read_text())["scores"]
    assert not (tmp_path / "run" / "ms_pacman.mp4").exists()


def test_results_go_where_nothing_else_is(forked, tmp_path: Path) -> None:
    (tmp_path / "runs" / "old" / "scores").mkdir(parents=True)
    (tmp_path / "runs" / "old" / "run.json").write_text("{}")
    (tmp_path / "clip.mp4").write_bytes(b"not results")
    for file, line in [
        ("runs/old/scores/pong.json", "a run folder has scores for itself: name another"),
        ("clip.mp4", "clip.mp4 is there and holds no results: name another"),
    ]:
        ended = forked("keyqn", "pong", "--json", file, cwd=tmp_path)
        assert (ended.code, ended.err.splitlines()[-1].endswith(line)) == (2, True), ended.err

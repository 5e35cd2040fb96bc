"""transporter keyqn from beginning to end, with a break in between, and what it refuses."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from transporter.cli.reproduce.gathered import check_replaced
from transporter.control.keyqn.config import KeyQNConfig
from transporter.errors import InputError
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


def test_an_evaluation_that_is_stopped_says_how_to_go_on(started, tmp_path: Path) -> None:
    few = small(**{"--protocol.interactions": "90"})
    asked = started("keyqn", "ms_pacman", "pong", *few, "--out", "run", cwd=tmp_path)
    deadline = time.monotonic() + 120
    while not (tmp_path / "run" / "scores" / "ms_pacman.json").exists():  # from then on Pong is played
        assert time.monotonic() < deadline
        time.sleep(0.005)
    asked.terminate()
    _, said = asked.communicate(timeout=60)
    assert asked.returncode == 143
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
    deadline = time.monotonic() + 120
    while not (tmp_path / "told.json").exists():
        assert time.monotonic() < deadline
        time.sleep(0.005)
    asked.terminate()
    _, said = asked.communicate(timeout=60)
    assert asked.returncode == 143
    assert "interrupted: the scores are in run, run the same command again for its pictures" in said
    assert json.loads((tmp_path / "told.json").read_text())["scores"]
    assert not (tmp_path / "run" / "ms_pacman.mp4").exists()


def test_what_is_refused_is_refused_before_anything_is_learnt(forked, tmp_path: Path) -> None:
    Run.create(tmp_path / "runs" / "keyqn" / "points", {"of": "another kind"})
    command = ["reproduce", "keyqn", "--games", "ms_pacman", "--observations", "objects,points"]
    ended = forked(*command, cwd=tmp_path)
    refused = "transporter: runs/keyqn/points holds a run of another kind: name another folder\n"
    assert (ended.code, ended.err) == (2, refused)
    assert [path.name for path in (tmp_path / "runs" / "keyqn").iterdir()] == ["points"]


def test_the_table_of_the_paper_with_random_play_beside_it(forked, results_page, tmp_path: Path) -> None:
    page = results_page("keyqn-full")
    options = ["--games", "ms_pacman", "--observations", "random", "--seeds", "2", "--protocol.episodes", "3"]
    ended = forked("reproduce", "keyqn", *options, "--preset", "full", "--docs", "docs", cwd=tmp_path)
    assert ended.code == 0, ended.err
    assert [path.name for path in (tmp_path / "results" / "keyqn").iterdir()] == ["full"]
    out = tmp_path / "results" / "keyqn" / "full"  # what the light agents scored has its own place
    summary = json.loads((out / "summary.json").read_text())
    assert 100 < summary["figures"]["random: ms_pacman mean"] < 700  # published: 307
    assert summary["from"]["random"]["commit"] == summary["commit"]
    lines = (out / "table.md").read_text().splitlines()
    assert lines[0] == "| agent | ms_pacman | mean, human-normalised |"
    assert "| KeyQN (paper) | 999.4 | 0.104 |" in lines
    document = page.read_text()
    assert "KeyQN (paper)" in document
    assert "old" not in document
    # The same from what was measured, and one line where it is of other games.
    table = (out / "table.md").read_bytes()
    (out / "table.md").unlink()
    gather = ["reproduce", "keyqn", "--observations", "random", "--gather", "--preset", "full"]
    ended = forked(*gather, "--games", "ms_pacman", cwd=tmp_path)
    assert ended.code == 0, ended.err
    assert (out / "table.md").read_bytes() == table
    assert json.loads((out / "summary.json").read_text())["from"] == summary["from"]
    ended = forked(*gather, "--games", "ms_pacman,pong", cwd=tmp_path)
    assert ended.code == 2
    assert ended.err.splitlines() == ["transporter: results/keyqn/full/random.json has no scores of pong"]
    ended = forked("reproduce", "keyqn", "--observations", "random", "--gather", cwd=tmp_path)
    assert ended.err.splitlines() == [
        "transporter: results/keyqn/random.json cannot be read: No such file or directory"
    ]
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "results.md").write_text("nothing\n")
    ended = forked(*gather, "--games", " ms_pacman ", "--docs", "elsewhere", cwd=tmp_path)
    assert ended.code == 0
    assert "elsewhere/results.md has no place for the table" in ended.err


def test_results_of_other_agents_are_not_written_over(forked, tmp_path: Path) -> None:
    (tmp_path / "runs" / "old" / "scores").mkdir(parents=True)
    (tmp_path / "runs" / "old" / "run.json").write_text("{}")
    (tmp_path / "clip.mp4").write_bytes(b"not results")
    for file, line in [
        ("runs/old/scores/pong.json", "a run folder has scores for itself: name another"),
        ("clip.mp4", "clip.mp4 is there and holds no results: name another"),
    ]:
        ended = forked("keyqn", "pong", "--json", file, cwd=tmp_path)
        assert (ended.code, ended.err.splitlines()[-1].endswith(line)) == (2, True), ended.err
    random = ["reproduce", "keyqn", "--observations", "random", "--out", "out", "--protocol.episodes"]
    games = ["--games", "ms_pacman,pong", "--seeds", "2"]
    assert forked(*random, "1", *games, cwd=tmp_path).code == 0
    first = (tmp_path / "out" / "random.json").read_bytes()
    for given, line in [
        (["2", *games], "out/random.json has agents with other settings: protocol.episodes: name another --out"),
        (
            ["1", "--games", "pong", "--seeds", "2"],
            "agents that these would not replace (ms_pacman: 0, 1): name another --out",
        ),
        (
            ["1", *games[:-1], "1"],
            "agents that these would not replace (ms_pacman: 1; pong: 1): name another",
        ),
    ]:
        ended = forked(*random, *given, cwd=tmp_path)
        assert (ended.code, len(ended.err.splitlines())) == (2, 1)
        assert line in ended.err
        assert (tmp_path / "out" / "random.json").read_bytes() == first
    assert forked(*random, "1", *games[:-1], "3", cwd=tmp_path).code == 0  # the same agents, and one more
    learnt = ["reproduce", "keyqn", "--observations", "objects", "--out", "out", "--games", "ms_pacman", "--seeds", "1"]
    learnt += ["--device", "cpu", "--protocol.interactions", "60", "--protocol.episodes", "1"]
    learnt += ["--protocol.evaluation-epsilon", "1", "--runs"]
    for runs in ("a", "b"):  # made anew elsewhere, they are the same agents
        ended = forked(*learnt, runs, cwd=tmp_path)
        assert ended.code == 0, ended.err
    ended = forked(*learnt, "c", "--learning.batch", "3", cwd=tmp_path)
    assert "out/objects.json has agents with other settings: learning.batch: name another --out" in ended.err
    assert not (tmp_path / "c").exists()


def test_what_may_be_written_over(tmp_path: Path) -> None:
    path = tmp_path / "there.json"
    new = {"config": KeyQNConfig().to_json() | {"observation": "points"}, "detectors": {"pong": {"weights": "a"}}}
    old = result("points") | new | {"seeds": {"agents": [0]}}

    def refused(found: object, games: tuple[str, ...] = ("pong",), seeds: tuple[int, ...] = (0, 1)) -> str:
        path.write_text(json.dumps(found))
        try:
            check_replaced(path, "points", new, list(games), list(seeds))
        except InputError as error:
            return str(error)
        return ""

    check_replaced(path, "points", new, ["pong"], [0])
    assert not refused(old)
    assert not refused(old, ("pong", "breakout"))
    assert not refused({name: value for name, value in old.items() if name != "detectors"})  # of version 0.1
    assert "has agents that these would not replace (pong: 0)" in refused(old, ("breakout",))
    assert "has agents that these would not replace (pong: 0)" in refused(old, seeds=(1, 2))
    other = json.loads(json.dumps(old))
    other["config"]["network"]["hidden"] = 256
    assert "has agents with other settings: network.hidden" in refused(other)
    other["config"]["network"] |= {"hidden": KeyQNConfig().network.hidden, "hope": True}
    assert "has agents with other settings: network.hope" in refused(other)
    assert "other settings: eyes.batch" in refused(old | {"config": None})
    assert "has agents with other detectors: pong" in refused(old | {"detectors": {"pong": {"weights": "b"}}})
    for found in (old | {"name": "keyqn pixels"}, old | {"seeds": {"agents": 3}}, [], "words"):
        assert "and would be written over: name another --out" in refused(found)


def result(name: str, mean: object = 1.0, **protocol: object) -> dict[str, Any]:
    config = {"protocol": {"interactions": 100, "sticky": 0.0, **protocol}}
    figures = {"pong mean": mean, "pong std": 0.5, "breakout mean": 2.0, "training seconds": 3.0}
    return {"name": f"keyqn {name}", "figures": figures, "config": config, "scores": {"pong": [[1.0, 2.0]]}}


@pytest.mark.parametrize(
    ("points", "line"),
    [
        (result("points", sticky=0.25), "not measured alike: sticky 0.0 in random, 0.25 in points"),
        (result("points", interactions=7), "not measured alike: interactions 100 in random, 7 in points"),
        (result("pixels"), "points.json says that it is keyqn pixels, not keyqn points"),
        (result("points") | {"scores": {"pong": []}}, "points.json is not a result of agents"),
        (result("points", mean=float("nan")), "points.json is not a result of agents"),
        (result("points", mean=10**400), "points.json is not a result of agents"),
        (result("points", mean=True), "points.json is not a result of agents"),
        (result("points") | {"scores": {"pong": [[1.0], {}]}}, "points.json is not a result of agents"),
        (result("points") | {"also": None}, "points.json is not a result of agents"),
        ([], "points.json is not a result of agents"),
    ],
)
def test_what_does_not_belong_into_a_table_is_refused(points: object, line: str, forked, tmp_path: Path) -> None:
    (tmp_path / "random.json").write_text(json.dumps(result("random")))
    (tmp_path / "points.json").write_text(json.dumps(points))
    gather = ["reproduce", "keyqn", "--gather", "--out", ".", "--games", "pong", "--observations"]
    ended = forked(*gather, "random,points", cwd=tmp_path)
    assert ended.code == 2
    assert len(ended.err.splitlines()) == 1
    assert line in ended.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["points.json", "random.json"]


def test_a_table_of_some_games_has_figures_of_those(forked, tmp_path: Path) -> None:
    (tmp_path / "random.json").write_text(json.dumps(result("random") | {"config": None}))
    ended = forked(
        "reproduce", "keyqn", "--gather", "--out", ".", "--games", "pong", "--observations", "random", cwd=tmp_path
    )
    assert ended.code == 0, ended.err
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["figures"] == {"random: pong mean": 1.0, "random: pong std": 0.5}
    assert "| **ours, random** (1 × 2) | 1.0 |" in (tmp_path / "table.md").read_text()


def test_agents_of_an_earlier_version_are_joined_where_their_settings_are_the_same(forked, tmp_path: Path) -> None:
    """Which did not know what is off by default."""
    today = KeyQNConfig().to_json()
    before = {**today, "learning": {k: v for k, v in today["learning"].items() if k not in ("jitter", "cool")}}
    ours = result("points") | {"config": today, "seeds": {"agents": [0]}}
    (tmp_path / "points.json").write_text(json.dumps(ours))
    (tmp_path / "more.json").write_text(json.dumps(ours | {"config": before, "seeds": {"agents": [1]}}))
    table = ["reproduce", "keyqn", "--gather", "--out", ".", "--games", "pong", "--observations", "points"]
    ended = forked(*table, "--gather", "--network.hidden", "3", cwd=tmp_path)
    assert (ended.code, ended.err) == (
        2,
        "transporter: --gather learns nothing: leave out what decides agents, such as --learning and --network\n",
    )
    ended = forked(*table, "--more", "points=more.json", cwd=tmp_path)
    assert ended.code == 0, ended.err
    assert "**ours, points** (2 × 2)" in (tmp_path / "table.md").read_text()


def test_games_that_were_learnt_apart_stand_in_one_row(forked, tmp_path: Path) -> None:
    """Whatever their seeds; another game has another detector."""
    apart = {
        name: result("points")
        | {"scores": {game: scores}, "figures": {f"{game} mean": 1.5, f"{game} std": 0.0}, "seeds": {"agents": seeds}}
        for name, game, scores, seeds in (
            ("points", "pong", [[1.0, 2.0]], [0]),
            ("more", "pong", [[3.0, 4.0]], [1]),
            ("other", "breakout", [[5.0], [6.0]], [0, 1]),
            ("again", "breakout", [[7.0]], [2]),
        )
    }
    for name, made in apart.items():
        made["config"] = {**made["config"], "detectors learnt from": {next(iter(made["scores"])): {"frames": 1}}}
        (tmp_path / f"{name}.json").write_text(json.dumps(made))
    table = ["reproduce", "keyqn", "--out", ".", "--games", "breakout,pong", "--observations", "points", "--gather"]
    ended = forked(*table, "--more", *(f"points={name}.json" for name in ("other", "more", "again")), cwd=tmp_path)
    assert ended.code == 0, ended.err
    words = (tmp_path / "table.md").read_text()
    assert "**ours, points** (3 × 1, pong 2 × 2) | 6.0 ± 1.0 | 2.5 ± 1.4 |" in words
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["from"]["points"]["seeds"] == {"agents": {"pong": [0, 1], "breakout": [0, 1, 2]}}
    assert summary["figures"]["points: breakout seed 2"] == 7.0
    assert summary["from"]["points"]["config"]["detectors learnt from"].keys() == {"pong", "breakout"}


def test_more_agents_of_some_games_stand_in_the_same_row(forked, tmp_path: Path) -> None:
    """Pong by seeds 3 and 1, Breakout by seed 2 as well: 3, 5 and 10 points on average."""
    scores = {"pong": [[1.0, 2.0], [3.0, 4.0]], "breakout": [[3.0, 3.0], [4.0, 6.0]]}
    numbers = {f"{game} {what}": 1.0 for game in scores for what in ("mean", "std")}
    whole = result("points") | {"scores": scores, "figures": numbers, "seeds": {"agents": [3, 1]}}
    whole["detectors"] = {"pong": {"weights": "a"}, "breakout": {"weights": "b"}}
    whole["config"]["detectors learnt from"] = {"pong": {"frames": 1}, "breakout": {"frames": 2}}
    own = {**whole["config"], "detectors learnt from": {"breakout": {"frames": 2}}}
    more = whole | {
        "config": own,
        "scores": {"breakout": [[10.0, 10.0]]},
        "seeds": {"agents": [2]},
        "detectors": {"breakout": {"weights": "b"}},
        "command": "transporter keyqn",
    }
    (tmp_path / "points.json").write_text(json.dumps(whole))
    (tmp_path / "more.json").write_text(json.dumps(more))
    table = ["reproduce", "keyqn", "--out", ".", "--games", "breakout,pong", "--observations", "points"]
    ended = forked(*table, "--gather", "--more", "points=more.json", cwd=tmp_path)
    assert ended.code == 0, ended.err
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["figures"]["points: breakout mean"] == 6.0
    assert summary["figures"]["points: breakout seed 2"] == 10.0
    assert summary["figures"]["points: breakout seed 3"] == 3.0
    assert summary["figures"]["points: pong seed 1"] == 3.5
    assert summary["from"]["points"]["also"] == [{"command": "transporter keyqn"}]
    assert summary["from"]["points"]["seeds"] == {"agents": {"pong": [3, 1], "breakout": [3, 1, 2]}}
    assert summary["from"]["points"]["detectors"] == whole["detectors"]
    words = (tmp_path / "table.md").read_text()
    assert "**ours, points** (3 × 2, pong 2 × 2) | 6.0 ± 3.6 | 2.5 ± 1.4 |" in words

    (tmp_path / "other.json").write_text(
        json.dumps(more | {"config": {**own, "protocol": {"interactions": 7, "sticky": 0.0}}})
    )
    (tmp_path / "eyes.json").write_text(json.dumps(more | {"detectors": {"breakout": {"weights": "c"}}}))
    (tmp_path / "same.json").write_text(json.dumps(more | {"seeds": {"agents": [1]}}))
    (tmp_path / "old.json").write_text(json.dumps(more | {"seeds": {}}))
    (tmp_path / "null.json").write_text(json.dumps(more | {"scores": {"breakout": [[10.0, None]]}}))
    (tmp_path / "few.json").write_text(json.dumps(more | {"scores": {"breakout": [[10.0]]}}))
    (tmp_path / "seeds.json").write_text(json.dumps(more | {"seeds": {"agents": [2, 4]}}))
    (tmp_path / "words.json").write_text(json.dumps(more | {"seeds": {"agents": ["x"]}}))
    numbers = {f"seaquest {what}": 1.0 for what in ("mean", "std")}
    (tmp_path / "game.json").write_text(json.dumps(more | {"scores": {"seaquest": [[1.0]]}, "figures": numbers}))
    for given, line in [
        ("points=other.json", "other.json: its agents learnt with other settings: protocol.interactions"),
        ("points=eyes.json", "eyes.json: its agents learnt with other detectors: breakout"),
        ("points=null.json", "null.json is not a result of agents"),
        ("points=few.json", "few.json: its agents played breakout in another number of episodes"),
        ("points=seeds.json", "seeds.json: 2 seeds, and scores of 1"),
        ("points=words.json", "words.json: the seeds of some agents are not known"),
        ("points=game.json", "game.json has no scores of breakout, pong"),
        ("points=same.json", "same.json: seed 1 is among the others already"),
        ("points=old.json", "old.json: the seeds of some agents are not known"),
        ("points=none.json", "none.json cannot be read: No such file or directory"),
        ("pixels=more.json", "--more pixels=more.json: say OBSERVATION=FILE, of points"),
        ("more.json", "--more more.json: say OBSERVATION=FILE, of points"),
    ]:
        ended = forked(*table, "--gather", "--more", given, cwd=tmp_path)
        assert (ended.code, ended.err.splitlines()) == (2, [f"transporter: {line}"])
    ended = forked(*table, "--more", "points=more.json", cwd=tmp_path)
    assert (ended.code, len(ended.err.splitlines())) == (2, 1)
    assert (tmp_path / "table.md").read_text() == words

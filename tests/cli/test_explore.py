"""transporter explore from beginning to end, with a break in between, what it refuses, and options in use elsewhere."""

import json
import re
import runpy
import shutil
import sys
from pathlib import Path

import pytest

from transporter.control.options import OptionsAgent
from transporter.runs import Run

# Small enough for seconds, and with everything in it: both learners, evaluations, checkpoints, pictures.
SMALL = ["--video", "1", "--network.hidden", "16", "--network.memory", "8", "--network.layers", "8", "8", "4",
         "--learning.batch", "2", "--learning.unroll", "4", "--learning.burn-in", "2", "--acting.players", "4",
         "--acting.warm-up", "8", "--acting.replay", "400", "--eyes.size", "32", "--eyes.batch", "4",
         "--eyes.offset", "5", "--eyes.tiny", "--evaluation.episodes", "2", "--evaluation.steps", "30",
         "--evaluation.look-every", "5", "--evaluate-every", "800", "--log-every", "160", "--checkpoint-every", "320",
         "--device", "cpu"]  # fmt: skip


@pytest.fixture(scope="module")
def explored(forked, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hundred steps of Montezuma's Revenge by each of four players."""
    cwd = tmp_path_factory.mktemp("explored")
    ended = forked("explore", "montezuma_revenge", "--frames", "1600", *SMALL, "--json", "it.json", cwd=cwd)
    assert ended.code == 0, ended.err
    assert "most controllable" not in ended.err
    assert "95th percentile" in ended.err
    return cwd


def test_all_that_it_leaves(explored: Path) -> None:
    run = explored / "runs" / "explore-montezuma_revenge-seed0"
    names = {path.name for path in run.iterdir()}
    assert {"options.safetensors", "exploration.json", "curves.png", "options.mp4", "metrics.jsonl"} <= names
    result = json.loads((explored / "it.json").read_text())
    figures = result["figures"]
    assert figures["actions mean"] == 0.0  # no one has the key within thirty steps
    assert figures["rooms"] == 1.0
    assert 0 <= figures["avatar"] <= 1
    assert [frames for frames, _ in result["curves"]["controllable"]] == [800, 1600]
    assert result["curves"]["actions"][0][1] == result["curves"]["actions"][1][1]  # measured once, drawn throughout
    rows = Run.open(run).metrics()
    assert [row["step"] for row in rows] == list(range(10, 101, 10))
    assert rows[-1]["updates"] > 40
    assert OptionsAgent.load(run / "options.safetensors").card["frames"] == 1600


def test_it_stops_when_asked_and_goes_on_for_longer(stopped, forked, tmp_path: Path) -> None:
    command = ["explore", "sprites_control", *SMALL, "--out", "run"]
    saved = Run.open(stopped(*command[:-2], "--frames", "40000", "--evaluate-every", "40000")).latest()
    assert saved is not None
    frames = 4 * saved.step + 200
    # Random actions are measured with the first evaluation there is, whenever that is.
    ended = forked(*command, "--frames", str(frames), "--evaluate-every", "100", cwd=tmp_path)
    assert ended.code == 0, ended.err
    rows = Run.open(tmp_path / "run").metrics()
    assert rows[-1]["frames"] == frames
    assert rows[-1]["updates"] > saved.state["updates"] > 0
    assert sum("actions" in row.get("returns", {}) for row in rows) == 1
    result = tmp_path / "run" / "exploration.json"
    told = result.read_text().replace('"date"', '"day"')
    result.write_text(told)
    clip = (tmp_path / "run" / "options.mp4").stat().st_mtime_ns
    again = forked(*command, "--frames", str(frames), cwd=tmp_path)  # nothing is left to do
    assert again.code == 0
    assert (tmp_path / "run" / "options.mp4").stat().st_mtime_ns == clip
    assert len(Run.open(tmp_path / "run").metrics()) == len(rows)
    assert result.read_text() == told  # who measured it, and when
    # A last row that is lost is made anew, with a look at what was learnt, and so are all of them.
    metrics = tmp_path / "run" / "metrics.jsonl"
    lines = metrics.read_text().splitlines(keepends=True)
    for left in (lines[:-1], []):
        metrics.write_text("".join(left))
        ended = forked(*command, "--frames", str(frames), cwd=tmp_path)
        assert ended.code == 0, ended.err
        last = Run.open(tmp_path / "run").metrics()[-1]
        assert (last["frames"], last["updates"]) == (frames, rows[-1]["updates"])
        assert last["returns"]["options"] == rows[-1]["returns"]["options"]
        assert json.loads(result.read_text())["figures"]["frames"] == frames
    metrics.write_text(metrics.read_text().replace('"avatar"', '"avatas"'))
    damaged = forked(*command, "--frames", str(frames), cwd=tmp_path)
    assert (damaged.code, damaged.err) == (2, "transporter: run/metrics.jsonl is damaged: there is no 'avatar'\n")
    metrics.write_text("".join(lines))
    fewer = forked(*command, "--frames", "100", cwd=tmp_path)
    assert (fewer.code, fewer.err) == (
        2,
        f"transporter: run has {frames:,} frames already: --frames must be at least that\n",
    )
    other = forked("keyqn", "pong", "--out", "run", cwd=tmp_path)
    assert other.code == 2
    assert "run holds a run of another kind: name another folder" in other.err


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("explore nosuchgame", "no environment named 'nosuchgame'"),
        ("explore sprites", "sprites has no actions to choose from"),
        ("explore pong --frames 0", "--frames and --checkpoint-every must be at least 1"),
        ("explore pong --model pong --keypoints 3", "a --model has its own"),
        ("explore pong --json /", "/ is a folder: name a file"),
        ("explore pong --model nowhere", "nowhere is neither a shipped model"),
        ("explore pong --acting.replay 1000", "a replay of 1,000 steps is too small for 256 players"),
        (
            "explore pong --acting.replay 90000000000",
            "a replay of 90,000,000,000 steps does not fit this memory: at most",
        ),
        ("explore pong --learning.rate -1", "rate, epsilon, clip and jump must be above 0, and finite"),
        ("explore pong --learning.clip nan", "rate, epsilon, clip and jump must be above 0, and finite"),
        ("explore pong --learning.target-rate nan", "target_rate lies between 0 and 1"),
        ("explore pong --eyes.rate inf", "rate is above 0, and finite"),
        ("explore pong --network.caution 1.5", "caution lies between 0 and 1"),
        ("explore pong --learning.discount 1", "discount and foresight must lie between 0 and 1"),
        ("explore sprites_control --ray local --actors 3", "256 players cannot be dealt out to 3 workers"),
        ("reproduce exploration --games pong,pong", "each once"),
        ("explore pong --acting.no-life-loss-ends", "lives that end no episode (acting.life_loss_ends) are not seen"),
        ("reproduce exploration --docs .", "--docs .: there is no results.md in it"),
        ("reproduce exploration --gather", "montezuma_revenge.json cannot be read: No such file or directory"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(refused, command: str, line: str) -> None:
    refused(command, line)


def test_the_figure_of_the_paper(forked, results_page, tmp_path: Path) -> None:
    page = results_page("exploration")
    games = ["--network.caution", "0.25", "--games", "sprites_control, pong", "--video", "0"]
    small = [*SMALL[2:], *games, "--frames", "400", "--docs", "docs"]
    ended = forked("reproduce", "exploration", *small, "--out", "out", cwd=tmp_path)
    assert ended.code == 0, ended.err
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert "pong: controllable mean" in summary["figures"]
    lines = (tmp_path / "out" / "table.md").read_text().splitlines()
    assert lines[2].startswith("| sprites_control | 0 | 0.25 | 0.0 ± 0.0 |")
    assert "| pong |" in page.read_text()
    assert (tmp_path / "docs" / "exploration.svg").exists()
    gather = ["reproduce", "exploration", "--gather", "--out", "out", "--games"]
    (tmp_path / "out" / "table.md").unlink()
    assert forked(*gather, "sprites_control,pong", cwd=tmp_path).code == 0
    assert (tmp_path / "out" / "table.md").read_text().splitlines() == lines
    again = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert (again["figures"], again["from"]) == (summary["figures"], summary["from"])
    assert again["from"]["pong"]["config"]["network"]["caution"] == 0.25
    # Refused is refused before anything is explored, also where it is the last one's.
    shutil.rmtree(tmp_path / "runs" / "exploration" / "sprites_control")
    ended = forked("reproduce", "exploration", *small, "--network.caution", "0.5", "--out", "out", cwd=tmp_path)
    assert ended.code == 2
    assert "runs/exploration/pong holds a run with other settings: config.network.caution 0.25 → 0.5" in ended.err
    assert not (tmp_path / "runs" / "exploration" / "sprites_control").exists()
    found = json.loads((tmp_path / "out" / "pong.json").read_text())
    (tmp_path / "out" / "breakout.json").write_text(json.dumps(found))
    (tmp_path / "out" / "freeway.json").write_text(json.dumps(found | {"curves": {}}))
    rash = {**found["config"], "network": {**found["config"]["network"], "caution": 2.0}}
    (tmp_path / "out" / "tennis.json").write_text(json.dumps(found | {"name": "exploration tennis", "config": rash}))
    none = found | {"name": "exploration alien", "curves": {**found["curves"], "options": []}}
    (tmp_path / "out" / "alien.json").write_text(json.dumps(none))
    for game, line in {
        "alien": "out/alien.json is not a result of an exploration",
        "breakout": "out/breakout.json says that it is exploration pong, not exploration breakout",
        "tennis": "out/tennis.json is not a result of an exploration",
        "freeway": "out/freeway.json is not a result of an exploration",
    }.items():
        ended = forked(*gather, game, cwd=tmp_path)
        assert (ended.code, ended.err) == (2, f"transporter: {line}\n")


def test_an_exploration_in_which_nothing_was_learnt_says_so(forked, tmp_path: Path) -> None:
    command = ["explore", "sprites_control", *SMALL[2:], "--video", "0", "--frames", "200", "--out"]
    ended = forked(*command, "wild", "--learning.rate", "1e30", cwd=tmp_path)
    assert ended.code == 0, ended.err
    assert re.search("9[0-9]% of the updates were left out", ended.err), ended.err
    ended = forked(*command, "none", "--acting.warm-up", "60", cwd=tmp_path)
    assert ended.code == 0, ended.err
    assert "nothing was learnt: there was no update" in ended.err


def test_options_are_actions_for_stable_baselines(explored: Path, monkeypatch, capsys) -> None:
    example = Path(__file__).parents[2] / "examples" / "options_sb3.py"
    options = explored / "runs" / "explore-montezuma_revenge-seed0" / "options.safetensors"
    monkeypatch.setattr(sys, "argv", [str(example), "--options", str(options), "--steps", "12"])
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out.startswith("16 options, 12 chosen, return ")

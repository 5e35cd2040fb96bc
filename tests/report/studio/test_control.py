"""Runs of agents and of options as the studio shows them: figures that a person can check, and real runs."""

import json
from pathlib import Path

import pytest

from transporter.report.studio import control
from transporter.report.studio.folders import RunFolders
from transporter.runs import Run

AGENTS = {"keyqn": {"games": ["pong", "breakout"], "seeds": [3, 4], "observation": "keypoints"}}
OPTIONS = {"explore": {"game": "montezuma_revenge", "seed": 0, "keypoints": None}}

HUGE = "1" + 400 * "0"  # too large for a float
ODD_EPISODES = ("[9, 1]", '["a", 2]', "3", "[]", "[0]", "[0, null]", "[null, 1]", "[0, Infinity]", "[Infinity, 1]",
                "[NaN, 1]", "[-1, 1]", "[0, true]", f"[0, {HUGE}]", f"[{HUGE}, 1]", 100_000 * "[")  # fmt: skip


def marks(game: str) -> dict[str, float]:
    return {"random": -20.7} if game == "pong" else {}


def test_a_learning_curve_is_the_mean_of_the_last_twenty_episodes() -> None:
    rows = [
        {"step": 10, "episodes": [[0, 10.0, 5], [0, 20.0, 5]]},
        {"step": 20, "episodes": []},  # nothing ended: no point
        {"step": 30, "episodes": [[0, 0.0, 5], [1, -1.0, 5]]},
        {"step": 5_040, "episodes": [[0, 100.0, 1]] * 20},  # all before is forgotten
    ]
    first, second = control.learning_curves(rows, 2)
    assert first == ([10, 30, 5_040], [15.0, 10.0, 100.0], 23)
    assert second == ([30], [-1.0], 1)


def test_agents_are_told_apart_by_game_and_seed(tmp_path: Path) -> None:
    rows = [{"step": 7, "episodes": [[0, 1.0, 1], [1, 2.0, 1], [2, 3.0, 1], [3, 4.0, 1]]}]
    scores = {"pong": [[-21.0, -19.0], [-10.0]], "breakout": [[2.0], [1.0]]}
    (tmp_path / "keyqn.json").write_text(json.dumps({"scores": scores}))
    (tmp_path / "breakout.mp4").write_bytes(b"a clip")
    pong, breakout = control.learnt(AGENTS, rows, tmp_path, marks)
    assert [(agent.seed, agent.y) for agent in (*pong.agents, *breakout.agents)] == [
        (3, [1.0]), (4, [2.0]), (3, [3.0]), (4, [4.0])]  # fmt: skip
    assert (pong.best, pong.video, pong.marks) == (4, None, {"random": -20.7})
    assert (breakout.best, breakout.video, breakout.marks) == (3, "breakout.mp4", {})
    assert control.names(AGENTS) == ["pong seed 3", "pong seed 4", "breakout seed 3", "breakout seed 4"]
    assert control.names(OPTIONS) is None  # lists in its rows are of keypoints


def test_an_exploration_so_far(tmp_path: Path) -> None:
    rows = [
        {"step": 1, "frames": 100, "gaps": [0.1, 0.3], "return": None},
        {"step": 2, "frames": 200, "gaps": [0.1, 0.3], "avatar": 0.5, "rooms": 2,
         "returns": {"actions": [0.0, 2.0], "options": [4.0], "controllable": [0.0, 100.0]}},
        {"step": 4, "frames": 400, "gaps": [0.4, 0.3], "avatar": 0.9, "rooms": 1,
         "returns": {"options": [6.0], "controllable": [100.0, 100.0]}},
    ]  # fmt: skip
    found = control.explored(OPTIONS, rows, tmp_path)
    actions, options, controllable = found.ways
    assert (actions.x, actions.mean, actions.std) == ([200, 400], [1.0, 1.0], [1.0, 1.0])  # measured once, drawn on
    assert (options.mean, controllable.mean, controllable.std) == ([4.0, 6.0], [50.0, 100.0], [50.0, 0.0])
    assert actions.percentiles[control.SHARES.index(50)] == 1.0
    assert actions.percentiles[control.SHARES.index(95)] == pytest.approx(1.9)
    assert found.keypoint == 0  # the one to which actions matter most now
    assert (found.gaps.x, found.gaps.y[-1]) == ([100, 200, 400], [0.4, 0.3])
    assert (found.rooms, found.avatar) == (([200, 400], [2, 1]), ([200, 400], [0.5, 0.9]))
    assert (found.game, found.frames, found.video) == ("montezuma_revenge", 400, None)


def test_one_figure_for_the_list(tmp_path: Path) -> None:
    def score(kind: str, **figures: float) -> control.Score | None:
        (tmp_path / control.RESULTS[kind]).write_text(json.dumps({"figures": figures}))
        return control.score(kind, tmp_path)

    assert score("agents", **{"pong mean": -3.5, "pong human-normalised": 0.5}) == (-3.5, "score")
    two = {"pong mean": 1.0, "breakout mean": 2.0, "pong human-normalised": 0.5, "breakout human-normalised": 0.1}
    assert score("agents", **two) == (pytest.approx(30), "% of human")
    assert score("options", **{"rooms, most": 4, "controllable p95": 100.0}) == (4, "rooms")
    assert score("options", **{"controllable p95": 100.0}) == (100.0, "95th percentile")
    assert score("options") is None
    assert control.score("keypoints", tmp_path) is None


def test_files_of_strangers_are_no_news(tmp_path: Path) -> None:
    """Whatever is in the files, the page gets lists of numbers or nothing."""
    run = Run.create(tmp_path / "run", {"keyqn": {"games": ["pong"], "seeds": [0, "x"]}})
    (run.path / "keyqn.json").write_text('{"scores": [1], "figures": {"pong mean": "high"}}')
    runs = RunFolders(tmp_path)
    for odd in ODD_EPISODES:
        sound = '{"step": 2, "episodes": [[0, 5.0, 100]]}'
        (run.path / "metrics.jsonl").write_text(f'{{"step": 1, "episodes": [{odd}]}}\n{sound}\nnonsense\n')
        ((agent,),) = [game.agents for game in control.news(run.settings, run.path, marks, "")["games"]]
        assert (agent.seed, agent.x, agent.y) == (0, [2], [5.0]), odd[:40]
        (line,) = runs.headlines()
        assert (line.kind, line.state, line.score, line.score_name) == ("agents", "stopped", 5.0, "return"), odd[:40]
    for odd in (
        '{"frames": 1, "gaps": 4}',
        '{"frames": 1, "gaps": [], "returns": {"options": "many"}}',
        '{"frames": [1]}',
        '{"returns": 4}',
    ):
        (run.path / "metrics.jsonl").write_text(odd + "\n")
        found = control.explored(OPTIONS, [json.loads(odd)], run.path)
        assert (found.ways, found.keypoint) == ([], None)
        assert runs.headlines()[0].kind == "agents"


def test_nothing_new_is_a_short_answer(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", OPTIONS)
    run.log({"step": 1, "frames": 4, "gaps": [0.5]})
    first = control.news(run.settings, run.path, marks, "")
    assert (first["kind"], first["keypoint"]) == ("options", 0)
    assert control.news(run.settings, run.path, marks, first["signature"]) == {"same": True}
    run.log({"step": 2, "frames": 8, "gaps": [0.6]})
    second = control.news(run.settings, run.path, marks, first["signature"])
    assert (second["frames"], second["video"]) == (8, None)
    (run.path / "options.mp4").write_bytes(b"a clip")  # comes after everything else
    assert control.news(run.settings, run.path, marks, second["signature"])["video"] == "options.mp4"


def test_real_agents(studio, agents: str) -> None:
    line = next(line for line in studio.get("/api/runs").json["runs"] if line["id"] == agents)
    assert (line["kind"], line["state"], line["environment"], line["score_name"]) == (
        "agents", "finished", "ms_pacman", "score")  # fmt: skip
    found = studio.get("/api/control", id=agents).json
    (game,) = found["games"]
    assert [agent["seed"] for agent in game["agents"]] == [0, 1]
    means = [sum(agent["scores"]) / len(agent["scores"]) for agent in game["agents"]]
    assert line["score"] == pytest.approx(sum(means) / 2, abs=0.01)
    assert game["best"] == means.index(max(means))
    assert sum(agent["episodes"] for agent in game["agents"]) >= 1
    assert {"random", "KeyQN (paper)", "human"} == set(game["marks"])
    assert studio.get("/api/video", id=agents, name=game["video"]).body[4:8] == b"ftyp"
    assert studio.get("/api/run", id=agents).json["names"] == ["seed 0", "seed 1"]


def test_a_real_exploration(studio, options: str) -> None:
    line = next(line for line in studio.get("/api/runs").json["runs"] if line["id"] == options)
    assert (line["kind"], line["state"], line["score"], line["score_name"]) == ("options", "finished", 1, "rooms")
    found = studio.get("/api/control", id=options).json
    assert [way["way"] for way in found["ways"]] == ["actions", "options", "controllable"]
    assert all(len(way["percentiles"]) == len(found["shares"]) for way in found["ways"])
    assert line["keypoints"] == len(found["gaps"]["y"][0])
    assert 0 <= found["keypoint"] < line["keypoints"]
    assert found["rooms"]["y"] == [1, 1]
    assert studio.get("/api/video", id=options, name=found["video"]).body[4:8] == b"ftyp"


def test_of_several_seeds_the_chosen_one_says_so(studio) -> None:
    chosen = {line["id"]: line["chosen"] for line in studio.get("/api/runs").json["runs"]}
    assert (chosen["first"], chosen["nested/second"]) == (False, True)
    models = {model["id"]: model["chosen"] for model in studio.get("/api/models").json["models"]}
    assert models["run:nested/second"]
    assert not models["run:first"]
    assert not models["shipped:pong"]


def test_a_choice_is_never_read_from_outside(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "runs" / "mine", {"environment": "pong"})
    (tmp_path / "runs" / "chosen.json").write_text('{"run": "mine"}')
    assert RunFolders(tmp_path / "runs").headlines()[0].chosen
    assert not RunFolders(run.path).headlines()[0].chosen  # the folder above the root is not ours to read
    (tmp_path / "runs" / "chosen.json").rename(tmp_path / "elsewhere.json")
    (tmp_path / "runs" / "chosen.json").symlink_to(tmp_path / "elsewhere.json")
    assert not RunFolders(tmp_path / "runs").headlines()[0].chosen

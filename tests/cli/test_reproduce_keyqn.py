"""transporter reproduce keyqn: the table, what it is put together from, and what it does not write over."""

import json
from pathlib import Path
from typing import Any

import pytest

from transporter.cli.reproduce.gathered import check_replaced
from transporter.control.keyqn.config import KeyQNConfig
from transporter.errors import InputError
from transporter.runs import Run


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

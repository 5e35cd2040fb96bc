"""What is read from a run's rows, by hand."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from transporter.control.options.config import (
    ActingConfig,
    EvaluationConfig,
    EyesConfig,
    LearningConfig,
    NetworkConfig,
    OptionsConfig,
)
from transporter.control.options.experiment import (
    Experiment,
    Notices,
    Schedule,
    learn,
    of_today,
    options_file,
    settings,
)
from transporter.control.options.outcome import curves, figures
from transporter.runs import Run
from transporter.training.learner import Hardware


def row(frames: int, speed: int, **more: Any) -> dict[str, Any]:
    return {"frames": frames, "frames_per_second": speed, "eyes_swapped": 0.25, **more}


ROWS = [
    row(10, 100),
    row(20, 300, returns={"actions": [0, 1], "options": [2, 2], "controllable": [0, 4]}, avatar=0.5, rooms=3),
    row(
        30,
        200,
        returns={"options": [3, 5], "controllable": [6, 10]},
        avatar=0.75,
        rooms=2,
        rooms_by_way={"options": 4, "controllable": 2},
    ),
]


def test_random_actions_are_measured_once_and_are_in_every_point() -> None:
    lines = curves(ROWS)
    assert lines["actions"] == [(20, [0, 1]), (30, [0, 1])]
    assert lines["controllable"] == [(20, [0, 4]), (30, [6, 10])]


def test_figures_are_of_the_last_evaluation() -> None:
    found = figures(ROWS)
    assert (found["controllable mean"], found["controllable std"], found["controllable p50"]) == (8.0, 2.0, 8.0)
    assert (found["actions mean"], found["avatar"], found["rooms"], found["rooms, most"]) == (0.5, 0.75, 2.0, 3.0)
    assert (found["options rooms"], found["controllable rooms"]) == (4.0, 2.0)
    assert found["frames per second"] == 200.0
    assert found["eyes swapped, last"] == 0.25
    assert figures([]) == {}


def test_how_often_it_is_looked_at_may_change() -> None:
    config = OptionsConfig(acting=ActingConfig(players=8))
    now = settings(Experiment("pong", 0, config))
    often = dataclasses.replace(config, evaluation=EvaluationConfig(look_every=1))
    assert settings(Experiment("pong", 0, often)) == now
    # Random actions are measured once: what others are compared with them by stays.
    fewer = dataclasses.replace(config, evaluation=EvaluationConfig(episodes=1))
    assert settings(Experiment("pong", 0, fewer)) != now
    # Those of earlier versions said how it was measured then.
    then = {**now, "config": {**now["config"], "evaluation": {"episodes": 32, "steps": 4500, "watched": 2000}}}
    assert of_today(then) == now
    assert OptionsConfig.from_json(then["config"]) == config


def test_frames_count_as_the_game_counts_them() -> None:
    config = OptionsConfig(acting=ActingConfig(players=8))
    assert Experiment("pong", 0, config).frames == 32  # four of the console in a step
    assert Experiment("sprites_control", 0, config).frames == 8
    assert Schedule(100, 64, 1, 33).steps(32) == pytest.approx((4, 2, 1, 2))


@pytest.mark.parametrize("step", [20, 40], ids=["on the way", "at the end"])
def test_a_look_that_is_stopped_is_made_up_for(step: int, tmp_path: Path) -> None:
    config = OptionsConfig(
        NetworkConfig(layers=((4, 4, 2),), hidden=8, memory=6),
        LearningConfig(batch=2, burn_in=1, unroll=2),
        ActingConfig(players=2, warm_up=8, replay=200),
        EyesConfig(size=16, batch=4, offset=4, tiny=True),
        EvaluationConfig(episodes=1, steps=30),
    )
    experiment = Experiment("sprites_control", 0, config)
    run, cpu = Run.create(tmp_path / "run", settings(experiment)), Hardware("cpu")
    due = Schedule(total=80, evaluate=40, log=1_000, checkpoint=1_000)

    def looking() -> bool:
        newest = run.metrics()[-1:]
        return [row["step"] for row in newest if "returns" not in row] == [step]

    for _ in range(2):  # the second time before anything else; it is saved before it is looked at
        assert not learn(experiment, run, cpu, due, Notices(stopping=looking))
        saved = run.latest()
        assert saved is not None
        assert saved.step == step == run.metrics()[-1]["step"]
        assert not options_file(run).exists()
    assert learn(experiment, run, cpu, due)
    assert [(row["step"], len(row["returns"])) for row in run.metrics()] == [(20, 3), (40, 2)]
    assert run.metrics()[0]["updates"] > 0
    assert options_file(run).exists()

"""One experiment, from its plan to its card: tiny, but every part of it real."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

import transporter
from transporter.data.collect import collect
from transporter.data.manifest import quick_settings
from transporter.errors import InputError
from transporter.models.blocks import TINY
from transporter.models.zoo import from_run
from transporter.runs import Run
from transporter.tracking.card import card
from transporter.tracking.experiment import (
    Job,
    is_finished,
    plan,
    steps_done,
    train_job,
    trained,
    training_seconds,
)
from transporter.tracking.measure import is_measured, measure, measure_here, shards, to_measure, write_result
from transporter.training.learner import Hardware
from transporter.training.loop import NotFiniteError, train

FRAMES = 90


def planned(seed: int = 0, recipe: str = "transporter"):
    return plan("sprites", recipe, seed, steps=8, size=32, base="tiny")


def test_an_environment_has_its_own_recipe_and_annealing_is_a_share_of_the_steps() -> None:
    floes = plan("frostbite", "suited", 0, steps=100, size=80)
    assert floes.config == plan("frostbite", "alike", 0, steps=100, size=80).config
    assert floes.config != plan("frostbite", "transporter", 0, steps=100, size=80).config
    assert floes.name == "frostbite-suited-seed0"
    assert plan("frostbite", "suited", 0, steps=100, size=32, base="tiny").config.model.shape == TINY
    assert (floes.config.validate_every, floes.config.checkpoint_every) == (5, 20)
    assert plan("pong", "transporter", 0, steps=100, size=80, anneal=0.5).config.sigma_steps == 50
    assert plan("pong", "not_annealed", 0, steps=100, size=80, anneal=0.5).config.sigma_steps == 0
    own = plan("pong", "twice+sigma_steps=7+validate_every=9", 0, steps=100, size=80, anneal=0.5).config
    assert (own.sigma_steps, own.validate_every, own.model.keypoints) == (7, 9, 6)
    assert plan("pong", "twice", 0, steps=100, size=80, keypoints=4).config.model.keypoints == 4


def test_a_job_says_what_it_trains() -> None:
    group = (planned(0), planned(1), planned(0, "jakab"))
    assert str(Job(group, Path(), Path(), Hardware("cpu"))) == "sprites:transporter:0,1 sprites:jakab:0"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "sprites"
    collect(quick_settings("sprites", 32, 48), path)
    return path


@pytest.fixture(scope="module")
def work(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds, trained together."""
    path = tmp_path_factory.mktemp("work")
    train_job(Job((planned(0), planned(1)), data, path, Hardware("cpu")))
    return path


def test_a_training_leaves_all_that_measuring_needs(work: Path) -> None:
    assert is_finished(planned(0), work)
    assert steps_done(planned(1), work) == 8
    found = trained("sprites-transporter-seed1", work)
    assert found is not None
    figures = found.record["figures"]
    assert figures["steps"] == 8
    assert 0 <= figures["alive"] + figures["duplicates"] <= 3
    assert 0 < figures["reconstruction_error"] < 1
    assert found.record["preset"] == "tiny"
    run = Run.open(work / found.name)
    frames = np.random.default_rng(0).integers(0, 256, (3, 32, 32, 3), np.uint8)
    np.testing.assert_allclose(transporter.load(found.weights, "cpu")(frames), from_run(run, "cpu")(frames), atol=0.05)
    validated = [row["validation_loss"] for row in run.metrics() if row["step"] == figures["measured_step"]]
    assert figures["validation_loss"] == pytest.approx(validated[0], rel=1e-3)
    seen = [row["reconstruction_error"] for row in run.metrics() if row["step"] == figures["measured_step"]]
    assert figures["reconstruction_error"] == pytest.approx(seen[0], rel=1e-3)


def test_samples_are_held_out_pairs_and_the_error_of_copying_is_theirs(work: Path) -> None:
    samples = safetensors.numpy.load_file(work / "sprites-transporter-seed0" / "samples.safetensors")
    assert {name: value.dtype.name for name, value in samples.items()} == {
        "source": "uint8",
        "target": "uint8",
        "prediction": "uint8",
        "points": "float32",
    }
    assert (samples["source"] != samples["target"]).any()


def test_what_is_trained_is_not_trained_again(data: Path, work: Path) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("there was nothing to train")

    train_job(Job((planned(0), planned(1)), data, work, Hardware("cpu")), refuse)


def test_one_that_fails_leaves_the_others_ready_to_be_measured(data: Path, tmp_path: Path) -> None:
    def fails(configs, pairs, runs, hardware, stopping) -> None:
        train(configs[0], pairs, runs[0], hardware)
        raise NotFiniteError("loss not finite")

    with pytest.raises(NotFiniteError):
        train_job(Job((planned(0), planned(1)), data, tmp_path, Hardware("cpu")), fails)
    assert is_finished(planned(0), tmp_path)
    assert trained(planned(1).name, tmp_path) is None


def test_seeds_are_compared_by_the_loss_that_chose_their_checkpoints(data: Path, tmp_path: Path) -> None:
    carried = planned(0, "transporter+carried=0.5")
    train_job(Job((carried,), data, tmp_path, Hardware("cpu")))
    found = trained(carried.name, tmp_path)
    assert found is not None
    rows = {row["step"]: row for row in found.record["metrics"] if "validation_loss" in row}
    best = rows[found.record["figures"]["measured_step"]]
    assert found.record["figures"]["validation_loss"] == pytest.approx(best["validation_loss"], rel=1e-4)


def test_a_training_cut_short_can_be_measured_and_goes_on(data: Path, tmp_path: Path) -> None:
    job = Job((planned(0),), data, tmp_path, Hardware("cpu"))
    calls = itertools.count(1)

    def three_steps(configs, pairs, runs, hardware, stopping) -> None:
        train(configs[0], pairs, runs[0], hardware, stopping=lambda: next(calls) == 3)

    train_job(job, three_steps)
    cut = trained(job.group[0].name, tmp_path)
    assert cut is not None
    assert cut.steps == 3
    assert not is_finished(job.group[0], tmp_path)
    write_result(cut, measure_here(cut, FRAMES), tmp_path / "result.json")
    assert is_measured(cut, FRAMES, tmp_path / "result.json")
    train_job(job)
    whole = trained(job.group[0].name, tmp_path)
    assert whole is not None
    assert whole.steps == 8
    assert not is_measured(whole, FRAMES, tmp_path / "result.json")


def test_past_its_deadline_a_job_does_not_begin(data: Path, tmp_path: Path) -> None:
    train_job(Job((planned(0),), data, tmp_path, Hardware("cpu"), deadline=0.0))
    assert list(tmp_path.iterdir()) == []


def test_other_settings_in_the_same_folder_are_refused(data: Path, work: Path) -> None:
    other = plan("sprites", "transporter", 0, steps=9, size=32, base="tiny")
    with pytest.raises(InputError, match="other settings"):
        train_job(Job((other,), data, work, Hardware("cpu")))


def test_seconds_are_those_of_the_steps() -> None:
    rows = [{"step": 10, "steps_per_second": 5.0}, {"step": 15, "alive": 2}, {"step": 20, "steps_per_second": 10.0}]
    assert training_seconds(rows) == 2 + 1


def test_play_is_cut_into_shards_that_do_not_depend_on_who_works(work: Path) -> None:
    found = trained("sprites-transporter-seed0", work)
    assert found is not None
    cut = shards(to_measure([found]), frames=12_000, seed=7)
    assert [(shard.frames, shard.seed) for shard in cut] == [(5_000, 7), (5_000, 8), (2_000, 9)]


def test_many_models_watch_one_play_and_get_what_each_gets_alone(work: Path, tmp_path: Path) -> None:
    every = [found for seed in (0, 1) if (found := trained(f"sprites-transporter-seed{seed}", work))]
    seen = {m.weights: m.evaluation for m in measure(to_measure(every), FRAMES, device="cpu")}
    for found in every:
        alone = measure_here(found, FRAMES, device="cpu")
        assert json.dumps(seen[found.weights].to_json()) == json.dumps(alone.to_json())
    write_result(every[0], seen[every[0].weights], tmp_path / "result.json")
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["figures"]["lowest_ratio"] <= result["figures"]["mean_ratio"]
    assert result["seeds"] == {"train": 0, "collect": 0, "evaluate": 1_000_000}
    made = card(result, "It was hardly trained.")
    suited = {"environment": "frostbite", "recipe": "suited", "preset": "fast"}
    assert card({**result, **suited})["recipe"] == "alike"
    assert card({**result, **suited, "preset": "tiny"})["recipe"] == "transporter"
    assert {"environment", "preset", "recipe", "pairs", "steps", "seed", "keypoints", "measured"} <= set(made)
    assert made["failures"].startswith("It was hardly trained. Followed for less than 0.9")


def test_a_model_that_cannot_be_measured_says_why(tmp_path: Path) -> None:
    (tmp_path / "broken.safetensors").write_text("nothing")
    (found,) = measure({tmp_path / "broken.safetensors": ("sprites", 32)}, FRAMES)
    assert found.evaluation is None
    assert "is not a detector" in (found.error or "")


def test_a_card_needs_a_result() -> None:
    with pytest.raises(InputError, match="not the result of a measured experiment"):
        card({"figures": {}})

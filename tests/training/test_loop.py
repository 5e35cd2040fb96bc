"""The loop on a real, tiny problem: resume, best checkpoint, and what happens when a number stops being one."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from transporter.envs.sprites import make_vector
from transporter.runs import Run
from transporter.training.config import TrainConfig, preset
from transporter.training.learner import Hardware, Learner
from transporter.training.loop import NotFiniteError, train

CPU = Hardware(device="cpu")


class Sprites:
    """Pairs of real sprite frames, in memory."""

    def __init__(self, size: int = 32, count: int = 96) -> None:
        env = make_vector("sprites", 8, size, 0)
        frames = [env.reset(seed=0)[0].copy()]
        for _ in range(30):
            frames.append(env.step(np.zeros(8, np.int64))[0].copy())
        rng = np.random.default_rng(0)
        first, gap, copy = rng.integers(0, 20, count), rng.integers(1, 11, count), rng.integers(0, 8, count)
        stacked = np.stack(frames)
        self.pairs = np.stack((stacked[first, copy], stacked[first + gap, copy]), axis=1)
        self.train_rows, self.validation_rows = np.arange(count - 16), np.arange(count - 16, count)

    def load_all(self) -> np.ndarray:
        return self.pairs


@pytest.fixture(scope="module")
def pairs() -> Sprites:
    return Sprites()


@pytest.fixture
def config() -> TrainConfig:
    return preset("tiny", keypoints=3, size=32, steps=12, batch=8, sigma_steps=6, log_every=2, validate_every=4,
                  checkpoint_every=4)  # fmt: skip


def weights(run: Run) -> dict[str, torch.Tensor]:
    checkpoint = run.latest()
    assert checkpoint is not None
    return checkpoint.tensors


def test_a_run_that_was_stopped_ends_with_the_same_weights_and_metrics(tmp_path: Path, pairs, config) -> None:
    whole = Run.create(tmp_path / "whole", config.to_json())
    train(config, pairs, whole, CPU)

    class Stop(Exception):
        pass

    def stop_at_ten(row: dict) -> None:
        if row["step"] == 10:
            raise Stop

    broken = Run.create(tmp_path / "broken", config.to_json())
    with pytest.raises(Stop):
        train(config, pairs, broken, CPU, stop_at_ten)
    torch.manual_seed(123)  # another process would have another state
    train(config, pairs, Run.open(broken.path), CPU)

    expected, got = weights(whole), weights(broken)
    assert expected.keys() == got.keys()
    for name in expected:
        assert torch.equal(expected[name], got[name]), name
    timeless = [{k: v for k, v in row.items() if k != "steps_per_second"} for row in whole.metrics()]
    assert timeless == [{k: v for k, v in row.items() if k != "steps_per_second"} for row in broken.metrics()]


def test_a_run_killed_before_its_first_checkpoint_starts_afresh(tmp_path: Path, pairs, config) -> None:
    run = Run.create(tmp_path / "run", config.to_json())
    (run.path / "metrics.jsonl").write_text('{"step": 2, "loss": 9.0}\n{"step": 4, "lo')
    train(config, pairs, run, CPU)
    assert [row["step"] for row in run.metrics()] == [2, 4, 6, 8, 10, 12]
    assert run.metrics()[0]["loss"] != 9.0


def test_the_best_checkpoint_has_the_lowest_validation_loss_after_the_heatmaps_shrank(tmp_path, pairs, config) -> None:
    run = Run.create(tmp_path / "run", config.to_json())
    train(config, pairs, run, CPU)
    validated = [row for row in run.metrics() if row["step"] > 6 and "validation_loss" in row]
    rows = {row["step"]: row["validation_loss"] for row in validated}
    assert run.best().step == min(rows, key=rows.__getitem__)
    assert run.best().state["best"] == min(rows.values())


def test_a_gradient_that_is_not_finite_leaves_everything_as_it_was(tmp_path: Path, pairs, config) -> None:
    run = Run.create(tmp_path / "run", config.to_json())
    train(replace(config, steps=4), pairs, run, CPU)
    learner = Learner(config, CPU)
    learner.restore(run.latest())
    before = {name: t.clone() for name, t in learner.checkpoint(4).tensors.items() if name != "model.sigma"}
    learner.model.refine[-1].weight.register_hook(lambda gradient: gradient * torch.nan)
    source, target = torch.from_numpy(pairs.pairs[:8, 0]), torch.from_numpy(pairs.pairs[:8, 1])
    learner.step(4, source, target)
    assert learner.failed_at() == 4
    after = learner.checkpoint(4).tensors
    for name, tensor in before.items():
        assert torch.equal(tensor, after[name]), name


def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_batch(
    tmp_path: Path, pairs, config, monkeypatch
) -> None:
    run = Run.create(tmp_path / "run", config.to_json())
    learners: list[Learner] = []

    class Seen(Learner):
        def __init__(self, *args: object) -> None:
            super().__init__(*args)
            learners.append(self)

    def spoil(row: dict) -> None:
        if row["step"] == 6:
            learners[0].model.refine[-1].bias.data.fill_(torch.inf)

    monkeypatch.setattr("transporter.training.loop.Learner", Seen)
    with pytest.raises(NotFiniteError, match="step 7"):
        train(config, pairs, run, CPU, spoil)
    assert (run.path / "not-finite-step-7.safetensors").exists()
    latest = run.latest()
    assert latest is not None
    assert latest.step == 6  # the state before the bad step
    spoilt = {"model.refine.2.bias"}
    finite = {name for name, t in latest.tensors.items() if torch.isfinite(t.float()).all()}
    assert set(latest.tensors) - finite == spoilt  # what the test did, and nothing that came of it


def test_sigma_shrinks_geometrically_and_the_rate_follows_the_paper() -> None:
    config = replace(TrainConfig(), sigma_start=0.4, sigma_steps=2)
    assert [round(config.sigma(step), 6) for step in (0, 1, 2, 9)] == [0.4, 0.2, 0.1, 0.1]
    paper = TrainConfig()
    assert paper.sigma(0) == 0.1
    assert (paper.rate(0), paper.rate(99_999)) == (1e-3, 1e-3)
    assert paper.rate(250_000) == pytest.approx(1e-3 * 0.95**2)
    assert replace(paper, warmup=10).rate(4) == pytest.approx(5e-4)


def test_heatmaps_shrink_over_the_same_share_of_other_steps() -> None:
    assert preset("fast").sigma_steps / preset("fast").steps == preset("fast", steps=1_000).sigma_steps / 1_000
    assert preset("fast", steps=1_000, sigma_steps=7).sigma_steps == 7


def test_config_survives_json() -> None:
    config = preset("fast", keypoints=7, seed=3)
    assert TrainConfig.from_json(config.to_json()) == config


def test_no_pixel_is_louder_than_the_floor_allows(tmp_path: Path, pairs: Sprites, config: TrainConfig) -> None:
    quiet = replace(config, model=replace(config.model, floor=0.1), steps=1)
    learner = train(quiet, pairs, Run.create(tmp_path / "run", {}), CPU)
    assert float(learner.model.pixels.scale.min()) == pytest.approx(25.5)


def test_carried_frames_and_grain_are_learnt_from_and_resumed_like_any(
    tmp_path: Path, pairs: Sprites, config: TrainConfig
) -> None:
    carried = replace(
        config, both_ways=True, carried=0.5, model=replace(config.model, grain=3.0, sway=0.5, clutter=2.0)
    )
    whole = train(carried, pairs, Run.create(tmp_path / "whole", {}), CPU)
    steps = iter(range(100))
    train(carried, pairs, Run.create(tmp_path / "parts", {}), CPU, stopping=lambda: next(steps) == 4)
    parts = train(carried, pairs, Run.create(tmp_path / "parts", {}), CPU)
    for a, b in zip(whole.model.parameters(), parts.model.parameters(), strict=True):
        assert torch.equal(a, b)
    for other in (replace(carried, carried=0.0), replace(carried, model=config.model)):
        plain = train(other, pairs, Run.create(tmp_path / f"without-{other.carried}", {}), CPU)
        assert not torch.equal(next(plain.model.parameters()), next(whole.model.parameters()))

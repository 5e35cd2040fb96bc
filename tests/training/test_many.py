"""Side by side is one after the other, to the bit."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.training.test_loop import CPU, Sprites

from transporter.models.factory import Kind
from transporter.runs import Run
from transporter.training.config import preset
from transporter.training.learner import Hardware
from transporter.training.loop import NotFiniteError, train
from transporter.training.many import train_many


@pytest.mark.parametrize("kind", ["transporter", "zhang"])  # the second draws random numbers in every step
def test_seeds_side_by_side_learn_what_they_learn_alone(tmp_path: Path, kind: Kind) -> None:
    pairs = Sprites(count=48)
    config = preset("tiny", kind=kind, keypoints=2, size=32, steps=4, batch=4, log_every=2, validate_every=2)
    configs = [replace(config, seed=seed) for seed in (0, 1)]
    alone = [Run.create(tmp_path / f"alone-{c.seed}", c.to_json()) for c in configs]
    for c, run in zip(configs, alone, strict=True):
        train(c, pairs, run, CPU)
    together = [Run.create(tmp_path / f"together-{c.seed}", c.to_json()) for c in configs]
    seen: list[tuple[int, int]] = []
    train_many(configs, pairs, together, CPU, observe=lambda which, row: seen.append((which, row["step"])))
    assert seen == [(0, 2), (1, 2), (0, 4), (1, 4)]
    for one, other in zip(alone, together, strict=True):
        a, b = one.latest(), other.latest()
        assert a is not None
        assert b is not None
        assert a.tensors.keys() == b.tensors.keys()
        assert all(torch.equal(a.tensors[name], b.tensors[name]) for name in a.tensors)
    losses = [[row["loss"] for row in run.metrics() if "loss" in row] for run in together]
    assert losses[0] != losses[1]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_seeds_side_by_side_on_a_gpu(tmp_path: Path) -> None:
    pairs, hardware = Sprites(count=48), Hardware(device="cuda", precision="fp32")
    config = preset("tiny", keypoints=2, size=32, steps=20, batch=4, log_every=5, validate_every=20)
    configs = [replace(config, seed=seed) for seed in range(4)]
    together = [Run.create(tmp_path / f"together-{c.seed}", c.to_json()) for c in configs]
    train_many(configs, pairs, together, hardware)
    for c, run in zip(configs, together, strict=True):
        alone = Run.create(tmp_path / f"alone-{c.seed}", c.to_json())
        train(c, pairs, alone, hardware)
        found, expected = ([row["loss"] for row in r.metrics() if "loss" in row] for r in (run, alone))
        assert found == pytest.approx(expected, rel=1e-2)


def test_one_that_is_further_on_does_not_hold_up_the_other(tmp_path: Path) -> None:
    pairs = Sprites(count=48)
    config = preset("tiny", keypoints=2, size=32, steps=4, batch=4, log_every=2, validate_every=2, both_ways=True)
    runs = [Run.create(tmp_path / name, config.to_json()) for name in ("ahead", "behind")]
    train(config, pairs, runs[0], CPU)
    train_many([config, config], pairs, runs, CPU)
    assert [run.latest().step for run in runs] == [4, 4]


def test_one_that_fails_does_not_end_the_others(tmp_path: Path) -> None:
    pairs = Sprites(count=48)
    config = preset("tiny", keypoints=2, size=32, steps=4, batch=4, log_every=2, validate_every=2)
    configs = [replace(config, learning_rate=1e30), config]
    runs = [Run.create(tmp_path / name, c.to_json()) for name, c in zip(("bad", "good"), configs, strict=True)]
    with pytest.raises(NotFiniteError):
        train_many(configs, pairs, runs, CPU)
    latest = runs[1].latest()
    assert latest is not None
    assert latest.step == 4

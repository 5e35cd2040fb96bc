"""NaN and Inf at twenty points of a step: caught in that step, nothing learnt from it, and the batch kept."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import safetensors.torch
import torch
from torch import Tensor

from transporter.checkpoints import Checkpoint
from transporter.data.pairs import PairSet
from transporter.runs import Run
from transporter.training.batches import ResidentPairs, Sampler
from transporter.training.config import preset
from transporter.training.learner import Hardware, Learner
from transporter.training.loop import NotFiniteError, train

STEP = 6  # the one that goes wrong, counted from 1
CPU = Hardware(device="cpu")
CONFIG = preset("tiny", size=32, keypoints=3, steps=8, batch=4, sigma_steps=2, log_every=1, validate_every=4)


class Point(NamedTuple):
    """A place in a step, and how to spoil what passes there: once, at the chosen step."""

    name: str
    spoil: Callable[[Learner, Callable[[Tensor], Tensor]], None]


def output_of(part: str) -> Callable[[Learner, Callable[[Tensor], Tensor]], None]:
    def spoil(learner: Learner, change: Callable[[Tensor], Tensor]) -> None:
        module = learner.model.get_submodule(part)
        module.register_forward_hook(lambda module, given, found: change(found))

    return spoil


def frames(which: int) -> Callable[[Learner, Callable[[Tensor], Tensor]], None]:
    """Frames are bytes on disk; as numbers they are what `encode` makes of them: sources and targets in turn."""

    def spoil(learner: Learner, change: Callable[[Tensor], Tensor]) -> None:
        encode, turns = learner.model.pixels.encode, itertools.count()

        def encoded(shown: Tensor) -> Tensor:
            return change(encode(shown)) if next(turns) % 2 == which else encode(shown)

        learner.model.pixels.encode = encoded  # type: ignore[method-assign]

    return spoil


def loss(learner: Learner, change: Callable[[Tensor], Tensor]) -> None:
    def changed(module: object, given: object, output: object) -> object:
        return output._replace(loss=change(output.loss))  # type: ignore[attr-defined]

    learner.model.register_forward_hook(changed)


def gradient(index: int) -> Callable[[Learner, Callable[[Tensor], Tensor]], None]:
    def spoil(learner: Learner, change: Callable[[Tensor], Tensor]) -> None:
        list(learner.model.parameters())[index].register_hook(change)

    return spoil


POINTS = [
    Point("source frames", frames(0)),
    Point("target frames", frames(1)),
    Point("features", output_of("features")),
    Point("keypoints", output_of("keypoints")),
    Point("the picture that is painted", output_of("refine")),
    Point("loss", loss),
    Point("gradient of the first weight", gradient(0)),
    Point("gradient of a weight in between", gradient(7)),
    Point("gradient of another", gradient(-5)),
    Point("gradient of the last weight", gradient(-1)),
]


@pytest.fixture(scope="module")
def pairs(data) -> PairSet:
    return PairSet.open(data.path)


@pytest.fixture(scope="module")
def before(pairs, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """The state up to the step before, where nothing goes wrong."""
    run = Run.create(tmp_path_factory.mktemp("stopped") / "run", CONFIG.to_json())
    steps = iter(range(1, 100))
    train(CONFIG, pairs, run, CPU, stopping=lambda: next(steps) == STEP - 1)
    saved = run.latest()
    assert saved is not None
    return saved


@pytest.mark.parametrize("value", [float("nan"), float("inf")], ids=["NaN", "Inf"])
@pytest.mark.parametrize("point", POINTS, ids=[point.name for point in POINTS])
def test_it_is_caught_in_its_step(
    point: Point, value: float, pairs, before, tmp_path: Path, monkeypatch, record
) -> None:
    run = Run.create(tmp_path / "run", CONFIG.to_json())

    class Spoilt(Learner):
        def __init__(self, *args: object) -> None:
            super().__init__(*args)  # type: ignore[arg-type]
            point.spoil(self, self.change)

        def change(self, found: Tensor) -> Tensor:
            if int(self.now) != STEP - 1 or not self.model.training:
                return found
            one = torch.zeros(found.numel(), dtype=torch.bool)
            one[len(one) // 2] = True  # one number among all
            return found + torch.where(one.view(found.shape), value, 0.0)

    monkeypatch.setattr("transporter.training.loop.Learner", Spoilt)
    with pytest.raises(NotFiniteError, match=f"at step {STEP}:"):
        train(CONFIG, pairs, run, CPU)

    after = run.latest()
    assert after is not None
    assert after.step == STEP - 1
    same = {name for name in before.tensors if torch.equal(before.tensors[name], after.tensors[name])}
    assert set(before.tensors) - same <= {"model.sigma"}  # the width of the heatmaps goes by the step, and will again
    batch = safetensors.torch.load_file(run.path / f"not-finite-step-{STEP}.safetensors")
    sampler = Sampler(pairs.train_rows, CONFIG.pairs, CONFIG.seed)
    shown = ResidentPairs(pairs.load_all(), CPU.resolve()).batch(sampler.at(STEP - 1))
    assert torch.equal(batch["source"], shown[0])
    assert torch.equal(batch["target"], shown[1])

    monkeypatch.undo()  # without the fault it goes on
    train(CONFIG, pairs, Run.open(run.path), CPU)
    assert [row["step"] for row in run.metrics()] == list(range(1, CONFIG.steps + 1))
    record("6-not-finite", points_that_are_caught=2 * len(POINTS))

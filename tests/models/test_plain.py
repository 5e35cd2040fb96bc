"""The plain network that the benchmarks measure against computes what the library's does."""

from pathlib import Path

import pytest
import torch

from transporter.models.blocks import NOTEBOOK, PAPER, TINY, Shape
from transporter.models.factory import ModelConfig
from transporter.training.config import TrainConfig
from transporter.training.learner import Hardware, Learner

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.parametrize("shape", [PAPER, NOTEBOOK, TINY], ids=["paper", "notebook", "tiny"])
def test_it_goes_on_where_the_library_is(monkeypatch: pytest.MonkeyPatch, shape: Shape) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    from losses import load
    from plain import PlainTransporter

    learner = Learner(TrainConfig(model=ModelConfig(keypoints=4, size=32, shape=shape)), Hardware("cpu"))
    frames = torch.randint(0, 256, (2, 4, 32, 32, 3), dtype=torch.uint8)
    learner.step(0, *frames)
    plain = PlainTransporter(shape, 4, same_edges=True)
    optimiser = torch.optim.Adam(plain.parameters(), 1e-3)
    load(plain, optimiser, learner.checkpoint(1), [name for name, _ in learner.model.named_parameters()])
    for step in (1, 2):
        optimiser.zero_grad()
        loss = plain(*frames)
        loss.backward()
        optimiser.step()
        assert learner.step(step, *frames).item() == pytest.approx(loss.item(), rel=1e-4)

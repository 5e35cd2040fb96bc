"""What the decoder sees, the loss by hand, and that it learns."""

import dataclasses
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from transporter.models.blocks import TINY
from transporter.models.factory import ModelConfig, build
from transporter.models.jakab import Jakab
from transporter.models.keynet import gaussian_heatmaps
from transporter.models.pixels import Pixels
from transporter.runs import Run
from transporter.training.config import preset
from transporter.training.learner import Hardware
from transporter.training.loop import train


def frames(seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (2, 16, 16, 3), dtype=torch.uint8, generator=generator)


@pytest.fixture
def model() -> Jakab:
    torch.manual_seed(0)
    made = build(ModelConfig(kind="jakab", keypoints=3, size=16, shape=dataclasses.replace(TINY, norm="layer")))
    assert isinstance(made, Jakab)
    return made


def test_the_decoder_sees_the_sources_features_and_the_targets_heatmaps(model: Jakab) -> None:
    seen: list[Tensor] = []
    model.refine.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    source, target = frames(1), frames(2)
    model(source, target)
    features = model.features(model.pixels.encode(source))
    heat = gaussian_heatmaps(model.keypoints(model.pixels.encode(target)), 8, 8, model.sigma)
    assert seen[0].shape == (2, 32 + 3, 8, 8)
    torch.testing.assert_close(seen[0], torch.cat((features, heat), dim=1))


def test_gradients_reach_every_part_and_the_sources_features_too(model: Jakab) -> None:
    features: list[Tensor] = []

    def keep(module: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
        output.retain_grad()
        features.append(output)

    model.features.register_forward_hook(keep)
    model(frames(1), frames(2)).loss.backward()
    (of_source,) = features  # nothing asks for the target's
    assert of_source.grad is not None
    assert of_source.grad.abs().max() > 0
    assert all(p.grad is not None for p in model.parameters() if p.requires_grad)
    assert model.keypoints.head.weight.grad.abs().max() > 0


def test_the_loss_is_the_mean_squared_error() -> None:
    class Middle(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.zeros(len(x), 1, 2)

    class Source(nn.Module):
        """A decoder that gives the source back and adds the heat to red."""

        def forward(self, x: Tensor) -> Tensor:
            return x[:, :3] + torch.cat((x[:, 3:], torch.zeros_like(x[:, :2])), dim=1)

    model = Jakab(Pixels(), nn.Identity(), Middle(), Source(), sigma=1.0)
    black, grey = torch.zeros(1, 1, 1, 3, dtype=torch.uint8), torch.full((1, 1, 1, 3), 51, dtype=torch.uint8)
    # one pixel: the source is black, the heat in its centre 1, the target 0.2: (0.8² + 0.2² + 0.2²) / 3
    output = model(black, grey)
    assert output.loss.item() == pytest.approx(0.72 / 3)
    assert output.prediction.flatten().tolist() == [1, 0, 0]


def test_it_learns_where_the_disk_is(tmp_path: Path, disk) -> None:
    """Four times better than the best still picture: that cannot be done without knowing where the disk is."""
    config = preset("tiny", kind="jakab", keypoints=4, size=32, steps=200, batch=16, standardise=False, sigma=0.3,
                    sigma_start=None, learning_rate=5e-3, validate_every=200)  # fmt: skip
    run = Run.create(tmp_path / "run", config.to_json())
    train(config, disk, run, Hardware(device="cpu"))
    seen = torch.from_numpy(disk.pairs).float() / 255
    still = (seen[disk.validation_rows, 1] - seen[disk.train_rows].mean((0, 1))).square().mean()
    assert run.metrics()[-1]["validation_loss"] < still / 4

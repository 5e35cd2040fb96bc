"""Networks by configuration, and where gradients may go."""

import dataclasses

import pytest
import torch

from transporter.errors import InputError
from transporter.models.blocks import NOTEBOOK, PAPER, TINY, Encoder, RefineNet
from transporter.models.factory import ModelConfig, build
from transporter.models.transporter import Transporter


def frames(count: int, size: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count, size, size, 3), dtype=torch.uint8, generator=generator)


@pytest.mark.parametrize(("shape", "side", "channels"), [(PAPER, 16, 128), (NOTEBOOK, 32, 32), (TINY, 32, 32)])
@pytest.mark.parametrize("norm", ["batch", "instance", "layer"])
def test_feature_map_and_frame_have_the_sizes_the_paper_gives(shape, side, channels, norm) -> None:
    shape = dataclasses.replace(shape, norm=norm)
    features = Encoder(shape)(torch.zeros(2, 3, 64, 64))
    assert features.shape == (2, channels, side, side)
    assert RefineNet(shape)(features).shape == (2, 3, 64, 64)


def test_the_papers_network_has_the_papers_layers() -> None:
    convolutions = [m for m in Encoder(PAPER).modules() if isinstance(m, torch.nn.Conv2d)]
    assert [m.out_channels for m in convolutions] == [32, 32, 64, 64, 128, 128]
    assert [m.kernel_size[0] for m in convolutions] == [7, 3, 3, 3, 3, 3]
    assert [m.stride[0] for m in convolutions] == [1, 1, 2, 1, 2, 1]
    back = [m for m in RefineNet(PAPER).modules() if isinstance(m, torch.nn.Conv2d)]
    assert [m.out_channels for m in back] == [128, 64, 64, 32, 32, 3]
    assert [m.kernel_size[0] for m in back] == [3, 3, 3, 3, 3, 7]


def test_nothing_is_learnt_through_the_source() -> None:
    """The gradient is that of a loss in which the source's features and points are constants."""
    torch.manual_seed(0)
    model = build(ModelConfig(keypoints=2, size=16, shape=dataclasses.replace(TINY, norm="layer")))
    source, target = frames(2, 16, 1), frames(2, 16, 2)
    model(source, target).loss.backward()
    learnt = [p for p in model.parameters() if p.requires_grad]
    got = [p.grad.clone() for p in learnt]

    x_s = model.pixels.encode(source)
    given = Transporter(model.pixels, model.features, model.keypoints, model.refine)
    features_s, points_s = model.features(x_s).detach(), model.keypoints(x_s).detach()
    given.features = Replay(features_s, model.features)
    given.keypoints = Replay(points_s, model.keypoints)
    model.zero_grad()
    given(source, target).loss.backward()
    for a, b in zip(got, [p.grad for p in learnt], strict=True):
        torch.testing.assert_close(a, b)


def test_of_a_target_that_is_carried_to_only_the_points_are_known() -> None:
    torch.manual_seed(0)
    model = build(ModelConfig(keypoints=2, size=16, shape=TINY)).eval()
    source, target, other = frames(2, 16, 1), frames(2, 16, 2), frames(2, 16, 3)
    points = torch.tensor([[[0.5, 0.5], [-0.5, 0.2]]] * 2)
    model.keypoints.forward = lambda x: points  # type: ignore[method-assign]
    seen = [model(source, x, carried=share).prediction for share in (1.0, 0.0) for x in (target, other)]
    torch.testing.assert_close(seen[0], seen[1])
    assert not torch.equal(seen[2], seen[3])


def test_the_last_share_is_carried_and_features_learn_through_it() -> None:
    torch.manual_seed(0)
    model = build(ModelConfig(keypoints=2, size=16, shape=TINY))
    source, target = frames(2, 16, 1), frames(2, 16, 2)
    model.eval()
    with torch.no_grad():
        none, half, whole = (model(source, target, True, share).prediction for share in (0.0, 0.5, 1.0))
    torch.testing.assert_close(half[:2], none[:2])
    torch.testing.assert_close(half[2:], whole[2:])
    assert not torch.equal(none[2:], whole[2:])
    model.train()
    model(source, target, True, 1.0).loss.backward()
    assert all(p.grad.abs().max() > 0 for p in model.features.parameters() if p.ndim > 1)


class Replay(torch.nn.Module):
    """Gives a constant the first time it is called (the source), the real part the second time (the target)."""

    def __init__(self, constant: torch.Tensor, part: torch.nn.Module) -> None:
        super().__init__()
        self.constant, self.part, self.calls = constant, [part], 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.constant if self.calls == 1 else self.part[0](x)


def test_standardised_pixels_have_mean_nought_and_deviation_below_one() -> None:
    model = build(ModelConfig(keypoints=1, size=16, shape=TINY, standardise=True))
    data = frames(50, 16).double()
    model.pixels.fit(data.mean(0).permute(2, 0, 1).float(), data.std(0, correction=0).permute(2, 0, 1).float())
    seen = model.pixels.encode(data.to(torch.uint8))
    torch.testing.assert_close(seen.mean(0), torch.zeros(3, 16, 16), atol=1e-4, rtol=0)
    assert 0.8 < seen.std(0).mean() < 1
    assert torch.equal(model.pixels.decode(seen), data.to(torch.uint8))


def test_config_survives_json_and_refuses_what_it_does_not_know() -> None:
    config = ModelConfig(keypoints=7, size=80, shape=NOTEBOOK, transport="one_by_one", standardise=True)
    assert ModelConfig.from_json(config.to_json()) == config
    with pytest.raises(InputError, match="unheard_of"):
        ModelConfig.from_json({**config.to_json(), "unheard_of": 1})
    with pytest.raises(InputError, match="multiple of 4"):
        ModelConfig(size=81)


@pytest.mark.parametrize(
    ("where", "value"),
    [("sigma", 0), ("sigma", 2**63), ("sigma", float("nan")), ("strides", [1, 0] * 3), ("kernels", [7, 0] * 3)],
)
def test_a_config_that_cannot_be_is_refused_before_anything_is_made_of_it(where: str, value: object) -> None:
    data = ModelConfig().to_json()
    (data if where == "sigma" else data["shape"])[where] = value
    with pytest.raises(ValueError, match=r"must be above 0|at least 1"):
        ModelConfig.from_json(data)

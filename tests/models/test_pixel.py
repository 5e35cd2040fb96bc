"""Appendix D's ablation: pixels move instead of features, at the size of the frame."""

import pytest
import torch
from torch import Tensor, nn

from transporter.models.blocks import PAPER, TINY, RefineNet, Shape
from transporter.models.factory import ModelConfig, build
from transporter.models.pixels import Pixels
from transporter.models.transporter import Transporter


def convolutions(net: nn.Module) -> list[nn.Conv2d]:
    return [m for m in net.modules() if isinstance(m, nn.Conv2d)]


@pytest.mark.parametrize("shape", [PAPER, TINY])
def test_the_refining_network_has_the_same_layers_and_never_grows(shape: Shape) -> None:
    flat, full = RefineNet(shape, inputs=3, doubles=False), RefineNet(shape)
    assert flat(torch.zeros(1, 3, 16, 16)).shape == (1, 3, 16, 16)
    assert convolutions(flat)[0].in_channels == 3
    assert [(m.out_channels, m.kernel_size) for m in convolutions(flat)] == [
        (m.out_channels, m.kernel_size) for m in convolutions(full)
    ]


def test_the_frames_own_pixels_are_transported() -> None:
    """Four pixels in a row, worked by hand: the keypoint is on the brightest, and its heatmap covers that one alone."""

    class Brightest(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            column = x[:, 0, 0].argmax(-1)
            return torch.stack(((2 * column + 1) / 4 - 1, torch.zeros(len(x))), dim=-1)[:, None]

    model = Transporter(Pixels(), nn.Identity(), Brightest(), nn.Identity(), sigma=0.05)
    source, target = (torch.tensor(row, dtype=torch.uint8)[None, None, :, None].expand(1, 1, 4, 3)
                      for row in ((255, 0, 51, 0), (0, 0, 51, 255)))  # fmt: skip
    output = model(source, target)
    # the bright pixel leaves the first place and comes to the last; the grey one stays
    torch.testing.assert_close(output.prediction[0, 0, 0], torch.tensor([0.0, 0.0, 0.2, 1.0]))
    assert output.loss.item() == pytest.approx(0, abs=1e-6)


def test_only_keypoints_and_refining_are_learnt() -> None:
    model = build(ModelConfig(kind="pixel", keypoints=2, size=16, shape=TINY))
    assert isinstance(model, Transporter)
    assert {name.split(".")[0] for name, _ in model.named_parameters()} == {"keypoints", "refine"}

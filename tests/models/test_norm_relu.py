"""The fused norm against torch's own, forwards, backwards and in what it remembers."""

import copy

import pytest
import torch
from torch import nn

from transporter.models.convolutions import unphase
from transporter.models.fused import HAS_TRITON
from transporter.models.norm_relu import Layout, norm_relu

needs_gpu = pytest.mark.skipif(not (torch.cuda.is_available() and HAS_TRITON), reason="needs a CUDA device and Triton")


def norm_of(channels: int) -> nn.BatchNorm2d:
    norm = nn.BatchNorm2d(channels)
    with torch.no_grad():
        norm.weight.uniform_(0.5, 2)
        norm.bias.normal_()
    return norm


def test_on_a_cpu_it_is_torchs_own() -> None:
    torch.manual_seed(0)
    norm, z = norm_of(8), torch.randn(2, 32, 4, 6)
    expected = copy.deepcopy(norm)(unphase(z)).relu()
    torch.testing.assert_close(norm_relu(z, norm, "unphased"), expected)


@needs_gpu
@pytest.mark.parametrize("layout", ["plain", "unphased", "blocked"])
@pytest.mark.parametrize("channels", [8, 16, 32, 64, 128])
def test_the_kernels_give_what_torch_gives(channels: int, layout: Layout) -> None:
    torch.manual_seed(0)
    ours = norm_of(channels).cuda()
    torchs = copy.deepcopy(ours)
    z = torch.randn(5, channels * (4 if layout == "unphased" else 1), 16, 24, device="cuda") * 2 + 1
    z = z.contiguous(memory_format=torch.channels_last)
    z_ours, z_torchs = z.clone().requires_grad_(), z.clone().requires_grad_()
    y_ours = norm_relu(z_ours, ours, layout)
    y_torchs = torchs(unphase(z_torchs) if layout == "unphased" else z_torchs).relu()
    if layout == "blocked":
        y_torchs = y_torchs.unflatten(3, (6, 4)).unflatten(2, (4, 4)).permute(0, 3, 5, 1, 2, 4).flatten(1, 3)
    weight = torch.randn_like(y_ours) * (y_torchs > 1e-3)  # which side of the kink rounding falls on does not matter
    (y_ours * weight).sum().backward()
    (y_torchs * weight).sum().backward()
    torch.testing.assert_close(y_ours, y_torchs, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(z_ours.grad, z_torchs.grad, rtol=1e-4, atol=1e-4)
    for name in ("weight", "bias"):
        torch.testing.assert_close(getattr(ours, name).grad, getattr(torchs, name).grad, rtol=1e-3, atol=1e-2)
    for name in ("running_mean", "running_var"):
        torch.testing.assert_close(getattr(ours, name), getattr(torchs, name), rtol=1e-4, atol=1e-4)


@needs_gpu
def test_the_same_input_gives_the_same_bits() -> None:
    z = torch.randn(64, 32, 80, 80, device="cuda").contiguous(memory_format=torch.channels_last).requires_grad_()
    found = []
    for _ in range(2):
        norm = nn.BatchNorm2d(32).cuda()
        z.grad = None
        y = norm_relu(z, norm)
        (y * y).sum().backward()
        found.append((y.detach(), z.grad.clone(), norm.weight.grad))
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))

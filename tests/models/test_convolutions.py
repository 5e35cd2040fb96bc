"""The plain sums in another order."""

import pytest
import torch
from torch.nn import functional as F

from transporter.models.branches import once
from transporter.models.convolutions import BlockConv, ColumnConv, DoublingConv, FewOutputs, FrameConv, unphase


@pytest.mark.parametrize("kernel", [3, 5, 7])
@pytest.mark.parametrize("columns", [1, 2, 4])
@pytest.mark.parametrize(("inputs", "outputs"), [(8, 16), (8, 3), (16, 8)])
def test_a_convolution_by_columns_is_the_plain_one(kernel: int, columns: int, inputs: int, outputs: int) -> None:
    torch.manual_seed(0)
    layer = ColumnConv(inputs, outputs, kernel, columns, bias=True).double()
    x = torch.randn(2, inputs, 6, 16, dtype=torch.float64)
    torch.testing.assert_close(layer.by_columns(x), F.conv2d(x, layer.weight, layer.bias, padding=kernel // 2))


@pytest.mark.parametrize("kernel", [3, 5, 7])
@pytest.mark.parametrize("inputs", [1, 3, 4])
def test_a_convolution_of_blocks_is_the_plain_one(kernel: int, inputs: int) -> None:
    torch.manual_seed(0)
    layer = FrameConv(inputs, 6, kernel, bias=True).double()
    x = torch.randn(2, inputs, 12, 16, dtype=torch.float64)
    torch.testing.assert_close(unphase(layer.phases(x)), F.conv2d(x, layer.weight, layer.bias, padding=kernel // 2))


@pytest.mark.parametrize("kernel", [5, 7])
def test_a_convolution_of_larger_blocks_is_the_plain_one(kernel: int) -> None:
    torch.manual_seed(0)
    layer = BlockConv(8, 3, kernel, bias=True).double()
    x = torch.randn(2, 8, 12, 16, dtype=torch.float64)
    # (row in block, column in block, channel), as the fused norm lays them out
    blocks = x.unflatten(3, (4, 4)).unflatten(2, (3, 4)).permute(0, 3, 5, 1, 2, 4).flatten(1, 3)
    torch.testing.assert_close(layer.by_blocks(blocks), layer(x))


def test_gradients_come_back_to_the_weights() -> None:
    torch.manual_seed(0)
    layer = ColumnConv(8, 3, 7, columns=4).double()
    x = torch.randn(2, 8, 6, 8, dtype=torch.float64)
    (layer.by_columns(x) ** 2).sum().backward()
    found, layer.weight.grad = layer.weight.grad, None
    (layer(x) ** 2).sum().backward()
    torch.testing.assert_close(found, layer.weight.grad)


@pytest.mark.parametrize("outputs", [3, 8, 10])
def test_few_outputs_are_filled_up_and_cut_off_again(outputs: int) -> None:
    layer, x = FewOutputs(6, outputs), torch.randn(2, 6, 5, 5)
    filled = layer.convolve(x, padding=(0, 0))
    assert filled.shape[1] % 8 == 0
    torch.testing.assert_close(filled[:, :outputs] + layer.bias[:, None, None], layer(x))
    weigh = torch.randn_like(layer(x))
    (filled[:, :outputs] * weigh).sum().backward()
    got = layer.weight.grad.clone()
    layer.zero_grad()
    (layer(x) * weigh).sum().backward()
    torch.testing.assert_close(got, layer.weight.grad)


def test_columns_are_a_view_where_channels_come_last() -> None:
    layer = ColumnConv(16, 16, 3, columns=4)
    x = torch.randn(2, 16, 8, 8).contiguous(memory_format=torch.channels_last)
    assert layer.by_columns(x).is_contiguous(memory_format=torch.channels_last)


def test_four_phases_are_the_places_of_a_block() -> None:
    z = torch.arange(4.0).view(1, 4, 1, 1)
    assert unphase(z).tolist() == [[[[0, 1], [2, 3]]]]


def test_a_doubling_convolution_is_a_convolution_of_the_doubled_map() -> None:
    torch.manual_seed(0)
    layer = DoublingConv(4, 6).double()
    x = torch.randn(2, 4, 5, 7, dtype=torch.float64)
    # Zeros around, doubled, and cut down to one place beyond the edges, which a 3×3 convolution needs.
    doubled = F.interpolate(F.pad(x, (2, 2, 2, 2)), scale_factor=2, mode="bilinear")[:, :, 3:-3, 3:-3]
    torch.testing.assert_close(layer(x), F.conv2d(doubled, layer.weight))


def test_a_constant_map_is_doubled_to_a_constant() -> None:
    layer = DoublingConv(1, 1)
    with torch.no_grad():
        layer.weight.fill_(0)
        layer.weight[0, 0, 1, 1] = 1  # the doubled map itself
    assert torch.all(layer(torch.ones(1, 1, 4, 4))[:, :, 1:-1, 1:-1] == 1)


@pytest.mark.parametrize("layer", [ColumnConv(8, 4, 7, columns=4), FrameConv(3, 4, 7), DoublingConv(3, 4)])
def test_what_follows_from_the_kernel_is_not_stored(layer: torch.nn.Module) -> None:
    assert list(layer.state_dict()) == ["weight"]


def test_what_two_branches_need_is_made_once_for_each_way() -> None:
    x, calls = torch.randn(3), []
    made = [once(x, way, lambda way=way: calls.append(way) or way * x) for way in (2, 3, 2)]
    assert calls == [2, 3]
    assert made[0] is made[2]
    assert once(x.clone(), 2, lambda: x) is x  # of another tensor it is another's

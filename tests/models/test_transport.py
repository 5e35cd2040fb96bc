"""Eq. 1 and its parts against tensors worked out by hand."""

import pytest
import torch

from transporter.coords import cell_centres
from transporter.models.keynet import expected_coordinates, gaussian_heatmaps
from transporter.models.transporter import SquaredError, carry, transport, transport_one_by_one, union


def row(*values: float) -> torch.Tensor:
    """A map of one row: (1, 1, 1, n)."""
    return torch.tensor(values)[None, None, None, :]


def test_eq1_moves_the_target_in_and_both_places_of_the_source_out() -> None:
    source, target = row(1, 2, 3, 4), row(10, 20, 30, 40)
    # the object was in cell 0 and is in cell 2: 0 and 2 of the source go, 2 of the target comes
    moved = transport(source, target, row(1, 0, 0, 0), row(0, 0, 1, 0))
    assert moved.flatten().tolist() == [0, 2, 30, 4]


def test_eq1_in_between() -> None:
    # (1 - 0.5)(1 - 0.25) · 8 + 0.25 · 4 = 3 + 1
    assert transport(row(8), row(4), row(0.5), row(0.25)).item() == 4


def test_two_keypoints_in_one_place_do_not_go_below_nothing() -> None:
    both = torch.cat((row(0.5, 1), row(0.5, 1)), dim=1)
    assert union(both).flatten().tolist() == [0.75, 1]
    # 0.25 · 0.25 · 16 + 0.75 · 4 = 1 + 3; where both peaks are 1 only the target is left
    assert transport(row(16, 16), row(4, 4), both, both).flatten().tolist() == [4, 4]


def test_one_by_one_composes_eq1_in_order() -> None:
    first, second, nothing = row(0.5), row(0.25), row(0)
    heat_t, heat_s = torch.cat((first, second), dim=1), torch.cat((nothing, nothing), dim=1)
    # keypoint 0: 0.5 · 8 + 0.5 · 4 = 6; keypoint 1: 0.75 · 6 + 0.25 · 4 = 5.5
    assert transport_one_by_one(row(8), row(4), heat_s, heat_t).item() == 5.5
    # a keypoint that left cell 0 wipes what an earlier keypoint brought there: the order matters
    heat_s, heat_t = torch.cat((row(0), row(1)), dim=1), torch.cat((row(1), row(0)), dim=1)
    assert transport_one_by_one(row(8), row(4), heat_s, heat_t).item() == 0
    assert transport_one_by_one(row(8), row(4), heat_s.flip(1), heat_t.flip(1)).item() == 4
    assert transport(row(8), row(4), heat_s, heat_t).item() == 4


def test_both_forms_agree_for_one_keypoint() -> None:
    generator = torch.Generator().manual_seed(0)
    source, target = torch.randn(2, 3, 4, 5, generator=generator), torch.randn(2, 3, 4, 5, generator=generator)
    heat_s, heat_t = torch.rand(2, 1, 4, 5, generator=generator), torch.rand(2, 1, 4, 5, generator=generator)
    torch.testing.assert_close(
        transport(source, target, heat_s, heat_t), transport_one_by_one(source, target, heat_s, heat_t)
    )


def test_cell_centres_are_the_same_places_at_every_resolution() -> None:
    assert cell_centres(2).tolist() == [-0.5, 0.5]
    assert cell_centres(4).tolist() == [-0.75, -0.25, 0.25, 0.75]
    assert cell_centres(8).reshape(4, 2).mean(1).tolist() == cell_centres(4).tolist()


def test_gaussian_has_peak_one_and_falls_to_1_over_e_at_sigma() -> None:
    heat = gaussian_heatmaps(torch.tensor([[[-0.5, 0.5]]]), height=2, width=2, sigma=1.0)[0, 0]
    assert heat[1, 0] == 1  # y = 0.5 is the lower row, x = -0.5 the left column
    torch.testing.assert_close(heat[1, 1], torch.tensor(1 / torch.e))
    torch.testing.assert_close(heat[0, 1], torch.tensor(torch.e**-2))


def test_coordinates_find_a_peak_and_rest_in_the_middle_of_nothing() -> None:
    maps = torch.zeros(1, 2, 8, 8)
    maps[0, 1, 6, 1] = 1000
    points = expected_coordinates(maps)[0]
    torch.testing.assert_close(points[0], torch.zeros(2))
    torch.testing.assert_close(points[1], torch.tensor([cell_centres(8)[1], cell_centres(8)[6]]))


def test_coordinates_average_the_map_over_the_other_axis() -> None:
    maps = torch.tensor([[0.0, 2.0], [0.0, 4.0]])[None, None]
    # columns: means 0 and 3; rows: means 1 and 2
    x, y = expected_coordinates(maps)[0, 0].tolist()
    assert abs(x - 0.5 * torch.tanh(torch.tensor(1.5)).item()) < 1e-6
    assert abs(y - 0.5 * torch.tanh(torch.tensor(0.5)).item()) < 1e-6


def test_what_a_keypoint_carries_arrives_where_it_does() -> None:
    at = cell_centres(8)
    features = torch.zeros(1, 1, 8, 8)
    features[0, 0, 2, 1] = 1.0
    begins, ends = torch.tensor([[[at[1], at[2]]]]), torch.tensor([[[at[5], at[6]]]])
    carried = carry(features, begins, ends, torch.tensor(0.1))
    assert carried[0, 0, 6, 5] == pytest.approx(1.0, abs=1e-5)
    assert carried.sum() == pytest.approx(1.0, abs=1e-4)


def test_each_place_follows_the_keypoint_nearest_to_it() -> None:
    at = cell_centres(8)
    features = torch.arange(64.0).view(1, 1, 8, 8)
    begins = torch.stack((torch.stack((at[1], at[1])), torch.stack((at[6], at[6]))))[None]
    ends = begins + torch.tensor([[[0.25, 0.0], [0.0, -0.25]]])  # one cell to the right, one cell up
    carried = carry(features, begins, ends, torch.tensor(0.2))
    assert carried[0, 0, 1, 2] == pytest.approx(float(features[0, 0, 1, 1]), abs=1e-3)
    assert carried[0, 0, 5, 6] == pytest.approx(float(features[0, 0, 6, 6]), abs=1e-3)


def test_keypoints_that_stand_still_carry_nothing_away() -> None:
    features, points = torch.randn(2, 3, 6, 6), torch.rand(2, 4, 2) * 2 - 1
    torch.testing.assert_close(carry(features, points, points, torch.tensor(0.1)), features)


def test_the_squared_error_is_torchs() -> None:
    prediction, target = torch.randn(2, 3, 5, 4, requires_grad=True), torch.randn(2, 3, 5, 4)
    ours, theirs = SquaredError.apply(prediction, target), torch.nn.functional.mse_loss(prediction, target)
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(*(torch.autograd.grad(3 * loss, prediction)[0] for loss in (ours, theirs)))


def test_the_loss_of_a_whole_batch_keeps_its_digits() -> None:
    off = torch.rand(64, 3, 80, 80, generator=torch.Generator().manual_seed(0))
    exact = off.double().square().mean().item()
    assert SquaredError.apply(off, torch.zeros_like(off)).item() == pytest.approx(exact, rel=1e-6)

"""Each term of the loss, the warps and the drawing against numbers worked out by hand; and that it learns."""

import math
from statistics import median

import pytest
import torch

from transporter.coords import cell_centres
from transporter.models import zhang
from transporter.models.blocks import TINY
from transporter.models.factory import ModelConfig, build
from transporter.models.keynet import gaussian_heatmaps
from transporter.models.zhang import Descriptors, Hourglass, LandmarkNet, ThinPlate, Warps, Zhang, landmarks, render
from transporter.training.config import preset
from transporter.training.learner import Hardware, Learner


@pytest.fixture
def model() -> Zhang:
    torch.manual_seed(0)
    made = build(ModelConfig(kind="zhang", keypoints=2, size=32, shape=TINY, raise_every=2))
    assert isinstance(made, Zhang)
    return made


# The terms of the loss


def test_concentration_is_the_area_that_a_gaussian_covers() -> None:
    # widths of 0.2 and 0.4 are shares of 0.1 and 0.2 of the frame's side: 2πe · (0.01 + 0.04)
    spread = torch.tensor([[0.2, 0.4]])
    assert zhang.concentration(spread).item() == pytest.approx(2 * math.pi * math.e * 0.05)
    # summed over landmarks, averaged over images
    two = torch.tensor([[0.2, 0.4], [0.0, 0.0]])
    assert zhang.concentration(two).item() == pytest.approx(math.pi * math.e * 0.05)


def test_separation_counts_each_pair_both_ways() -> None:
    near, far = [[0.0, 0.0], [0.16, 0.0], [5.0, 5.0]], [[0.0, 0.0], [5.0, 0.0], [-5.0, 0.0]]
    # one pair at the distance of the Gaussian's width: 2 · exp(-1/2); the mean with an image that has no such pair
    assert zhang.separation(torch.tensor([near])).item() == pytest.approx(2 * math.exp(-0.5))
    assert zhang.separation(torch.tensor([near, far])).item() == pytest.approx(math.exp(-0.5))


def test_equivariance_is_a_squared_distance() -> None:
    points = torch.tensor([[[0.0, 0.0], [0.5, 0.5]], [[0.1, 0.2], [0.3, 0.4]]])
    off = points.clone()
    off[0, 0] = torch.tensor([0.3, 0.4])  # one of four landmarks, 0.5 away: 0.25, over two images
    assert zhang.equivariance(points, off).item() == pytest.approx(0.125)
    assert zhang.equivariance(points, points).item() == 0


def test_reconstruction_is_half_the_squared_error_of_an_image() -> None:
    frames = torch.zeros(2, 3, 1, 2)
    prediction = frames.clone()
    prediction[0] = 2  # six values wrong by 2 in one of two images: 6 · 4 / 2 / 2
    assert zhang.reconstruction(prediction, frames).item() == 6


def test_the_terms_are_the_releases_in_its_own_units() -> None:
    """There, the frame is the middle 5/6 of a canvas; places are in [0, 1] of that, for equivariance in [-1, 1]."""
    points = torch.tensor([[[0.0, 0.1], [0.12, -0.03]]])
    spread = torch.tensor([[0.3, 0.1]])
    moved = points + torch.tensor([0.02, -0.05])
    theirs, widths = (points * 5 / 6 + 1) / 2, spread * 5 / 6 / 2
    squared = (theirs[0, 0] - theirs[0, 1]).square().sum()
    separation = 2 * torch.exp(-squared / (2 * (0.08 * 5 / 6) ** 2))
    torch.testing.assert_close(zhang.separation(points), separation)
    concentration = (2 * math.pi * math.e * widths.square() / (5 / 6) ** 2).sum()
    torch.testing.assert_close(zhang.concentration(spread), concentration)
    equivariance = 1e4 * (points * 5 / 6 - moved * 5 / 6).square().sum() / (5 / 6)
    torch.testing.assert_close(zhang.EQUIVARIANCE * zhang.equivariance(points, moved), equivariance)


def test_the_reconstruction_weighs_more_and_more(model: Zhang) -> None:
    weights = [model._at_this_step(4)[1].item() for _ in range(8)]
    assert weights == pytest.approx([0.1, 0.1, 1, 1, 10, 10, 10, 10])
    model.eval()  # validation losses of all stages can be compared
    assert model._at_this_step(4)[1].item() == 10
    assert model.steps == 8


# Where landmarks are


def test_landmarks_are_the_mean_and_the_width_of_their_heat() -> None:
    maps = torch.full((1, 3, 2, 2), -50.0)
    maps[0, 2] = 0  # background
    maps[0, 0, 1, 0] = 50  # all in the lower left cell
    maps[0, 1, 0, :] = 50  # half in each upper cell
    found = landmarks(maps)
    torch.testing.assert_close(found.points[0], torch.tensor([[-0.5, 0.5], [0.0, -0.5]]))
    # deviations along x and y: (0, 0) and (0.5, 0)
    torch.testing.assert_close(found.spread[0], torch.tensor([0.0, 0.25]), atol=1e-3, rtol=0)
    torch.testing.assert_close(found.heat.sum(1), torch.ones(1, 2, 2))
    wide = landmarks(maps, extent=1.2)
    torch.testing.assert_close(wide.points, 1.2 * found.points)


def test_the_canvas_of_the_paper_is_96_wide_and_has_the_colour_of_the_edge() -> None:
    net = LandmarkNet(80, keypoints=1, width=4, norm="batch")
    frame = torch.zeros(1, 3, 80, 80)
    frame[..., 10:70, 10:70] = 9
    frame[:, 1, 0, :] = frame[:, 1, -1, :] = 1  # upper and lower edge green
    canvas = net.canvas(frame)
    assert canvas.shape == (1, 3, 96, 96)
    assert torch.equal(canvas[..., 8:-8, 8:-8], frame)
    # the corners count for two edges each: (80 + 80 + 2 + 2) / 320 of the edge is green
    torch.testing.assert_close(canvas[0, :, 0, 0], torch.tensor([0.0, 164 / 320, 0.0]))


def test_an_hourglass_keeps_the_size_and_sees_far() -> None:
    torch.manual_seed(0)
    net = Hourglass(1, (4, 4, 4, 4), "batch").eval()
    x = torch.zeros(1, 1, 32, 32, requires_grad=True)
    out = net(x + torch.rand(1, 1, 32, 32))
    assert out.shape == (1, 4, 32, 32)
    out[0, :, 0, 0].sum().backward()
    reach = x.grad[0, 0].abs().sum(0).nonzero().max()
    assert reach > 16  # two 3×3 layers alone would see 2 pixels


# Warps


def test_a_spline_without_displacements_is_the_identity() -> None:
    points = torch.randn(2, 50, 2, generator=torch.Generator().manual_seed(0))
    assert torch.equal(ThinPlate(7, 1.2)(points, torch.zeros(2, 49, 2)), points)


def test_a_spline_takes_its_control_points_where_it_should() -> None:
    spline = ThinPlate(7, 1.2)
    moves = 0.1 * torch.randn(3, 49, 2, generator=torch.Generator().manual_seed(0))
    centres = spline.centres.expand(3, -1, -1)
    torch.testing.assert_close(spline(centres, moves), centres + moves, atol=1e-4, rtol=0)
    # and bends half as far where half is asked for: the midpoint of the affine part and the whole
    rigid, half = spline(centres, moves, bend=0.0), spline(centres, moves, bend=0.5)
    torch.testing.assert_close(half, (rigid + centres + moves) / 2, atol=1e-4, rtol=0)


def test_a_spline_of_an_affine_displacement_is_affine() -> None:
    spline = ThinPlate(7, 1.0)
    matrix, shift = torch.tensor([[0.1, 0.2], [-0.3, 0.05]]), torch.tensor([0.4, -0.1])
    points = torch.randn(1, 20, 2, generator=torch.Generator().manual_seed(0))
    moved = spline(points, (spline.centres @ matrix + shift)[None])
    torch.testing.assert_close(moved, points + points @ matrix + shift, atol=1e-4, rtol=0)


def test_warps_are_as_strong_as_the_release_makes_them() -> None:
    torch.manual_seed(0)
    bank = Warps(extent=2.0)
    assert bank.moves.std().item() == pytest.approx(0.2, rel=0.02)
    assert bank.shift.abs().max().item() == pytest.approx(0.6, rel=0.01)
    scale = torch.linalg.det(bank.linear).sqrt()
    assert scale.log().std().item() == pytest.approx(math.log(1.25), rel=0.05)
    angle = torch.atan2(bank.linear[:, 1, 0], bank.linear[:, 0, 0])
    assert math.degrees(angle.std().item()) == pytest.approx(10, rel=0.05)


def test_an_exact_detector_is_equivariant() -> None:
    """Spots are seen where the warp put them: taken back, they are where they were."""
    torch.manual_seed(0)
    extent, batch = 1.2, 16
    warps = Warps(extent)
    points = torch.rand(batch, 1, 2) - 0.5
    spots = gaussian_heatmaps(points / extent, 96, 96, 0.05).expand(-1, 3, -1, -1)
    rows = torch.arange(batch)
    seen = centre_of_light(warps.image(spots, rows, extent)) * extent
    assert zhang.equivariance(points, warps(seen, rows)) < 1e-3
    assert zhang.equivariance(points, seen) > 0.03


def centre_of_light(images: torch.Tensor) -> torch.Tensor:
    weights = images[:, :1] / images[:, :1].sum((2, 3), keepdim=True)
    x = (weights.sum(2) * cell_centres(images.shape[-1])).sum(-1)
    y = (weights.sum(3) * cell_centres(images.shape[-2])).sum(-1)
    return torch.stack((x, y), dim=-1)


def test_each_step_has_other_warps_and_each_validation_the_same(model: Zhang) -> None:
    first, second = model._at_this_step(4)[0], model._at_this_step(4)[0]
    assert first.tolist() == [0, 1, 2, 3]
    assert second.tolist() == [4, 5, 6, 7]
    model.eval()
    assert model._at_this_step(4)[0].tolist() == [0, 1, 2, 3]
    points = torch.zeros(1, 1, 2)
    last, again = torch.tensor([zhang.BANK + 2]), torch.tensor([2])
    assert torch.equal(model.warps(points, last), model.warps(points, again))  # round and round


# From landmarks to an image


def test_a_landmark_is_drawn_at_five_widths_beside_the_background() -> None:
    descriptors = torch.tensor([[[3.0, 0.0], [1.0, 5.0]]])  # of the landmark and of the background
    drawn = render(torch.tensor([[[0.0, 0.0]]]), descriptors, side=81)
    assert drawn.shape == (1, 24, 81, 81)  # by the eight
    *levels, filled_up = drawn[0].split(4)
    assert len(levels) == 5
    assert not filled_up.any()
    for level, channels in enumerate(levels):
        width = math.sqrt(2) ** level / 8
        peak = 1 / (2 * math.pi * width**2)  # a density of 1 everywhere is the background's
        share = peak / (peak + 1)
        expected = [share, 1 - share, share * 3 + (1 - share) * 1, (1 - share) * 5]
        torch.testing.assert_close(channels[:, 40, 40], torch.tensor(expected))
        off = peak * math.exp(-((20 / 81) ** 2) / (2 * width**2))  # 20 of 81 pixels to the right
        assert channels[0, 40, 60].item() == pytest.approx(off / (off + 1), rel=1e-4)


def test_a_descriptor_knows_only_what_is_under_its_landmark() -> None:
    torch.manual_seed(0)
    net = Descriptors(keypoints=1, inputs=3, outputs=16)
    heat = torch.zeros(1, 2, 4, 4)
    heat[0, 0, :, :2] = 1  # the landmark has the left half, the background the right
    heat[0, 1, :, 2:] = 1
    features = torch.rand(1, 3, 4, 4)
    before = net(features, heat)
    assert before.shape == (1, 2, 16)
    features[..., 2:] += 1
    after = net(features, heat)
    assert torch.equal(before[0, 0], after[0, 0])
    assert not torch.equal(before[0, 1], after[0, 1])
    assert net.squeeze.out_channels == 2 * 8


def test_the_loss_is_the_sum_of_its_weighted_terms(model: Zhang) -> None:
    frames = torch.randint(0, 256, (2, 3, 32, 32, 3), dtype=torch.uint8)
    model.eval()
    with torch.no_grad():
        output = model(*frames)
        x = model.pixels.encode(frames[1])
        canvas, rows = model.keypoints.canvas(x), torch.arange(3)
        seen = model.keypoints.landmarks(canvas)
        warped = model.keypoints.landmarks(model.warps.image(canvas, rows, model.keypoints.extent))
        expected = 100 * (zhang.concentration(seen.spread) + zhang.concentration(warped.spread)) / 2
        expected += 20 * (zhang.separation(seen.points) + zhang.separation(warped.points)) / 2
        expected += 1e4 * 5 / 6 * zhang.equivariance(seen.points, model.warps(warped.points, rows))
        expected += 10 * zhang.reconstruction(output.prediction, x)
    torch.testing.assert_close(output.loss, expected, rtol=1e-4, atol=0)
    torch.testing.assert_close(output.target_points, seen.points)


def test_it_learns(disk) -> None:
    """Within 30 updates the loss falls to a quarter (by the median: a warp may carry the disk out of sight)."""
    config = preset("tiny", kind="zhang", keypoints=1, size=32, batch=8, standardise=False, learning_rate=3e-3)
    learner = Learner(config, Hardware(device="cpu"))
    losses = []
    for step in range(30):
        pairs = torch.from_numpy(disk.pairs[8 * step : 8 * step + 8])
        losses.append(learner.step(step, pairs[:, 0], pairs[:, 1]).item())
    assert median(losses[-10:]) < median(losses[:4]) / 4

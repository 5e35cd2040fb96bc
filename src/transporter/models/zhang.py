"""Zhang et al. 2018: landmarks of single images, held to what landmarks should be, and enough to redraw the image.

Constants are those of the authors' release for 80×80 images. It measures points and widths in [0, 1] of an image
with a margin around it; here they are in [-1, 1] of the frame itself, and the constants are converted.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor, nn
from torch.nn import functional as F

from transporter.coords import cell_centres
from transporter.models.blocks import Norm, conv, conv_block
from transporter.models.keynet import gaussian_heatmaps
from transporter.models.pixels import Pixels
from transporter.models.transporter import Output

# Weights of the terms.
CONCENTRATION = 100.0
SEPARATION = 20.0
EQUIVARIANCE = 1e4 * 5 / 6  # a squared distance on the 96×96 canvas, over 5/6, is 5/6 of one on the 80×80 frame
RECONSTRUCTION = 0.1  # at first; tenfold after a while, …
RAISES = 2  # … and again
NEAR = 2 * 0.08  # landmarks repel one another with a Gaussian of this width
# Drawing landmarks.
CODE = 8  # numbers that describe what lies under a landmark
WIDTHS = tuple(2 ** (level / 2) / 8 for level in range(5))  # of the Gaussians, in shares of the frame's side
# Warps, in units of the canvas.
GRID = 7  # control points along a side
MOVE = 0.1  # their displacement, a standard deviation
BEND = 0.5  # the release solves its spline for r² log r² and evaluates r² log r: it bends half as far as it was told
SHIFT = 0.3
TURN = math.radians(10)
GROW = math.log(1.25)
BANK = 4096


class Hourglass(nn.Module):
    """Convolutions at full size, half, quarter …, one width for each, and up again; each size adds what it saw."""

    def __init__(self, inputs: int, widths: tuple[int, ...], norm: Norm) -> None:
        super().__init__()
        width, *deeper = widths
        self.down = nn.Sequential(conv_block(inputs, width, 3, 1, norm), conv_block(width, width, 3, 1, norm))
        self.below: Hourglass | None = None
        if deeper:
            self.below = Hourglass(width, tuple(deeper), norm)
            self.across = conv_block(width, width, 3, 1, norm)
            self.up = conv_block(deeper[0], width, 3, 1, norm)
        self.channels = width

    def forward(self, x: Float[Tensor, "b inputs h w"]) -> Float[Tensor, "b channels h w"]:
        x = self.down(x)
        if self.below is None:
            return x
        below = self.below(F.max_pool2d(x, 2))
        with torch.autocast(x.device.type, enabled=False):  # it would copy numbers as fp32, which they are not
            risen = F.interpolate(below, scale_factor=2)
        return self.across(x) + self.up(risen)


class Landmarks(NamedTuple):
    heat: Float[Tensor, "b k+1 h w"]  # whose each cell of the canvas is: shares, the last the background's
    points: Float[Tensor, "b k 2"]  # beyond ±1 in the margin
    spread: Float[Tensor, "b k"]  # standard deviation of the heat, mean of both axes


def landmarks(maps: Float[Tensor, "b k+1 h w"], extent: float = 1.0) -> Landmarks:
    """Softmax across channels; mean and deviation of each but the last, on a canvas from -extent to extent."""
    heat = torch.softmax(maps, dim=1)
    mass = heat[:, :-1].sum((2, 3)) + 1e-6
    means, deviations = [], []
    for other in (2, 3):  # x, then y: what is left when the other axis is summed over
        along = heat[:, :-1].sum(other) / mass[..., None]
        centres = cell_centres(along.shape[-1], maps.device) * extent
        mean = (along * centres).sum(-1)
        variance = (along * (centres - mean[..., None]).square()).sum(-1)
        means.append(mean)
        deviations.append((variance + 1e-8).sqrt())  # the root of nothing has no gradient
    return Landmarks(heat, torch.stack(means, dim=-1), torch.stack(deviations).mean(0))


class LandmarkNet(nn.Module):
    """(b, 3, H, W) frames to (b, k, 2) points: an hourglass that sees the frame on a canvas a fifth larger."""

    def __init__(self, size: int, keypoints: int, width: int, norm: Norm) -> None:
        super().__init__()
        canvas = 8 * round(1.2 * size / 8)  # three halvings: a multiple of 8
        self.margin = (canvas - size) // 2
        self.extent = canvas / size
        self.hourglass = Hourglass(3, (width, 2 * width, 2 * width, 2 * width), norm)
        self.head = conv(self.hourglass.channels, keypoints + 1, 3, bias=True)

    def canvas(self, frames: Float[Tensor, "b 3 H W"]) -> Float[Tensor, "b 3 h w"]:
        """Room around the frame, in the mean colour of its edge, for landmarks that a warp carries off."""
        edges = (frames[..., 0, :], frames[..., -1, :], frames[..., 0], frames[..., -1])
        colour = torch.cat(edges, dim=-1).mean(-1)[..., None, None]
        return F.pad(frames - colour, (self.margin,) * 4) + colour

    def landmarks(self, canvas: Float[Tensor, "b 3 h w"]) -> Landmarks:
        return landmarks(self.head(self.hourglass(canvas)).float(), self.extent)

    def forward(self, frames: Float[Tensor, "b 3 H W"]) -> Float[Tensor, "b k 2"]:
        return self.landmarks(self.canvas(frames)).points.clamp(-1, 1)


class ThinPlate(nn.Module):
    """Displacements of an n × n grid of control points, continued smoothly to the whole plane."""

    centres: Tensor
    solve: Tensor

    def __init__(self, n: int, extent: float) -> None:
        super().__init__()
        axis = cell_centres(n).double() * extent
        centres = torch.cartesian_prod(axis, axis)
        affine = torch.cat((torch.ones(n * n, 1), centres), dim=1)
        upper = torch.cat((_bending(centres, centres), affine), dim=1)
        lower = torch.cat((affine.T, torch.zeros(3, 3)), dim=1)
        solve = torch.linalg.inv(torch.cat((upper, lower)))[:, : n * n]
        self.register_buffer("centres", centres.float(), persistent=False)
        self.register_buffer("solve", solve.float(), persistent=False)

    def forward(
        self, points: Float[Tensor, "b n 2"], moves: Float[Tensor, "b m 2"], bend: float = 1.0
    ) -> Float[Tensor, "b n 2"]:
        weights = self.solve @ moves
        bent = _bending(points, self.centres) @ weights[:, :-3]
        return points + bend * bent + weights[:, -3, None] + points @ weights[:, -2:]


def _bending(points: Float[Tensor, "*b n 2"], centres: Float[Tensor, "m 2"]) -> Float[Tensor, "*b n m"]:
    """r² log r², the shape of a thin plate that is pushed at its centre."""
    squared = (points[..., 0, None] - centres[:, 0]).square() + (points[..., 1, None] - centres[:, 1]).square()
    return squared * squared.clamp_min(1e-12).log()


class Warps(nn.Module):
    """Random warps, drawn once and gone through in turn: a resumed run or a replayed graph finds those it would have.

    A warp says where each point of the warped image comes from: T⁻¹ of the paper.
    """

    moves: Tensor
    linear: Tensor
    shift: Tensor

    def __init__(self, extent: float, count: int = BANK) -> None:
        super().__init__()
        self.spline = ThinPlate(GRID, extent)
        angle, scale = TURN * torch.randn(count), torch.exp(GROW * torch.randn(count))
        turn = torch.stack((angle.cos(), -angle.sin(), angle.sin(), angle.cos()), dim=-1).reshape(-1, 2, 2)
        self.register_buffer("linear", scale[:, None, None] * turn)
        self.register_buffer("shift", SHIFT * extent * (2 * torch.rand(count, 1, 2) - 1))
        self.register_buffer("moves", MOVE * extent * torch.randn(count, GRID**2, 2))

    def forward(self, points: Float[Tensor, "b n 2"], rows: Int64[Tensor, "b"]) -> Float[Tensor, "b n 2"]:
        with torch.autocast(points.device.type, enabled=False):  # coordinates are never halved
            rows = rows % len(self.moves)
            return self.spline(points @ self.linear[rows].mT + self.shift[rows], self.moves[rows], BEND)

    def image(self, canvas: Float[Tensor, "b 3 h w"], rows: Int64[Tensor, "b"], extent: float) -> Tensor:
        """The canvas warped; what comes from outside has the colour of the nearest edge."""
        height, width = canvas.shape[-2:]
        y, x = torch.meshgrid(cell_centres(height, canvas.device), cell_centres(width, canvas.device), indexing="ij")
        places = torch.stack((x, y), dim=-1).reshape(1, -1, 2).expand(len(canvas), -1, -1) * extent
        grid = self(places, rows).reshape(-1, height, width, 2) / extent
        return F.grid_sample(canvas, grid, padding_mode="border", align_corners=False)


class Descriptors(nn.Module):
    """What lies under each landmark, and under the background, in 8 numbers; widened again for the decoder."""

    def __init__(self, keypoints: int, inputs: int, outputs: int) -> None:
        super().__init__()
        parts = keypoints + 1  # each with weights of its own
        self.squeeze = nn.Conv1d(parts * inputs, parts * CODE, 1, groups=parts)
        self.widen = nn.Conv1d(parts * CODE, parts * outputs, 1, groups=parts)

    def forward(
        self, features: Float[Tensor, "b f h w"], heat: Float[Tensor, "b k+1 h w"]
    ) -> Float[Tensor, "b k+1 outputs"]:
        weights = heat / (heat.sum((2, 3), keepdim=True) + 1e-6)
        pooled = weights.flatten(2) @ features.flatten(2).transpose(1, 2)
        codes = self.squeeze(pooled.flatten(1)[..., None])
        return F.relu(self.widen(codes)).reshape(*heat.shape[:2], -1).float()


def drawn(keypoints: int, descriptors: int) -> int:
    """Channels that `render` gives: tensor cores take them by the eight, so they are filled up with nothing."""
    return 8 * math.ceil(len(WIDTHS) * (keypoints + 1 + descriptors) / 8)


def render(
    points: Float[Tensor, "b k 2"], descriptors: Float[Tensor, "b k+1 c"], side: int
) -> Float[Tensor, "b channels side side"]:
    """At each of five widths, the share of each landmark and of the background in each pixel, and their descriptors."""
    layers = []
    for width in WIDTHS:
        density = gaussian_heatmaps(points, side, side, 2 * math.sqrt(2) * width) / (2 * math.pi * width**2)
        density = torch.cat((density, torch.ones_like(density[:, :1])), dim=1)  # the background is everywhere alike
        share = density / density.sum(1, keepdim=True)
        layers += [share, torch.einsum("bkhw,bkc->bchw", share, descriptors)]
    maps = torch.cat(layers, dim=1)
    return F.pad(maps, (0, 0, 0, 0, 0, drawn(points.shape[1], descriptors.shape[2]) - maps.shape[1]))


def concentration(spread: Float[Tensor, "b k"]) -> Float[Tensor, ""]:
    """Heat in one place: the exponential of a Gaussian's entropy, 2πe·s², s in shares of the frame's side."""
    return (2 * math.pi * math.e * (spread / 2).square()).sum(1).mean()


def separation(points: Float[Tensor, "b k 2"]) -> Float[Tensor, ""]:
    """Landmarks in different places: exp(-d² / 2·near²) over all pairs, either way round."""
    squared = (points[:, :, None] - points[:, None]).square().sum(-1)
    return (torch.exp(-squared / (2 * NEAR**2)).sum((1, 2)) - points.shape[1]).mean()


def equivariance(points: Float[Tensor, "b k 2"], unwarped: Float[Tensor, "b k 2"]) -> Float[Tensor, ""]:
    """Landmarks move as the image does: those of the warped image, taken back, are those of the image."""
    return (points - unwarped).square().sum((1, 2)).mean()


def reconstruction(prediction: Float[Tensor, "b 3 H W"], frame: Float[Tensor, "b 3 H W"]) -> Float[Tensor, ""]:
    """Negative log-likelihood of the frame under a Gaussian of deviation 1 around the prediction, less a constant."""
    return (prediction - frame).square().sum((1, 2, 3)).mean() / 2


class Zhang(nn.Module):
    """An autoencoder of the target frame by way of its landmarks; the source is only looked at."""

    sigma: Tensor
    steps: Tensor

    def __init__(
        self,
        pixels: Pixels,
        features: nn.Module,
        keypoints: LandmarkNet,
        descriptors: Descriptors,
        refine: nn.Module,
        raise_every: int = 100_000,
    ) -> None:
        super().__init__()
        self.pixels = pixels
        self.features = features
        self.keypoints = keypoints
        self.descriptors = descriptors
        self.refine = refine
        self.warps = Warps(keypoints.extent)
        self.raise_every = raise_every
        self.register_buffer("sigma", torch.tensor(0.0))  # every model has one; here nothing depends on it
        self.register_buffer("steps", torch.tensor(0))  # updates so far, as batch norm counts its batches

    def forward(self, source: UInt8[Tensor, "b H W 3"], target: UInt8[Tensor, "b H W 3"]) -> Output:
        x_s, x_t = self.pixels.encode(source), self.pixels.encode(target)
        canvas = self.keypoints.canvas(x_t)
        rows, weight = self._at_this_step(len(x_t))
        warped = self.warps.image(canvas, rows, self.keypoints.extent)
        found = self.keypoints.landmarks(torch.cat((canvas, warped)))
        points_t, points_w = found.points.chunk(2)
        described = self.descriptors(self.features(canvas).float(), found.heat[: len(x_t)])
        prediction = self.refine(render(points_t, described, x_t.shape[-1])).float()
        loss = (
            CONCENTRATION * concentration(found.spread)
            + SEPARATION * separation(found.points)
            + EQUIVARIANCE * equivariance(points_t, self.warps(points_w, rows))
            + weight * reconstruction(prediction, x_t)
        )
        with torch.no_grad():
            points_s = self.keypoints(x_s)
        return Output(loss, prediction, points_s, points_t.clamp(-1, 1))

    def _at_this_step(self, batch: int) -> tuple[Int64[Tensor, "b"], Float[Tensor, ""]]:
        """Which warps, and how much the reconstruction weighs; a validation has the first ones and the last weight."""
        rows = torch.arange(batch, device=self.steps.device)
        raises = torch.full_like(self.steps, RAISES)
        if self.training:
            rows, raises = rows + self.steps * batch, raises.minimum(self.steps // self.raise_every)
            self.steps += 1
        return rows, RECONSTRUCTION * 10.0**raises

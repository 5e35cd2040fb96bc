"""Transporter: rebuild the target frame by moving the source frame's features to the target's keypoints (Eq. 1)."""

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from transporter.coords import cell_centres
from transporter.models.branches import side_by_side
from transporter.models.fused import fits
from transporter.models.keynet import gaussian_heatmaps, squared_offsets
from transporter.models.pixels import Noise, Pixels


class Output(NamedTuple):
    """What every model of this family gives for a batch of pairs."""

    loss: Float[Tensor, ""]
    prediction: Float[Tensor, "b 3 H W"]  # as the networks see frames; Pixels.decode shows it
    source_points: Float[Tensor, "b k 2"]
    target_points: Float[Tensor, "b k 2"]


Transport = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def union(heatmaps: Float[Tensor, "b k h w"]) -> Float[Tensor, "b 1 h w"]:
    """One heatmap for all keypoints, within [0, 1] however they overlap: 1 - ∏ₖ(1 - Hₖ)."""
    # Factor by factor: the gradient of Tensor.prod asks the CPU whether there are zeros, which a CUDA graph cannot do.
    return 1 - reduce(torch.mul, (1 - heatmaps).split(1, dim=1))


def transport(
    source: Float[Tensor, "b d h w"],
    target: Float[Tensor, "b d h w"],
    source_heat: Float[Tensor, "b k h w"],
    target_heat: Float[Tensor, "b k h w"],
) -> Float[Tensor, "b d h w"]:
    """Eq. 1: (1 - H_s) · (1 - H_t) · Φ(x_s) + H_t · Φ(x_t)."""
    h_s, h_t = union(source_heat), union(target_heat)
    return (1 - h_s) * (1 - h_t) * source + h_t * target


def transport_one_by_one(
    source: Float[Tensor, "b d h w"],
    target: Float[Tensor, "b d h w"],
    source_heat: Float[Tensor, "b k h w"],
    target_heat: Float[Tensor, "b k h w"],
) -> Float[Tensor, "b d h w"]:
    """The release's form: Eq. 1 once for each keypoint, on the outcome of the one before; the order matters."""
    moved = source
    for h_s, h_t in zip(source_heat.split(1, dim=1), target_heat.split(1, dim=1), strict=True):
        moved = (1 - h_s) * (1 - h_t) * moved + h_t * target
    return moved


class SquaredError(torch.autograd.Function):
    """Its mean, as torch's mse_loss; backwards in one sweep, laid out as the prediction is, which torch's is not."""

    @staticmethod
    def forward(ctx: Any, prediction: Float[Tensor, "..."], target: Float[Tensor, "..."]) -> Float[Tensor, ""]:
        off = prediction - target
        ctx.save_for_backward(off)
        # A norm is one sweep; but a CPU adds it up one by one, and a million squares lose digits by that.
        return torch.linalg.vector_norm(off).square() / off.numel() if off.is_cuda else off.square().mean()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Float[Tensor, ""]) -> tuple[Tensor, None]:
        (off,) = ctx.saved_tensors
        return off * (gradients[0] * (2 / off.numel())), None


def carry(
    features: Float[Tensor, "b d h w"],
    points_from: Float[Tensor, "b k 2"],
    points_to: Float[Tensor, "b k 2"],
    sigma: Float[Tensor, ""],
) -> Float[Tensor, "b d h w"]:
    """Features where the keypoints bring them: each place has those from which the keypoint nearest to it came."""
    (height, width), device = features.shape[-2:], features.device
    x, y = cell_centres(width, device), cell_centres(height, device)
    across, down = squared_offsets(points_to, height, width, sigma)
    # Each heatmap's share of them all: between two keypoints what they do is mixed, as their heatmaps are.
    share = torch.softmax(-(down[..., :, None] + across[..., None, :]), dim=1)
    way = (points_to - points_from)[..., None, None]
    origin = torch.stack((x - (share * way[:, :, 0]).sum(1), y[:, None] - (share * way[:, :, 1]).sum(1)), dim=-1)
    return F.grid_sample(features, origin, padding_mode="border", align_corners=False)


class Transporter(nn.Module):
    """Four parts and a way to transport; an ablation is another part."""

    sigma: Tensor

    def __init__(
        self,
        pixels: Pixels,
        features: nn.Module,
        keypoints: nn.Module,
        refine: nn.Module,
        transport: Transport = transport,
        sigma: float = 0.1,
        noise: Noise = Noise(),  # noqa: B008
    ) -> None:
        super().__init__()
        self.pixels = pixels
        self.noise = noise
        self.features = features
        self.keypoints = keypoints
        self.refine = refine
        self.transport = transport
        # A tensor, so that a schedule can change it under a compiled step.
        self.register_buffer("sigma", torch.tensor(sigma))

    def forward(
        self,
        source: UInt8[Tensor, "b H W 3"],
        target: UInt8[Tensor, "b H W 3"],
        both_ways: bool = False,
        carried: float = 0.0,
    ) -> Output:
        """With `both_ways` each frame of a pair is rebuilt from the other: (2b, …) in all, for half the encoding.

        For the last share `carried` of the frames, what is painted at the target's keypoints are not the target's
        features but the source's, brought there by the keypoints: of the target only its points are known, and a
        keypoint that stands still explains nothing.
        """
        if both_ways:
            x_t = self.pixels.encode(torch.cat((source, target)))
            features_t, points_t = self.encode(x_t)
            features_s, points_s, turn = features_t.detach(), points_t.detach(), len(source)
            given = features_t  # through what is carried Φ learns, too
        else:
            x_s, x_t = self.pixels.encode(source), self.pixels.encode(target)
            with torch.no_grad():
                features_s, points_s = self.encode(x_s)
            features_t, points_t = self.encode(x_t)
            turn, given = 0, features_s
        painted = features_t
        if carried:
            kept = round(len(painted) * (1 - carried))
            begins = points_s.roll(-turn, 0)[kept:]
            brought = carry(given.roll(-turn, 0)[kept:].float(), begins, points_t[kept:], self.sigma)
            brought = brought.to(painted.dtype, memory_format=torch.channels_last)
            painted = torch.cat((painted[:kept], brought))
        # Nothing else is learnt through the source: its features are given, only the target's are sought.
        prediction = self.refine(self.moved(features_s, painted, points_s, points_t, turn)).float()
        return Output(SquaredError.apply(prediction, x_t), prediction, points_s.roll(-turn, 0), points_t)

    def encode(self, x: Float[Tensor, "b 3 H W"]) -> tuple[Float[Tensor, "b d h w"], Float[Tensor, "b k 2"]]:
        """Features and keypoints; in training these must be found in spite of noise."""
        seen = self.pixels.disturbed(x, self.noise) if self.training else x
        return side_by_side(self.features, self.keypoints, x, seen)

    def moved(
        self,
        features_s: Float[Tensor, "b d h w"],
        features_t: Float[Tensor, "b d h w"],
        points_s: Float[Tensor, "b k 2"],
        points_t: Float[Tensor, "b k 2"],
        turn: int = 0,
    ) -> Float[Tensor, "b d h w"]:
        """Features of the source, `turn` images on in the batch, with those of the target at its keypoints."""
        if self.transport is transport and fits(features_t, features_t.shape[1]):
            from transporter.models.fused.transport import Transport as Fused

            return Fused.apply(features_s, features_t, points_s, points_t, self.sigma, turn)
        features_s, points_s = features_s.roll(-turn, 0), points_s.roll(-turn, 0)
        height, width = features_t.shape[-2:]
        heat_s = gaussian_heatmaps(points_s, height, width, self.sigma)
        heat_t = gaussian_heatmaps(points_t, height, width, self.sigma)
        return self.transport(features_s.float(), features_t.float(), heat_s, heat_t)

"""Jakab & Gupta et al. 2018: rebuild the target from the source's features and the target's heatmaps, stacked."""

import torch
from jaxtyping import UInt8
from torch import Tensor, nn

from transporter.models.keynet import gaussian_heatmaps
from transporter.models.pixels import Pixels
from transporter.models.transporter import Output


class Jakab(nn.Module):
    """Φ, Ψ and a decoder of d + K channels. Nothing moves features about: how heat becomes an image is all learnt."""

    sigma: Tensor

    def __init__(
        self, pixels: Pixels, features: nn.Module, keypoints: nn.Module, refine: nn.Module, sigma: float = 0.1
    ) -> None:
        super().__init__()
        self.pixels = pixels
        self.features = features
        self.keypoints = keypoints
        self.refine = refine
        self.register_buffer("sigma", torch.tensor(sigma))

    def forward(self, source: UInt8[Tensor, "b H W 3"], target: UInt8[Tensor, "b H W 3"]) -> Output:
        x_s, x_t = self.pixels.encode(source), self.pixels.encode(target)
        features_s, points_t = self.features(x_s).float(), self.keypoints(x_t)
        height, width = features_s.shape[-2:]
        heat_t = gaussian_heatmaps(points_t, height, width, self.sigma)
        prediction = self.refine(torch.cat((features_s, heat_t), dim=1)).float()
        with torch.no_grad():  # the method has no use for the source's points; whoever watches it train has
            points_s = self.keypoints(x_s)
        return Output((prediction - x_t).square().mean(), prediction, points_s, points_t)

"""Ψ: from a frame to K coordinates, and from coordinates to heatmaps."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transporter.coords import cell_centres
from transporter.models.blocks import Encoder, Shape
from transporter.models.convolutions import FewOutputs


def expected_coordinates(maps: Float[Tensor, "b k h w"]) -> Float[Tensor, "b k 2"]:
    """Each axis by itself: mean of the map over the other axis, softmax, expected cell centre."""
    along_x = torch.softmax(maps.mean(dim=2), dim=-1)
    along_y = torch.softmax(maps.mean(dim=3), dim=-1)
    # A product and a sum, not a matrix product: autocast would take that to bf16 and a coordinate to one part in 256.
    x = (along_x * cell_centres(maps.shape[3], maps.device)).sum(-1)
    y = (along_y * cell_centres(maps.shape[2], maps.device)).sum(-1)
    return torch.stack((x, y), dim=-1)


def gaussian_heatmaps(
    points: Float[Tensor, "b k 2"], height: int, width: int, sigma: float | Tensor
) -> Float[Tensor, "b k height width"]:
    """exp(-d² / σ²) around each point: the peak is 1 whatever σ is."""
    x, y = (torch.exp(-off) for off in squared_offsets(points, height, width, sigma))
    return y[..., :, None] * x[..., None, :]


def squared_offsets(
    points: Float[Tensor, "b k 2"], height: int, width: int, sigma: float | Tensor
) -> tuple[Float[Tensor, "b k width"], Float[Tensor, "b k height"]]:
    """Of cells from each point, across and down, in units of σ: d² / σ² is their sum."""
    centres = cell_centres(width, points.device), cell_centres(height, points.device)
    across, down = (((c - points[..., i, None]) / sigma) ** 2 for i, c in enumerate(centres))
    return across, down


class KeyNet(nn.Module):
    """(b, 3, H, W) frames to (b, k, 2) points; in fp32 from the maps on, whatever the layers before ran in."""

    def __init__(self, shape: Shape, keypoints: int) -> None:
        super().__init__()
        self.encoder = Encoder(shape)
        self.head = FewOutputs(self.encoder.channels, keypoints)
        # A softmax does not see what is added to all of a map: its gradient is zero, and is not summed up for nothing.
        self.head.bias.requires_grad_(False)

    def maps(self, frames: Float[Tensor, "b 3 H W"]) -> Float[Tensor, "b k h w"]:
        """What the coordinates are read from."""
        return self.head(self.encoder(frames)).float()

    def forward(self, frames: Float[Tensor, "b 3 H W"]) -> Float[Tensor, "b k 2"]:
        return expected_coordinates(self.maps(frames))

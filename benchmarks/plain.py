"""What one would write first: the same networks in plain PyTorch, fp32, eager, NCHW. Benchmarks measure against it."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transporter.coords import cell_centres
from transporter.models.blocks import Shape


def block(inputs: int, outputs: int, kernel: int, stride: int = 1, pads: bool = True) -> nn.Sequential:
    padding = kernel // 2 if pads else 0
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, padding=padding, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU())


def encoder(shape: Shape) -> nn.Sequential:
    inputs = (3, *shape.filters)
    return nn.Sequential(*map(block, inputs, shape.filters, shape.kernels, shape.strides))


class ZerosDoubled(nn.Module):
    """Bilinear 2×, with one place more on each side: of a map that is zero beyond its edges, as the library's is."""

    def forward(self, x: Tensor) -> Tensor:
        return F.interpolate(F.pad(x, (2, 2, 2, 2)), scale_factor=2, mode="bilinear")[:, :, 3:-3, 3:-3]


def decoder(shape: Shape, same_edges: bool) -> nn.Sequential:
    """`same_edges`: maps are doubled at their edges as the library does it, not as one would write it first."""

    def doubled(inputs: int, outputs: int, kernel: int) -> list[nn.Module]:
        double = ZerosDoubled() if same_edges else nn.Upsample(scale_factor=2, mode="bilinear")
        return [double, block(inputs, outputs, kernel, pads=not same_edges)]

    layers: list[nn.Module] = []
    inputs = shape.filters[-1]
    if shape.refine is not None:
        for index, filters in enumerate(shape.refine):
            layers += doubled(inputs, filters, 3) if index else [block(inputs, filters, 3)]
            inputs = filters
        return nn.Sequential(*layers, nn.Conv2d(inputs, 3, 3, padding=1))
    for index in reversed(range(1, len(shape.filters))):
        sizes = inputs, shape.filters[index - 1], shape.kernels[index]
        layers += doubled(*sizes) if shape.strides[index] == 2 else [block(*sizes)]
        inputs = shape.filters[index - 1]
    return nn.Sequential(*layers, nn.Conv2d(inputs, 3, shape.kernels[0], padding=shape.kernels[0] // 2))


class PlainDetector(nn.Module):
    """Frames (b, H, W, 3) uint8 to points (b, k, 2)."""

    def __init__(self, shape: Shape, keypoints: int) -> None:
        super().__init__()
        self.encoder = encoder(shape)
        self.head = nn.Conv2d(shape.filters[-1], keypoints, 1)

    def coordinates(self, x: Tensor) -> Tensor:
        maps = self.head(self.encoder(x))
        found = []
        for other in (2, 3):
            along = maps.mean(other).softmax(-1)
            found.append((along * cell_centres(along.shape[-1], x.device)).sum(-1))
        return torch.stack(found, -1)

    def forward(self, frames: Tensor) -> Tensor:
        return self.coordinates(frames.permute(0, 3, 1, 2).contiguous().float() / 255)


class PlainTransporter(nn.Module):
    """Two batches of frames (b, H, W, 3) uint8 to the loss."""

    def __init__(self, shape: Shape, keypoints: int, sigma: float = 0.1, same_edges: bool = False) -> None:
        super().__init__()
        self.features = encoder(shape)
        self.keypoints = PlainDetector(shape, keypoints)
        self.refine = decoder(shape, same_edges)
        self.sigma = sigma

    def heat(self, points: Tensor, side: int) -> Tensor:
        axis = cell_centres(side, points.device)
        x, y = (torch.exp(-(((axis - points[..., i, None]) / self.sigma) ** 2)) for i in (0, 1))
        return 1 - (1 - y[..., :, None] * x[..., None, :]).prod(1, keepdim=True)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        x_s, x_t = (f.permute(0, 3, 1, 2).contiguous().float() / 255 for f in (source, target))
        with torch.no_grad():
            features_s, points_s = self.features(x_s), self.keypoints.coordinates(x_s)
        features_t, points_t = self.features(x_t), self.keypoints.coordinates(x_t)
        h_s, h_t = (self.heat(points, features_t.shape[-1]) for points in (points_s, points_t))
        moved = (1 - h_s) * (1 - h_t) * features_s + h_t * features_t
        return F.mse_loss(self.refine(moved), x_t)


def layers(shape: Shape, size: int, decoder: bool = False) -> list[tuple[int, int, int, int]]:
    """(side of the output, inputs, outputs, kernel) of Φ's layers (Ψ's too, but for its head), or of the decoder's."""
    found, side = [], size
    channels = (3, *shape.filters)
    for inputs, outputs, kernel, stride in zip(channels, shape.filters, shape.kernels, shape.strides, strict=False):
        side //= stride
        found.append((side, inputs, outputs, kernel))
    if not decoder:
        return found
    if shape.refine is None:  # Φ backwards: a layer's output is as large as its twin's input
        return [(side * stride, o, i, k) for (side, i, o, k), stride in zip(found, shape.strides, strict=True)]
    inputs, refining = shape.filters[-1], []
    for index, filters in enumerate(shape.refine):
        refining.append((side * 2**index, inputs, filters, 3))
        inputs = filters
    return [*refining, (size, inputs, 3, 3)]


def flops(shape: Shape, size: int, decoder: bool = False) -> int:
    """Multiplications and additions on one frame."""
    return sum(2 * side * side * i * o * k * k for side, i, o, k in layers(shape, size, decoder))


def maps(shape: Shape, size: int, decoder: bool = False) -> int:
    """Numbers in all the layers' outputs for one frame."""
    return sum(side * side * o for side, _, o, _ in layers(shape, size, decoder))

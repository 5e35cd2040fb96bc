"""Pixel transport (Appendix D): Eq. 1 on the frames themselves, by a Transporter whose Φ is the identity."""

from torch import nn

from transporter.models.blocks import Double, RefineNet, Shape


class FlatRefineNet(nn.Sequential):
    """(b, 3, H, W) transported pixels to a (b, 3, H, W) frame: RefineNet's layers, at full size from first to last."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(*(layer for layer in RefineNet(shape, inputs=3) if not isinstance(layer, Double)))

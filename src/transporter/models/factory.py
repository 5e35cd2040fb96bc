"""From a configuration to a model: the one place where names become parts."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import nn

from transporter.errors import InputError
from transporter.models.blocks import PAPER, Encoder, RefineNet, Shape, to_channels_last
from transporter.models.keynet import KeyNet
from transporter.models.pixels import Pixels
from transporter.models.transporter import Transporter, transport, transport_one_by_one

TRANSPORTS = {"eq1": transport, "one_by_one": transport_one_by_one}


@dataclass(frozen=True)
class ModelConfig:
    """Everything that decides a model's weights' shapes and its arithmetic."""

    keypoints: int = 5  # K
    size: int = 128  # frames are size × size
    shape: Shape = field(default=PAPER)
    transport: Literal["eq1", "one_by_one"] = "eq1"  # one heatmap for all keypoints, or the release's loop over them
    sigma: float = 0.1  # width of the heatmaps, in [-1, 1] units
    standardise: bool = False  # each pixel by its own mean and deviation over the data set
    separation: float = 0.0  # weight of a term that keeps keypoints off one another

    def __post_init__(self) -> None:
        if self.keypoints < 1:
            raise InputError(f"a model needs at least one keypoint, not {self.keypoints}")
        if self.size < 16 or self.size % self.shape.reduction:
            raise InputError(f"frame size {self.size} must be at least 16 and a multiple of {self.shape.reduction}")

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "ModelConfig":
        try:
            shape: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in data["shape"].items()}
            return cls(**{**data, "shape": Shape(**shape)})
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"not a model this version knows: {error}") from error


def build(config: ModelConfig) -> Transporter:
    """A model with fresh weights from torch's global generator."""
    side = config.size if config.standardise else 1
    model = Transporter(
        pixels=Pixels(side, side),
        features=Encoder(config.shape),
        keypoints=KeyNet(config.shape, config.keypoints),
        refine=RefineNet(config.shape),
        transport=TRANSPORTS[config.transport],
        sigma=config.sigma,
        separation=config.separation,
    )
    return to_channels_last(model)  # type: ignore[return-value]


def parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())

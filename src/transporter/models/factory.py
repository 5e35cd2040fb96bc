"""From a configuration to a model: the one place where names become parts."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from torch import nn

from transporter.errors import InputError
from transporter.models.blocks import PAPER, Encoder, RefineNet, Shape, conv, to_channels_last
from transporter.models.jakab import Jakab
from transporter.models.keynet import KeyNet
from transporter.models.pixels import FLOOR, PATCHES, Noise, Pixels
from transporter.models.transporter import Transporter, transport, transport_one_by_one
from transporter.models.zhang import Descriptors, Hourglass, LandmarkNet, Zhang, drawn

# Whatever one loop trains: pairs of frames in, an Output out; made of pixels, features, keypoints and refine.
Model = Transporter | Jakab | Zhang
Kind = Literal["transporter", "jakab", "zhang", "pixel"]
TRANSPORTS = {"eq1": transport, "one_by_one": transport_one_by_one}


@dataclass(frozen=True)
class ModelConfig:
    """Everything that decides a model's weights' shapes and its arithmetic."""

    kind: Kind = "transporter"  # or a baseline (jakab, zhang), or Transporter on bare pixels (pixel)
    keypoints: int = 5  # K
    size: int = 128  # frames are size × size
    shape: Shape = field(default=PAPER)  # of Φ; RefineNet follows it
    keynet: Shape | None = None  # of Ψ, where it is not Φ's: what tells things apart may be wider than what paints them
    transport: Literal["eq1", "one_by_one"] = "eq1"  # one heatmap for all keypoints, or the release's loop over them
    sigma: float = 0.1  # width of the heatmaps, in [-1, 1] units
    standardise: bool = False  # each pixel by its own mean and deviation over the data set
    floor: float = FLOOR  # added to each pixel's deviation: more of it hears less of a codec's noise
    grain: float = 0.0  # grey levels of noise in what Ψ sees in training: more of it minds codecs and renderers less
    sway: float = 0.0  # pixels by which rows and columns are moved in what Ψ sees in training: frames of other sizes
    clutter: float = 0.0  # patches pasted into what Ψ sees in training: what has never been seen before is not followed
    raise_every: int = 100_000  # zhang: its reconstruction weighs ten times as much after so many steps, and again

    def __post_init__(self) -> None:
        if self.keypoints < 1:
            raise InputError(f"a model needs at least one keypoint, not {self.keypoints}")
        reduction = max(self.shape.reduction, (self.keynet or self.shape).reduction)
        if not 16 <= self.size <= 2048 or self.size % reduction:
            raise InputError(f"frame size {self.size} must be 16 to 2048 and a multiple of {reduction}")
        if self.kind not in get_args(Kind):
            raise InputError(f"no kind of model is called {self.kind!r}: there are {', '.join(get_args(Kind))}")
        if self.kind == "zhang" and self.size % 16:
            raise InputError(f"frame size {self.size} must be a multiple of 16 for a zhang model")
        if not 0 < self.sigma < 100:
            raise InputError(f"sigma must be above 0 and under 100, not {self.sigma}")
        if not 0 < self.floor <= 1:
            raise InputError(f"floor must be above 0 and at most 1, not {self.floor}")
        if not 0 <= self.grain <= 255:
            raise InputError(f"grain is from 0 to 255 grey levels, not {self.grain}")
        if not 0 <= self.sway <= 1:
            raise InputError(f"sway is from 0 to 1 pixel, not {self.sway}")
        if not 0 <= self.clutter <= PATCHES:
            raise InputError(f"clutter is from 0 to {PATCHES} patches, not {self.clutter}")
        if self.disturbs and self.kind not in ("transporter", "pixel"):
            raise InputError(f"a {self.kind} model is trained without grain, sway and clutter")
        if self.raise_every < 1:
            raise InputError(f"raise_every must be at least 1, not {self.raise_every}")

    @property
    def disturbs(self) -> bool:
        """Whether what Ψ sees in training is not what there is."""
        return any(self.noise)

    @property
    def noise(self) -> Noise:
        return Noise(self.grain, self.sway, self.clutter)

    @property
    def has_features(self) -> bool:
        """Whether there is a Φ that describes what lies under a keypoint."""
        return self.kind in ("transporter", "jakab")

    @property
    def heat_side(self) -> int:
        """Heatmaps are this many cells wide and high."""
        return self.size // (self.shape.reduction if self.has_features else 1)

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "ModelConfig":
        try:
            keynet = data.get("keynet")
            shapes = {"shape": _shape(data["shape"]), "keynet": None if keynet is None else _shape(keynet)}
            return cls(**{**data, **shapes})
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"not a model this version knows: {error}") from error


def _shape(data: dict[str, Any]) -> Shape:
    values: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in data.items()}
    return Shape(**values)


def build(config: ModelConfig) -> Model:
    """A model with fresh weights from torch's global generator."""
    side = config.size if config.standardise else 1
    return to_channels_last(_BUILDERS[config.kind](config, Pixels(side, side)))  # type: ignore[return-value]


def _transporter(
    config: ModelConfig, pixels: Pixels, features: nn.Module | None = None, refine: nn.Module | None = None
) -> Transporter:
    return Transporter(
        pixels=pixels,
        features=features or Encoder(config.shape),
        keypoints=KeyNet(config.keynet or config.shape, config.keypoints),
        refine=refine or RefineNet(config.shape),
        transport=TRANSPORTS[config.transport],
        sigma=config.sigma,
        noise=config.noise,
    )


def _pixel(config: ModelConfig, pixels: Pixels) -> Transporter:
    """Appendix D: Eq. 1 on the frames themselves, and RefineNet at full size from first to last."""
    refine = RefineNet(config.shape, inputs=3, doubles=False)
    return _transporter(config, pixels, features=nn.Identity(), refine=refine)


def _jakab(config: ModelConfig, pixels: Pixels) -> Jakab:
    return Jakab(
        pixels=pixels,
        features=Encoder(config.shape),
        keypoints=KeyNet(config.keynet or config.shape, config.keypoints),
        refine=RefineNet(config.shape, inputs=config.shape.filters[-1] + config.keypoints),
        sigma=config.sigma,
    )


def _zhang(config: ModelConfig, pixels: Pixels) -> Zhang:
    """Hourglasses all of whose widths follow Φ's first: with the paper's 32 they are those of Zhang's release."""
    k, w, norm = config.keypoints, config.shape.filters[0], config.shape.norm
    features = Hourglass(3, (2 * w, 4 * w, 8 * w, 16 * w), norm)
    decoder = Hourglass(drawn(k, features.channels), (2 * w, 4 * w, 8 * w, 16 * w, 16 * w), norm)
    colours = conv(decoder.channels, 3, 3, bias=True)
    return Zhang(
        pixels=pixels,
        features=features,
        keypoints=LandmarkNet(config.size, k, w, norm),
        descriptors=Descriptors(k, features.channels, features.channels),
        # Standardised pixels have no bounds; others lie between 0 and 1.
        refine=nn.Sequential(decoder, colours, nn.Identity() if config.standardise else nn.Sigmoid()),
        raise_every=config.raise_every,
    )


_BUILDERS: dict[Kind, Callable[[ModelConfig, Pixels], Model]] = {
    "transporter": _transporter,
    "jakab": _jakab,
    "zhang": _zhang,
    "pixel": _pixel,
}

"""Detector: frames in, keypoints out. What a trained model becomes for everyone who uses it."""

import itertools
import json
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, Self, overload

import numpy as np
import torch
from jaxtyping import Float, Float32, UInt8
from torch import Tensor, nn

from transporter.errors import InputError
from transporter.files import parse_json
from transporter.frames import resize_tensor
from transporter.models.devices import Precision, is_half
from transporter.models.factory import ModelConfig, build
from transporter.models.keynet import gaussian_heatmaps
from transporter.models.swift import Graphs, Infer, swift
from transporter.tensors import read_tensors, write_tensors
from transporter.typed import checked

if TYPE_CHECKING:
    from PIL.Image import Image

FORMAT = 1
BATCH, GPU_BATCH = 64, 512  # frames at a time, unless told otherwise: what fits a cache, and what fills a card …
BYTES = 64 * 2**20  # … or fewer of them where they are large
BOUNDS = ("pixels.low", "pixels.high")  # of a detector that is blinkered
Frames = UInt8[np.ndarray, "t h w 3"]


class DetectorNet(nn.Module):
    """The part of a model that inference needs: (b, H, W, 3) floats in 0..255 to points and features."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        model = build(config)
        self.pixels, self.keypoints = model.pixels, model.keypoints
        self.features = model.features if config.has_features else None
        self.sigma = config.sigma

    def points(self, frames: Float[Tensor, "b H W 3"]) -> Float[Tensor, "b k 2"]:
        """Without the features, which cost as much again."""
        return self.keypoints(self.pixels.encode(frames))

    def forward(self, frames: Float[Tensor, "b H W 3"]) -> tuple[Float[Tensor, "b k 2"], Float[Tensor, "b k d"]]:
        x = self.pixels.encode(frames)
        points = self.keypoints(x)
        if self.features is None:
            return points, points[..., :0]
        return points, features_under(self.features(x).float(), points, self.sigma)


def features_under(
    features: Float[Tensor, "b d h w"], points: Float[Tensor, "b k 2"], sigma: float
) -> Float[Tensor, "b k d"]:
    """§3.2.1: the mean of Φ under each keypoint's heatmap, weighted by it."""
    height, width = features.shape[-2:]
    heat = gaussian_heatmaps(points, height, width, sigma).flatten(2)
    weights = heat / heat.sum(-1, keepdim=True).clamp_min(1e-6)
    return weights @ features.flatten(2).transpose(1, 2)


class Detector:
    """Keypoints of frames of any size; the same network however it was stored."""

    def __init__(
        self,
        config: ModelConfig,
        card: dict[str, Any] | None = None,
        device: str | None = None,
        precision: Precision = "auto",
    ) -> None:
        self.config = config
        self.card = card or {}
        self.precision = precision
        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        try:
            self.net = DetectorNet(config).eval().to(device)
        except (AssertionError, RuntimeError) as error:
            raise InputError(f"device {device}: {str(error).splitlines()[0]}") from error
        self.device = next(self.net.parameters()).device  # of several GPUs, which
        self._fast: _Fast | None = None
        self._one_at_a_time = Lock()

    @property
    def keypoints(self) -> int:
        return self.config.keypoints

    @property
    def feature_size(self) -> int:
        if not self.config.has_features:
            raise InputError(f"a {self.config.kind} model gives points only: it has no features")
        return self.config.shape.filters[-1]

    @overload
    def __call__(
        self, frames: Frames, *, features: Literal[False] = False, batch: int | None = None
    ) -> Float32[np.ndarray, "t k 2"]: ...
    @overload
    def __call__(
        self, frames: Frames, *, features: Literal[True], batch: int | None = None
    ) -> tuple[Float32[np.ndarray, "t k 2"], Float32[np.ndarray, "t k d"]]: ...
    def __call__(self, frames: Frames, *, features: bool = False, batch: int | None = None) -> Any:
        """(T, H, W, 3) uint8 → (T, K, 2) float32, (x, y) in [-1, 1]; with features, also (T, K, D)."""
        try:
            frames = np.asarray(frames)
        except ValueError:
            raise InputError("frames must be (T, H, W, 3) uint8: these are not all of one size") from None
        _check(frames.shape, frames.dtype == np.uint8, frames.dtype)
        if batch is not None and (not isinstance(batch, int) or batch < 1):
            raise InputError(f"batch must be a whole number of frames, at least 1, not {batch}")
        if batch is None:
            most = GPU_BATCH if self.device.type == "cuda" else BATCH
            batch = max(1, min(most, BYTES // max(1, frames[:1].nbytes)))
        parts = [torch.from_numpy(np.ascontiguousarray(frames[i : i + batch])) for i in range(0, len(frames), batch)]
        # All of it is on its way before the first answer is asked for.
        found = [self._found(part.to(self.device, non_blocking=True), features) for part in parts]
        points = torch.cat([torch.zeros(0, self.keypoints, 2, device=self.device), *(f[0] for f in found)])
        if not features:
            return points.cpu().numpy()
        empty = torch.zeros(0, self.keypoints, self.feature_size, device=self.device)
        return points.cpu().numpy(), torch.cat([empty, *(f[1] for f in found)]).cpu().numpy()

    @overload
    def tensor(
        self, frames: UInt8[Tensor, "t h w 3"], *, features: Literal[False] = False
    ) -> Float32[Tensor, "t k 2"]: ...
    @overload
    def tensor(
        self, frames: UInt8[Tensor, "t h w 3"], *, features: Literal[True]
    ) -> tuple[Float32[Tensor, "t k 2"], Float32[Tensor, "t k d"]]: ...
    def tensor(self, frames: UInt8[Tensor, "t h w 3"], *, features: bool = False) -> Any:
        """The same for a tensor on the detector's device, all in one batch; what it gives stays there.

        Nothing here waits for a GPU: the answer can go into a policy's network before it has been worked out.
        """
        if not isinstance(frames, Tensor):
            raise InputError(f"frames must be a torch tensor, not {type(frames).__name__}: call the detector itself")
        _check(tuple(frames.shape), frames.dtype == torch.uint8, frames.dtype)
        if frames.device != self.device:
            raise InputError(f"frames are on {frames.device}, the detector is on {self.device}")
        found = self._found(frames, features)
        return found if features else found[0]

    @torch.no_grad()  # not inference_mode: what comes out may go into a network that learns
    def _found(self, frames: UInt8[Tensor, "t h w 3"], features: bool) -> tuple[Tensor, ...]:
        if features:
            _ = self.feature_size  # or say that there are none
        # One at a time: a graph reads its frames from one place. And in its own precision, whatever the caller's is.
        with self._one_at_a_time, torch.autocast(self.device.type, enabled=False):
            if self._fast is None or self._fast.is_stale(self):
                self._fast = _Fast(self)
            return (self._fast.both if features else self._fast.points)(frames)

    def accustomed(self, frames: Iterable[UInt8[np.ndarray, "h w 3"]]) -> Self:
        """The same detector, used to how these frames look: what never changes is seen against their own mean.

        Another codec, renderer or size moves what stands still, and pixels that were standardised show that as
        if it were new. Where much changed in training, the data set's mean stays: what rests there now is still seen.
        """
        if not self.config.standardise:
            raise InputError("only a model whose pixels are standardised can be accustomed: this one has no background")
        total, count = torch.zeros((), dtype=torch.float64), 0
        for seen in self._seen(frames):
            total, count = total + seen.double(), count + 1
        if not count:
            raise InputError("there is no frame to be accustomed to")
        other = self._copy()
        other.net.pixels.get_used_to((total / count).permute(2, 0, 1), self.config.floor)
        return other

    def blinkered(self, frames: Iterable[UInt8[np.ndarray, "h w 3"]]) -> Self:
        """The same detector, blind to what these frames never show: each pixel between its least and most in them.

        Later play brings new looks to where nothing happens (digits of a higher score, gaps in a wall), and to pixels
        that were standardised they are the most striking thing there is. The frames must show all that is to be
        followed, in all places: for a game, many thousand of random play.
        """
        if not self.config.standardise:
            raise InputError("only a model whose pixels are standardised can be blinkered: others mind no single pixel")
        low = high = None
        count = 0
        for seen in self._seen(frames):
            low = seen if low is None else torch.minimum(low, seen)
            high = seen if high is None else torch.maximum(high, seen)
            count += 1
        if low is None or high is None:
            raise InputError("there is no frame to know anything from")
        other = self._copy()
        other.card = self._unmeasured() | {"blinkers": f"blind to what {count:,} frames do not show"}
        other.net.pixels.keep_within(low.permute(2, 0, 1), high.permute(2, 0, 1))
        return other

    def opened(self) -> Self:
        """The same detector without blinkers: it sees all there is."""
        other = self._copy()
        other.net.pixels.see_all()
        other.card = self._unmeasured()
        return other

    def _unmeasured(self) -> dict[str, Any]:
        """The card of one with other blinkers, or none: what was measured was this one."""
        return {name: value for name, value in self.card.items() if name not in ("blinkers", "measured", "failures")}

    def _seen(self, frames: Iterable[UInt8[np.ndarray, "h w 3"]]) -> Iterator[Float[Tensor, "H W 3"]]:
        """Frames one by one, in the size that the network sees."""
        size = self.config.size
        if not isinstance(frames, Iterable):
            raise InputError(f"frames must be (T, H, W, 3) uint8, not {type(frames).__name__}")
        for frame in frames:
            if not isinstance(frame, np.ndarray) or frame.ndim != 3:
                what = f"{frame.shape} {frame.dtype}" if isinstance(frame, np.ndarray) else type(frame).__name__
                raise InputError(f"each frame must be an (H, W, 3) uint8 array, not {what}")
            _check((1, *frame.shape), frame.dtype == np.uint8, frame.dtype)
            yield resize_tensor(torch.from_numpy(np.ascontiguousarray(frame))[None], size, size)[0]

    def _copy(self) -> Self:
        other = type(self)(self.config, self.card, str(self.device), self.precision)
        other.net.load_state_dict(self.net.state_dict())
        return other

    def heatmaps(self, frames: Frames) -> Float32[np.ndarray, "t k h w"]:
        """The Gaussians that transport features, at the feature map's resolution."""
        points = torch.from_numpy(self(frames))
        side = self.config.heat_side
        return gaussian_heatmaps(points, side, side, self.config.sigma).numpy()

    def show(self, frames: Frames, every: int | None = None, columns: int = 8) -> "Image":
        """Frames with their keypoints, a picture that shows itself in a notebook; of a long clip some frames."""
        # Reports come after models: by name, as `transporter.show` itself is fetched.
        return import_module("transporter").show(self, frames, every, columns)

    def save(self, path: str | Path, half: bool = True) -> None:
        """One .safetensors file that `load` reads; half precision by default."""
        tensors = {n: t.half() if half and t.is_floating_point() else t for n, t in self.net.state_dict().items()}
        head = {"format": str(FORMAT), "config": json.dumps(self.config.to_json()), "card": json.dumps(self.card)}
        write_tensors(Path(path), tensors, head)

    @classmethod
    def from_file(cls, path: str | Path, device: str | None = None) -> Self:
        head, tensors = read_tensors(Path(path), "a detector of transporter's")
        try:
            if not head["format"].isdigit():  # "keyqn 1", "options 1": what the rest of this package writes
                raise ValueError(f"it holds {head['format'][:20]!r}")
            if int(head["format"]) > FORMAT:
                raise InputError(f"{path} was written by a newer version of transporter")
            config, card = checked(ModelConfig.from_json(parse_json(head["config"]))), parse_json(head["card"])
            if not isinstance(card, dict):
                raise ValueError("its card is no card")
        except (KeyError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{path} is not a detector of transporter's, or is damaged: {error}") from error
        return cls.from_tensors(config, tensors, card, device)

    @classmethod
    def from_tensors(
        cls,
        config: ModelConfig,
        tensors: dict[str, Tensor],
        card: dict[str, Any] | None = None,
        device: str | None = None,
    ) -> Self:
        """From a model's own weights; those that only training needs are left out."""
        try:
            _refuse_giants(config, tensors)
            detector = cls(config, card, device)
            wanted = {name: tensors[name].to(t.dtype) for name, t in detector.net.state_dict().items()}
            detector.net.load_state_dict(wanted | {name: tensors[name] for name in BOUNDS if name in tensors})
        except (KeyError, IndexError, RuntimeError, TypeError, ArithmeticError, AttributeError) as error:
            raise InputError(f"the weights do not fit their configuration: {str(error).splitlines()[0]}") from error
        return detector


def _check(shape: tuple[int, ...], bytes_: bool, dtype: object) -> None:
    if len(shape) != 4 or shape[-1] != 3 or not bytes_ or 0 in shape[1:3]:
        hint = ": for one frame, frame[None]" if len(shape) == 3 and bytes_ else ""
        raise InputError(f"frames must be (T, H, W, 3) uint8, not {shape} {dtype}{hint}")


def _refuse_giants(config: ModelConfig, tensors: dict[str, Tensor]) -> None:
    """A configuration that asks for far more weights than there are, before any memory is taken for them."""
    asked = 0
    for shape in (config.shape, config.keynet or config.shape):
        widths = (3, *shape.filters, *(shape.refine or shape.filters[::-1]), config.keypoints)
        asked += sum(a * b for a, b in itertools.pairwise(widths)) * max(*shape.kernels, 3) ** 2
    there = sum(tensor.numel() for tensor in tensors.values())
    if asked > 64 * there + 2**22 or (config.kind == "zhang" and config.shape.filters[0] > 128):  # roughly will do
        raise InputError(f"the weights do not fit their configuration: {there:,} of about {asked:,}")


class _Fast:
    """The detector's net made fast, for the weights that it has now."""

    def __init__(self, detector: Detector) -> None:
        on_gpu = detector.device.type == "cuda"
        # Walking through the modules would take longer than the network does for a frame.
        self.weights = (*detector.net.parameters(), *detector.net.buffers())
        self.of = self._state(detector)
        self.size = detector.config.size
        self.net = swift(detector.net, is_half(detector.precision, detector.device))
        self.points: Infer = self._points
        self.both: Infer = self._both
        if on_gpu:
            self.points, self.both = Graphs(self._points, self.size), Graphs(self._both, self.size)

    def _points(self, frames: UInt8[Tensor, "t h w 3"]) -> tuple[Tensor, ...]:
        return (self.net.points(resize_tensor(frames, self.size, self.size)),)

    def _both(self, frames: UInt8[Tensor, "t h w 3"]) -> tuple[Tensor, ...]:
        return self.net(resize_tensor(frames, self.size, self.size))

    def is_stale(self, detector: Detector) -> bool:
        """Whether a weight has changed since, in place or with its whole net, or the precision."""
        return self.of != self._state(detector)

    def _state(self, detector: Detector) -> tuple[object, ...]:
        pixels = detector.net.pixels
        bounds = id(pixels.low), id(pixels.high)
        return id(detector.net), detector.precision, bounds, *(tensor._version for tensor in self.weights)

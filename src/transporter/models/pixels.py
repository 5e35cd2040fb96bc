"""Between uint8 frames and what the networks see."""

import math
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor, nn
from torch.nn import functional as F

FLOOR = 0.02  # added to each deviation, in units of the full range: a pixel that hardly ever changes stays quiet
QUIET = 10.0  # grey levels: the deviation at which a pixel's own mean and that of other frames count alike
BLOCK = 8  # pixels: what most codecs treat as one
TURNS = 2**24
PATCHES = 8  # of clutter in a frame, at most
WIDEST = 0.2  # share of a frame that a patch may be wide, and high


class Noise(NamedTuple):
    """By how much frames are not what they are."""

    grain: float = 0.0  # grey levels
    sway: float = 0.0  # pixels
    clutter: float = 0.0  # patches in a frame, on average


class Pixels(nn.Module):
    """(x - mean) / scale, with one mean and scale for all pixels, or one for each pixel and colour."""

    mean: Tensor
    scale: Tensor
    turn: Tensor
    low: Tensor | None
    high: Tensor | None

    def __init__(self, height: int = 1, width: int = 1) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(3, height, width))
        self.register_buffer("scale", torch.full((3, height, width), 255.0))
        self.register_buffer("turn", torch.zeros((), dtype=torch.int64), persistent=False)  # decides noise
        # The least and the most that each may be; none, and all there is is seen.
        self.register_buffer("low", None)
        self.register_buffer("high", None)

    @torch.no_grad()
    def fit(self, mean: Float[Tensor, "3 H W"], std: Float[Tensor, "3 H W"], floor: float = FLOOR) -> None:
        """Standardise in time: a rare, tiny thing weighs as much as a busy, large one. For still pictures."""
        self.mean.copy_(mean)
        self.scale.copy_(std + floor * 255)

    @torch.no_grad()
    def get_used_to(self, mean: Float[Tensor, "3 H W"], floor: float = FLOOR) -> None:
        """To frames with another mean, where pixels hardly ever changed; `floor` as they were fitted with."""
        varied = self.scale - floor * 255
        by = (mean.to(self.mean) - self.mean) / (1 + (varied / QUIET).square())
        self.mean += by
        if self.low is not None and self.high is not None:
            self.low, self.high = self.low + by, self.high + by

    @torch.no_grad()
    def keep_within(self, low: Float[Tensor, "3 H W"], high: Float[Tensor, "3 H W"]) -> None:
        """From here on a pixel that goes beyond what it has been seen at is seen at the nearest that it has."""
        self.low, self.high = low.to(self.mean), high.to(self.mean)

    def see_all(self) -> None:
        """No bounds any more."""
        self.low = self.high = None

    def _load_from_state_dict(self, state: dict[str, Tensor], prefix: str, *rest: Any) -> None:
        if not any(f"{prefix}{name}" in state for name in ("low", "high")):
            self.see_all()
        elif self.low is None:
            self.keep_within(torch.empty_like(self.mean), torch.empty_like(self.mean))  # room for what is loaded
        super()._load_from_state_dict(state, prefix, *rest)

    def encode(self, frames: UInt8[Tensor, "b H W 3"] | Float[Tensor, "b H W 3"]) -> Float[Tensor, "b 3 H W"]:
        """The permuted view of (b, H, W, 3) memory is channels-last already: no copy but the cast."""
        values = frames.permute(0, 3, 1, 2)
        if self.low is not None and self.high is not None:
            values = values.clamp(self.low, self.high)
        return self.standardised(values)

    def standardised(self, values: Float[Tensor, "b 3 H W"]) -> Float[Tensor, "b 3 H W"]:
        """Colours as the networks see them, bounds or none."""
        return (values - self.mean) / self.scale

    def colours(self, values: Float[Tensor, "b 3 H W"]) -> Float[Tensor, "b 3 H W"]:
        """The opposite of encode, up to the order of axes: 0..255."""
        return values.float() * self.scale + self.mean

    def disturbed(self, values: Float[Tensor, "b 3 H W"], noise: Noise) -> Float[Tensor, "b 3 H W"]:
        """As someone else's frames might be: cluttered, then swayed, then grained."""
        values = self.cluttered(values, noise.clutter) if noise.clutter else values
        values = self.swayed(values, noise.sway) if noise.sway else values
        return self.grained(values, noise.grain) if noise.grain else values

    def cluttered(self, values: Float[Tensor, "b 3 H W"], count: float) -> Float[Tensor, "b 3 H W"]:
        """As frames of later play might be, with things that were not there before (digits of a higher score, gaps in a
        wall): so many patches on average, each of one colour, anywhere."""
        b, _, height, width = values.shape
        chance = (scattered((b, PATCHES, 8), self.turn + 5) + 1) / 2
        there = chance[..., 0] < count / PATCHES
        inside = there[..., None, None].expand(b, PATCHES, height, width)
        for axis, (size, shape) in enumerate(((height, (1, 1, -1, 1)), (width, (1, 1, 1, -1)))):
            middle = (chance[..., 1 + axis] * size)[..., None, None]
            # Most are small; the least is a pixel.
            half = (0.5 + 0.5 * WIDEST * size * chance[..., 3 + axis].square())[..., None, None]
            places = torch.arange(size, device=values.device).view(shape) + 0.5
            inside = inside & ((places - middle).abs() <= half)
        colours = (255 * chance[..., 5:, None, None] - self.mean) / self.scale  # (b, patches, 3, H, W)
        for patch in range(PATCHES):
            values = torch.where(inside[:, patch, None], colours[:, patch], values)
        return values.contiguous(memory_format=torch.channels_last)

    def grained(self, values: Float[Tensor, "b 3 H W"], levels: float) -> Float[Tensor, "b 3 H W"]:
        """As another codec, camera or renderer might have them: off by up to so many grey levels each pixel by itself,
        as many again block by block, and as many all over."""
        b, c, height, width = values.shape
        noise = torch.zeros_like(values)
        for side in (1, BLOCK, max(height, width)):
            cells = scattered((b, c, -(-height // side), -(-width // side)), self.turn + side)
            noise += F.interpolate(cells, scale_factor=side)[..., :height, :width]
        return values + levels * noise / self.scale

    def swayed(self, values: Float[Tensor, "b 3 H W"], most: float) -> Float[Tensor, "b 3 H W"]:
        """As frames that came by way of another size: each row, and each column, drawn towards the one on either side
        of it by up to so much of a pixel. What stands still has its edges elsewhere in each."""
        colours = self.colours(values)
        for axis in (2, 3):
            size = [len(values), 1, 1, 1]
            size[axis] = count = values.shape[axis]
            by = most * scattered(tuple(size), self.turn + axis)
            ends = colours.narrow(axis, 0, 1), colours.narrow(axis, count - 1, 1)
            before = torch.cat((ends[0], colours.narrow(axis, 0, count - 1)), axis)
            after = torch.cat((colours.narrow(axis, 1, count - 1), ends[1]), axis)
            colours = torch.lerp(colours, torch.where(by > 0, after, before), by.abs())
        return self.standardised(colours)

    def decode(self, values: Float[Tensor, "b 3 H W"]) -> UInt8[Tensor, "b H W 3"]:
        """Back to something to look at."""
        return self.colours(values).round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1)

    def error(self, values: Float[Tensor, "b 3 H W"], frames: UInt8[Tensor, "b H W 3"]) -> Float[Tensor, "b"]:
        """How far each is from its frame in colours, whatever the networks see."""
        return difference(self.colours(values).permute(0, 2, 3, 1), frames)


def scattered(shape: tuple[int, ...], turn: Int64[Tensor, ""]) -> Float[Tensor, "..."]:
    """Numbers evenly spread over [-1, 1) that the turn decides, and nothing else: the same on every device, after every
    break, whatever else is trained beside it; and a captured step sees a new turn, where it is a tensor."""
    x = torch.arange(math.prod(shape), device=turn.device) + (turn << 28)
    for factor in (0x5851F42D4C957F2D, 0x2545F4914F6CDD1D):  # odd, as those of common generators
        x = x * factor  # what is low goes up …
        x = x ^ (x >> 32)  # … and comes down again
    return ((x & 0xFFFFFF).float() / 2**23 - 1).view(shape)


def difference(seen: Tensor, frames: UInt8[Tensor, "b H W 3"]) -> Float[Tensor, "b"]:
    """Mean squared difference of frames (b, H, W, 3), colours from 0 to 1."""
    return ((seen.float() - frames.float()) / 255).square().flatten(1).mean(1)

"""Sprites as keypoints without a detector: each is where its colour is."""

import pytest
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from transporter.coords import cell_centres
from transporter.envs.sprite_worlds import WORLDS


class Colours:
    """Eyes that know the colour of each sprite of a world."""

    def __init__(self, name: str) -> None:
        self.colours = torch.tensor([sprite.colour for sprite in WORLDS[name].sprites], dtype=torch.float32)
        self.keypoints = len(self.colours)

    def __call__(self, frames: UInt8[Tensor, "n h w 3"]) -> Float[Tensor, "n k 2"]:
        apart = (frames.float()[:, None] - self.colours[:, None, None]).abs().sum(-1)  # (n, k, h, w)
        like = torch.exp(-apart / 10)
        at = cell_centres(frames.shape[1])
        share = like / like.sum((2, 3), keepdim=True)
        return torch.stack(((share.sum(2) * at).sum(-1), (share.sum(3) * at).sum(-1)), -1)


@pytest.fixture
def colours() -> Colours:
    return Colours("sprites_control")

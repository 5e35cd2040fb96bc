"""Which option comes next: the most controllable keypoint (Eq. 2), commitment for T steps, ε for each player."""

from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from transporter.control.options.rewards import DIRECTIONS

KEEP, MOST = -2, -1  # instead of a keypoint: go on with the option; the most controllable one
Keypoints = Literal["all", "controllable"]  # among which an option is drawn


def q_gap(q: Float[Tensor, "*n k 4 a"]) -> Float[Tensor, "*n k"]:
    """Eq. 2, before its argmax: ¼ Σⱼ maxₐ Qᵢⱼ(s; a) - minₐ Qᵢⱼ(s; a), how much actions matter to keypoint i."""
    return (q.amax(-1) - q.amin(-1)).mean(-1)


def most_controllable(q: Float[Tensor, "*n k 4 a"]) -> Int64[Tensor, "*n"]:
    """π_Qgap (Eq. 2): the keypoint to which actions matter most."""
    return q_gap(q).argmax(-1)


def safe(safety: Float[Tensor, "*n a"], caution: float) -> Bool[Tensor, "*n a"]:
    """Actions that cost a life no likelier than the safest, or by no more than `caution`."""
    safety = safety.clamp(-1, 0)  # a guess may be surer than sure
    return safety >= safety.amax(-1, keepdim=True) - caution


def without_risk(
    q: Float[Tensor, "*n k 4 a"], safety: Float[Tensor, "*n a"], caution: float
) -> Float[Tensor, "*n k 4 a"]:
    """Q of safe actions, -∞ of the others; without caution, of all."""
    return q.masked_fill(~safe(safety, caution)[..., None, None, :], -torch.inf) if caution else q


class Drawn(NamedTuple):
    """What each player is told to do next."""

    keypoint: Int64[np.ndarray, "n"]  # or KEEP, or MOST
    direction: Int64[np.ndarray, "n"]


class Commitment:
    """Options drawn at random, each kept for T steps or until its episode ends."""

    def __init__(self, players: int, keypoints: int, steps: int, among: Keypoints, chance: np.random.Generator) -> None:
        self.keypoints, self.steps, self.among, self.chance = keypoints, steps, among, chance
        self.left = np.zeros(players, np.int64)

    def next(self, first: Bool[np.ndarray, "n"]) -> Drawn:
        """For the coming step; `first` says whose episode begins with it."""
        n = len(self.left)
        over = first | (self.left == 0)
        keypoint = self.chance.integers(self.keypoints, size=n) if self.among == "all" else np.full(n, MOST)
        direction = self.chance.integers(len(DIRECTIONS), size=n)
        self.left = np.where(over, self.steps, self.left) - 1
        return Drawn(np.where(over, keypoint, KEEP), direction)


def log_uniform(low: float, high: float, count: int, chance: np.random.Generator) -> Float64[np.ndarray, "n"]:
    """ε of each player (§4.2.2): as many between 0.001 and 0.01 as between 0.01 and 0.1."""
    return np.exp(chance.uniform(np.log(low), np.log(high), count))


def epsilon_greedy(
    best: Int64[np.ndarray, "n"], epsilon: Float64[np.ndarray, "n"] | float, actions: int, chance: np.random.Generator
) -> Int64[np.ndarray, "n"]:
    """One generator for all players; as many draws whatever comes of them."""
    draws = chance.random((2, len(best)))
    return np.where(draws[0] < epsilon, (draws[1] * actions).astype(np.int64), best)

"""Weights of many networks of one shape: a row of one matrix for each, so that one kernel serves all of them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

ALIGN = 8  # floats: every weight begins where wide loads can begin
Fill = Literal["uniform", "zeros", "ones"]
Weights = Mapping[str, Tensor]  # (agents, *shape) each


@dataclass(frozen=True)
class Weight:
    """One weight of a network."""

    shape: tuple[int, ...]  # (inputs, outputs) of a product; the bias of one has (1, outputs)
    fill: Fill = "uniform"
    inputs: int = 0  # uniform within ±1/√inputs, as torch's own layers
    last: bool = False  # of the last layers, which a reset makes afresh

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class Layout:
    """Where each weight of a network lies in its row."""

    def __init__(self, weights: Mapping[str, Weight]) -> None:
        self.weights = dict(weights)
        self.offsets: dict[str, int] = {}
        end = 0
        for name, weight in self.weights.items():
            self.offsets[name] = end
            end += -(-weight.size // ALIGN) * ALIGN
        self.size = end

    def fresh(self, generator: torch.Generator) -> Float[Tensor, "p"]:
        """A row of first weights, on the CPU, so that a seed means the same on every device."""
        row = torch.zeros(self.size)
        for name, weight in self.weights.items():
            part = row[self.offsets[name] : self.offsets[name] + weight.size]
            if weight.fill == "ones":
                part.fill_(1)
            elif weight.fill == "uniform":
                bound = 1 / math.sqrt(weight.inputs)
                part.uniform_(-bound, bound, generator=generator)
        return row

    def last(self) -> Float[Tensor, "p"]:
        """1 for the weights of the last layers, 0 for the others."""
        row = torch.zeros(self.size)
        for name, weight in self.weights.items():
            if weight.last:
                row[self.offsets[name] : self.offsets[name] + weight.size] = 1
        return row

    def views(self, flat: Float[Tensor, "a p"]) -> dict[str, Tensor]:
        """The weights by name, without a copy."""
        return {
            name: flat[:, self.offsets[name] : self.offsets[name] + weight.size].view(-1, *weight.shape)
            for name, weight in self.weights.items()
        }

    def join(self, parts: Mapping[str, Tensor], into: Float[Tensor, "a p"]) -> None:
        """The opposite of views: gradients by name into one matrix."""
        for name, weight in self.weights.items():
            into[:, self.offsets[name] : self.offsets[name] + weight.size].copy_(parts[name].flatten(1))


def linear(name: str, inputs: int, outputs: int, *, last: bool = False) -> dict[str, Weight]:
    return {
        f"{name}.weight": Weight((inputs, outputs), inputs=inputs, last=last),
        f"{name}.bias": Weight((1, outputs), inputs=inputs, last=last),
    }


def norm(name: str, size: int, *, last: bool = False) -> dict[str, Weight]:
    scale, shift = Weight((1, size), "ones", last=last), Weight((1, size), "zeros", last=last)
    return {f"{name}.scale": scale, f"{name}.shift": shift}


def apply_linear(weights: Weights, name: str, x: Float[Tensor, "a n i"]) -> Float[Tensor, "a n o"]:
    return torch.baddbmm(weights[f"{name}.bias"], x, weights[f"{name}.weight"])


def apply_norm(weights: Weights, name: str, x: Float[Tensor, "a n d"]) -> Float[Tensor, "a n d"]:
    """Layer norm, which keeps fitted values from running away."""
    normal = torch.nn.functional.layer_norm(x, x.shape[-1:])
    return torch.addcmul(weights[f"{name}.shift"], normal, weights[f"{name}.scale"])

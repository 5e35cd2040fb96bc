"""Recipes: named ways to train, each a preset with some of its fields changed. The preset itself is "transporter"."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from transporter.errors import InputError
from transporter.models.blocks import HALF, NEAR, PAPER, SMALL, WIDE, Shape
from transporter.training.config import PRESETS, Preset, TrainConfig, preset

VALIDATIONS, CHECKPOINTS = 20, 5  # in each run

# Pixels as they are and heatmaps as narrow as they stay: what the presets fast and tiny change first.
PLAIN: Mapping[str, Any] = {"standardise": False, "sigma_start": None, "sigma_steps": 0}


@dataclass(frozen=True)
class Recipe:
    """What a recipe changes: fields of TrainConfig, of ModelConfig or of its Shape."""

    title: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    keypoints: int = 1  # times as many as the environment asks for
    thirds: tuple[str, ...] = ()  # fields that are a third of the steps


RECIPES: dict[str, Recipe] = {
    "transporter": Recipe("Transporter"),
    "jakab": Recipe("Jakab & Gupta", {"kind": "jakab"}),
    "jakab_plain": Recipe("Jakab & Gupta, plain pixels", {"kind": "jakab", **PLAIN}),
    # As its authors trained it, on the paper's widths, with its three stages in the steps that there are.
    "zhang": Recipe(
        "Zhang",
        {"kind": "zhang", "shape": PAPER, "batch": 16, "learning_rate": 1e-3, "decay": 0.1, **PLAIN},
        thirds=("decay_every", "raise_every"),
    ),
    "pixel": Recipe("Pixel transport", {"kind": "pixel"}),
    "paper": Recipe("Transporter, the paper's", {"shape": PAPER, **PLAIN}),
    "paper_jakab": Recipe("Jakab & Gupta, the paper's", {"kind": "jakab", "shape": PAPER, **PLAIN}),
    "paper_pixel": Recipe("Pixel transport, the paper's", {"kind": "pixel", "shape": PAPER, **PLAIN}),
    # One change each.
    "plain": Recipe("Transporter, plain", {**PLAIN, "transport": "one_by_one"}),
    "annealed": Recipe("Transporter, plain pixels", {"standardise": False}),
    "not_annealed": Recipe("Transporter, narrow heatmaps", {"sigma_start": None, "sigma_steps": 0}),
    "one_by_one": Recipe("Transporter, one by one", {"transport": "one_by_one"}),
    "instance": Recipe("Transporter, instance norm", {"norm": "instance"}),
    "large_decoder": Recipe("Transporter, larger decoder", {"refine": (128, 64)}),
    "one_way": Recipe("Transporter, one way", {"both_ways": False}),
    "fine": Recipe("Transporter, finer heatmaps", {"sigma": 0.07}),
    "finer": Recipe("Transporter, heatmaps half as wide", {"sigma": 0.05}),
    "half": Recipe("Transporter, half the paper's widths", {"shape": HALF}),
    "wider": Recipe("Transporter, wider view", {"keynet": HALF}),
    "wider_fine": Recipe("Transporter, wider view, finer heatmaps", {"keynet": HALF, "sigma": 0.07}),
    "wider_finer": Recipe("Transporter, wider view, heatmaps half as wide", {"keynet": HALF, "sigma": 0.05}),
    "wide": Recipe("Transporter, widest view", {"keynet": WIDE}),
    "near": Recipe("Transporter, nearer features", {"shape": NEAR, "keynet": SMALL}),
    "near_wider": Recipe("Transporter, nearer features, wider view", {"shape": NEAR, "keynet": HALF}),
    "near_wide": Recipe("Transporter, nearer features, widest view", {"shape": NEAR, "keynet": WIDE}),
    "carried": Recipe("Transporter, half carried", {"carried": 0.5}),
    "carried_wide": Recipe(
        "Transporter, carried, widest view, finer heatmaps", {"carried": 0.7, "keynet": WIDE, "sigma": 0.07}
    ),
    "twice": Recipe("Transporter, twice the keypoints", keypoints=2),
    "thrice": Recipe("Transporter, three times the keypoints", keypoints=3),
}
RECIPES["default"] = RECIPES["transporter"]  # as it is called in results/recipes


def recipe(name: str) -> Recipe:
    if name not in RECIPES:
        raise InputError(f"no recipe named {name!r}: there are {', '.join(RECIPES)}")
    return RECIPES[name]


def configure(
    name: str,
    *,
    keypoints: int,
    size: int,
    steps: int,
    seed: int,
    base: Preset = "fast",
    anneal: float | None = None,
) -> TrainConfig:
    """The training that a recipe makes of a preset; `anneal` is the share of steps over which heatmaps shrink."""
    found = recipe(name)
    shape_fields = {f.name for f in dataclasses.fields(Shape)}
    of_shape = {n: v for n, v in found.changes.items() if n in shape_fields}
    changes: dict[str, Any] = {
        "keypoints": keypoints * found.keypoints,
        "size": size,
        "steps": steps,
        "seed": seed,
        "validate_every": max(1, steps // VALIDATIONS),
        "checkpoint_every": max(1, steps // CHECKPOINTS),
    }
    if anneal is not None:
        changes["sigma_steps"] = int(steps * anneal)
    changes |= {n: v for n, v in found.changes.items() if n not in shape_fields}
    changes |= {n: max(1, steps // 3) for n in found.thirds}
    if of_shape:
        changes["shape"] = dataclasses.replace(changes.get("shape", PRESETS[base].model.shape), **of_shape)
    return preset(base, **changes)

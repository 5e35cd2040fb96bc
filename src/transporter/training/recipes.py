"""Recipes: named ways to train, each a preset with some of its fields changed. The preset itself is "transporter"."""

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from transporter.errors import InputError
from transporter.models.blocks import HALF, PAPER, SMALL, WIDE, Shape
from transporter.models.factory import ModelConfig
from transporter.training.config import PRESETS, Preset, TrainConfig, preset

# Pixels as they are and heatmaps as narrow as they stay: what the presets fast and tiny change first.
PLAIN: Mapping[str, Any] = {"standardise": False, "sigma_start": None, "sigma_steps": 0}
PAPERS: Mapping[str, Any] = {"shape": PAPER, "keynet": None}
# As its authors trained it, with its three stages in the steps that there are; its widths follow Φ's first, and theirs
# are those of the paper's Φ.
ZHANG: Mapping[str, Any] = {"kind": "zhang", "batch": 16, "learning_rate": 1e-3, "decay": 0.1, **PLAIN}
THIRDS = ("decay_every", "raise_every")


@dataclass(frozen=True)
class Recipe:
    """What a recipe changes: fields of TrainConfig, of ModelConfig or of its Shape."""

    title: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    keypoints: int = 1  # times as many as the environment knows of: for whoever asks it
    thirds: tuple[str, ...] = ()  # fields that are a third of the steps
    far: bool = False  # Φ has Ψ's shape, where the preset's own reaches less far


RECIPES: dict[str, Recipe] = {
    "transporter": Recipe("Transporter"),
    # Far: a decoder that reaches three pixels could not paint a thing around its heatmap.
    "jakab": Recipe("Jakab & Gupta", {"kind": "jakab"}, far=True),
    "jakab_plain": Recipe("Jakab & Gupta, plain pixels", {"kind": "jakab", **PLAIN}, far=True),
    "zhang": Recipe("Zhang, half its widths", ZHANG, thirds=THIRDS, far=True),
    "pixel": Recipe("Pixel transport", {"kind": "pixel"}, far=True),
    "paper": Recipe("Transporter, the paper's", {**PAPERS, **PLAIN}),
    "paper_jakab": Recipe("Jakab & Gupta, the paper's", {"kind": "jakab", **PAPERS, **PLAIN}),
    "paper_zhang": Recipe("Zhang, its own widths", {**ZHANG, **PAPERS}, thirds=THIRDS),
    "paper_pixel": Recipe("Pixel transport, the paper's", {"kind": "pixel", **PAPERS, **PLAIN}),
    # One change each.
    "far": Recipe("Transporter, features that reach further", far=True),
    "plain": Recipe("Transporter, plain", {**PLAIN, "transport": "one_by_one"}),
    "annealed": Recipe("Transporter, plain pixels", {"standardise": False}),
    "not_annealed": Recipe("Transporter, narrow heatmaps", {"sigma_start": None, "sigma_steps": 0}),
    "one_by_one": Recipe("Transporter, one by one", {"transport": "one_by_one"}),
    "instance": Recipe("Transporter, instance norm", {"norm": "instance"}),
    "one_way": Recipe("Transporter, one way", {"both_ways": False}),
    "wider": Recipe("Transporter, wider view", {"keynet": HALF}),
    "wide": Recipe("Transporter, widest view", {"keynet": WIDE}),
    "half": Recipe("Transporter, half the paper's widths", {"shape": HALF, "keynet": None}),
    "twice": Recipe("Transporter, twice the keypoints", keypoints=2),
    "thrice": Recipe("Transporter, three times the keypoints", keypoints=3),
    # For many things that look alike: what they are is told from what lies beside them, and only following them pays.
    "alike": Recipe(
        "Transporter, carried, widest view", {"shape": SMALL, "keynet": WIDE, "sigma": 0.07, "carried": 0.7}
    ),
}
RECIPES["default"] = RECIPES["transporter"]  # as it is called in results/recipes
SUITED = "suited"  # to an environment: whichever recipe it names, or the preset where frames are too small for that
RECIPES[SUITED] = Recipe("Transporter, suited")
WRITTEN = re.compile(r"[-+]?[0-9]*\.?[0-9]+(e[-+]?[0-9]+)?|nan|inf")  # numbers, without what else Python reads as such
_NUMBERS = {f.name: f.type for f in (*dataclasses.fields(TrainConfig), *dataclasses.fields(ModelConfig))}


def recipe(name: str) -> Recipe:
    """By its name, or with numbers of its own: wide+carried=0.5+sigma=0.07."""
    known, *given = name.split("+")
    if known not in RECIPES:
        raise InputError(f"no recipe named {known!r}: there are {', '.join(RECIPES)}")
    changes = dict(map(_number, given))
    if len(changes) < len(given):
        raise InputError(f"the recipe {name} gives a field twice")
    found = RECIPES[known]
    title = ", ".join([found.title, *(f"{field} {value:g}" for field, value in changes.items())])
    return dataclasses.replace(found, title=title, changes={**found.changes, **changes}) if given else found


def _number(part: str) -> tuple[str, float]:
    """A field and its value, of a part such as sigma=0.07."""
    name, _, value = part.partition("=")
    kind = _NUMBERS.get(name)
    if kind not in (int, float, float | None) or name in ("seed", "steps", "keypoints", "size"):
        raise InputError(f"a recipe cannot change {name!r}: write +FIELD=NUMBER, with a number that decides a training")
    try:
        if not WRITTEN.fullmatch(value):
            raise ValueError
        return name, int(value) if kind is int else float(value)
    except ValueError:
        raise InputError(f"{value!r} is no number that {name} could be") from None


def suited(wanted: str, base: Preset, size: int) -> str:
    """The recipe that an environment wants, where it makes anything of frames of this size; else the preset itself."""
    if base != "fast":  # the others are as small, or as the paper has it, for reasons of their own
        return "transporter"
    try:
        configure(wanted, base, size=size)
    except InputError:
        return "transporter"
    return wanted


def named(name: str, wanted: str, base: Preset, size: int) -> str:
    """The recipe that is meant: the one of that name, or, for what suits, the one that the environment wants.

    Numbers that follow go along: suited+grain=2 is alike+grain=2 where `alike` is wanted.
    """
    known, plus, numbers = name.partition("+")
    return suited(wanted, base, size) + plus + numbers if known == SUITED else name


def configure(name: str, base: Preset = "fast", **given: Any) -> TrainConfig:
    """The training that a recipe makes of a preset; what is given goes before what the recipe says."""
    found = recipe(name)
    steps, model = given.get("steps", PRESETS[base].steps), PRESETS[base].model
    changes = {**{n: max(1, steps // 3) for n in found.thirds}, **found.changes, **given}
    shape, keynet = changes.get("shape", model.shape), changes.get("keynet", model.keynet)
    if found.far:
        shape, keynet = keynet or shape, None
    of_shape = {f.name: changes.pop(f.name) for f in dataclasses.fields(Shape) if f.name in changes}
    shape = dataclasses.replace(shape, **of_shape)
    if keynet is not None and "norm" in of_shape:
        keynet = dataclasses.replace(keynet, norm=shape.norm)
    return preset(base, **{**changes, "shape": shape, "keynet": keynet})

"""The card of a model: what it was made from, how well it does, and where it fails. It travels inside the weights."""

from typing import Any

from transporter.envs import scene
from transporter.errors import InputError
from transporter.training.recipes import named

WELL = 0.9  # an object followed for less than this share of its windows is named among the failures


def card(result: dict[str, Any], note: str = "") -> dict[str, Any]:
    """From a result of `transporter reproduce tracking`; `note` says in words what numbers cannot."""
    try:
        train, collect, figures = result["config"]["train"], result["config"]["collect"], result["figures"]
        found, trained = result["evaluation"], result["trained"]
        return {
            "environment": result["environment"],
            "recipe": named(
                result["recipe"], scene(result["environment"]).recipe, result["preset"], train["model"]["size"]
            ),
            "preset": result["preset"],
            "data": f"random play, {_sampling(collect)}",
            "pairs": collect["pairs"],
            "keypoints": train["model"]["keypoints"],
            "steps": figures["measured_step"],
            "seed": result["seeds"]["train"],
            "training": {
                "seconds": figures["seconds"],
                "machine": trained["machine"],
                "commit": trained["commit"],
                "date": trained["date"],
            },
            **measured(found, note),
        }
    except (KeyError, TypeError) as error:
        raise InputError(f"not the result of a measured experiment: {error} is missing") from None


def measured(found: dict[str, Any], note: str = "") -> dict[str, Any]:
    """The part of a card that an evaluation tells, from its JSON."""
    return {
        "measured": {
            "frames": found["frames"],
            "seed": found["seed"],
            "figures": {name: round(value, 3) for name, value in found["figures"].items()},
            "objects": {o["name"]: round(o["recall"], 3) for o in found["objects"] if o["windows"]},
        },
        "failures": " ".join(part for part in (note, failures(found)) if part),
    }


def _sampling(collect: dict[str, Any]) -> str:
    if collect["sampler"] == "offset":
        return f"pairs up to {collect['max_offset']} steps apart"
    return "a frame from each half of a trajectory"


def failures(found: dict[str, Any]) -> str:
    """The objects that are lost now and then, worst first; empty where there are none."""
    lost = sorted((o["recall"], o["name"]) for o in found["objects"] if o["windows"] and o["recall"] < WELL)
    if not lost:
        return ""
    named = ", ".join(f"{name} {recall:.2f}" for recall, name in lost)
    return f"Followed for less than {WELL} of the time, over {found['following_length']} steps: {named}."

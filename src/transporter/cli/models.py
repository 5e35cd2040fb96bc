"""transporter models: what is shipped."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transporter.models.detector import Detector

LENGTHS = (1, 20, 200)


def models(json: bool = False) -> None:
    """List the models that come with the package, with what their cards say.

    Args:
        json: Print the cards as JSON instead of tables.
    """
    from transporter.cli.console import print_json, say, table
    from transporter.models.zoo import load, shipped

    detectors = {name: load(name, "cpu") for name in shipped()}
    if json:
        print_json({name: {**d.card, "model": d.config.to_json()} for name, d in detectors.items()})
    elif not detectors:
        say("No models are shipped with this version yet: train one with `transporter train`.")
    else:
        heads = ["name", "K", "precision", "recall", "share of possible"]
        table("measured over 1, 20 and 200 steps", heads, [[n, *_measured(d)] for n, d in detectors.items()])
        heads = ["name", "frames", "recipe", "pairs", "steps", "seed"]
        table("made from random play", heads, [[n, *_made(d)] for n, d in detectors.items()])
        for name, detector in detectors.items():
            if failures := detector.card.get("failures"):
                say(f"[bold]{name}[/]: {failures}")


def _measured(detector: "Detector") -> list[str]:
    figures = detector.card.get("measured", {}).get("figures", {})
    kinds = ("precision", "recall", "precision_ratio")
    return [str(detector.keypoints), *(" ".join(_share(figures.get(f"{kind}@{n}")) for n in LENGTHS) for kind in kinds)]


def _made(detector: "Detector") -> list[str]:
    card: dict[str, Any] = detector.card
    recipe = " ".join(dict.fromkeys(str(card[part]) for part in ("preset", "recipe") if part in card))
    size = detector.config.size
    return [
        f"{size}×{size}",
        recipe or "–",
        *(f"{card[n]:,}" if n in card else "–" for n in ("pairs", "steps", "seed")),
    ]


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"

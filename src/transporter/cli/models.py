"""transporter models: what is shipped."""

from typing import Any


def models(json: bool = False) -> None:
    """List the models that come with the package.

    Args:
        json: Print the cards as JSON instead of a table.
    """
    from transporter.cli.console import print_json, say, table
    from transporter.models.zoo import load, shipped

    detectors = {name: load(name, "cpu") for name in shipped()}
    if json:
        print_json({name: {**d.card, "model": d.config.to_json()} for name, d in detectors.items()})
    elif not detectors:
        say("No models are shipped with this version yet: train one with `transporter train`.")
    else:
        rows = [
            [name, str(d.keypoints), f"{d.config.size}×{d.config.size}", *_measured(d.card)]
            for name, d in detectors.items()
        ]
        heads = ["name", "keypoints", "frames", "share at 1", "at 20", "at 200"]
        table("shipped models, and their share of the best possible precision and recall", heads, rows)


def _measured(card: dict[str, Any]) -> list[str]:
    figures = card.get("measured", {}).get("figures", {})
    return [f"{figures[f'precision_ratio@{length}']:.2f}" if figures else "–" for length in (1, 20, 200)]

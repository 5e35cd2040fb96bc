"""transporter export: a detector as one file."""

import logging
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from transporter.cli.given import Maybe, room_for
from transporter.errors import InputError

if TYPE_CHECKING:
    from transporter.models.detector import Detector


def export(
    model: tyro.conf.Positional[str],
    out: tyro.conf.Positional[Path],
    /,
    full: bool = False,
    card: Maybe[Path] = None,
    failures: str = "",
) -> None:
    """Write a detector as a .safetensors file (which transporter.load reads) or as .onnx (for other runtimes).

    Args:
        model: A shipped model, a run folder or a .safetensors file.
        out: The file to write; its ending decides the format.
        full: Keep .safetensors weights in full precision instead of half.
        card: A result of `transporter reproduce tracking` for this model: its figures go into the file.
        failures: What the model is known to get wrong, in words, for the card.
    """
    if out.suffix not in (".safetensors", ".onnx"):
        raise InputError(f"{out}: the ending must be .safetensors or .onnx")
    from transporter.cli.console import bold, say
    from transporter.models.zoo import load

    detector = load(model, "cpu")
    if card is not None:
        detector.card = _card(card, failures)
    elif failures:
        detector.card = {**detector.card, "failures": failures}
    with room_for(out):
        if out.suffix == ".onnx":
            _export_quietly(detector, out)
        else:
            detector.save(out, half=not full)
    say(f"written: {bold(out)} ({out.stat().st_size / 1e6:.2f} MB)")


def _card(path: Path, failures: str) -> dict[str, Any]:
    import json

    from transporter.tracking.card import card

    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise InputError(f"{path} is not JSON") from None
    return card(result, failures)


def _export_quietly(detector: "Detector", out: Path) -> None:
    """torch's exporter speaks of packages that this does not need and of its own old ways."""
    from transporter.models.export import export_onnx

    logging.getLogger("torch.onnx._internal.exporter._registration").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        export_onnx(detector, out)

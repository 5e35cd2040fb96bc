"""Shipped models, and the one way to get a detector: by name, from a run folder or from a file."""

from pathlib import Path

from transporter.errors import InputError
from transporter.models.detector import Detector
from transporter.models.factory import ModelConfig
from transporter.runs import Run

SHIPPED = Path(__file__).parent.parent / "pretrained"


def shipped() -> dict[str, Path]:
    """Names and files of the models that come with the package."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.safetensors"))}


def load(which: str | Path, device: str | None = None) -> Detector:
    """A detector from a shipped model's name, a run folder or a .safetensors file."""
    if str(which) in shipped():
        return Detector.from_file(shipped()[str(which)], device)
    path = Path(which)
    if path.is_dir():
        return from_run(Run.open(path), device)
    if path.is_file():
        return Detector.from_file(path, device)
    names = ", ".join(shipped()) or "none yet"
    raise InputError(f"{which} is neither a shipped model ({names}), nor a run folder, nor a .safetensors file")


def from_run(run: Run, device: str | None = None) -> Detector:
    """The best checkpoint of a training run."""
    try:
        config = ModelConfig.from_json(run.settings["config"]["model"])
    except (KeyError, TypeError):
        raise InputError(f"{run.path} is not a training run") from None
    checkpoint = run.best()
    card = {"environment": run.settings.get("environment"), "step": checkpoint.step}
    return Detector.from_tensors(config, checkpoint.part("model."), card, device)

"""Shipped models, and the one way to get a detector: by name, from a run folder or from a file."""

import warnings
from pathlib import Path

from transporter.errors import InputError
from transporter.models.detector import Detector
from transporter.models.factory import ModelConfig
from transporter.runs import Run, chosen
from transporter.typed import checked

SHIPPED = Path(__file__).parent.parent / "pretrained"


def shipped() -> dict[str, Path]:
    """Names and files of the models that come with the package."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.safetensors"))}


def load(which: str | Path, device: str | None = None) -> Detector:
    """A detector from a shipped model's name, a run folder or a .safetensors file."""
    if str(which) in shipped():
        return Detector.from_file(shipped()[str(which)], device)
    if run := run_meant(which):
        return from_run(run, device)
    if Path(which).is_file():
        return Detector.from_file(which, device)
    names = ", ".join(shipped()) or "none yet"
    raise InputError(f"{which} is neither a shipped model ({names}), nor a run folder, nor a .safetensors file")


def run_meant(which: str | Path) -> Run | None:
    """The run that is meant, if it is one. A shipped name comes first: say ./pong for a folder called pong."""
    if str(which) in shipped() or not Path(which).is_dir():
        return None
    return Run.open(chosen(Path(which)))


def from_run(run: Run, device: str | None = None) -> Detector:
    """The best checkpoint of a training run."""
    try:
        config = checked(ModelConfig.from_json(run.settings["config"]["model"]))
    except (KeyError, TypeError):
        raise InputError(f"{run.path} is not a training run") from None
    except ValueError as error:  # of a shape that cannot be, too
        raise InputError(f"{run.path} is no training that this version knows: {error}") from None
    checkpoint = run.best()
    for line in run.warnings:
        warnings.warn(line, stacklevel=2)
    card = {"environment": run.settings.get("environment"), "step": checkpoint.step}
    return Detector.from_tensors(config, checkpoint.part("model."), card, device)

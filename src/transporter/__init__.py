"""Keypoints that follow the moving things, from raw video, without labels; and control built on them.

>>> detector = transporter.load("runs/pong")      # a shipped model, a run folder or a .safetensors file
>>> points = detector(frames)                     # (T, H, W, 3) uint8 → (T, K, 2) float32, (x, y) in [-1, 1]
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transporter.control.observation import KeypointObservation
    from transporter.models.detector import Detector
    from transporter.models.zoo import load
    from transporter.report.notebook import plot, show

__all__ = ["Detector", "KeypointObservation", "load", "plot", "show"]
__version__ = "0.2.0"

# Fetched when first asked for: `transporter --help` should not wait for torch.
_HOMES = {
    "Detector": "transporter.models.detector",
    "KeypointObservation": "transporter.control.observation",
    "load": "transporter.models.zoo",
    "plot": "transporter.report.notebook",
    "show": "transporter.report.notebook",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'transporter' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

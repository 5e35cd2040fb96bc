"""Figures that show themselves in a notebook: `detector.show(frames)` and `run.plot()`, also as functions."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from jaxtyping import Float32, UInt8
from PIL import Image

from transporter.errors import InputError
from transporter.report.draw import strip
from transporter.report.plots import tracking_figure, training_figure
from transporter.runs import Run, chosen
from transporter.tracking.results import Evaluation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Frames = UInt8[np.ndarray, "t h w 3"]
PANELS = 16  # frames that are shown of a longer clip


def show(
    detector: Callable[[Frames], Float32[np.ndarray, "t k 2"]],
    frames: Frames,
    every: int | None = None,
    columns: int = 8,
) -> Image.Image:
    """Frames with their keypoints, read like a page; an object should keep its colour."""
    frames = np.asarray(frames)
    if frames.ndim == 3:
        frames = frames[None]
    if not len(frames):
        raise InputError("no frame to show")
    chosen = frames[:: every or max(1, -(-len(frames) // PANELS))]
    return Image.fromarray(strip(chosen, detector(chosen), every=1, columns=columns))


def plot(run: Run | str | Path, what: Literal["training", "tracking"] = "training") -> "Plot":
    """The curves of a run, or of the chosen one of several seeds: what it logged, or its precision and recall."""
    run = run if isinstance(run, Run) else Run.open(chosen(Path(run)))
    if what == "training":
        return Plot(training_figure(run.metrics()))
    path = run.path / "evaluation.json"
    if not path.is_file():
        raise InputError(f"{run.path} was not measured yet: run `transporter evaluate`")
    found = Evaluation.from_json(json.loads(path.read_text(encoding="utf-8")))
    return Plot(tracking_figure({run.path.resolve().name: found.curve}))


class Plot:
    """A matplotlib figure that a notebook shows as it is, whatever backend it uses."""

    def __init__(self, figure: "Figure") -> None:
        self.figure = figure

    def _repr_svg_(self) -> str:
        text = io.StringIO()
        self.figure.savefig(text, format="svg")
        return text.getvalue()

    def save(self, path: str | Path) -> None:
        """In the format that the end of the name says."""
        self.figure.savefig(path)

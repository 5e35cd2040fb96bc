"""One HTML file that shows a run: pictures, curves and clip are inside it, and nothing is fetched from elsewhere."""

import base64
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from PIL import Image

from transporter.errors import InputError
from transporter.files import write_text
from transporter.report.draw import Picture, colour
from transporter.report.plots import has_something_to_draw, tracking_figure, training_figure
from transporter.tracking.metrics import TrackingCurve, TrackingPoint
from transporter.tracking.results import Evaluation, KeypointRow

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEADLINES = (1, 20, 200)
FOLLOWS = (
    "how much more alike what lies under a keypoint is from frame to frame than what lies in one place; "
    "near 0: things pass under it"
)
ERROR = "mean square of what is wrong in held-out frames, colours from 0 to 1, with the weights of the best loss"
LARGEST_VIDEO = 20_000_000  # bytes; a larger clip is named, not embedded


@dataclass(frozen=True)
class Report:
    """What there is to show of a run; every part but the title may be missing."""

    title: str
    summary: str = ""
    evaluation: Evaluation | None = None
    curves: Mapping[str, TrackingCurve] = field(default_factory=dict)  # drawn beside the evaluation's own
    config: Mapping[str, Any] = field(default_factory=dict)  # nested as it likes
    metrics: Sequence[Mapping[str, Any]] = ()  # rows of metrics.jsonl
    health: Mapping[str, Any] | None = None  # as in a row of metrics.jsonl; None takes the last row that has it
    video: Path | None = None
    strip: Picture | None = None
    reconstructions: Picture | None = None
    heatmaps: Picture | None = None
    notes: Sequence[str] = ()


class Fact(NamedTuple):
    """One number in a tile, for runs that have no truth to be measured against."""

    name: str
    value: str
    note: str = ""


class KeypointLine(NamedTuple):
    """All that is known of one keypoint."""

    keypoint: int
    colour: str
    follows: str | None
    share: float
    travel: float | None
    home: tuple[float, float] | None


class Plate(NamedTuple):
    """A picture with its heading."""

    title: str
    caption: str
    uri: str
    wide: bool  # many columns: a small screen scrolls it instead of shrinking it


def write_report(path: str | Path, report: Report) -> Path:
    """Write the page; a reader sees the old file or the whole new one, never a part."""
    path = Path(path)
    write_text(path, render(report))
    return path


def render(report: Report) -> str:
    """The page as text."""
    folder = Path(__file__).parent
    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"share": _share, "number": _number, "value": _value}
    environment.globals["colour"] = colour
    evaluation, health = report.evaluation, _health(report)
    own = {"this run" if report.curves else evaluation.scene: evaluation.curve} if evaluation else {}
    curves = {**own, **report.curves}
    video, video_note = _video(report.video)
    return environment.get_template("report.html.jinja").render(
        report=report,
        evaluation=evaluation,
        points=_headlines(evaluation.curve) if evaluation else [],
        facts=_facts(report.metrics, health),
        tracking=_svg(tracking_figure(curves)) if curves else None,
        training=_svg(training_figure(report.metrics)) if has_something_to_draw(report.metrics) else None,
        keypoints=_keypoint_lines(evaluation.keypoints if evaluation else (), health),
        health=health,
        video=video,
        video_note=video_note,
        plates=_plates(report),
        settings=_settings(report.config),
    )


def _headlines(curve: TrackingCurve) -> list[TrackingPoint]:
    lengths = [length for length in HEADLINES if length in curve.lengths]
    return [curve.at(length) for length in lengths or curve.lengths[:3].tolist()]


def _health(report: Report) -> Mapping[str, Any]:
    rows = [row for row in report.metrics if "alive" in row]
    return report.health or (rows[-1] if rows else {})


def _facts(metrics: Sequence[Mapping[str, Any]], health: Mapping[str, Any]) -> list[Fact]:
    facts = []
    if "alive" in health:
        total = f" of {len(health['travel'])}" if "travel" in health else ""
        facts.append(Fact("keypoints alive", f"{health['alive']}{total}"))
    if "duplicates" in health:
        facts.append(Fact("duplicates", str(health["duplicates"])))
    if follows := health.get("follows"):
        facts.append(Fact("follows", _number(sum(follows) / len(follows)), FOLLOWS))
    validated = [row for row in metrics if "validation_loss" in row]
    if validated:
        best = min(validated, key=lambda row: row["validation_loss"])
        facts.append(Fact("best validation loss", f"{best['validation_loss']:.3g}"))
        if "reconstruction_error" in best:
            facts.append(Fact("error ×1000", f"{1000 * best['reconstruction_error']:.3g}", ERROR))
    if metrics and "step" in metrics[-1]:
        facts.append(Fact("training steps", f"{metrics[-1]['step']:,}"))
    return facts


def _keypoint_lines(rows: Sequence[KeypointRow], health: Mapping[str, Any]) -> list[KeypointLine]:
    """Truth and health side by side, as far as there is either."""
    travel = health.get("travel", ())
    home = np.reshape(health.get("home", ()), (-1, 2)).tolist()
    lines = []
    for k in range(max(len(rows), len(travel), len(home))):
        row = rows[k] if k < len(rows) else None
        lines.append(
            KeypointLine(
                keypoint=k,
                colour=colour(k),
                follows=row.follows if row else None,
                share=row.share if row else 0.0,
                travel=travel[k] if k < len(travel) else None,
                home=tuple(home[k]) if k < len(home) else None,
            )
        )
    return lines


def _plates(report: Report) -> list[Plate]:
    texts = {
        "strip": ("Through time", "Frames of one episode. An object that keeps its colour is followed."),
        "reconstructions": (
            "Reconstructions",
            "The future image is painted from the image by moving what lies under the keypoints.",
        ),
        "heatmaps": ("Heatmaps", "Where each keypoint looks, in its own colour."),
    }
    pictures = ((getattr(report, name), *text) for name, text in texts.items())
    return [
        Plate(title, caption, _png(picture), wide=picture.shape[1] > 2 * picture.shape[0])
        for picture, title, caption in pictures
        if picture is not None
    ]


def _settings(config: Mapping[str, Any], group: str = "") -> list[tuple[str, list[tuple[str, Any]]]]:
    """Groups of (name, value): the plain settings first, then one group per nested part."""
    plain = [(name, value) for name, value in config.items() if not isinstance(value, Mapping)]
    groups = [(group, plain)] if plain else []
    for name, part in config.items():
        if isinstance(part, Mapping):
            groups += _settings(part, f"{group}.{name}" if group else name)
    return groups


def _video(path: Path | None) -> tuple[str | None, str | None]:
    """The clip as a data URI, or a line that says where it is."""
    if path is None:
        return None, None
    if not path.is_file():
        raise InputError(f"no such clip: {path}")
    if path.stat().st_size > LARGEST_VIDEO:
        return None, f"The labelled clip is too large for this page: {path.name}"
    return _uri("video/mp4", path.read_bytes()), None


def _png(picture: Picture) -> str:
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, "PNG", optimize=True)
    return _uri("image/png", buffer.getvalue())


def _svg(figure: "Figure") -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return _uri("image/svg+xml", buffer.getvalue())


def _uri(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def _share(value: float | None) -> str:
    return "–" if value is None or math.isnan(value) else f"{100 * value:.0f} %"


def _number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None or math.isnan(value) else f"{value:.{digits}f}".replace("-", "−")


def _value(value: Any) -> str:
    """A setting as a person writes it."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return ", ".join(_value(part) for part in value) or "–"
    return str(value)

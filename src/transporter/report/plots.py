"""Curves of tracking and of training, drawn without a screen."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from transporter.errors import InputError
from transporter.report.draw import colour
from transporter.tracking.metrics import TrackingCurve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Darker than the colours of keypoints: lines are thin and lie on white.
LINES = ("#2457D6", "#D9480F", "#0B7A5C", "#9C36B5", "#8A6100", "#0B7285", "#C2255C", "#495057")
INK, FAINT, GRID = "#26262B", "#6B6B76", "#E4E4EA"

# Which values of metrics.jsonl share a panel, and how they are named; a list has one value per keypoint.
PANELS: tuple[tuple[str, dict[str, str]], ...] = (
    ("Loss", {"loss": "training", "validation_loss": "validation"}),
    ("Reconstruction error", {"reconstruction_error": ""}),
    ("Keypoints", {"alive": "alive", "duplicates": "duplicates"}),
    ("Travel of each keypoint", {"travel": ""}),
    ("Change under each keypoint", {"change": ""}),
    ("How much each keypoint follows", {"follows": ""}),
    ("Learning rate", {"rate": ""}),
    ("Heatmap width σ", {"sigma": ""}),
)
LOGARITHMIC, COUNTS, SCHEDULES = {"Loss", "Reconstruction error"}, {"Keypoints"}, {"Learning rate", "Heatmap width σ"}


def tracking_figure(curves: Mapping[str, TrackingCurve]) -> "Figure":
    """Precision and recall against trajectory length, one line per curve, its ceiling dashed."""
    if not curves:
        raise InputError("no curve to draw")
    figure, axes = _figure(2, height=3.7)
    for axis, name in zip(axes, ("precision", "recall"), strict=True):
        for i, (label, curve) in enumerate(curves.items()):
            line = LINES[i % len(LINES)]
            values, ceiling = getattr(curve, name), getattr(curve, f"{name}_ceiling")
            dot = "o" if len(curve.lengths) == 1 else ""
            axis.plot(curve.lengths, ceiling, "--", color=line, linewidth=1.3, alpha=0.55, marker=dot, fillstyle="none")
            axis.plot(curve.lengths, values, color=line, linewidth=2.2, marker=dot, label=label)
        _title(axis, name.capitalize())
        axis.set_xlabel("trajectory length (steps)")
        axis.set_ylim(-0.02, 1.03)
        axis.set_xlim(*_lengths(curves))
        axis.set_yticks(np.linspace(0, 1, 6))
    ceiling_line = axes[-1].plot([], [], "--", color=FAINT, linewidth=1.3)[0]
    lines, labels = axes[0].get_legend_handles_labels()
    figure.legend(
        [*lines, ceiling_line],
        [*labels, "ceiling: a perfect tracker with as many keypoints"],
        loc="outside lower center",
        ncols=min(4, len(labels) + 1),
        frameon=False,
    )
    return figure


def methods_figure(
    curves: Mapping[str, Mapping[str, Sequence[TrackingCurve]]],
    chosen: Mapping[str, Mapping[str, TrackingCurve]] | None = None,
) -> "Figure":
    """Environment by environment (columns), precision and recall (rows) of each method: mean, and range over seeds.

    `chosen`: the seed of each that would be taken without labels.
    """
    if not curves or not all(seeds for methods in curves.values() for seeds in methods.values()):
        raise InputError("no curve to draw")
    order = list(dict.fromkeys(method for methods in curves.values() for method in methods))
    figure, axes = _figure(2 * len(curves), height=2.9, columns=len(curves))
    for i, axis in enumerate(axes):
        row, column = divmod(i, len(curves))
        environment, name = list(curves)[column], ("precision", "recall")[row]
        every = [curve for seeds in curves[environment].values() for curve in seeds]
        ceiling = np.mean([getattr(curve, f"{name}_ceiling") for curve in every], axis=0)
        axis.plot(every[0].lengths, ceiling, "--", color=FAINT, linewidth=1.2)
        for method, seeds in curves[environment].items():
            line = LINES[order.index(method) % len(LINES)]
            values = np.array([getattr(curve, name) for curve in seeds])
            axis.fill_between(seeds[0].lengths, values.min(0), values.max(0), color=line, alpha=0.18, linewidth=0)
            axis.plot(seeds[0].lengths, values.mean(0), color=line, linewidth=2.2, label=method)
            if chosen:
                axis.plot(seeds[0].lengths, getattr(chosen[environment][method], name), ":", color=line, linewidth=1.8)
        if row == 0:
            _title(axis, environment)
        else:
            axis.set_xlabel("trajectory length (steps)")
        if column == 0:
            axis.set_ylabel(name)
        axis.set_ylim(-0.02, 1.03)
        axis.set_yticks(np.linspace(0, 1, 6))
    lines = [axes[0].plot([], [], color=LINES[i % len(LINES)], linewidth=2.2)[0] for i in range(len(order))]
    lines += axes[0].plot([], [], "--", color=FAINT, linewidth=1.2)
    labels = [*order, "ceiling: a perfect tracker with as many keypoints"]
    if chosen:
        lines += axes[0].plot([], [], ":", color=FAINT, linewidth=1.8)
        labels.append("the seed chosen without labels")
    columns = _legend_columns(labels, len(curves))
    figure.legend(lines, labels, loc="outside lower center", ncols=columns, frameon=False)
    return figure


class Seed(NamedTuple):
    """One training as its user sees it, and what it is worth."""

    error: float  # on held-out pairs
    truth: float  # share of the possible
    chosen: bool


def choice_figure(seeds: Mapping[str, Mapping[str, Sequence[Seed]]]) -> "Figure":
    """Environment by environment: what each seed is worth against its error; those chosen without labels are ringed."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    if not any(part for methods in seeds.values() for part in methods.values()):
        raise InputError("no seed to draw")
    order = list(dict.fromkeys(method for methods in seeds.values() for method in methods))
    figure, axes = _figure(len(seeds), columns=len(seeds))
    for axis, (environment, methods) in zip(axes, seeds.items(), strict=True):
        _title(axis, environment)
        for method, part in methods.items():
            line = LINES[order.index(method) % len(LINES)]
            errors, truths = [one.error for one in part], [one.truth for one in part]
            axis.scatter(errors, truths, s=34, color=line, alpha=0.75, linewidths=0)
            taken = [one for one in part if one.chosen]
            rings = [one.error for one in taken], [one.truth for one in taken]
            axis.scatter(*rings, s=120, facecolors="none", edgecolors=line, linewidths=1.6)
        every = [one.error for part in methods.values() for one in part if one.error > 0]
        if every and max(every) > 3 * min(every):  # methods have errors of their own
            axis.set_xscale("log")
            axis.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
            axis.xaxis.set_minor_formatter(NullFormatter())
        else:
            axis.xaxis.set_major_locator(MaxNLocator(4))
        axis.xaxis.set_major_formatter("{x:.3g}")
        axis.set_ylim(-0.02, 1.05)
        axis.set_xlabel("error on held-out pairs")
    axes[0].set_ylabel("share of the possible")
    dots = [axes[0].scatter([], [], s=34, color=LINES[i % len(LINES)]) for i in range(len(order))]
    ring = axes[0].scatter([], [], s=120, facecolors="none", edgecolors=FAINT, linewidths=1.6)
    labels = [*order, "chosen without labels"]
    columns = _legend_columns(labels, len(seeds))
    figure.legend([*dots, ring], labels, loc="outside lower center", ncols=columns, frameon=False)
    return figure


def training_figure(metrics: Sequence[Mapping[str, Any]]) -> "Figure":
    """What metrics.jsonl holds, one panel per kind of value; a row may lack any of them."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    panels = _panels(metrics)
    if not panels:
        raise InputError("these metrics hold nothing to draw")
    figure, axes = _figure(len(panels))
    for axis, (title, series) in zip(axes, panels, strict=True):
        _title(axis, title)
        for i, (label, (steps, values)) in enumerate(series.items()):
            per_keypoint = values.shape[1] > 1
            for k, column in enumerate(values.T):
                line = colour(k) if per_keypoint else LINES[i]
                dot = "o" if len(steps) == 1 else ""
                axis.plot(
                    steps,
                    column,
                    color=line,
                    linewidth=1.4 if per_keypoint else 1.9,
                    drawstyle="steps-post" if title in COUNTS else "default",
                    marker=dot,
                    label=label,
                )
        if title in LOGARITHMIC and all((values > 0).all() for _, values in series.values()):
            axis.set_yscale("log")
            axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.yaxis.set_major_formatter("{x:g}")
            axis.yaxis.set_minor_formatter(NullFormatter())
        if title in COUNTS:
            axis.yaxis.set_major_locator(MaxNLocator(integer=True))
            axis.set_ylim(bottom=-0.1)
        if len(series) > 1:
            axis.legend(frameon=False)
        axis.set_xlabel("training step")
        axis.ticklabel_format(axis="x", style="plain")
    return figure


def _legend_columns(labels: Sequence[str], panels: int) -> int:
    """As many entries in a row as fit under so many panels."""
    return len(labels) if panels > 2 else min(len(labels), 2 * panels)


def has_something_to_draw(metrics: Sequence[Mapping[str, Any]]) -> bool:
    """Whether training_figure would have a panel."""
    return bool(_panels(metrics))


def _panels(metrics: Sequence[Mapping[str, Any]]) -> list[tuple[str, dict[str, tuple[np.ndarray, np.ndarray]]]]:
    """Title of each panel and, by label, the steps and values of its lines."""
    panels = []
    for title, names in PANELS:
        known = {key: label for key, label in names.items() if any(_drawable(row, key) for row in metrics)}
        series = {label: _series(metrics, key) for key, label in known.items()}
        if title in SCHEDULES:  # a setting that never changes belongs into the table of settings
            series = {label: (steps, values) for label, (steps, values) in series.items() if np.ptp(values) > 0}
        if series:
            panels.append((title, series))
    return panels


def _series(metrics: Sequence[Mapping[str, Any]], key: str) -> tuple[np.ndarray, Float[np.ndarray, "t columns"]]:
    """Steps and values of the rows that have a key; of lists of changing length, those like the last."""
    found = [(row["step"], np.atleast_1d(np.asarray(row[key], float))) for row in metrics if _drawable(row, key)]
    found = [(step, value) for step, value in found if value.shape == found[-1][1].shape]
    return np.array([step for step, _ in found]), np.array([value for _, value in found])


def _drawable(row: Mapping[str, Any], key: str) -> bool:
    return "step" in row and isinstance(row.get(key), int | float | list) and bool(np.size(row[key]))


def _lengths(curves: Mapping[str, TrackingCurve]) -> tuple[float, float]:
    first, last = min(c.lengths.min() for c in curves.values()), max(c.lengths.max() for c in curves.values())
    margin = max(0.5, 0.01 * (last - first))
    return first - margin, last + margin


def _title(axis: "Axes", text: str) -> None:
    axis.set_title(text, loc="left", fontsize=12, fontweight="bold", color=INK, pad=9)


def _figure(panels: int, height: float = 3.3, columns: int | None = None) -> "tuple[Figure, list[Axes]]":
    """An empty figure with so many panels, two or three in a row unless told; no global state is touched."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = columns or (panels if panels <= 3 else (2 if panels == 4 else 3))
    rows = -(-panels // columns)
    with rc_context({"font.size": 10.5, "axes.labelcolor": FAINT, "text.color": INK}):
        figure = Figure(figsize=(5.4 * columns if columns < 3 else 4.3 * columns, height * rows), layout="constrained")
        FigureCanvasAgg(figure)
        axes = [figure.add_subplot(rows, columns, i + 1) for i in range(panels)]
    figure.set_facecolor("white")
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.1)  # type: ignore[union-attr,call-arg]
    for axis in axes:
        axis.spines[["top", "right", "left"]].set_visible(False)
        axis.spines["bottom"].set_color(GRID)
        axis.tick_params(which="both", colors=FAINT, length=0, labelsize=10)
        axis.grid(axis="y", color=GRID, linewidth=0.9)
        axis.set_axisbelow(True)
    return figure, axes

"""How agents learn: their scores over time, beside what others have reached."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from transporter.errors import InputError
from transporter.report.plots import FAINT, LINES, _figure, _title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Curve = Sequence[tuple[int, float]]  # (interactions, score)


def learning_figure(
    games: Mapping[str, Mapping[int, Curve]], marks: Mapping[str, Mapping[str, float]], over: int
) -> "Figure":
    """One panel per game, one line per seed; dashed lines at scores worth comparing with, game → name → score.

    A point is a mean over so many interactions.
    """
    if not games or not any(len(curve) for seeds in games.values() for curve in seeds.values()):
        raise InputError("no episode has ended yet: nothing to draw")
    figure, axes = _figure(len(games))
    for axis, (game, seeds) in zip(axes, games.items(), strict=True):
        _title(axis, game)
        for index, (seed, curve) in enumerate(seeds.items()):
            if curve:
                steps, scores = zip(*curve, strict=True)
                axis.plot(steps, scores, color=LINES[index % len(LINES)], linewidth=1.8, label=f"seed {seed}")
        for name, score in marks.get(game, {}).items():
            axis.axhline(score, linestyle="--", color=FAINT, linewidth=1.1)
            beside = ("axes fraction", "data")
            ground = {"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 0.6}  # lines run behind it
            axis.annotate(
                name, (1, score), xycoords=beside, ha="right", va="bottom", color=FAINT, fontsize=9, bbox=ground
            )
        axis.set_xlabel("interactions")
    axes[0].set_ylabel(f"score, mean over {over:,} interactions")
    if axes[0].get_legend_handles_labels()[0]:
        axes[0].legend(frameon=False, fontsize=9)
    return figure

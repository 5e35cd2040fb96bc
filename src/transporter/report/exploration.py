"""Returns of random actions and of options while they are learnt: the paper's Figure 6."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from transporter.errors import InputError
from transporter.report.plots import LINES, _figure, _title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHARES = np.linspace(0, 100, 101)
Points = Sequence[tuple[int, Sequence[float]]]  # (frames, returns of episodes)
Curves = Mapping[str, Points]  # by way to play


def exploration_figure(games: Mapping[str, Curves]) -> "Figure":
    """Above: mean and standard deviation of returns against frames; below: percentiles of the last returns."""
    if not games or not any(points for ways in games.values() for points in ways.values()):
        raise InputError("nothing has been evaluated yet: nothing to draw")
    figure, axes = _figure(2 * len(games), height=3.0, columns=len(games))
    for column, (game, ways) in enumerate(games.items()):
        above, below = axes[column], axes[len(games) + column]
        _title(above, game)
        for line, (way, points) in zip(LINES, ways.items(), strict=False):
            if not points:
                continue
            frames = np.array([at for at, _ in points]) / 1e6
            mean = np.array([np.mean(returns) for _, returns in points])
            std = np.array([np.std(returns) for _, returns in points])
            dot = "o" if len(points) == 1 else ""
            above.fill_between(frames, mean - std, mean + std, color=line, alpha=0.15, linewidth=0)
            above.plot(frames, mean, color=line, linewidth=2, marker=dot, label=way)
            below.plot(SHARES, np.percentile(points[-1][1], SHARES), color=line, linewidth=2)
        above.set_xlabel("million frames")
        below.set_xlabel("percentile of episodes, at the last look")
    axes[0].set_ylabel("return, mean ± std")
    axes[len(games)].set_ylabel("return")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(games), frameon=False)
    return figure

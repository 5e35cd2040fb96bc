"""Figure 6 as we draw it."""

import pytest

from transporter.errors import InputError
from transporter.report.exploration import exploration_figure

GAMES = {
    "one": {"random actions": [(1_000_000, [0.0, 0.0]), (2_000_000, [0.0, 0.0])],
            "options": [(1_000_000, [0.0, 2.0]), (2_000_000, [4.0, 8.0])]},
    "two": {"random actions": [(1_000_000, [1.0, 3.0])], "options": []},
}  # fmt: skip


def test_means_above_and_percentiles_below() -> None:
    figure = exploration_figure(GAMES)
    above_one, above_two, below_one, below_two = figure.axes
    lines = {line.get_label(): line for line in above_one.get_lines()}
    assert lines["options"].get_xdata().tolist() == [1.0, 2.0]  # million frames
    assert lines["options"].get_ydata().tolist() == [1.0, 6.0]
    ends = below_one.get_lines()[1].get_ydata()
    assert (ends[0], ends[50], ends[100]) == (4.0, 6.0, 8.0)
    assert len(above_two.get_lines()) == len(below_two.get_lines()) == 1  # what was not measured is not drawn


def test_nothing_to_draw_is_said() -> None:
    with pytest.raises(InputError, match="nothing has been evaluated yet"):
        exploration_figure({"one": {"options": []}})

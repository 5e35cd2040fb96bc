import pytest

from transporter.errors import InputError
from transporter.report.learning import learning_figure


def test_a_panel_for_each_game_and_a_line_for_each_seed() -> None:
    games = {"pong": {3: [(10, -21.0), (20, -20.0)], 4: [(20, -19.0)]}, "breakout": {3: [], 4: [(10, 1.0)]}}
    figure = learning_figure(games, {"pong": {"random": -20.7, "KeyQN (paper)": 10.8}}, over=5_000)
    first, second = figure.axes
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["pong", "breakout"]
    assert len(first.lines) == 4  # two seeds, two marks
    assert [text.get_text() for text in first.get_legend().get_texts()] == ["seed 3", "seed 4"]
    assert list(first.lines[0].get_ydata()) == [-21.0, -20.0]
    assert {text.get_text() for text in first.texts} == {"random", "KeyQN (paper)"}
    assert len(second.lines) == 1


def test_nothing_to_draw_is_said() -> None:
    with pytest.raises(InputError, match="no episode"):
        learning_figure({"pong": {0: []}}, {}, over=5_000)

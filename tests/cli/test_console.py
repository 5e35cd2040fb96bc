"""The line that shows progress: it fits, and in a log it is rare."""

import io

import pytest
from rich.console import Console

from transporter.cli import console
from transporter.cli.console import Bar, bar


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(console.time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def drawn(shown: Bar, width: int) -> str:
    screen = io.StringIO()
    Console(file=screen, width=width, force_terminal=True, color_system=None).print(shown)
    return screen.getvalue().rstrip("\n")


@pytest.fixture
def long_run(clock: Clock) -> Bar:
    shown = Bar("train montezuma_revenge", 1_000_000, "steps")
    shown.at(593_000)
    clock.now += 20
    shown.at(594_000, "loss 0.0123 · 3 alive, 1 double")
    return shown


def test_rate_and_time_left_can_be_worked_out_by_hand(long_run: Bar) -> None:
    # 1,000 steps in 20 seconds, 406,000 steps still to go: 8,120 seconds.
    assert str(long_run) == (
        "train montezuma_revenge: 594,000/1,000,000 steps · 50.0/s · 2:15:20 left · loss 0.0123 · 3 alive, 1 double"
    )


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 120, 200])
def test_a_line_fits_and_no_number_is_cut(long_run: Bar, width: int) -> None:
    line = drawn(long_run, width)
    assert "\n" not in line
    assert len(line) <= width
    whole = "594,000/1,000,000 steps · 50.0/s · 2:15:20 left · loss 0.0123 · 3 alive, 1 double"
    parts = {*whole.split(" · "), "594,000/1,000,000"}
    figures = line[line.index("594,000") :] if width >= 30 else ""
    assert all(part in parts for part in figures.split(" · ") if part)


def test_at_eighty_columns_there_is_room_for_a_bar(clock: Clock) -> None:
    shown = Bar("train sprites", 900, "steps")
    shown.at(574)
    clock.now += 1
    shown.at(594, "loss 0.0123 · 3 alive")
    assert "━" in drawn(shown, 80)
    assert drawn(shown, 80).endswith("594/900 steps · 20.0/s · 0:15 left · loss 0.0123 · 3 alive")


def test_work_of_unknown_length_counts_without_a_bar(clock: Clock) -> None:
    shown = Bar("track clip.mkv", None, "frames")
    shown.at(1)
    clock.now += 1
    shown.at(301)
    assert drawn(shown, 80) == "track clip.mkv 301 frames · 300/s"


def test_a_log_gets_a_plain_line_now_and_then_and_one_at_the_end(clock: Clock, capsys) -> None:
    with bar("train sprites", 1000, "steps") as shown:
        for step in range(1, 1001):
            clock.now += 0.125
            shown.at(step)
    lines = capsys.readouterr().err.splitlines()
    # After 10, 30 and 70 seconds of the 125, then at the end.
    assert [line.split(" steps")[0] for line in lines] == [
        "train sprites: 80/1,000", "train sprites: 240/1,000", "train sprites: 560/1,000", "train sprites: 1,000/1,000"
    ]  # fmt: skip
    assert all("\r" not in line and "\x1b" not in line and "━" not in line for line in lines)


def test_the_end_is_not_told_twice(clock: Clock, capsys) -> None:
    """Work so slow that its last step is due for a line of its own."""
    with bar("train sprites", 2, "steps") as shown:
        for step in (1, 2):
            clock.now += 60
            shown.at(step)
    assert [line.split(" steps")[0] for line in capsys.readouterr().err.splitlines()] == [
        "train sprites: 1/2", "train sprites: 2/2"
    ]  # fmt: skip


def test_work_that_fails_says_nothing_of_its_progress(capsys) -> None:
    with pytest.raises(ZeroDivisionError), bar("train", 10, "steps") as shown:  # noqa: PT012
        shown.at(1)
        1 / 0  # noqa: B018
    assert capsys.readouterr().err == ""


def test_brackets_in_a_path_are_not_markup(capsys) -> None:
    console.say(f"written: {console.bold('runs/a[bold]b')}")
    assert capsys.readouterr().err == "written: runs/a[bold]b\n"

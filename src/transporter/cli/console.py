"""What the commands show while they work. All of it goes to standard error; standard output is for programs."""

import json
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

console = Console(stderr=True, highlight=False)

SEPARATOR = " · "
WINDOW = 30.0  # seconds over which the rate is measured
NARROWEST, WIDEST = 6, 30  # columns of a bar; where there is less room it is left out
FIRST_LINE, MOST_SELDOM = 10.0, 60.0  # seconds between plain lines: twice as many each time, up to a minute


class Bar:
    """One line that fits: what, how far, how fast, how long still, and a note."""

    def __init__(self, what: str, total: float | None, unit: str) -> None:
        self.what, self.total, self.unit = what, total, unit
        self.done, self.note = 0.0, ""
        self._seen: deque[tuple[float, float]] = deque()  # (time, done)

    def at(self, done: float, note: str = "", total: float | None = None) -> None:
        self.done, self.note, self.total = done, note, total or self.total
        now = time.monotonic()
        self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[0][0] > WINDOW:
            self._seen.popleft()

    @property
    def rate(self) -> float | None:
        """Steps a second of late; None while it is not known."""
        if len(self._seen) < 2 or self._seen[-1][0] <= self._seen[0][0]:
            return None
        (first, before), (last, after) = self._seen[0], self._seen[-1]
        return (after - before) / (last - first)

    def figures(self, unit: str) -> list[str]:
        """The parts of the line, the most important first."""
        of = f"/{self.total:,.0f}" if self.total else ""
        parts = [f"{self.done:,.0f}{of}{unit}"]
        if rate := self.rate:
            parts.append(f"{rate:,.0f}/s" if rate >= 100 else f"{rate:.1f}/s")
            if self.total and self.done < self.total:
                parts.append(f"{_clock((self.total - self.done) / rate)} left")
        return [*parts, *self.note.split(SEPARATOR)] if self.note else parts

    def __str__(self) -> str:
        return f"{self.what}: {SEPARATOR.join(self.figures(f' {self.unit}'))}"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        what = Text(self.what, "bold", end=" ")
        what.truncate(max(8, options.max_width // 3), overflow="ellipsis")
        space = options.max_width - what.cell_len - 2
        parts = self.figures(f" {self.unit}")
        if len(SEPARATOR.join(parts)) + NARROWEST > space:
            parts = self.figures("")
        while len(line := SEPARATOR.join(parts)) > space and len(parts) > 1:
            parts.pop()  # better a part less than a part cut in two
        room = min(WIDEST, space - len(line))
        yield what
        if self.total and room >= NARROWEST:
            yield ProgressBar(self.total, min(self.done, self.total), room)
            yield Text(" ", end="")
        yield Text(line, overflow="ellipsis", no_wrap=True)


@contextmanager
def bar(what: str, total: float | None, unit: str) -> Iterator[Bar]:
    """A bar on a terminal; in a log, a plain line now and then, and one at the end."""
    if console.is_terminal and not console.is_dumb_terminal:
        shown = Bar(what, total, unit)
        with Live(shown, console=console, refresh_per_second=8):
            yield shown
    else:
        plain = _Plain(what, total, unit)
        yield plain
        plain.say()  # nothing, if the last that happened has a line already


class _Plain(Bar):
    def __init__(self, what: str, total: float | None, unit: str) -> None:
        super().__init__(what, total, unit)
        self._wait, self._said = FIRST_LINE, ""
        self._due = time.monotonic() + self._wait

    def at(self, done: float, note: str = "", total: float | None = None) -> None:
        super().at(done, note, total)
        if time.monotonic() >= self._due:
            self.say()
            self._wait = min(2 * self._wait, MOST_SELDOM)
            self._due = time.monotonic() + self._wait

    def say(self) -> None:
        if (line := str(self)) != self._said:
            say(escape(line))
        self._said = line


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def say(line: str) -> None:
    """One line (rich markup); long ones are left to the terminal to wrap, so that a path can be copied."""
    console.print(line, soft_wrap=True)


def bold(what: object) -> str:
    """A path or a name as it is, in bold."""
    return f"[bold]{escape(str(what))}[/]"


def warn(line: str) -> None:
    say(f"[yellow]{escape(line)}[/]")


def print_json(data: Any) -> None:
    """For programs: the only thing that goes to standard output."""
    print(json.dumps(data, indent=2))


def write_json(path: Path, data: Any) -> None:
    from transporter.files import write_text

    write_text(path, json.dumps(data, indent=2) + "\n")


def table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    drawn = Table(title=escape(title), title_justify="left", title_style="bold")
    for index, name in enumerate(columns):
        drawn.add_column(name, justify="left" if index == 0 else "right")
    for row in rows:
        drawn.add_row(*row)
    console.print(drawn)

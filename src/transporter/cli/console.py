"""What the commands show while they work."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

console = Console(stderr=True, highlight=False)


class Bar:
    """One line: what, how far, how fast, how long still."""

    def __init__(self, progress: Progress, task: Any) -> None:
        self._progress, self._task = progress, task

    def at(self, done: float, note: str = "", total: float | None = None) -> None:
        self._progress.update(self._task, completed=done, total=total, note=note)


@contextmanager
def bar(what: str, total: float | None, unit: str) -> Iterator[Bar]:
    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn(unit),
        _Rate(unit),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("[dim]{task.fields[note]}"),
    )
    with Progress(*columns, console=console) as progress:
        yield Bar(progress, progress.add_task(what, total=total, note=""))


class _Rate(TextColumn):
    def __init__(self, unit: str) -> None:
        super().__init__("")
        self.unit = unit

    def render(self, task: Any) -> Any:
        from rich.text import Text

        return Text("" if not task.speed else f"{task.speed:,.1f}/s")


def say(line: str) -> None:
    console.print(line)


def print_json(data: Any) -> None:
    """For programs: the only thing that goes to standard output."""
    print(json.dumps(data, indent=2))


def write_json(path: Path, data: Any) -> None:
    from transporter.files import write_text

    write_text(path, json.dumps(data, indent=2) + "\n")


def table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    drawn = Table(title=title, title_justify="left", title_style="bold")
    for index, name in enumerate(columns):
        drawn.add_column(name, justify="left" if index == 0 else "right")
    for row in rows:
        drawn.add_row(*row)
    console.print(drawn)

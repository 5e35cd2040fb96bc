"""What the reproductions of perception write: summary, curves and table."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from transporter.cli.given import folder_named
from transporter.cli.reproduce.study import Study
from transporter.errors import InputError

if TYPE_CHECKING:
    from transporter.tracking.metrics import TrackingCurve
    from transporter.tracking.summary import Group


def write_summary(name: str, study: Study, groups: "Sequence[Group]") -> None:
    """All methods in one file of results."""
    from transporter.results import Result
    from transporter.tracking.measure import SEED
    from transporter.tracking.summary import agreement, flat_figures

    figures = flat_figures(groups)
    members = [member for group in groups for member in group.members]
    if any(len(group.members) > 1 for group in groups):
        judged = agreement(members)
        figures |= {f"choice {field}": round(value, 4) for field, value in judged._asdict().items() if value == value}
        figures["choice regret"] = round(judged.regret, 4)
    Result(
        name=name,
        figures=figures,
        config={"steps": study.steps, "pairs": study.pairs, "preset": study.base, "frames": study.frames},
        seeds={"train": list(range(study.seeds)), "evaluate": SEED},
        details={"of": [member.name for member in members]},
    ).write(study.out / "summary.json")


def write_table(study: Study, name: str, heads: Sequence[str], rows: Sequence[Sequence[str]], docs: Path) -> None:
    """table.md, and the same between the markers of docs/results.md where it has them."""
    from transporter.cli.console import bold, say
    from transporter.files import write_text
    from transporter.report.published import markdown_table, put_between_markers

    table = markdown_table(heads, rows)
    write_text(study.out / "table.md", table + "\n")
    put = put_between_markers(docs / "results.md", name, table)
    where = [study.out / "table.md", *([docs / "results.md"] if put else [])]
    say(f"table: {', '.join(bold(path) for path in where)}")


def docs_named(docs: Path | None) -> None:
    """Refused before anything is learnt, if it is not there."""
    if docs is not None and not (folder_named(docs) / "results.md").is_file():
        raise InputError(f"--docs {docs}: there is no results.md in it")


def into_docs(docs: Path | None, name: str, table: str) -> None:
    """Between the markers of docs/results.md; who asked for it hears where there are none."""
    from transporter.cli.console import warn
    from transporter.report.published import put_between_markers

    if docs is not None and not put_between_markers(docs / "results.md", name, table):
        warn(f"{docs / 'results.md'} has no place for the table, between <!-- {name} --> and <!-- /{name} -->")


def write_curves(groups: "Sequence[Group]", docs: Path, name: str) -> None:
    """Precision and recall against length, all methods and environments in one figure."""
    from transporter.cli.console import bold, say
    from transporter.report.plots import methods_figure
    from transporter.report.published import save_figure

    curves: dict[str, dict[str, list[TrackingCurve]]] = {}
    chosen: dict[str, dict[str, TrackingCurve]] = {}
    for group in groups:
        curves.setdefault(group.environment, {})[group.title] = [member.curve for member in group.members]
        chosen.setdefault(group.environment, {})[group.title] = group.chosen.curve
    say(f"curves: {', '.join(bold(path) for path in save_figure(methods_figure(curves, chosen), docs, name))}")


def spread(values: Sequence[float], style: str = ".2f") -> str:
    """The mean, and the range where there is one."""
    if not values:
        return "–"
    mean, least, most = (format(value, style) for value in (sum(values) / len(values), min(values), max(values)))
    return mean if least == most else f"{mean} ({least}–{most})"

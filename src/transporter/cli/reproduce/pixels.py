"""transporter reproduce pixels: Appendix D, transport of features against transport of bare pixels."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from transporter.cli.reproduce.publish import spread, write_curves, write_summary, write_table
from transporter.cli.reproduce.study import Given, Options, Study, follow

if TYPE_CHECKING:
    from transporter.tracking.summary import Group


DEFAULTS = Options("pong,ms_pacman,stack_4", "suited,pixel", 3, Path("results/pixels"))


def pixels(given: Given = DEFAULTS) -> None:
    """Reconstruction error and tracking, with features and with bare pixels transported. Run again to go on.

    Run folders are those of `transporter reproduce tracking`: what was trained there is not trained again.
    """
    follow(given, publish)


def publish(study: Study, groups: "Sequence[Group]", docs: Path) -> None:
    """summary.json, the curves, reconstructions side by side and the table."""
    write_summary("pixels", study, groups)
    write_curves(groups, docs, "pixels")
    for domain in study.domains:
        save_rebuilt(study, [group for group in groups if group.environment == domain], docs)
    write_table(study, "pixels", HEADS, [row(group) for group in groups], docs)


HEADS = ("environment and method", "K", "reconstruction error ×1000", "of copying the source", "share at 1", "at 20",
         "at 200", "all alive", "training")  # fmt: skip


def row(group: "Group") -> list[str]:
    """Errors are mean squares with colours from 0 to 1, on held-out pairs."""
    errors = [[1000 * value for value in group.values(n)] for n in ("reconstruction_error", "error_of_copying")]
    return [
        f"{group.environment}, {group.title}",
        str(group.members[0].keypoints),
        *(spread(values, ".3f") for values in errors),
        *(spread(group.values(f"precision_ratio@{length}")) for length in (1, 20, 200)),
        f"{sum(m.all_alive for m in group.members)} of {len(group.members)}",
        f"{spread(group.values('seconds'), ',.0f')} s",
    ]


def save_rebuilt(study: Study, groups: "Sequence[Group]", docs: Path) -> None:
    """The same held-out pairs as each method's chosen seed rebuilds them, as far as they are here."""
    import safetensors.numpy

    from transporter.report.draw import rebuilt_side_by_side
    from transporter.report.published import save_picture

    samples = {}
    for group in groups:
        path = study.work / group.chosen.name / "samples.safetensors"
        if path.exists():
            samples[group.title] = safetensors.numpy.load_file(path)
    if samples:
        first = next(iter(samples.values()))
        predictions = {title: sample["prediction"] for title, sample in samples.items()}
        picture = rebuilt_side_by_side(first["source"], first["target"], predictions)
        save_picture(picture, docs / f"pixels-{groups[0].environment}.png")

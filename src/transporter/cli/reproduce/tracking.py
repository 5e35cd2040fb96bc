"""transporter reproduce tracking: Figures 2 and 4, the methods side by side on the paper's metric."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from transporter.cli.reproduce.publish import spread, write_curves, write_summary, write_table
from transporter.cli.reproduce.study import Given, Options, Study, follow

if TYPE_CHECKING:
    from transporter.tracking.summary import Group

SHOWN, EVERY, FROM = 6, 10, 60  # frames in a picture, steps between them, and before the first: play has begun by then


DEFAULTS = Options("pong,ms_pacman,frostbite,stack_4", "suited,jakab,zhang", 5, Path("results/tracking"))


def tracking(given: Given = DEFAULTS) -> None:
    """Precision and recall of trajectories, every method on every environment. Run again to go on.

    Only what is missing is done. To train on one machine (--train-only) and measure on another (--evaluate-only), take
    trained.json, detector.safetensors and samples.safetensors of each run folder along.
    """
    follow(given, publish)


def publish(study: Study, groups: "Sequence[Group]", docs: Path) -> None:
    """summary.json, the curves, the choice of seeds, the pictures and the table."""
    write_summary("tracking", study, groups)
    write_curves(groups, docs, "tracking")
    save_choice(groups, docs)
    for domain in study.domains:
        save_side_by_side(study, [group for group in groups if group.environment == domain], docs)
    write_table(study, "tracking", HEADS, [row(group) for group in groups], docs)


HEADS = ("environment and method", "K", "share at 1", "at 20", "at 200", "least, 1–200", "chosen seed",
         "its share at 200", "its precision, recall at 200", "all alive", "steps", "training")  # fmt: skip


def row(group: "Group") -> list[str]:
    """One method on one environment: means over seeds with their range, and the seed chosen without labels."""
    chosen, first = group.chosen, group.members[0]
    raw = [chosen.figures.get(f"{name}@200") for name in ("precision", "recall")]
    return [
        f"{group.environment}, {group.title}",
        str(first.keypoints),
        *(spread(group.values(f"precision_ratio@{length}")) for length in (1, 20, 200)),
        spread(group.values("lowest_ratio")),
        str(chosen.seed),
        spread([chosen.figures["precision_ratio@200"]] if "precision_ratio@200" in chosen.figures else []),
        ", ".join("–" if value is None else f"{value:.2f}" for value in raw),
        f"{sum(m.all_alive for m in group.members)} of {len(group.members)}",
        spread(group.values("steps"), ",.0f"),
        f"{spread(group.values('seconds'), ',.0f')} s",
    ]


def save_choice(groups: "Sequence[Group]", docs: Path) -> None:
    """What each seed is worth against its error, and which one is taken."""
    from transporter.report.plots import Seed, choice_figure
    from transporter.report.published import save_figure
    from transporter.training.select import judged

    seeds: dict[str, dict[str, list[Seed]]] = {}
    for group in groups:
        chosen = group.chosen.name
        seeds.setdefault(group.environment, {})[group.title] = [
            Seed(error, m.truth, m.name == chosen)
            for m, error in zip(group.members, judged([m.candidate for m in group.members]), strict=True)
        ]
    save_figure(choice_figure(seeds), docs, "tracking-choice")


def save_side_by_side(study: Study, groups: "Sequence[Group]", docs: Path) -> None:
    """The same frames with the keypoints of each method's chosen seed, as far as its weights are here."""
    from transporter.cli.report import play
    from transporter.models.zoo import load
    from transporter.report.draw import side_by_side
    from transporter.report.published import save_picture
    from transporter.tracking.experiment import trained
    from transporter.tracking.measure import SEED

    shown = None
    points = {}
    for group in groups:
        if (found := trained(group.chosen.name, study.work)) is None:
            continue
        detector = load(found.weights, "cpu")
        if shown is None:
            shown = play(group.environment, detector, FROM + SHOWN * EVERY, SEED).frames[FROM:]
        points[group.title] = detector(shown)
    if shown is not None:
        save_picture(side_by_side(shown, points, EVERY), docs / f"tracking-{groups[0].environment}.png")

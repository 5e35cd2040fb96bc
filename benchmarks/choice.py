"""Does a choice by errors on held-out pairs and keypoint health alone agree with the truth?

    python benchmarks/choice.py results/recipes --out results/choice --figure docs

Reads folders of measured experiments and compares what can be compared: the same frames and pixels, as many keypoints.
"""

import re
from collections import defaultdict
from collections.abc import Hashable
from pathlib import Path

import tyro

from transporter.cli import leave
from transporter.report.plots import Seed, choice_figure
from transporter.report.published import save_figure
from transporter.results import Result
from transporter.tracking.summary import Measurement, agreement, comparable, read_all
from transporter.training.select import choose, judged

EXPERIMENT = re.compile(r"\w+-\w+-seed\d+")  # other files in these folders are summaries


def main(folders: tyro.conf.Positional[list[Path]], /, out: Path, figure: Path | None = None) -> None:
    """Write rank correlation and regret, and draw what each training is worth against its error.

    Args:
        folders: Of results.
        out: Folder for choice.json.
        figure: Folder for the figure; by default `out`.
    """
    paths = sorted(path for folder in folders for path in folder.glob("*.json") if EXPERIMENT.fullmatch(path.stem))
    results = read_all(paths)
    found = agreement(results, comparable)
    groups: dict[Hashable, list[Measurement]] = defaultdict(list)
    for one in results:
        groups[comparable(one)].append(one)
    drawn: dict[str, dict[str, list[Seed]]] = defaultdict(lambda: defaultdict(list))
    for members in groups.values():
        candidates = [member.candidate for member in members]
        taken = choose(candidates).name
        for one, error in zip(members, judged(candidates), strict=True) if len(members) > 1 else ():
            seed = Seed(error, one.truth, one.name == taken)
            drawn[f"{one.environment}, K = {one.keypoints}"]["one training"].append(seed)
    figures = {name: round(value, 4) for name, value in found._asdict().items() if value == value}
    of = [member.name for members in groups.values() if len(members) > 1 for member in members]
    Result("choice without labels", {**figures, "regret": round(found.regret, 4)}, {}, {}, details={"of": of}).write(
        out / "choice.json"
    )
    save_figure(choice_figure(drawn), figure or out, "choice")
    print(f"{found.groups} groups: rank correlation {found.rank_correlation:.2f}, regret {found.regret:.4f}")
    print(f"chosen {found.chosen:.3f}, best {found.best:.3f}, at random {found.random:.3f}")


if __name__ == "__main__":
    leave(lambda: tyro.cli(main))

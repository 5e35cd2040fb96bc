"""The models that come with the package: for each environment the seed chosen without labels, with its card.

    python benchmarks/ship.py results/tracking results/shipped --runs runs/tracking
    python benchmarks/ship.py    # measures all that is shipped again, on play that no card has seen

A file has half precision and no decoder, and is at most 2.5 MiB.
"""

import sys
from pathlib import Path
from typing import NamedTuple

import tyro

from transporter.errors import InputError
from transporter.models.detector import Detector
from transporter.models.zoo import SHIPPED, load, shipped
from transporter.tracking.card import card
from transporter.tracking.measure import measure
from transporter.tracking.summary import by_method, read_all
from transporter.workers import cores

LARGEST = 2.5 * 2**20  # bytes
FRESH_SEED = 5_000_000
TOLERANCE = 0.03
LENGTHS = (1, 20, 200)

# What one sees in the frames and no number says.
NOTES = {
    "pong": "While an object is off the screen its keypoint rests on the score.",
    "breakout": "The paddle's keypoint may jump to the bricks while the paddle rests at the border.",
    "ms_pacman": "The fruit has no keypoint.",
    "frostbite": "Rows of floes look alike and wrap around, so that identities slip over long stretches.",
    "seaquest": "Keypoints of absent enemies and divers rest on the oxygen bar and the waterline.",
    "montezuma_revenge": "Trained in the first room. The key does not move: nothing asks for a keypoint on it.",
    "stack_4": "The boxes move only when they fall or are pushed.",
}


class Shipped(NamedTuple):
    name: str
    path: Path
    seed: int


def ship(results: list[Path], runs: Path, out: Path, recipe: str) -> list[Shipped]:
    """Write a file for each environment of which there are results."""
    paths = [path for folder in results for path in sorted(folder.glob(f"*-{recipe}-seed*.json"))]
    if not paths:
        raise InputError(f"no result of the recipe {recipe} in {', '.join(map(str, results))}")
    made = []
    for group in by_method(read_all(paths)):
        chosen = group.chosen
        detector = Detector.from_file(runs / chosen.name / "detector.safetensors", "cpu")
        detector.card = card(chosen.data, NOTES.get(group.environment, ""))
        path = out / f"{group.environment}.safetensors"
        detector.save(path)
        if path.stat().st_size > LARGEST:
            path.unlink()
            raise InputError(f"{path} would be larger than {LARGEST / 2**20} MiB")
        made.append(Shipped(group.environment, path, chosen.seed))
    return made


def check(frames: int) -> bool:
    """Whether every shipped model gives its card's figures again, to within the tolerance."""
    well = True
    cards = {path: (name, load(name, "cpu")) for name, path in shipped().items()}
    weights = {path: (detector.card["environment"], detector.config.size) for path, (_, detector) in cards.items()}
    for found in measure(weights, frames, seed=FRESH_SEED, workers=cores()):
        name, detector = cards[found.weights]
        if found.evaluation is None:
            raise InputError(f"{name} could not be measured: {found.error}")
        promised = detector.card["measured"]["figures"]
        names = [f"{kind}@{n}" for n in LENGTHS for kind in ("precision_ratio", "recall_ratio")]
        off = {n: found.evaluation.figures[n] - promised[n] for n in names if n in found.evaluation.figures}
        worst = max(off, key=lambda n: abs(off[n]))
        kept = abs(off[worst]) <= TOLERANCE
        well = well and kept
        print(
            f"{name:20} {'as promised' if kept else 'NOT AS PROMISED'}: at most {off[worst]:+.3f} ({worst})", flush=True
        )
    return well


def main(
    results: tyro.conf.Positional[list[Path]],
    /,
    runs: Path = Path("runs/tracking"),
    out: Path = SHIPPED,
    recipe: str = "suited",
    frames: int = 20_000,
) -> None:
    """Ship what was measured, then measure it again on a fresh seed.

    Args:
        results: Folders of results of `transporter reproduce tracking`; none: only measure what is shipped.
        runs: Folder of their run folders.
        out: Where the files go.
        recipe: Which recipe to ship.
        frames: Of play, to measure on.
    """
    if results:
        for one in ship(results, runs, out, recipe):
            print(f"{one.path}: seed {one.seed}, {one.path.stat().st_size / 2**20:.2f} MiB", flush=True)
    if out == SHIPPED and not check(frames):
        sys.exit(1)


if __name__ == "__main__":
    tyro.cli(main)

"""The models that come with the package: for each environment the seed chosen without labels, with its card.

    python benchmarks/ship.py results/tracking --runs runs/tracking
    python benchmarks/ship.py --blinkers 20000 --only pong,breakout   # blind to what random play never shows
    python benchmarks/ship.py --renew   # cards that were measured on less play are measured anew
    python benchmarks/ship.py           # measures all that is shipped again, on play that no card has seen

A file has half precision and no decoder, and is at most 2.5 MiB. What is measured goes to results/shipped.
"""

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import tyro

from transporter.cli import leave
from transporter.cli.given import at_least
from transporter.envs import make
from transporter.errors import InputError
from transporter.models.detector import Detector
from transporter.models.zoo import SHIPPED, load, shipped
from transporter.results import Result
from transporter.tracking.card import card, measured
from transporter.tracking.evaluate import play
from transporter.tracking.measure import SEED, SHARD, measure
from transporter.tracking.results import Evaluation
from transporter.tracking.summary import by_method, read_all
from transporter.workers import cores

LARGEST = 2.5 * 2**20  # bytes
FRESH_SEED = 5_000_000
BLINKER_SEED = 3_000_000
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


def ship(results: list[Path], runs: Path, out: Path, recipe: str, only: tuple[str, ...]) -> list[Shipped]:
    """Write a file for each environment of which there are results."""
    found = (path for folder in results for path in sorted(folder.glob(f"*-{recipe}-seed*.json")))
    paths = [path for path in found if path.name.startswith(only)]
    if not paths:
        raise InputError(f"no result of the recipe {recipe} in {', '.join(map(str, results))}, of those asked for")
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


def blinker(frames: int, only: tuple[str, ...]) -> None:
    """Make models blind to what so many frames of random play never show."""
    for name, path in shipped().items():
        if name.startswith(only):
            detector = load(name, "cpu")
            blind = detector.blinkered(random_play(name, detector.config.size, frames))
            # What was measured stays on the card until it is measured anew, which is next.
            blind.card = detector.card | {"blinkers": f"blind to what {frames:,} frames of random play do not show"}
            blind.save(path)
            print(f"{name:20} knows {frames:,} frames", flush=True)


def random_play(name: str, size: int, frames: int) -> Iterator[np.ndarray]:
    """Frames but for the first of each episode, which may show the console as it was switched on."""
    with closing(make(name, size)) as env:
        yield from (sight.frame for sight in play(env, frames=frames, seed=BLINKER_SEED) if not sight.first)


def renew(frames: int, out: Path, only: tuple[str, ...], device: str, changed: bool) -> None:
    """For the card, measure anew what changed or was measured on fewer frames: short play has few long stretches."""
    cards = {path: load(name, "cpu") for name, path in shipped().items() if name.startswith(only)}
    short = {path: one for path, one in cards.items() if changed or one.card["measured"]["frames"] < frames}
    for path, found in found_again(short, frames, SEED, device):
        detector = short[path]
        detector.card |= measured(found.to_json(), NOTES.get(path.stem, ""))
        write(f"{path.stem} as it is shipped", found, out / f"{path.stem}.json", device)
        detector.save(path)
        print(
            f"{path.stem:20} {found.curve.at(20).ratio:.3f} at 20, {found.curve.at(200).ratio:.3f} at 200", flush=True
        )


def check(frames: int, out: Path, only: tuple[str, ...], device: str) -> bool:
    """Whether every shipped model gives its card's figures again, to within the tolerance."""
    well = True
    cards = {path: load(name, "cpu") for name, path in shipped().items() if name.startswith(only)}
    for path, found in found_again(cards, frames, FRESH_SEED, device):
        promised = cards[path].card["measured"]["figures"]
        names = [f"{kind}@{n}" for n in LENGTHS for kind in ("precision_ratio", "recall_ratio")]
        off = {n: found.figures[n] - promised[n] for n in names if n in found.figures}
        worst = max(off, key=lambda n: abs(off[n]))
        kept = abs(off[worst]) <= TOLERANCE
        well = well and kept
        write(f"{path.stem} on fresh play", found, out / f"{path.stem}-fresh.json", device)
        word = "as promised" if kept else "NOT AS PROMISED"
        print(f"{path.stem:20} {word}: at most {off[worst]:+.3f} ({worst})", flush=True)
    return well


def found_again(cards: dict[Path, Detector], frames: int, seed: int, device: str) -> Iterator[tuple[Path, Evaluation]]:
    """Each model on play of its environment."""
    weights = {path: (detector.card["environment"], detector.config.size) for path, detector in cards.items()}
    for found in measure(weights, frames, seed=seed, workers=cores(), device=device):
        if found.evaluation is None:
            raise InputError(f"{found.weights.stem} could not be measured: {found.error}")
        yield found.weights, found.evaluation


def write(name: str, found: Evaluation, path: Path, device: str) -> None:
    config, details = {"evaluate": {"frames": found.frames, "shard": SHARD}}, {"evaluation": found.to_json()}
    Result(name, found.figures, config, {"evaluate": found.seed}, details, device=device).write(path)


def main(
    results: tyro.conf.Positional[list[Path]],
    /,
    runs: Path = Path("runs/tracking"),
    out: Path = SHIPPED,
    recipe: str = "suited",
    frames: int = 20_000,
    renew_cards: Annotated[bool, tyro.conf.arg(name="renew")] = False,
    measured_in: Path = Path("results/shipped"),
    only: str = "",
    device: str = "cpu",
    blinkers: int = 0,
) -> None:
    """Ship what was measured, then measure it again on a fresh seed.

    Args:
        results: Folders of results of `transporter reproduce tracking`; none: only measure what is shipped.
        runs: Folder of their run folders.
        out: Where the files go.
        recipe: Which recipe to ship.
        frames: Of play, to measure on.
        renew_cards: First measure anew what was measured on fewer frames, for its card.
        measured_in: Folder for what is measured here.
        only: Ship and measure only models whose names begin so, with commas between them.
        device: Where keypoints are found: cpu, which everyone has, or cuda, for much play.
        blinkers: Frames of random play; models are made blind to what these never show, and measured. 0: they stay.
    """
    at_least(1, frames=frames)
    at_least(0, blinkers=blinkers)
    names = tuple(name for name in only.split(",") if name) or ("",)
    if not results and not any(name.startswith(names) for name in shipped()):
        raise InputError(f"no shipped model's name begins with {only}")
    if results:
        for one in ship(results, runs, out, recipe, names):
            print(f"{one.path}: seed {one.seed}, {one.path.stat().st_size / 2**20:.2f} MiB", flush=True)
            if out == SHIPPED:
                (measured_in / f"{one.name}.json").unlink(missing_ok=True)  # it was the card of the one before
    if blinkers:
        if not only:
            raise InputError("--blinkers is for models that --only names: others have not seen all there is to follow")
        most = max(load(name, "cpu").card["measured"]["frames"] for name in shipped() if name.startswith(names))
        if most > frames:
            raise InputError(f"a card was measured on {most:,} frames: give --frames {most}, or --only others")
        blinker(blinkers, names)
    if renew_cards or blinkers:
        renew(frames, measured_in, names, device, changed=blinkers > 0)
    if out == SHIPPED and not check(frames, measured_in, names, device):
        sys.exit(1)


if __name__ == "__main__":
    leave(lambda: tyro.cli(main))

"""transporter evaluate: precision and recall of keypoint trajectories against the truth."""

from pathlib import Path
from typing import TYPE_CHECKING

import tyro

if TYPE_CHECKING:
    from transporter.models.detector import Detector
    from transporter.tracking.results import Evaluation


def evaluate(
    environment: tyro.conf.Positional[str],
    /,
    model: str,
    frames: int = 5_000,
    seed: int = 1_000_000,
    device: str | None = None,
    json: Path | None = None,
) -> None:
    """Play at random and measure how well the keypoints follow the objects, for trajectories of 1 to 200 steps.

    Args:
        environment: An environment with ground truth (pong, ms_pacman, frostbite, stack_4, sprites, …).
        model: A shipped model, a run folder or a .safetensors file.
        frames: How many frames to play.
        seed: Of the play; take one that was not used for collecting.
        device: cpu, cuda or cuda:N; by default the GPU where there is one.
        json: Write everything that was measured to this file.
    """
    from transporter.cli.console import say, write_json
    from transporter.models.zoo import load

    found = evaluate_with_bar(environment, load(model, device), frames, seed)
    show_evaluation(found)
    if json:
        write_json(json, found.to_json())
        say(f"written: [bold]{json}[/]")
    elif Path(model).is_dir():
        write_json(Path(model) / "evaluation.json", found.to_json())
        say(f"written: [bold]{Path(model) / 'evaluation.json'}[/]")


def evaluate_with_bar(environment: str, detector: "Detector", frames: int, seed: int) -> "Evaluation":
    from transporter.cli.console import bar
    from transporter.envs import make
    from transporter.tracking.evaluate import evaluate as measure

    env = make(environment, detector.config.size)
    try:
        with bar(f"evaluate {environment}", frames, "frames") as shown:
            return measure(env, detector, frames=frames, seed=seed, progress=shown.at)
    finally:
        env.close()


def show_evaluation(found: "Evaluation") -> None:
    from transporter.cli.console import table

    rows = []
    for length in (1, 20, 100, 200):
        at = found.curve.at(length)
        rows.append(
            [str(length), f"{at.precision:.3f}", f"{at.recall:.3f}", f"{at.precision_ceiling:.3f}",
             f"{at.recall_ceiling:.3f}", f"{at.ratio:.3f}"]
        )  # fmt: skip
    heads = ["length", "precision", "recall", "best possible", "best possible", "share of it"]
    table(f"{found.scene}: {found.frames:,} frames, {found.episodes} episodes", heads, rows)
    rows = [
        [
            row.name,
            str(row.windows),
            f"{row.recall:.2f}",
            f"{row.error:.3f}",
            "–" if row.keypoint is None else str(row.keypoint),
        ]
        for row in found.objects
        if row.windows
    ]
    table(f"objects, over {found.following_length} steps", ["object", "windows", "followed", "error", "keypoint"], rows)

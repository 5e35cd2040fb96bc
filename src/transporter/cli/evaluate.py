"""transporter evaluate: precision and recall of keypoint trajectories against the truth."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from transporter.cli.given import Maybe, at_least, device_named, room_for, warn_of_another
from transporter.errors import InputError

if TYPE_CHECKING:
    from transporter.models.detector import Detector
    from transporter.tracking.results import Evaluation


FRAMES = 5_000
SHOWN = (1, 20, 100, 200)  # lengths


def evaluate(
    environment: tyro.conf.Positional[str],
    /,
    model: str,
    frames: Maybe[int] = None,
    seed: int = 1_000_000,
    device: str = "auto",
    json: Maybe[Path] = None,
) -> None:
    """Play at random and measure how well the keypoints follow the objects, for trajectories of 1 to 200 steps.

    Args:
        environment: An environment with ground truth (pong, ms_pacman, frostbite, stack_4, sprites, …).
        model: A shipped model, a run folder (which keeps the result for its report) or a .safetensors file.
        frames: How many frames to play; by default 5,000, or as many as the model's card was measured on. What is
            seldom on the screen for 200 steps wants many.
        seed: Of the play; take one that was not used for collecting.
        device: auto (the GPU where there is one), cpu, cuda or cuda:N.
        json: Write everything that was measured to this file.
    """
    from transporter.cli.console import bold, say, write_json
    from transporter.models.zoo import load, run_meant

    at_least(1, frames=frames)
    at_least(0, seed=seed)
    device = device_named(device)
    check_truth(environment)
    detector = load(model, device)
    warn_of_another(detector, environment)
    promised = detector.card.get("measured") if detector.card.get("environment") == environment else None
    results = [json] if json else []
    if (run := run_meant(model)) and run.settings["environment"] == environment:
        results.append(run.path / "evaluation.json")
    with ExitStack() as stack:
        for path in results:
            stack.enter_context(room_for(path))
        found = evaluate_with_bar(environment, detector, frames or (promised or {}).get("frames", FRAMES), seed)
        show_evaluation(found)
        if promised:
            figures = promised["figures"]
            shares = ", ".join(f"{_number(figures.get(f'precision_ratio@{n}'), 3)} at {n}" for n in SHOWN)
            say(f"its card, from {promised['frames']:,} frames: {shares}")
        for path in results:
            write_json(path, {**found.to_json(), "step": detector.card.get("step")})
            say(f"written: {bold(path)}")


def check_truth(environment: str) -> None:
    """Refuse what cannot be measured before a model is loaded for it."""
    from transporter.envs import scene

    if "." in environment or Path(environment).is_file():
        raise InputError(f"{environment}: a video has no ground truth to evaluate against; use `transporter track`")
    if not scene(environment).has_truth:
        raise InputError(f"{environment} has no ground truth to evaluate against")


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
    from transporter.cli.console import say, table

    rows = []
    for length in SHOWN:
        at = found.curve.at(length)
        values = (at.precision, at.recall, at.precision_ceiling, at.recall_ceiling, at.ratio)
        rows.append([str(length), *(_number(value, 3) for value in values)])
    heads = ["length", "precision", "recall", "best precision", "best recall", "share of it"]
    table(f"{found.scene}: {found.frames:,} frames, {found.episodes} episodes", heads, rows)
    # An episode is one window of a length only if it does not last longer.
    if whole := [str(length) for length in SHOWN if found.curve.at(length).windows == found.episodes]:
        say(f"no episode here has more than {whole[0]} steps: at {', '.join(whole)} these are whole episodes")
    rows = [
        [row.name, str(row.windows), _number(row.recall, 2), _number(row.error, 3), _number(row.keypoint, 0)]
        for row in found.objects
        if row.windows
    ]
    table(f"objects, over {found.following_length} steps", ["object", "windows", "followed", "error", "keypoint"], rows)


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None or value != value else f"{value:.{digits}f}"

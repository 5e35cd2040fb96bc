"""transporter report: one HTML page that shows a run or a shipped model."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import tyro

from transporter.cli.given import Maybe, at_least, room_for
from transporter.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Float32, UInt8

    from transporter.models.detector import Detector
    from transporter.report.draw import Picture
    from transporter.runs import Run
    from transporter.tracking.results import Evaluation


def report(
    model: tyro.conf.Positional[str], /, out: Maybe[Path] = None, frames: int = 200, seed: int = 1_000_000
) -> None:
    """Write a page with the figures, curves and pictures of a run or of a shipped model, and a labelled clip.

    Args:
        model: A run folder, or a shipped model.
        out: The file to write, with the clip beside it; by default report.html in the run folder, or MODEL.html.
        frames: How many frames of play the clip shows.
        seed: Of that play.
    """
    from transporter.cli.console import bold, say
    from transporter.models.zoo import load, run_meant, shipped

    at_least(1, frames=frames)
    at_least(0, seed=seed)
    if run := run_meant(model):
        with room_for(out or run.path / "report.html") as path:
            write_run_report(run, path, frames, seed)
    elif model in shipped():
        with room_for(out or Path(f"{model}.html")) as path:
            write_model_report(model, load(model), path, frames, seed)
    else:
        raise InputError(f"{model} is neither a run folder nor a shipped model")
    say(f"report: {bold(path)}")


def write_run_report(run: "Run", path: Path, frames: int = 200, seed: int = 1_000_000) -> Path:
    """All that the run folder knows, and a fresh episode where its environment can be played."""
    from transporter.models.zoo import from_run
    from transporter.report.html import Report, write_report

    detector = from_run(run)
    environment = run.settings["environment"]
    shown = Pictures() if environment == "video" else pictures_of_play(environment, detector, path, frames, seed)
    page = Report(
        title=run.path.resolve().name,
        summary=f"Keypoints found in {environment} without labels, at step {detector.card['step']:,}.",
        evaluation=read_evaluation(run, detector.card["step"]),
        config=run.settings,
        metrics=run.metrics(),
        reconstructions=reconstructions(run),
        notes=tuple(run.warnings),
        **shown._asdict(),
    )
    return write_report(path, page)


def write_model_report(
    name: str,
    detector: "Detector",
    path: Path,
    frames: int = 200,
    seed: int = 1_000_000,
    evaluation: "Evaluation | None" = None,
) -> Path:
    """What a shipped model's card says, and a fresh episode."""
    from transporter.report.html import Report, write_report

    environment = detector.card["environment"]
    page = Report(
        title=name,
        summary=f"Keypoints found in {environment} without labels; this model comes with the package.",
        evaluation=evaluation,
        config={"model": detector.config.to_json(), "card": detector.card},
        **pictures_of_play(environment, detector, path, frames, seed)._asdict(),
    )
    return write_report(path, page)


class Pictures(NamedTuple):
    """The parts of a report that show play."""

    strip: "Picture | None" = None
    heatmaps: "Picture | None" = None
    video: Path | None = None


def pictures_of_play(environment: str, detector: "Detector", path: Path, frames: int, seed: int) -> Pictures:
    """A strip, the heatmaps of its last frame, and a clip beside the report at `path`."""
    from transporter.report import draw

    seen = play(environment, detector, frames, seed)
    return Pictures(
        strip=draw.strip(seen.frames, seen.points),
        heatmaps=draw.heatmaps(seen.frames[-1], detector.heatmaps(seen.frames[-1:])[0]),
        video=write_clip(seen, path.with_suffix(".mp4")),
    )


def read_evaluation(run: "Run", step: int) -> "Evaluation | None":
    """What `transporter evaluate` left in the run folder, if it was of this step's weights."""
    import json

    from transporter.tracking.results import Evaluation

    path = run.path / "evaluation.json"
    if not path.exists():
        return None
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        found = Evaluation.from_json(data)
    except ValueError as error:
        raise InputError(f"{path} is damaged ({error}): evaluate again") from None
    if data.get("step") != step:
        run.warnings.append(f"{path.name} is of step {data.get('step')}, not of step {step}: evaluate again")
        return None
    return found


class Play(NamedTuple):
    """Frames of random play and their keypoints."""

    frames: "UInt8[np.ndarray, 't h w 3']"
    points: "Float32[np.ndarray, 't k 2']"


def play(environment: str, detector: "Detector", frames: int, seed: int) -> Play:
    """Random play and what the detector sees in it."""
    from contextlib import closing

    import numpy as np

    from transporter.envs import make
    from transporter.tracking.evaluate import play as random_play

    with closing(make(environment, detector.config.size)) as env:
        shown = np.stack([sight.frame for sight in random_play(env, frames=frames, seed=seed)])
    return Play(shown, detector(shown))


def write_clip(seen: Play, path: Path, rate: float = 15.0) -> Path:
    """A labelled clip, enlarged to something one can watch."""
    from transporter.report.clip import ClipWriter
    from transporter.report.draw import draw_keypoints

    side = seen.frames.shape[1]
    scale = max(1, round(384 / side))
    with ClipWriter(path, side * scale, side * scale, rate) as clip:
        for frame, points in zip(seen.frames, seen.points, strict=True):
            clip.add(draw_keypoints(frame, points, scale=scale))
    return path


def reconstructions(run: "Run", count: int = 4) -> "Picture | None":
    """Held-out pairs of the run's data set and what the model makes of them (Appendix F)."""
    import torch

    from transporter.data.pairs import PairSet
    from transporter.models.factory import ModelConfig, build
    from transporter.report import draw

    try:
        pairs = PairSet.open(run.path / run.settings["data"])
        rows = pairs.validation_rows if len(pairs.validation_rows) else pairs.train_rows
        shown = torch.from_numpy(pairs.read(rows[:count]))
    except (InputError, KeyError) as error:
        run.warnings.append(f"no reconstructions: {error}")
        return None
    model = build(ModelConfig.from_json(run.settings["config"]["model"])).eval()
    model.load_state_dict(run.best().part("model."))
    with torch.no_grad():
        output = model(shown[:, 0], shown[:, 1])
    prediction = model.pixels.decode(output.prediction)
    return draw.reconstructions(*(t.numpy() for t in (shown[:, 0], shown[:, 1], prediction, output.target_points)))

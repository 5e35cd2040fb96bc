"""Keypoints of your own video: train on it, follow what moves, keep a table and a labelled clip.

    python examples/own_video.py clip.mp4 --out out

Without a clip it makes one: three shapes that bounce. `--steps 900` takes a few minutes on two cores; more is better.
"""

from pathlib import Path

import tyro

import transporter
from transporter.data.clips import collect_video
from transporter.data.manifest import quick_settings
from transporter.envs import make
from transporter.envs.video import open_video
from transporter.report.clip import ClipWriter
from transporter.report.draw import draw_keypoints
from transporter.report.tables import TrackWriter
from transporter.runs import Run
from transporter.tracking.evaluate import play
from transporter.tracking.track import track
from transporter.training.config import preset
from transporter.training.loop import train


def bouncing_shapes(path: Path, frames: int = 200) -> Path:
    """A clip to try it with."""
    with ClipWriter(path, 96, 96, rate=25) as clip:
        for sight in play(make("sprites", 96), frames=frames):
            clip.add(sight.frame)
    return path


def main(
    video: tyro.conf.Positional[Path | None] = None,
    /,
    out: Path = Path("own_video"),
    keypoints: int = 3,
    steps: int = 900,
) -> None:
    """Train on a video and follow its keypoints."""
    out.mkdir(parents=True, exist_ok=True)
    video = video or bouncing_shapes(out / "shapes.mp4")

    config = preset("tiny", keypoints=keypoints, steps=steps)
    pairs = collect_video(quick_settings("video", config.model.size, pairs=256, seed=0), [video], out / "data")
    run = Run.create(out / "run", {"environment": "video", "data": "../data", "config": config.to_json()})
    with run.lock():
        train(config, pairs, run)

    detector = transporter.load(out / "run")
    with (
        open_video(video) as clip,
        TrackWriter(out / "tracks.csv", clip.width, clip.height) as table,
        ClipWriter(out / "labelled.mp4", clip.width, clip.height, clip.rate) as labelled,
    ):
        for seen in track(clip, detector):
            table.add(seen.index, seen.time, seen.points)
            labelled.add(draw_keypoints(seen.image, seen.points), seen.time)
    print(f"{seen.index + 1} frames × {keypoints} keypoints: {out / 'tracks.csv'}, {out / 'labelled.mp4'}")


if __name__ == "__main__":
    tyro.cli(main)

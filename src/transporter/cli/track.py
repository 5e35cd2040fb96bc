"""transporter track: any video in; a table and a labelled clip out."""

from pathlib import Path
from typing import Literal

import tyro


def track(
    video: tyro.conf.Positional[Path],
    /,
    model: str,
    out: Path | None = None,
    format: Literal["csv", "parquet", "both"] = "both",
    clip: bool = True,
    batch: int = 32,
    device: str | None = None,
) -> None:
    """Follow keypoints through a video: one row per frame and keypoint, and a labelled clip. Streams: any length.

    Args:
        video: A video file, anything FFmpeg reads.
        model: A shipped model, a run folder or a .safetensors file.
        out: Folder for the results; by default NAME-tracks beside the video.
        format: Which tables to write.
        clip: Also write a labelled MP4.
        batch: Frames detected at once.
        device: cpu, cuda or cuda:N; by default the GPU where there is one.
    """
    from contextlib import ExitStack

    from transporter.cli.console import bar, say
    from transporter.envs.video import open_video
    from transporter.models.zoo import load
    from transporter.report.clip import ClipWriter
    from transporter.report.draw import draw_keypoints
    from transporter.report.tables import TrackWriter
    from transporter.tracking.track import track as follow

    detector = load(model, device)
    with ExitStack() as stack:
        source = stack.enter_context(open_video(video))
        folder = out or video.with_name(f"{video.stem}-tracks")
        suffixes = ("csv", "parquet") if format == "both" else (format,)
        paths = [folder / f"tracks.{suffix}" for suffix in suffixes]
        writers = [stack.enter_context(TrackWriter(path, source.width, source.height)) for path in paths]
        labelled = None
        if clip:
            paths.append(folder / "labelled.mp4")
            labelled = stack.enter_context(ClipWriter(paths[-1], source.width, source.height, source.rate))
        shown = stack.enter_context(bar(f"track {video.name}", source.frames_estimate, "frames"))
        count = 0
        for seen in follow(source, detector, batch):
            for writer in writers:
                writer.add(seen.index, seen.time, seen.points)
            if labelled:
                labelled.add(draw_keypoints(seen.image, seen.points), seen.time)
            count += 1
            shown.at(count)
        damaged = source.damaged
    if damaged:
        say(f"[yellow]{damaged} frames could not be decoded or are flawed")
    say(f"{count:,} frames × {detector.keypoints} keypoints: " + ", ".join(f"[bold]{path}[/]" for path in paths))

"""transporter track: any video in; a table and a labelled clip out."""

from pathlib import Path
from typing import Literal

import tyro

from transporter.cli.given import Maybe, at_least, device_named, folder_named, no_empty_folders
from transporter.errors import InputError


def track(
    video: tyro.conf.Positional[Path],
    /,
    model: str,
    out: Maybe[Path] = None,
    format: Literal["csv", "parquet", "both"] = "both",
    clip: bool = True,
    partial: bool = False,
    batch: int = 32,
    device: str = "auto",
) -> None:
    """Follow keypoints through a video: one row per frame and keypoint, and a labelled clip. Streams: any length.

    Args:
        video: A video file, anything FFmpeg reads.
        model: A shipped model, a run folder or a .safetensors file.
        out: Folder for the results; by default NAME-tracks beside the video.
        format: Which tables to write.
        clip: Write the tables only; otherwise also a labelled MP4.
        partial: Take what there is of a file that is cut short, instead of refusing it.
        batch: Frames detected at once.
        device: auto (the GPU where there is one), cpu, cuda or cuda:N.
    """
    from contextlib import ExitStack

    from transporter.cli.console import bar, bold, say, warn
    from transporter.envs.video import open_video
    from transporter.models.zoo import load
    from transporter.report.clip import ClipWriter
    from transporter.report.draw import draw_keypoints
    from transporter.report.tables import TrackWriter
    from transporter.tracking.track import track as follow

    at_least(1, batch=batch)
    if video.is_dir():
        raise InputError(f"{video} is a folder, not a video")
    device = device_named(device)
    folder = folder_named(out or video.with_name(f"{video.stem}-tracks"))
    suffixes = ("csv", "parquet") if format == "both" else (format,)
    paths = [folder / f"tracks.{suffix}" for suffix in suffixes]
    with ExitStack() as stack:
        source = stack.enter_context(open_video(video))
        _refuse_part(video, source.cut_short and not partial)
        detector = load(model, device)
        stack.enter_context(no_empty_folders(folder))
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
        _refuse_part(video, source.cut_short and not partial)
    if source.damaged:
        warn(f"{source.damaged} frames are missing, flawed or could not be decoded")
    say(f"{count:,} frames × {detector.keypoints} keypoints: " + ", ".join(bold(path) for path in paths))


def _refuse_part(video: Path, refused: bool) -> None:
    if refused:
        raise InputError(f"{video} is cut short: --partial takes what there is of it")

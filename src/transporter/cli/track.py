"""transporter track: any video in; a table and a labelled clip out."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro

from transporter.cli.given import (
    Maybe,
    above_zero,
    at_least,
    device_named,
    folder_named,
    no_empty_folders,
    without_ending,
)
from transporter.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from jaxtyping import UInt8

    from transporter.envs.images import Images
    from transporter.envs.video import Video
    from transporter.models.detector import Detector


ACCUSTOM = 500  # frames that a clip's looks are known by


def track(
    video: tyro.conf.Positional[Path],
    /,
    model: str,
    out: Maybe[Path] = None,
    format: tuple[Literal["csv", "parquet", "deeplabcut", "sleap", "coco"], ...] = ("csv", "parquet"),
    clip: bool = True,
    accustom: bool = False,
    partial: bool = False,
    rate: float = 25.0,
    batch: int = 32,
    device: str = "auto",
) -> None:
    """Follow keypoints through a video: one row per frame and keypoint, and a labelled clip. Streams: any length.

    Args:
        video: A video file, anything FFmpeg reads; a folder of images; or a folder of videos, each followed by itself.
        model: A shipped model, a run folder or a .safetensors file.
        out: Folder for the results; by default NAME-tracks beside the video.
        format: Which tables to write, one or several; sleap needs the extra of that name.
        clip: Beside the tables, a labelled MP4.
        accustom: First get used to how the clip looks, by the mean of its frames: for one with another codec or
            size than the model was trained on. The camera stands as it stood there.
        partial: Take what there is of a file that is cut short, instead of refusing it. An MP4 whose index was at the
            end has nothing left that could be taken.
        rate: Frames a second of a folder of images, which knows no times.
        batch: Frames detected at once.
        device: auto (the GPU where there is one), cpu, cuda or cuda:N.
    """
    from transporter.models.zoo import load
    from transporter.report.formats import FORMATS

    at_least(1, batch=batch)
    above_zero(rate=rate)
    if not format:
        raise InputError(f"--format needs at least one of {', '.join(FORMATS)}")
    clips = _clips(video, folder_named(out or _beside(video)))
    for path, _ in clips:
        with _opened(path, rate) as source:  # all of them before a model is loaded, or anything written
            _refuse_part(path, source.cut_short and not partial)
    detector = load(model, device_named(device))
    endings = [FORMATS[name].ending for name in dict.fromkeys(format)]
    for path, folder in clips:
        used = _accustomed(detector, path, rate) if accustom else detector
        with _opened(path, rate) as source:
            _follow(source, path, folder, used, endings, clip, batch)


def _beside(video: Path) -> Path:
    named = without_ending(video)
    return named.parent / f"{named.name}-tracks"


def _clips(given: Path, out: Path) -> list[tuple[Path, Path]]:
    """What is to be followed, and the folder for each: a video, a folder of images, or every video of a folder."""
    from transporter.envs.images import clips_in

    if not given.is_dir():
        return [(given, out)]
    inside = clips_in(given)
    if not inside:
        raise InputError(f"{given} is a folder, not a video, and holds neither videos nor images")
    return [(given, out)] if inside == [given] else [(video, out / video.stem) for video in inside]


def _opened(path: Path, rate: float) -> "Video | Images":
    from transporter.envs.images import Images
    from transporter.envs.video import open_video

    return Images(path, rate) if path.is_dir() else open_video(path)


def _accustomed(detector: "Detector", path: Path, rate: float) -> "Detector":
    """By so many frames from all over the clip."""
    from itertools import islice

    from transporter.cli.console import bar

    with _opened(path, rate) as source, bar(f"look at {path.name}", source.frames_estimate, "frames") as shown:
        every = max(1, (source.frames_estimate or 0) // ACCUSTOM)

        def images() -> "Iterator[UInt8[np.ndarray, 'h w 3']]":
            for count, frame in enumerate(islice(source, 0, None, every)):
                shown.at(count * every)
                yield frame.image

        return detector.accustomed(images())


def _follow(
    source: "Video | Images", path: Path, folder: Path, detector: "Detector", endings: list[str], clip: bool, batch: int
) -> None:
    from contextlib import ExitStack

    from transporter.cli.console import bar, bold, say, warn
    from transporter.report.clip import ClipWriter
    from transporter.report.draw import draw_keypoints
    from transporter.report.tables import TrackWriter
    from transporter.tracking.track import track as follow

    written = [folder / f"tracks{ending}" for ending in endings]
    with ExitStack() as stack:
        stack.enter_context(no_empty_folders(folder))
        writers = [stack.enter_context(TrackWriter(file, source.width, source.height, path.name)) for file in written]
        labelled = None
        if clip:
            written.append(folder / "labelled.mp4")
            labelled = stack.enter_context(ClipWriter(written[-1], source.width, source.height, source.rate))
        shown = stack.enter_context(bar(f"track {path.name}", source.frames_estimate, "frames"))
        count = 0
        for seen in follow(source, detector, batch):
            for writer in writers:
                writer.add(seen.index, seen.time, seen.points)
            if labelled:
                labelled.add(draw_keypoints(seen.image, seen.points), seen.time)
            count += 1
            shown.at(count)
    if source.damaged:
        warn(f"{source.damaged} frames are missing, flawed or could not be decoded")
    say(f"{count:,} frames × {detector.keypoints} keypoints: " + ", ".join(bold(file) for file in written))


def _refuse_part(video: Path, refused: bool) -> None:
    if refused:
        raise InputError(f"{video} is cut short: --partial takes what there is of it")

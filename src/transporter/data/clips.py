"""Videos as a source of pairs: read once, at a rate at which motion shows, in the same format as play."""

import itertools
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import UInt8

from transporter.data.collect import SEGMENT, Progress, choice, fill
from transporter.data.manifest import CollectSettings
from transporter.data.pairs import PairSet
from transporter.data.play import Trajectory
from transporter.envs.images import Images, images_in
from transporter.errors import InputError
from transporter.frames import resize

if TYPE_CHECKING:
    from transporter.envs.video import Video

FEW = 8  # trajectories that even a short clip is cut into, so that some can be held out for validation …
SHORT = 20  # … as long as they keep this many frames, the reach of the offset sampler
SURPLUS = 4  # pairs offered for each place in a diverse set


def collect_video(
    settings: CollectSettings,
    paths: Sequence[Path | str],
    path: Path | str,
    progress: Callable[[Progress], None] | None = None,
    device: torch.device | str | None = None,
) -> PairSet:
    """Pairs of video files, or of folders of images: each is a clip. Resumes like collect().

    A clip too short for so many pairs gives each of its own once.
    """
    videos = [Path(video) for video in paths]
    for video in videos:
        if not video.exists():
            raise InputError(f"{video}: no such file")
    sources = tuple(f"{video.name}, {_bytes(video)} bytes" for video in videos)
    settings = replace(settings, environment="video", sources=sources)
    with PairSet.create(path, settings) as writer:
        if not writer.manifest.complete:
            fill(writer, Clips(videos, settings), progress, choice(writer, device))
    return PairSet.open(path)


class Clips:
    """Video after video, cut into trajectories of about equal length; a step is a frame that is taken."""

    def __init__(self, videos: Sequence[Path], settings: CollectSettings) -> None:
        self.videos, self.settings = videos, settings
        for video in videos:
            _note_a_part(video)
        counts = [_counted(video, settings.rate) for video in videos]
        lengths = [length for count in counts for length in cut(count, settings.length)]
        if max(lengths, default=0) < 2:
            named = ", ".join(map(str, videos))
            raise InputError(f"{named}: a pair needs two frames; at {settings.rate:g} a second there is one at most")
        self.steps = sum(counts)
        self.stops = np.cumsum(lengths).tolist()
        # Spread over the whole footage, also where there are more trajectories than pairs wanted.
        wanted = settings.pairs * (SURPLUS if settings.diverse else 1)
        self.quotas = np.diff(np.arange(len(lengths) + 1) * wanted // len(lengths)).tolist()
        self._at, self._frames = 0, self._stream()

    def ahead(self, done: int) -> int:
        first = self._first_after(done)
        return (self.stops[first : first + SEGMENT] or [done])[-1] - done

    def play(self, done: int, rng: np.random.Generator) -> Generator[Trajectory]:
        if done != self._at:  # a resumed run reads past what it has
            self._at, self._frames = done, itertools.islice(self._stream(), done, None)
        first = self._first_after(done)
        side = self.settings.size
        for stop, pairs in zip(self.stops[first:][:SEGMENT], self.quotas[first:], strict=False):
            taken = itertools.islice(self._frames, stop - self._at)
            frames = [resize(frame, side, side) for frame in taken]
            self._at = stop
            yield Trajectory(frames, stop - done, pairs)

    def _first_after(self, done: int) -> int:
        return int(np.searchsorted(self.stops, done, side="right"))

    def _stream(self) -> Iterator[UInt8[np.ndarray, "h w 3"]]:
        return itertools.chain.from_iterable(frames_at(video, self.settings.rate) for video in self.videos)


def _bytes(video: Path) -> int:
    return sum(path.stat().st_size for path in (images_in(video) if video.is_dir() else [video]))


def _opened(video: Path, rate: float) -> "Video | Images":
    """A folder of images knows no times: all of them are taken."""
    from transporter.envs.video import open_video

    return Images(video, rate) if video.is_dir() else open_video(video)


def _note_a_part(video: Path) -> None:
    """Training can use what there is of a file that is cut short, but not without a word."""
    with _opened(video, 1.0) as stream:
        if stream.cut_short:
            warnings.warn(f"{video} is cut short: taking what there is of it", stacklevel=3)


def _counted(video: Path, rate: float) -> int:
    """How many frames will be taken; likewise, not without a word on those that are lost."""
    with _opened(video, rate) as stream:
        count = sum(1 for _ in _taken(stream, rate))
        if stream.damaged and not stream.cut_short:
            lost = f"{stream.damaged} frame{'s' * (stream.damaged > 1)}"
            warnings.warn(f"{video}: {lost} missing, flawed or unreadable: taking what there is of it", stacklevel=3)
    return count


def frames_at(video: Path, rate: float) -> Iterator[UInt8[np.ndarray, "h w 3"]]:
    """Frames of a video at `rate` a second by its time stamps, or all of them where it has fewer."""
    with _opened(video, rate) as stream:
        yield from _taken(stream, rate)


def _taken(stream: "Video | Images", rate: float) -> Iterator[UInt8[np.ndarray, "h w 3"]]:
    due: float | None = None
    for frame in stream:
        due = frame.time if due is None else due
        if frame.time > due - 0.1 / rate:  # containers round time stamps, some to milliseconds
            yield frame.image
            # Count from when it was due, or 25 frames a second would become 12.5 and not 15; but do not make up
            # for a gap in the recording.
            due = max(due + 1 / rate, frame.time + 0.5 / rate)


def cut(count: int, length: int) -> list[int]:
    """Lengths of the trajectories of a video: nearly equal, none above `length`."""
    parts = max(-(-count // length), min(FEW, count // SHORT), 1)
    return [len(part) for part in np.array_split(np.arange(count), parts)]

"""A folder of images as if it were a video: one after another by name, numbers in names counted as numbers."""

import re
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from transporter.envs.video import VideoFrame
from transporter.errors import InputError

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp"}
VIDEO_SUFFIXES = {".mp4", ".m4v", ".mov", ".avi", ".mkv", ".webm", ".mpg", ".mpeg", ".wmv", ".ts"}


def images_in(folder: Path) -> list[Path]:
    """In the order in which they are read: img2 before img10."""
    return sorted((path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES), key=_by_number)


def videos_in(folder: Path) -> list[Path]:
    return sorted((path for path in folder.iterdir() if path.suffix.lower() in VIDEO_SUFFIXES), key=_by_number)


def clips_in(folder: Path) -> list[Path]:
    """What a folder stands for: itself where it holds images, else every video in it; both could mean either."""
    images, videos = images_in(folder), videos_in(folder)
    if images and videos:
        raise InputError(f"{folder} holds {_counted(videos, 'video')} and {_counted(images, 'image')}: name the files")
    return [folder] if images else videos


def _counted(found: list[Path], kind: str) -> str:
    return f"{len(found)} {kind}{'s' * (len(found) > 1)}"


def _by_number(path: Path) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", path.name.lower())]


class Images:
    """Has the face of envs.video.Video, so that whatever follows a video follows these."""

    cut_short = False

    def __init__(self, path: Path, rate: float = 25.0) -> None:
        self.path, self.rate, self.damaged = path, rate, 0
        self._paths = images_in(path)
        if not self._paths:
            raise InputError(f"{path}: holds no images ({', '.join(sorted(SUFFIXES))})")
        self.frames_estimate = len(self._paths)
        first = next(iter(self), None)
        if first is None:
            raise InputError(f"{path}: none of its images can be read")
        self.height, self.width = first.image.shape[:2]
        self.damaged = 0

    def __iter__(self) -> Iterator[VideoFrame]:
        """Every image that can be read, brought to the size of the first; its index is its place in the folder."""
        from PIL import Image, UnidentifiedImageError

        size = None
        for index, path in enumerate(self._paths):
            try:
                with Image.open(path) as image:
                    shown = image.convert("RGB")
            except (OSError, UnidentifiedImageError, Image.DecompressionBombError):
                self.damaged += 1
                continue
            size = size or shown.size
            shown = shown if shown.size == size else shown.resize(size, Image.Resampling.BOX)
            yield VideoFrame(index, index / self.rate, np.asarray(shown))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing stays open between images."""

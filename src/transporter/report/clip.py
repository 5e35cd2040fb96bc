"""Clips that any browser plays: H.264 in MP4, written as the frames come, each at its own time."""

from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from jaxtyping import UInt8

from transporter.errors import InputError
from transporter.files import replacing

TICK = Fraction(1, 90_000)  # holds the usual rates (24, 25, 30, 30000/1001, ...) exactly or to 6 µs
BT709, LIMITED = 1, 1  # ITU-T H.273: how colours are stored, said in the file so that no player has to guess


class ClipWriter:
    """`with ClipWriter("clip.mp4", width, height) as clip: clip.add(image, time)`.

    The file gets its name when the block ends well; when it does not, nothing is left of it.
    """

    def __init__(
        self,
        path: str | Path,
        width: int,
        height: int,
        rate: float = 25.0,
        crf: int = 18,
        key_every: int | None = None,  # frames between key frames: the fewer, the quicker a player jumps
    ) -> None:
        self.path, self.width, self.height = Path(path), width, height
        if self.path.suffix.lower() != ".mp4":
            raise InputError(f"{self.path}: a clip is .mp4")
        if self.path.is_dir():
            raise InputError(f"{self.path}: is a folder")
        self.rate, self.crf, self.key_every = rate, crf, key_every
        self._last: int | None = None  # time of the last frame, in ticks

    def add(self, image: UInt8[np.ndarray, "h w 3"], time: float | None = None) -> None:
        """One frame at a time in seconds, later than the one before; without it, at the clip's even rate."""
        import av
        from av.video.reformatter import Colorspace

        if image.shape != (self.height, self.width, 3):
            raise ValueError(f"a clip of {self.width}x{self.height} cannot take a frame of shape {image.shape}")
        even = np.pad(image, ((0, self.height % 2), (0, self.width % 2), (0, 0)), mode="edge")
        frame = av.VideoFrame.from_ndarray(even, "rgb24").reformat(format="yuv420p", dst_colorspace=Colorspace.ITU709)
        frame.pts, frame.time_base = self._tick(time), TICK
        self._container.mux(self._stream.encode(frame))

    def _tick(self, time: float | None) -> int:
        if time is None:
            tick = 0 if self._last is None else self._last + round(1 / self.rate / TICK)
        else:
            tick = round(time / TICK)
        if self._last is None:
            self._shift = max(0, -tick)  # MP4 has no time before zero
        tick += self._shift
        # Two frames of one time stamp (broken files have them) stay in order, one tick apart.
        self._last = tick if self._last is None else max(tick, self._last + 1)
        return self._last

    def _end(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self._last is None:
            raise InputError(f"{self.path}: a clip needs at least one frame")
        if kind is None:
            self._container.mux(self._stream.encode())

    def __enter__(self) -> Self:
        import av

        options = {"movflags": "faststart"}  # the index first: plays before it is all there
        try:
            with ExitStack() as stack:
                # Undone from the last to the first: the last frames, closing the file, its name (or its removal).
                temporary = stack.enter_context(replacing(self.path))
                self._container = stack.enter_context(av.open(f"file:{temporary}", "w", options=options))
                self._stream = self._add_stream()
                stack.push(self._end)
                self._stack = stack.pop_all()
        except OSError as error:
            raise InputError(f"{self.path}: cannot be written ({error.strerror})") from error
        return self

    def _add_stream(self) -> Any:
        stream = self._container.add_stream("libx264", rate=Fraction(self.rate).limit_denominator(1001))
        stream.width, stream.height = self.width + self.width % 2, self.height + self.height % 2
        stream.pix_fmt, stream.time_base = "yuv420p", TICK
        stream.options = {"crf": str(self.crf), "preset": "veryfast"}
        if self.key_every:
            stream.options |= {"g": str(self.key_every), "bf": "0", "tune": "fastdecode"}
        context = stream.codec_context
        context.time_base = TICK
        context.color_primaries = context.color_trc = context.colorspace = BT709
        context.color_range = LIMITED
        return stream

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

"""Video files, streamed frame by frame through FFmpeg (PyAV); memory does not grow with the length of the clip."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from jaxtyping import UInt8

from transporter.errors import InputError
from transporter.frames import resize

if TYPE_CHECKING:
    import av

LARGEST = 2**26  # pixels of a frame, as in 8192×8192: a file of some bytes may promise any number of them
NOT_VIDEO = {"tty"}  # FFmpeg's player of ANSI art opens any text file


class VideoFrame(NamedTuple):
    """One picture as it is meant to be seen."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which no one misses
    time: float  # seconds, from the stream's own time stamp
    image: UInt8[np.ndarray, "h w 3"]


def open_video(path: str | Path, size: tuple[int, int] | None = None) -> "Video":
    """Open a video file; size is the (height, width) to which frames shrink or grow, by area, as they are read."""
    return Video(Path(path), size)


class Video:
    """A video to iterate over once: `with open_video(path) as video: for frame in video: ...`."""

    path: Path
    width: int  # as it is meant to be seen, before any change of size
    height: int
    rate: float  # mean frames per second, as far as the file says
    frames_estimate: int | None  # as far as the file says
    damaged: int  # frames so far that could not be decoded, that are flawed, or that the file promised and lacks
    cut_short: bool  # smaller than its own head says, as a broken download is

    def __init__(self, path: Path, size: tuple[int, int] | None = None) -> None:
        self.path, self.size, self.damaged = path, size, 0
        self._container = _open(path)
        try:
            self._stream = self._video_stream()
            # The first frame is decoded here, so that a file without any fails before a caller writes anything.
            self._frames = self._read()
            first = next(self._frames, None)
            if first is None:
                raise InputError(f"{path}: no frame of this video can be decoded")
        except BaseException:
            self.close()
            raise
        self._frames = chain([first], self._frames)

    def _video_stream(self) -> "av.VideoStream":
        import av

        streams = [s for s in self._container.streams.video if not s.disposition & av.stream.Disposition.attached_pic]
        if not streams or self._container.format.name in NOT_VIDEO:
            raise InputError(f"{self.path}: holds no video")
        stream = streams[0]
        if stream.codec_context is None:
            raise InputError(f"{self.path}: no one here knows how this video is coded")
        stream.thread_type = "AUTO"
        stream.codec_context.options = {"max_pixels": str(LARGEST)}  # also where a stream grows midway
        if stream.width * stream.height > LARGEST:
            raise InputError(f"{self.path}: frames of {stream.width}×{stream.height} are too large")
        self.rate = float(stream.average_rate or stream.guessed_rate or 25)
        duration = float(stream.duration * stream.time_base) if stream.duration and stream.time_base else None
        self.frames_estimate = stream.frames or (round(duration * self.rate) if duration else None)
        self.cut_short = _promised_size(self.path, stream) > self.path.stat().st_size
        return stream

    def _read(self) -> Iterator[VideoFrame]:
        from av.video.reformatter import VideoReformatter

        to_rgb, time = VideoReformatter(), -1 / self.rate  # one for all frames: it keeps its tables
        for index, frame in enumerate(self._decode()):
            # A frame without a time stamp (raw streams have none) follows the last one at the mean rate.
            time = float(frame.pts * frame.time_base) if frame.pts is not None else time + 1 / self.rate
            matrix = _display_matrix(frame)
            if index == 0:
                self._coded = frame.width, frame.height
                self.width, self.height = self._coded if matrix[0, 0] else self._coded[::-1]
            # A stream may change its size midway: every frame is brought to the size of the first.
            image = to_rgb.reformat(frame, *self._coded, "rgb24").to_ndarray()
            image = _oriented(image, matrix)
            yield VideoFrame(index, time, resize(image, *self.size) if self.size else image)

    def _decode(self) -> Iterator[Any]:
        """Decoded frames, on past packets that cannot be decoded."""
        from av.error import EOFError as EndOfStream
        from av.error import FFmpegError

        packets, given, lost = self._container.demux(self._stream), 0, 0
        while True:
            try:
                packet = next(packets, None)
                if packet is None:
                    break
                given += packet.is_discard  # cut away by an edit list: not shown, and not missing either
                frames = packet.decode()
            except EndOfStream:
                break
            except FFmpegError:
                # A container that cannot be read any further ends the demuxer: the next packet is then None.
                lost += 1
                self.damaged += 1
                continue
            for frame in frames:
                given += 1
                self.damaged += bool(frame.is_corrupt)
                yield frame
        # Errors alone miss the frames that a file cut short still promises in its index.
        self.damaged += max(0, self._stream.frames - given - lost)

    def __iter__(self) -> Iterator[VideoFrame]:
        return iter(self._frames)

    def close(self) -> None:
        self._container.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _open(path: Path) -> Any:
    import av

    if not path.is_file():
        raise InputError(f"{path}: no such file" if not path.exists() else f"{path}: not a file")
    if path.stat().st_size == 0:
        raise InputError(f"{path}: the file is empty")
    try:
        # "file:" keeps a colon in a name from being read as a protocol; the list keeps playlists off the network.
        return av.open(f"file:{path}", options={"protocol_whitelist": "file"}, metadata_errors="replace")
    except (av.error.FFmpegError, OSError) as error:
        raise InputError(f"{path}: cannot be read as a video ({error.strerror})") from error


def _promised_size(path: Path, stream: "av.VideoStream") -> int:
    """Bytes that the file must have by what stands at its beginning; 0 where that says nothing."""
    index = stream.index_entries
    end = index[-1].pos + index[-1].size if len(index) else 0
    with path.open("rb") as file:
        head = file.read(128)
    if head[:4] == b"RIFF":  # AVI
        end = max(end, 8 + int.from_bytes(head[4:8], "little"))
    if head[:4] == b"\x1a\x45\xdf\xa3":  # Matroska and WebM: a head, then one segment with all the rest
        length, start = _vint(head, 4)
        if head[start + length :][:4] == b"\x18\x53\x80\x67":
            length, start = _vint(head, start + length + 4)
            unknown = length == (1 << 56) - 1  # of a recording that was never finished
            end = max(end, 0 if unknown else start + length)
    return end


def _vint(data: bytes, at: int) -> tuple[int, int]:
    """EBML's numbers (RFC 8794): the value, and where what follows it begins."""
    width = 9 - data[at].bit_length()
    return int.from_bytes(data[at : at + width]) & ((1 << 7 * width) - 1), at + width


def _display_matrix(frame: Any) -> np.ndarray:
    """(2, 2) of 0 and ±1: x' = m00 x + m10 y and y' = m01 x + m11 y lead from the stored to the shown picture."""
    from av.sidedata.sidedata import Type

    data = frame.side_data.get(Type.DISPLAYMATRIX)
    if data is None:
        return np.eye(2, dtype=int)
    values = np.frombuffer(bytes(data), np.int32).reshape(3, 3)[:2, :2] / 2**16
    matrix = np.rint(values / max(abs(values).max(), 2**-16)).astype(int)
    # Only quarter turns and mirrors can be shown without inventing pixels; anything else is left as stored.
    return matrix if (abs(matrix).sum(0) == 1).all() and (abs(matrix).sum(1) == 1).all() else np.eye(2, dtype=int)


def _oriented(image: UInt8[np.ndarray, "h w 3"], matrix: np.ndarray) -> UInt8[np.ndarray, "h2 w2 3"]:
    if (matrix == np.eye(2)).all():
        return image
    if matrix[0, 0] == 0:
        image = image.swapaxes(0, 1)
    across, down = matrix.sum(0)  # the one entry of each column that is not 0
    return np.ascontiguousarray(image[::down, ::across])

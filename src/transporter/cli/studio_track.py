"""Keypoints through one video that was dropped on the studio, in a process of its own: the file is a stranger's.

    python -m transporter.cli.studio_track DEVICE VIDEO MODEL CARD

Says in lines of JSON how it goes (report/studio/clips.py is the listener) and writes beside the video.
"""

import json
import resource
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transporter.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import UInt8

    from transporter.envs.video import Video

LARGEST_SIDE, MOST_PIXELS = 8192, 40_000_000
MEMORY = 6 * 2**30  # bytes of address space while a file is opened: what it claims to be is not known yet
WIDEST_PREVIEW, KEY_EVERY = 960, 10
BATCH = 16
SAY_EVERY = 0.5  # seconds


def main(device: str, video: str, model: str, card: str) -> None:
    try:
        follow(device, Path(video), model, json.loads(card))
    except (InputError, MemoryError, OSError, RuntimeError) as error:
        line = str(error).replace(f"{video}: ", "").replace(video, "the file").splitlines()
        say({"error": (line or ["not enough memory for this video"])[0] or "not enough memory for this video"})
        sys.exit(2)


def say(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


def follow(device: str, path: Path, model: str, card: dict[str, Any]) -> None:
    with ExitStack() as stack:
        video = stack.enter_context(opened(path))
        say({"opened": {"width": video.width, "height": video.height, "frames": video.frames_estimate}})
        if not sys.stdin.readline():
            return  # the studio is gone
        track(stack, video, device, model, path.parent, card)


def opened(path: Path) -> "Video":
    """The video, if it is one, whole and of a size that can be handled."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, limits[1]))
    check(path)
    resource.setrlimit(resource.RLIMIT_AS, limits)
    from transporter.envs.video import open_video  # brings torch along: what is no video should not wait for it

    video = open_video(path)
    if video.cut_short:
        raise InputError("the file is cut short: drop it again once it is whole")
    return video


def check(path: Path) -> None:
    """Refuse what cannot be decoded, and what is too large before any of it is."""
    import av

    try:
        with av.open(f"file:{path}", options={"protocol_whitelist": "file"}) as container:
            streams = container.streams.video
            for width, height in ((stream.width, stream.height) for stream in streams):
                if max(width, height) > LARGEST_SIDE or width * height > MOST_PIXELS:
                    raise InputError(f"{width}×{height} pixels are too many: a side may have {LARGEST_SIDE} at most")
            if not streams:
                raise InputError("holds no video")
            if next(container.decode(streams[0]), None) is None:
                raise InputError("no frame of this video can be decoded")
    except (av.error.FFmpegError, OSError) as error:
        line = f"cannot be read as a video ({error.strerror}): MP4, MOV, MKV, WebM and AVI files can"
        raise InputError(line) from error


def track(stack: ExitStack, video: "Video", device: str, model: str, folder: Path, card: dict[str, Any]) -> None:
    """Table, preview and labelled clip; the card comes last and says that all of it is there."""
    from transporter.files import write_text
    from transporter.models.zoo import load
    from transporter.report.clip import ClipWriter
    from transporter.report.draw import draw_keypoints
    from transporter.report.tables import TrackWriter
    from transporter.tracking.track import track as follow_video

    detector = load(model, device)
    small = preview_size(video.width, video.height)
    with ExitStack() as files:
        table = files.enter_context(TrackWriter(folder / "tracks.parquet", video.width, video.height, card["name"]))
        preview = files.enter_context(
            ClipWriter(folder / "preview.mp4", *small, video.rate, crf=23, key_every=KEY_EVERY)
        )
        labelled = files.enter_context(ClipWriter(folder / "labelled.mp4", video.width, video.height, video.rate))
        count, begun, said, first = 0, time.monotonic(), 0.0, None
        for seen in follow_video(video, detector, BATCH):
            first = seen.time if first is None else first
            table.add(seen.index, seen.time, seen.points)
            shrunk = shrink(seen.image, *small)
            preview.add(shrunk, seen.time - first)
            labelled.add(draw_keypoints(seen.image, seen.points), seen.time - first)
            count += 1
            if time.monotonic() - said > SAY_EVERY:
                said = time.monotonic()
                show(folder / "latest.jpg", draw_keypoints(shrunk, seen.points))
                say({"done": count})
    facts = {
        **card,
        "width": video.width,
        "height": video.height,
        "rate": video.rate,
        "frames": count,
        "damaged": video.damaged,
        "keypoints": detector.keypoints,
        "sigma": detector.config.sigma,
        "seconds": round(time.monotonic() - begun, 2),
    }
    write_text(folder / "clip.json", json.dumps(facts, indent=1))
    (folder / "latest.jpg").unlink(missing_ok=True)
    say({"finished": facts})


def preview_size(width: int, height: int) -> tuple[int, int]:
    scale = min(1.0, WIDEST_PREVIEW / max(width, height))
    return max(2, round(width * scale)), max(2, round(height * scale))


def shrink(image: "UInt8[np.ndarray, 'h w 3']", width: int, height: int) -> "UInt8[np.ndarray, 'h2 w2 3']":
    import numpy as np
    from PIL import Image

    if image.shape[:2] == (height, width):
        return image
    return np.asarray(Image.fromarray(image).resize((width, height), Image.Resampling.BOX))


def show(path: Path, image: "UInt8[np.ndarray, 'h w 3']") -> None:
    """The newest frame, for someone who watches; not worth a sync."""
    from PIL import Image

    temporary = path.with_name(".latest.part.jpg")
    Image.fromarray(image).save(temporary, quality=80)
    temporary.replace(path)


if __name__ == "__main__":
    main(*sys.argv[1:])

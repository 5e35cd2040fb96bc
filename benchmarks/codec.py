"""What other colours, sizes and lossy video do to keypoints: one random play as it is, a grey level off, by way of
another size, and through H.264; each as a detector takes it, and accustomed to it (`transporter track --accustom`).

    python benchmarks/codec.py --out results/video/codec.json               # every shipped model
    python benchmarks/codec.py --out grain.json pong=runs/a pong=runs/b     # models of one's own

Frames are drawn at 160×160, doubled, encoded, decoded and given to the detector, as `transporter track` would.
"""

import io
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import tyro

from transporter.cli import leave
from transporter.cli.given import at_least
from transporter.envs import make
from transporter.frames import resize
from transporter.models.zoo import load, shipped
from transporter.results import Result
from transporter.tracking.evaluate import play
from transporter.tracking.match import Episode
from transporter.tracking.metrics import tracking_curve

SIDE, LENGTHS = 160, (1, 20)
WAYS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "as it is": lambda frames: frames,
    "a level brighter": lambda frames: brighter(frames, 1),
    "a level darker": lambda frames: brighter(frames, -1),
    "at 128": lambda frames: resize(frames, 128, 128),
    "crf 10": lambda frames: through(frames, "10"),
    "crf 23": lambda frames: through(frames, "23"),  # x264's default
    "crf 30": lambda frames: through(frames, "30"),
}


def through(frames: np.ndarray, crf: str) -> np.ndarray:
    """The frames, doubled, after H.264 with half the colours' resolution."""
    file = io.BytesIO()
    with av.open(file, "w", format="matroska") as container:
        stream = container.add_stream("libx264", rate=15, options={"crf": crf})
        stream.width = stream.height = 2 * SIDE
        stream.pix_fmt = "yuv420p"
        for frame in frames:
            large = np.ascontiguousarray(frame.repeat(2, 0).repeat(2, 1))
            container.mux(stream.encode(av.VideoFrame.from_ndarray(large, "rgb24")))
        container.mux(stream.encode())
    file.seek(0)
    with av.open(file) as container:
        return np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])


def brighter(frames: np.ndarray, levels: int) -> np.ndarray:
    return np.clip(frames.astype(np.int16) + levels, 0, 255).astype(np.uint8)


def main(models: tyro.conf.Positional[list[str]], /, out: Path, frames: int = 400, seed: int = 0) -> None:
    """Measure every model and write one JSON file.

    Args:
        models: Shipped models, or ENVIRONMENT=MODEL; by default all that are shipped.
        out: Where the JSON goes.
        frames: Of random play, in the first episode or as much of it as there is.
        seed: Of the play.
    """
    at_least(0, seed=seed)
    figures: dict[str, float] = {}
    for name in models or shipped():
        environment, _, model = name.partition("=")
        env, detector = make(environment, SIDE), load(model or environment)
        seen = list(play(env, frames=frames, episodes=1, seed=seed))
        shown = np.stack([sight.frame for sight in seen])
        centres, present = (np.stack(parts) for parts in zip(*(s.truth for s in seen if s.truth), strict=True))
        for way, how in WAYS.items():
            seen_so = how(shown)
            for used, asked in {"": detector, ", accustomed": detector.accustomed(seen_so)}.items():
                episode = Episode(asked(seen_so), centres, present)
                curve = tracking_curve([episode], env.scene.radius, LENGTHS)
                for length in LENGTHS:
                    figures[f"{name}, {way}{used}: share at {length}"] = round(curve.at(length).ratio, 3)
        shares = {way: [figures[f"{name}, {way}{used}: share at 20"] for used in ("", ", accustomed")] for way in WAYS}
        row = "  ".join(f"{way} {plain:.2f}, {used:.2f}" for way, (plain, used) in shares.items())
        print(f"{name:20} share of the possible at length 20: {row}", flush=True)
    Result(
        "keypoints through other colours and lossy video", figures, {"frames": frames, "side": SIDE}, {"play": seed}
    ).write(out)


if __name__ == "__main__":
    leave(lambda: tyro.cli(main))

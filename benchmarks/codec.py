"""What lossy video does to keypoints: one random play as it is and through H.264, as each shipped model follows it.

    python benchmarks/codec.py --out results/video/codec.json

Frames are drawn at 160×160, doubled, encoded, decoded and given to the detector, as `transporter track` would.
"""

import io
from pathlib import Path

import av
import numpy as np
import tyro

from transporter.cli import leave
from transporter.envs import make
from transporter.models.zoo import load, shipped
from transporter.results import Result
from transporter.tracking.evaluate import play
from transporter.tracking.match import Episode
from transporter.tracking.metrics import tracking_curve

SIDE, LENGTHS = 160, (1, 20)
WAYS: dict[str, dict[str, str] | None] = {
    "as it is": None,
    "crf 10": {"crf": "10"},
    "crf 23": {"crf": "23"},  # x264's default
    "crf 30": {"crf": "30"},
}


def through(frames: np.ndarray, options: dict[str, str]) -> np.ndarray:
    """The frames, doubled, after H.264 with half the colours' resolution."""
    file = io.BytesIO()
    with av.open(file, "w", format="matroska") as container:
        stream = container.add_stream("libx264", rate=15, options=options)
        stream.width = stream.height = 2 * SIDE
        stream.pix_fmt = "yuv420p"
        for frame in frames:
            large = np.ascontiguousarray(frame.repeat(2, 0).repeat(2, 1))
            container.mux(stream.encode(av.VideoFrame.from_ndarray(large, "rgb24")))
        container.mux(stream.encode())
    file.seek(0)
    with av.open(file) as container:
        return np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])


def main(out: Path, games: str = ",".join(shipped()), frames: int = 400, seed: int = 0) -> None:
    """Measure every game and write one JSON file.

    Args:
        out: Where the JSON goes.
        games: Shipped models, separated by commas.
        frames: Of random play, in the first episode or as much of it as there is.
        seed: Of the play.
    """
    figures: dict[str, float] = {}
    for game in games.split(","):
        env, detector = make(game, SIDE), load(game)
        seen = list(play(env, frames=frames, episodes=1, seed=seed))
        shown = np.stack([sight.frame for sight in seen])
        centres, present = (np.stack(parts) for parts in zip(*(s.truth for s in seen if s.truth), strict=True))
        for way, options in WAYS.items():
            points = detector(shown if options is None else through(shown, options))
            curve = tracking_curve([Episode(points, centres, present)], env.scene.radius, LENGTHS)
            for length in LENGTHS:
                figures[f"{game}, {way}: share at {length}"] = round(curve.at(length).ratio, 3)
        row = "  ".join(f"{way} {figures[f'{game}, {way}: share at 20']:.2f}" for way in WAYS)
        print(f"{game:20} share of the possible at length 20: {row}", flush=True)
    Result("keypoints through lossy video", figures, {"frames": frames, "side": SIDE}, {"play": seed}).write(out)


if __name__ == "__main__":
    leave(lambda: tyro.cli(main))

"""Cameras that move: how well is their motion found, and are things followed in a clip over a photograph?

python benchmarks/cameras.py motion --out results/sprites/cameras.json     # against the truth of a world that pans
python benchmarks/cameras.py photograph --out results/sprites/photograph.json
"""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from matplotlib import cbook
from PIL import Image
from torch.nn import functional as F

from transporter.cli import leave
from transporter.data.clips import collect_video
from transporter.data.manifest import quick_settings
from transporter.data.steady import camera_motion, steadied
from transporter.envs.base import PixelEnv, Truth
from transporter.envs.sprite_worlds import WORLDS
from transporter.envs.sprites import EPISODE, SpriteEnv, make_vector
from transporter.models.zoo import from_run
from transporter.report.clip import ClipWriter
from transporter.report.draw import strip
from transporter.report.published import save_picture
from transporter.results import Result
from transporter.runs import Run
from transporter.tracking.evaluate import evaluate, play
from transporter.training.config import PAIRS, preset
from transporter.training.learner import Hardware
from transporter.training.loop import train

WORLD = "sprites_panning"
APART = (1, 5, 10, 20)  # steps between the frames of a pair
CORNERS = np.array([[-1, 1, -1, 1], [-1, -1, 1, 1], [1, 1, 1, 1]])
SIDE = 96  # of a clip
CLIPS = 10
SHOWN = 80  # frames, of which every tenth is drawn
EVALUATION_SEED = 1_000_000
PHOTOGRAPH = "grace_hopper.jpg"  # comes with matplotlib
SWAY = np.array([0.35, 0.45, 0.12, 0.12])  # how far a hand goes: right and down (photographs), turning (radians), zoom
LASTING = 0.995  # of where the hand is, that is left after a step


def measure(size: int, count: int, seed: int) -> dict[str, float]:
    """Off by how many pixels, in the worst corner, and how often by less than one, for frames so many steps apart."""
    env = make_vector(WORLD, count, size, seed)
    frames = [env.reset()[0].copy()]
    for _ in range(max(APART)):
        frames.append(env.step(np.zeros(count, int))[0].copy())
    gone = np.cumsum(env.simulation.pans[:, 1 : max(APART) + 1], 1)  # (count, steps, 2), in units of [-1, 1]
    figures: dict[str, float] = {}
    for apart in APART:
        first, second = (torch.from_numpy(frames[at]).permute(0, 3, 1, 2).float() for at in (0, apart))
        motion = camera_motion(first, second).numpy()
        truth = np.concatenate((np.broadcast_to(np.eye(2), (count, 2, 2)), -gone[:, apart - 1, :, None]), 2)
        off = np.abs((motion - truth) @ CORNERS).max((1, 2)) * size / 2
        kept = (motion == np.eye(2, 3)).all((1, 2))
        near = np.abs(gone[:, apart - 1]).max(1) < 1  # by less than half of the frame
        figures |= {
            f"{apart} apart: camera went, pixels": round(float(np.abs(gone[:, apart - 1]).max(1).mean() * size / 2), 2),
            f"{apart} apart: off by, median, pixels": round(float(np.median(off)), 4),
            f"{apart} apart: off by less than one": round(float((off < 1).mean()), 4),
            f"{apart} apart: … or left as they are": round(float(((off < 1) | kept).mean()), 4),
            f"{apart} apart: … where it went less than half a frame": round(float((off[near] < 1).mean()), 4),
        }
    pairs = np.stack((frames[0], frames[-1]), 1)
    since = time.perf_counter()
    steadied(pairs)
    return figures | {"ms a pair": round(1000 * (time.perf_counter() - since) / count, 2)}


def motion(out: Path, size: int = 48, count: int = 1_024, seed: int = 0) -> None:
    """How well a camera's motion is found, and in what time.

    Args:
        out: File for the results.
        size: Side of the frames.
        count: How many pairs for each distance in time.
        seed: Of the first of the worlds.
    """
    torch.set_num_threads(1)
    figures = measure(size, count, seed)
    for name, value in figures.items():
        print(f"{name}: {value}")
    Result("cameras", figures, {"world": WORLD, "size": size, "count": count}, {"play": seed}, device="cpu").write(out)


class OverPhotograph(PixelEnv):
    """Shapes that bounce, in front of a photograph that a hand-held camera sways over, turns on and zooms into."""

    def __init__(self, size: int) -> None:
        shapes = WORLDS["sprites"]
        super().__init__(shapes.scene("shapes over a photograph"), size)
        # On black a pixel shows the shapes' share of it; on white, the rest besides.
        self.on_black, self.on_white = (
            SpriteEnv(replace(shapes, background=(level, level, level)), "shapes", size) for level in (0, 255)
        )
        with Image.open(cbook.get_sample_data(PHOTOGRAPH)) as whole:
            half = whole.convert("RGB").resize((whole.width // 2, whole.height // 2), Image.Resampling.LANCZOS)
        self.photograph = torch.from_numpy(np.asarray(half).copy()).permute(2, 0, 1)[None].float()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        own = int(self.np_random.integers(2**31))
        for shapes in (self.on_black, self.on_white):
            shapes.reset(seed=own)
        chance = self.np_random.standard_normal((EPISODE + 1, len(SWAY)))
        for step in range(1, EPISODE + 1):
            chance[step] = LASTING * chance[step - 1] + (1 - LASTING**2) ** 0.5 * chance[step]
        self.hand, self.step_number = chance * SWAY, 0
        return self.render(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.on_black.step(action)
        _, reward, terminated, truncated, told = self.on_white.step(action)
        self.step_number += 1
        return self.render(), reward, terminated, truncated, told

    def truth(self) -> Truth:
        return self.on_black.truth()

    def render(self) -> np.ndarray:
        x, y, angle, zoom = self.hand[self.step_number]
        black, white = self.on_black.render().astype(np.float32), self.on_white.render().astype(np.float32)
        side = torch.tensor([len(black) / extent for extent in self.photograph.shape[:1:-1]])  # of the photograph
        turn = np.exp(zoom) * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        view = torch.cat((side[:, None] * torch.from_numpy(turn), torch.tensor([[x], [y]])), 1).float()
        grid = F.affine_grid(view[None], [1, 3, *black.shape[:2]], align_corners=False)
        seen = F.grid_sample(self.photograph, grid, padding_mode="reflection", align_corners=False)[0]
        ground = seen.permute(1, 2, 0).numpy()
        return (black + (white - black) / 255 * ground).round().astype(np.uint8)


def photograph(
    out: Path,
    picture: Path | None = None,
    seeds: int = 2,
    steps: int = 2_700,
    work: Path = Path("runs/benchmark-cameras"),
) -> None:
    """Learn from compressed clips, as of a moving camera and as of one that stands still; measure on fresh ones.

    Args:
        out: File for the results.
        picture: Also draw what the first training of each finds in a fresh clip.
        seeds: How many trainings of each.
        steps: Of each training.
        work: Folder for clips, data sets and runs.
    """
    torch.set_num_threads(1)
    work.mkdir(parents=True, exist_ok=True)
    clips = [work / f"clip-{number}.mp4" for number in range(CLIPS)]
    for number, path in enumerate(clips):
        if not path.exists():
            with ClipWriter(path, SIDE, SIDE, rate=15) as clip:
                for sight in play(OverPhotograph(SIDE), frames=EPISODE, seed=number):
                    clip.add(sight.frame)
    figures: dict[str, float] = {}
    fresh = [sight.frame for sight in play(OverPhotograph(SIDE), frames=SHOWN, seed=EVALUATION_SEED)]
    rows = []
    for kind, moving in (("steadied", True), ("as they are", False)):
        for seed in range(seeds):
            config = preset("tiny", keypoints=3, seed=seed, steps=steps)
            settings = quick_settings("video", config.model.size, PAIRS["tiny"], seed, moving)
            folder = work / f"{'steadied' if moving else 'plain'}-{seed}"
            pairs = collect_video(settings, clips, folder / "data")
            run = Run.create(folder / "run", {"environment": "video", "config": config.to_json()})
            with run.lock():
                train(config, pairs, run, Hardware(device="cpu"))
            detector = from_run(run)
            if seed == 0:
                rows.append(strip(np.stack(fresh), detector(np.stack(fresh))))
            found = evaluate(OverPhotograph(config.model.size), detector, frames=4_000, seed=EVALUATION_SEED)
            for length in (1, 20, 200):
                share = round(found.curve.at(length).ratio, 4)
                figures[f"{kind}, seed {seed}: share at {length}"] = share
                print(f"{kind}, seed {seed}: share of the possible at length {length}: {share}", flush=True)
    if picture:
        save_picture(np.concatenate(rows), picture)
    shown = {"photograph": PHOTOGRAPH, "clips": CLIPS, "side": SIDE, "sway": SWAY.tolist(), "lasting": LASTING}
    Result(
        "a camera over a photograph",
        figures,
        {**shown, "train": config.to_json()},
        {"train": list(range(seeds)), "evaluate": EVALUATION_SEED},
        device="cpu",
    ).write(out)


if __name__ == "__main__":
    leave(lambda: tyro.extras.subcommand_cli_from_dict({"motion": motion, "photograph": photograph}))

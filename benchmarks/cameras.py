"""How well is a camera's motion found, and in what time? Against the truth of a world whose camera pans.

python benchmarks/cameras.py --out results/sprites/cameras.json
"""

import time
from pathlib import Path

import numpy as np
import torch
import tyro

from transporter.cli import leave
from transporter.data.steady import camera_motion, steadied
from transporter.envs.sprites import make_vector
from transporter.results import Result

WORLD = "sprites_panning"
APART = (1, 5, 10, 20)  # steps between the frames of a pair


def measure(size: int, count: int, seed: int) -> dict[str, float]:
    """Off by how many pixels, and how often by less than one, for frames so many steps apart."""
    env = make_vector(WORLD, count, size, seed)
    frames = [env.reset()[0].copy()]
    for _ in range(max(APART)):
        frames.append(env.step(np.zeros(count, int))[0].copy())
    gone = np.cumsum(env.simulation.pans[:, 1 : max(APART) + 1], 1)  # (count, steps, 2), in units of [-1, 1]
    figures: dict[str, float] = {}
    for apart in APART:
        first, second = (torch.from_numpy(frames[at]).permute(0, 3, 1, 2).float() for at in (0, apart))
        off = np.abs(camera_motion(first, second)[:, :, 2].numpy() + gone[:, apart - 1]).max(1) * size / 2
        near = np.abs(gone[:, apart - 1]).max(1) < 1  # by less than half of the frame
        figures |= {
            f"{apart} apart: camera went, pixels": round(float(np.abs(gone[:, apart - 1]).max(1).mean() * size / 2), 2),
            f"{apart} apart: off by, median, pixels": round(float(np.median(off)), 4),
            f"{apart} apart: off by less than one": round(float((off < 1).mean()), 4),
            f"{apart} apart: … where it went less than half a frame": round(float((off[near] < 1).mean()), 4),
        }
    pairs = np.stack((frames[0], frames[-1]), 1)
    since = time.perf_counter()
    steadied(pairs)
    return figures | {"ms a pair": round(1000 * (time.perf_counter() - since) / count, 2)}


def main(out: Path, size: int = 48, count: int = 1_024, seed: int = 0) -> None:
    """Measure it.

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


if __name__ == "__main__":
    leave(lambda: tyro.cli(main))

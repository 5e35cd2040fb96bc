"""The picture at the head of the README: shipped models on random play, frames some steps apart.

python benchmarks/strips.py --out docs/strips.png
"""

from itertools import islice
from pathlib import Path

import numpy as np
import tyro

from transporter.cli import leave
from transporter.envs import make
from transporter.models.zoo import load
from transporter.report.draw import strip
from transporter.report.published import save_picture
from transporter.tracking.evaluate import play

SIDE = 160


def main(
    out: Path, models: tuple[str, ...] = ("pong", "ms_pacman"), skip: int = 200, steps: int = 80, seed: int = 0
) -> None:
    """A row for each model.

    Args:
        out: Where the picture goes.
        models: Names of shipped models, which are those of their environments.
        skip: Steps before the first frame, until something happens.
        steps: From there on; every tenth is shown.
        seed: Of the play.
    """
    rows = []
    for name in models:
        seen = islice(play(make(name, SIDE), frames=skip + steps, seed=seed), skip, None)
        frames = np.stack([sight.frame for sight in seen])
        rows.append(strip(frames, load(name, "cpu")(frames)))
    save_picture(np.concatenate(rows), out)


if __name__ == "__main__":
    leave(lambda: tyro.cli(main))

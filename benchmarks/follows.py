"""Do the keypoints of shipped models follow what lies under them? Judged without labels, on fresh random play.

python benchmarks/follows.py --out results/follows/shipped.json
"""

from pathlib import Path

import numpy as np
import torch
import tyro

from transporter.cli import leave
from transporter.envs import make
from transporter.models.zoo import load, shipped
from transporter.results import Result
from transporter.tracking.evaluate import play
from transporter.training.health import health

OFFSET = 20  # steps between the frames of a pair, at most


def main(out: Path, models: str = ",".join(shipped()), frames: int = 3000, pairs: int = 512, seed: int = 0) -> None:
    """Measure every model and write one JSON file.

    Args:
        out: Where the JSON goes.
        models: Shipped models, separated by commas.
        frames: Of random play that pairs are drawn from.
        pairs: Of two frames of one episode, up to 20 steps apart.
        seed: Of play and draw.
    """
    figures: dict[str, float] = {}
    each: dict[str, list[float]] = {}
    for name in models.split(","):
        detector, rng = load(name), np.random.default_rng(seed)
        seen = list(play(make(name, detector.config.size), frames=frames, seed=seed))
        episode = np.cumsum([sight.first for sight in seen])
        chosen: list[tuple[int, int]] = []
        while len(chosen) < pairs:
            first = int(rng.integers(len(seen) - OFFSET))
            second = first + int(rng.integers(1, OFFSET + 1))
            if episode[first] == episode[second]:
                chosen.append((first, second))
        shown = np.stack([np.stack([seen[i].frame for i in pair]) for pair in chosen])
        points = torch.from_numpy(detector(shown.reshape(-1, *shown.shape[2:]))).unflatten(0, (pairs, 2))
        source, target = torch.from_numpy(shown).unbind(1)
        found = health(source, target, *points.unbind(1))
        figures[f"{name}: follows"] = round(found.follows.mean().item(), 3)
        each[name] = [round(value, 3) for value in found.follows.tolist()]
        print(f"{name:20} {figures[f'{name}: follows']:6.2f}   {each[name]}", flush=True)
    config = {"frames": frames, "pairs": pairs, "offset": OFFSET}
    Result("whether keypoints follow", figures, config, {"play": seed}, details={"keypoints": each}).write(out)


if __name__ == "__main__":
    leave(lambda: tyro.cli(main))

"""Does the fast path learn what plain fp32 learns? The same network, data and settings, several seeds of each.

    transporter collect pong --size 128 --pairs 8000 --sampler offset --no-diverse --out data/pong-128
    python benchmarks/losses.py --data data/pong-128 --out results/speed/losses.json

Plain is `plain.PlainTransporter`: fp32 without TF32, eager, one way. Fast is the library's step as it is: bf16, fused,
captured as a CUDA graph on a GPU, one way and both ways. Each run is written as soon as it is done, and not made again.
"""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import numpy as np
import torch
import tyro
from plain import PlainTransporter

from transporter.data.pairs import PairSet
from transporter.models.blocks import PAPER, TINY, Shape
from transporter.models.factory import ModelConfig
from transporter.results import Result
from transporter.training.batches import Draw, ResidentPairs, Sampler
from transporter.training.config import TrainConfig
from transporter.training.learner import Hardware, Learner
from transporter.training.loop import updates, validate

EVERY = 50  # steps whose mean loss is kept
LAST = 0.1  # the share of the steps over which the loss at the end is averaged


class Setting(NamedTuple):
    pairs: PairSet
    pixels: ResidentPairs
    shape: Shape
    keypoints: int
    steps: int
    seed: int


class Found(NamedTuple):
    losses: list[float]
    validation: float
    seconds: float


def plain(setting: Setting) -> Found:
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.benchmark = True  # its figures are losses, not seconds: as fast as fp32 goes
    torch.manual_seed(setting.seed)
    device = setting.pixels.pairs.device
    model = PlainTransporter(setting.shape, setting.keypoints).to(device)
    optimiser = torch.optim.Adam(model.parameters(), 1e-3)
    sampler = Sampler(setting.pairs.train_rows, 64, setting.seed)

    def steps() -> Iterator[torch.Tensor]:
        for step in range(setting.steps):
            optimiser.zero_grad()
            loss = model(*setting.pixels.batch(sampler.at(step)))
            loss.backward()
            optimiser.step()
            yield loss.detach()

    losses, seconds = followed(steps())
    model.eval()
    with torch.no_grad():
        rows = setting.pairs.validation_rows[:512]
        parts = np.array_split(rows, -(-len(rows) // 64))
        held_out = [model(*setting.pixels.batch(Draw(part, np.zeros(len(part), bool)))).item() for part in parts]
    return Found(losses, mean(held_out), seconds)


def fast(both_ways: bool) -> Callable[[Setting], Found]:
    def run(setting: Setting) -> Found:
        torch.backends.cudnn.allow_tf32 = True
        size = setting.pairs.settings.size
        model = ModelConfig(keypoints=setting.keypoints, size=size, shape=setting.shape)
        config = TrainConfig(model=model, steps=setting.steps, seed=setting.seed, both_ways=both_ways)
        learner = Learner(config, Hardware(device=setting.pixels.pairs.device.type))
        sampler = Sampler(setting.pairs.train_rows, config.pairs, setting.seed)
        made = updates(learner, sampler, setting.pixels, 0, setting.steps)
        losses, seconds = followed(done.loss for done in made)
        return Found(losses, validate(learner, setting.pixels, setting.pairs.validation_rows[:512]).loss, seconds)

    return run


WAYS: dict[str, Callable[[Setting], Found]] = {"plain": plain, "fast": fast(False), "both ways": fast(True)}


def followed(losses: Iterator[torch.Tensor]) -> tuple[list[float], float]:
    """The mean loss of every few steps, and the seconds that all of it took; nothing waits for the GPU in between."""
    begun = time.perf_counter()
    kept = [loss.clone() for loss in losses]
    values = [few.mean().item() for few in torch.stack(kept).split(EVERY)]
    return values, time.perf_counter() - begun


def main(
    data: Path,
    out: Path,
    ways: str = ",".join(WAYS),
    seeds: str = "0,1,2",
    steps: int = 5_000,
    keypoints: int = 10,
    tiny: bool = False,
    device: str = "cuda",
) -> None:
    """Train what is not trained yet, and compare.

    Args:
        data: A data set from `transporter collect`.
        out: JSON file; runs that it holds already are kept.
        ways: Which of plain, fast and both ways.
        seeds: Of each.
        steps: In each run.
        keypoints: K.
        tiny: A tiny network instead of the paper's, to try the command out.
        device: cuda or cpu.
    """
    pairs = PairSet.open(data)
    pixels = ResidentPairs(pairs.load_all(), torch.device(device))
    runs: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))["runs"] if out.exists() else {}
    for seed in map(int, seeds.split(",")):
        for way in ways.split(","):
            if (name := f"{way}, seed {seed}") not in runs:
                setting = Setting(pairs, pixels, TINY if tiny else PAPER, keypoints, steps, seed)
                runs[name] = WAYS[way](setting)._asdict()
                write(out, runs, {"steps": steps, "keypoints": keypoints, "data": pairs.settings.environment})
                print(
                    f"{name:20} validation loss {runs[name]['validation']:.6f}, {runs[name]['seconds']:.0f} s",
                    flush=True,
                )


def write(out: Path, runs: dict[str, Any], config: dict[str, Any]) -> None:
    """Means over seeds, and how far each way is from plain."""
    figures: dict[str, float] = {}
    for way in WAYS:
        found = [run for name, run in runs.items() if name.startswith(f"{way}, ")]
        if found:
            ends = [mean(run["losses"][-max(1, int(LAST * len(run["losses"]))) :]) for run in found]
            figures |= {f"{way}: loss": mean(ends), f"{way}: validation loss": mean(r["validation"] for r in found)}
            figures[f"{way}: seconds"] = mean(run["seconds"] for run in found)
    for way in ("fast", "both ways"):
        for what in ("loss", "validation loss"):
            if f"{way}: {what}" in figures and f"plain: {what}" in figures:
                figures[f"{way}: {what} against plain"] = figures[f"{way}: {what}"] / figures[f"plain: {what}"]
    seeds = {"train": sorted({int(name.rsplit(" ", 1)[1]) for name in runs})}
    Result("losses of the fast path and of plain fp32", figures, config, seeds, details={"runs": runs}).write(out)


if __name__ == "__main__":
    tyro.cli(main)

"""Does the fast path learn what plain fp32 learns? The same network, data, settings and state to begin with.

    transporter collect pong --size 128 --pairs 8000 --sampler offset --no-diverse --out data/pong-128
    python benchmarks/losses.py --data data/pong-128 --out results/speed/losses.json

Seeds of one and the same way end a factor of three apart, by when they find which thing: to tell ways apart by a few
parts in a hundred they must begin alike. So each way makes the last steps, up to `--steps`, from where the fast path
got to until then, moments of Adam included.

Plain is `plain.PlainTransporter`: fp32 as PyTorch comes (its convolutions in TF32), eager, one way. Fast is the
library's step as it is: bf16, fused, captured as a CUDA graph on a GPU, one way and both ways. A seed is written as
soon as all of its ways are done, and not made again: a state that is trained once more is another.

A stretch's loss is the median over every fifty steps. Either way has its loss jump a hundredfold for a few steps, once
in some thousands, as Adam's steps do where gradients were small for long; one jump outweighs a stretch in a mean.
"""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

import torch
import tyro
from plain import PlainTransporter

from transporter.checkpoints import Checkpoint
from transporter.cli import leave
from transporter.cli.given import device_named
from transporter.data.pairs import PairSet
from transporter.errors import InputError
from transporter.models.blocks import PAPER, TINY, Shape
from transporter.models.factory import ModelConfig, build
from transporter.results import Result
from transporter.training.batches import ResidentPairs, Sampler
from transporter.training.config import TrainConfig
from transporter.training.learner import Hardware, Learner
from transporter.training.loop import updates

EVERY = 50  # steps whose mean loss is kept


class Setting(NamedTuple):
    pairs: PairSet
    pixels: ResidentPairs
    shape: Shape
    keypoints: int
    seed: int

    @property
    def model(self) -> ModelConfig:
        return ModelConfig(keypoints=self.keypoints, size=self.pairs.settings.size, shape=self.shape)

    def learner(self, both_ways: bool, steps: int) -> Learner:
        torch.backends.cudnn.allow_tf32 = True
        config = TrainConfig(model=self.model, steps=steps, seed=self.seed, both_ways=both_ways)
        return Learner(config, Hardware(device=self.pixels.pairs.device.type))


class Found(NamedTuple):
    losses: list[float]
    seconds: float


Runs = dict[str, dict[str, Any]]  # of a seed, a way
Way = Callable[[Setting, Checkpoint, int], Found]  # from a state on, up to a step


def plain(setting: Setting, begun: Checkpoint, steps: int) -> Found:
    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True  # its figures are losses, not seconds: as fast as fp32 goes
    model = PlainTransporter(setting.shape, setting.keypoints, same_edges=True).to(setting.pixels.pairs.device)
    optimiser = torch.optim.Adam(model.parameters(), 1e-3)
    load(model, optimiser, begun, [name for name, _ in build(setting.model).named_parameters()])
    sampler = Sampler(setting.pairs.train_rows, 64, setting.seed)

    def made() -> Iterator[torch.Tensor]:
        for step in range(begun.step, steps):
            optimiser.zero_grad()
            loss = model(*setting.pixels.batch(sampler.at(step)))
            loss.backward()
            optimiser.step()
            yield loss.detach()

    return followed(made())


def load(model: PlainTransporter, optimiser: torch.optim.Adam, begun: Checkpoint, names: list[str]) -> None:
    """Its parameters come in the order of the library's."""
    with torch.no_grad():
        for name, parameter in zip(names, model.parameters(), strict=True):
            weights = begun.tensors[f"model.{name}"]
            assert weights.shape == parameter.shape, name
            parameter.copy_(weights)
            if (step := begun.tensors.get(f"adam.step.{name}")) is not None:
                averages = ("exp_avg", "exp_avg_sq")
                state = {n: torch.empty_like(parameter).copy_(begun.tensors[f"adam.{n}.{name}"]) for n in averages}
                optimiser.state[parameter] = {"step": step.cpu(), **state}


def fast(both_ways: bool) -> Way:
    def run(setting: Setting, begun: Checkpoint, steps: int) -> Found:
        learner = setting.learner(both_ways, steps)
        learner.restore(begun)
        sampler = Sampler(setting.pairs.train_rows, learner.config.pairs, setting.seed)
        made = updates(learner, sampler, setting.pixels, begun.step, steps)
        return followed(done.loss for done in made)

    return run


WAYS: dict[str, Way] = {"plain": plain, "fast": fast(False), "both ways": fast(True)}


def followed(losses: Iterator[torch.Tensor]) -> Found:
    """The mean loss of every few steps, and the seconds that all of it took; nothing waits for the GPU in between."""
    begun = time.perf_counter()
    kept = [loss.clone() for loss in losses]
    values = [few.mean().item() for few in torch.stack(kept).split(EVERY)]
    return Found(values, time.perf_counter() - begun)


def state(setting: Setting, step: int) -> Checkpoint:
    """Where each way goes on from."""
    learner = setting.learner(True, step)
    sampler = Sampler(setting.pairs.train_rows, learner.config.pairs, setting.seed)
    for _ in updates(learner, sampler, setting.pixels, 0, step):
        pass
    return learner.checkpoint(step)


def main(
    data: Path,
    out: Path,
    ways: str = ",".join(WAYS),
    seeds: str = "0,1,2",
    steps: int = 5_000,
    stretch: int = 1_000,
    keypoints: int = 10,
    tiny: bool = False,
    device: str = "auto",
) -> None:
    """Train what is not trained yet, and compare.

    Args:
        data: A data set from `transporter collect`.
        out: JSON file; seeds that it holds already are kept.
        ways: Which of plain, fast and both ways.
        seeds: Of each.
        steps: After which losses are compared.
        stretch: So many of them, the last, are made by every way.
        keypoints: K.
        tiny: A tiny network instead of the paper's, to try the command out.
        device: auto, cuda or cpu.
    """
    if not 0 < stretch < steps:
        raise InputError(f"--stretch must be 1 to {steps - 1:,}: the last of {steps:,} steps, not {stretch:,}")
    device = device_named(device)
    pairs = PairSet.open(data)
    pixels = ResidentPairs(pairs.load_all(), torch.device(device))
    config = {"steps": steps, "stretch": stretch, "keypoints": keypoints, "data": pairs.settings.environment}
    config |= {"network": "tiny" if tiny else "paper", "ways": ways}
    runs: Runs = {}
    if out.exists():
        before = json.loads(out.read_text(encoding="utf-8"))
        if before["config"] != config:
            raise InputError(f"{out} holds losses of other settings: name another file")
        runs = before["runs"]
    for seed in seeds.split(","):
        if seed in runs:
            continue
        setting = Setting(pairs, pixels, TINY if tiny else PAPER, keypoints, int(seed))
        begun, made = state(setting, steps - stretch), {}
        for way in ways.split(","):
            found = WAYS[way](setting, begun, steps)
            made[way] = found._asdict()
            print(f"seed {seed}, {way:9} loss {median(found.losses):.6f}, {found.seconds:.0f} s", flush=True)
        write(out, runs := {**runs, seed: made}, config)


def write(out: Path, runs: Runs, config: dict[str, Any]) -> None:
    """Medians over the stretch, means of these over all seeds, and how far each way is from plain."""
    ways = list(next(iter(runs.values())))
    losses = {way: [median(made[way]["losses"]) for made in runs.values()] for way in ways}
    figures = {f"{way}: loss": mean(of) for way, of in losses.items()}
    for way in ways if "plain" in ways else ():
        each = [loss / other for loss, other in zip(losses[way], losses["plain"], strict=True)]
        head = f"{way}: loss against plain"
        figures |= {head: mean(losses[way]) / mean(losses["plain"])}
        figures |= {f"{head}, least": min(each), f"{head}, most": max(each)}
    seeds = {"train": [int(seed) for seed in runs]}
    Result("losses of the fast path and of plain fp32", figures, config, seeds, details={"runs": runs}).write(out)


if __name__ == "__main__":
    leave(lambda: tyro.cli(main))

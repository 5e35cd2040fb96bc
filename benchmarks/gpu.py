"""Training steps per second on one GPU: plain PyTorch, our plain step, the captured one, and several models at once.

    python benchmarks/gpu.py --out results/speed/training.json

A step rebuilds 64 frames. One way, they are the later frames of 64 pairs; both ways, both frames of 32 pairs, so that
each frame is encoded once. Plain is PyTorch as it comes: fp32, its convolutions in TF32. The floor is what the
arithmetic alone takes at the card's peak, or what moving the maps takes at its bandwidth where norms are not part of
the convolutions, whichever is longer.
"""

import gc
import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import tyro
from plain import PlainTransporter, flops, maps

from transporter.cli import leave
from transporter.errors import InputError
from transporter.models.blocks import NEAR, NOTEBOOK, PAPER, SMALL, Shape
from transporter.models.factory import ModelConfig
from transporter.results import Result
from transporter.training.batches import ResidentPairs, Sampler, StreamedPairs
from transporter.training.config import TrainConfig
from transporter.training.learner import Hardware, Learner
from transporter.training.loop import updates

BATCH = 64


class Case(NamedTuple):
    shape: Shape
    size: int
    keypoints: int
    keynet: Shape | None = None  # of Ψ, where it is not Φ's


CASES = {
    "paper 128×128 K=10": Case(PAPER, 128, 10),
    "notebook 80×80 K=3": Case(NOTEBOOK, 80, 3),
    "fast 80×80 K=3": Case(NEAR, 80, 3, SMALL),  # the preset
}
PEAK, BANDWIDTH = 989e12, 4.8e12  # an H200's: bf16 operations and bytes in a second (its data sheet)


def plain(case: Case, seed: int) -> Iterator[object]:
    """fp32, NCHW, eager, batches from a DataLoader: what one would write first."""
    torch.backends.cudnn.benchmark = False  # as it comes; our learners switch it on
    torch.manual_seed(seed)
    model = PlainTransporter(case.shape, case.keypoints).cuda()
    optimiser = torch.optim.Adam(model.parameters(), 1e-3)
    pairs = torch.utils.data.TensorDataset(torch.from_numpy(some_pairs(case.size)))
    while True:
        for (batch,) in torch.utils.data.DataLoader(pairs, BATCH, shuffle=True, pin_memory=True):
            source, target = batch.cuda(non_blocking=True).unbind(1)
            optimiser.zero_grad()
            loss = model(source, target)
            loss.backward()
            optimiser.step()
            yield loss


def ours(
    hardware: Hardware, both_ways: bool, kept: type[ResidentPairs] = ResidentPairs, count: int = 512
) -> Callable[[Case, int], Iterator[object]]:
    def steps(case: Case, seed: int) -> Iterator[object]:
        model = ModelConfig(keypoints=case.keypoints, size=case.size, shape=case.shape, keynet=case.keynet)
        config = TrainConfig(model=model, batch=BATCH, both_ways=both_ways, steps=10**9, seed=seed)
        learner = Learner(config, hardware)
        pairs = some_pairs(case.size, count)
        sampler = Sampler(np.arange(len(pairs)), config.pairs, seed)
        return updates(learner, sampler, kept(pairs, learner.device), 0, config.steps)

    return steps


WAYS: dict[str, Callable[[Case, int], Iterator[object]]] = {
    "plain PyTorch, fp32": plain,
    "not captured": ours(Hardware(graph=False), both_ways=False),
    "captured": ours(Hardware(), both_ways=False),
    "captured, both ways": ours(Hardware(), both_ways=True),
    "captured, both ways, streamed": ours(Hardware(), both_ways=True, kept=StreamedPairs, count=8_192),
}
# Several at a time: each with streams of its own for what need not wait, or each in one stream.
TOGETHER = {"": Hardware(), ", one stream each": Hardware(beside=False)}


def some_pairs(size: int, count: int = 512) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, 2, size, size, 3), dtype=np.uint8)


def rate(trainings: list[Iterator[object]], seconds: float) -> float:
    """Steps per second of all trainings together, in turns, each on a stream of its own where there are several."""
    streams = [torch.cuda.Stream() for _ in trainings] if len(trainings) > 1 else [None]
    done, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        for _ in range(10):
            for training, stream in zip(trainings, streams, strict=True):
                with torch.cuda.stream(stream) if stream else nullcontext():
                    next(training)
        torch.cuda.synchronize()
        done += 10 * len(trainings)
    return done / (time.perf_counter() - begun)


def floor(case: Case, both_ways: bool) -> dict[str, float]:
    """Least seconds of a step. Sums are three times as many where something is learnt as where nothing is.

    Forwards a map is written, read for its statistics, read and written by norm and ReLU, and read by the next layer;
    backwards its gradient is written and read twice, as is the map, and the gradient before the norm is written, and
    read with the layer's input by the two convolutions: five and nine times two bytes.
    """
    given = 0 if both_ways else 1  # Φ and Ψ of the source; those of the target and the decoder learn
    size, encoders = case.size, (case.shape, case.keynet or case.shape)
    operations = (given + 3) * sum(flops(shape, size) for shape in encoders) + 3 * flops(case.shape, size, decoder=True)
    moved = (given * 5 + 14) * sum(maps(shape, size) for shape in encoders) + 14 * maps(case.shape, size, decoder=True)
    return {"operations": BATCH * operations / PEAK, "bytes": 2 * BATCH * moved / BANDWIDTH}


def clear() -> None:
    """Or the next peak of memory would be partly the last one's."""
    gc.collect()
    torch.cuda.empty_cache()


def main(out: Path, seconds: float = 3.0, cases: str = "", ways: str = "", together: str = "2,4,8") -> None:
    """Measure every case in every way.

    Args:
        out: Where the JSON goes.
        seconds: For each measurement.
        cases: Only those whose names begin so, with commas between them.
        ways: Likewise.
        together: So many models at a time, for the small cases where no ways are named.
    """
    if not torch.cuda.is_available():
        raise InputError("there is no GPU here: benchmarks/cpu.py is for this machine")
    details: dict[str, dict[str, Any]] = {}
    chosen = {c: parts for c, parts in CASES.items() if c.startswith(tuple(cases.split(",")))}
    if not chosen:
        raise InputError(f"no case begins with {cases!r}: there are {', '.join(CASES)}")
    for name, case in chosen.items():
        for way, make in WAYS.items():
            if ways and not way.startswith(tuple(ways.split(","))):
                continue
            if make is plain and case.keynet is not None:
                continue  # it knows one shape for both networks
            torch.cuda.reset_peak_memory_stats()
            begun = time.perf_counter()
            training = make(case, 0)
            for _ in range(10):
                next(training)
            torch.cuda.synchronize()
            ready = time.perf_counter() - begun
            found = {"steps/s": rate([training], seconds), "seconds to start": ready}
            found["peak GiB"] = torch.cuda.max_memory_allocated() / 2**30
            if way != "plain PyTorch, fp32":
                least = max(floor(case, "both" in way).values())
                found["of the floor"] = least * found["steps/s"]
            details[f"{name}, {way}"] = found
            del training
            clear()
        if together and case.size == 80 and not ways:
            alone = details[f"{name}, captured, both ways"]["steps/s"]
            for count, (how, hardware) in itertools.product(map(int, together.split(",")), TOGETHER.items()):
                several = [ours(hardware, both_ways=True)(case, seed) for seed in range(count)]
                for training in several:
                    for _ in range(3):
                        next(training)
                torch.cuda.synchronize()
                all_of_them = rate(several, seconds)
                details[f"{name}, {count} together{how}"] = {"steps/s": all_of_them, "against one": all_of_them / alone}
                del several
                clear()
    for name, found in details.items():
        print(f"{name:44} " + "  ".join(f"{what} {value:.2f}" for what, value in found.items()), flush=True)
    Result(
        name="training speed on one GPU",
        figures={f"{name}: {k}": round(v, 3) for name, found in details.items() for k, v in found.items()},
        config={"batch": BATCH, "seconds": seconds},
        seeds={"pairs": 0},
    ).write(out)


if __name__ == "__main__":
    leave(lambda: tyro.cli(main))

"""Several trainings on one data set side by side: seeds, mostly. A small model leaves a large GPU idle."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch

from transporter.runs import Json, Run
from transporter.training.batches import at_hand
from transporter.training.config import TrainConfig
from transporter.training.learner import Hardware, Learner
from transporter.training.loop import NotFiniteError, Pairs, training


def train_many(
    configs: Sequence[TrainConfig],
    pairs: Pairs,
    runs: Sequence[Run],
    hardware: Hardware | None = None,
    observe: Callable[[int, Json], None] = lambda which, row: None,
    stopping: Callable[[], bool] = lambda: False,
) -> list[Learner]:
    """What `train` does for each of them, a step in turn; on a GPU they have streams of their own, and overlap."""
    hardware = hardware or Hardware()
    pixels = at_hand(pairs.load_all(), hardware.resolve())
    learners, turns = [], []
    for which, (config, run) in enumerate(zip(configs, runs, strict=True)):
        learner = Learner(config, hardware)
        steps = training(learner, pairs, pixels, run, partial(observe, which), stopping)
        learners.append(learner)
        turns.append(_Turns(steps, learner.device))
    failed: list[NotFiniteError] = []
    while turns:
        turns = [turn for turn in turns if _steps(turn, failed)]
    if failed:
        raise failed[0]
    return learners


def _steps(turn: "_Turns", failed: list[NotFiniteError]) -> bool:
    """One whose numbers stop being numbers ends, with its state saved; the others go on to their end first."""
    try:
        return turn.step()
    except NotFiniteError as error:
        failed.append(error)
        return False


class _Turns:
    """One training among others, with its own stream and its own random numbers."""

    def __init__(self, steps: Iterator[int], device: torch.device) -> None:
        self.steps = steps
        self.random = torch.get_rng_state()  # as making the learner left them
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        if self.stream:
            self.stream.wait_stream(torch.cuda.current_stream(device))

    def step(self) -> bool:
        torch.set_rng_state(self.random)
        with torch.cuda.stream(self.stream) if self.stream else contextlib.nullcontext():
            went_on = next(self.steps, None) is not None
        self.random = torch.get_rng_state()
        return went_on

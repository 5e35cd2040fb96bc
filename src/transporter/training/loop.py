"""One loop for every model of this family: step, log, validate, keep the best, save, resume."""

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import numpy as np
import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor

from transporter.files import replacing
from transporter.models.factory import Model
from transporter.models.transporter import Output
from transporter.runs import Json, Run
from transporter.tensors import save_file
from transporter.training.batches import Draw, ResidentPairs, Sampler, at_hand
from transporter.training.config import TrainConfig
from transporter.training.distributed import anyone, check_same, place
from transporter.training.health import Health, health
from transporter.training.learner import Hardware, Learner

AGREE_EVERY = 10  # steps between the questions of several processes to one another


class Pairs(Protocol):
    """What the loop needs of a data set (data.PairSet is one)."""

    train_rows: Int64[np.ndarray, "n"]
    validation_rows: Int64[np.ndarray, "m"]

    def load_all(self) -> UInt8[np.ndarray, "rows 2 H W 3"]: ...


class NotFiniteError(RuntimeError):
    """The loss or a gradient stopped being a number; the weights are those before that step."""


class Validation(NamedTuple):
    loss: float
    error: float  # of the frames rebuilt, in colours
    health: Health


class Done(NamedTuple):
    """A step that was made."""

    step: int  # counts from 1
    loss: Float[Tensor, ""]  # good until the next step


def updates(learner: Learner, sampler: Sampler, pixels: ResidentPairs, start: int, stop: int) -> Iterator[Done]:
    for step in range(start, stop):
        yield Done(step + 1, learner.step(step, *pixels.batch(sampler.at(step))))


def train(
    config: TrainConfig,
    pairs: Pairs,
    run: Run,
    hardware: Hardware | None = None,
    observe: Callable[[Json], None] = lambda row: None,
    stopping: Callable[[], bool] = lambda: False,
) -> Learner:
    """Train to config.steps, from the newest checkpoint in the run where there is one; rows go to metrics.jsonl.

    Once `stopping` says so, training ends early, with its state saved.
    """
    learner = Learner(config, hardware or Hardware())
    for _ in training(learner, pairs, at_hand(pairs.load_all(), learner.device), run, observe, stopping):
        pass
    return learner


def training(
    learner: Learner,
    pairs: Pairs,
    pixels: ResidentPairs,
    run: Run,
    observe: Callable[[Json], None] = lambda row: None,
    stopping: Callable[[], bool] = lambda: False,
) -> Iterator[int]:
    """The steps of `train`, one at a time: each is made, logged, validated and saved when it is yielded."""
    config = learner.config
    rank, world = place()
    writes = rank == 0
    sampler = Sampler(pairs.train_rows, config.pairs, config.seed, rank, world, config.strangers)
    held_out = pairs.validation_rows[: config.validation_pairs]
    start, best = 0, float("inf")
    if (checkpoint := run.latest()) is not None:
        learner.restore(checkpoint)
        start, best = checkpoint.step, checkpoint.state["best"]
    elif config.model.standardise:
        learner.model.pixels.fit(*pixels.statistics(pairs.train_rows), config.model.floor)
    check_same(start, run.path)
    if checkpoint is None and run.warnings:
        run.warnings.append("no whole checkpoint is left: training starts over")
    if writes:
        run.rewind(start)

    since, since_step = time.perf_counter(), start
    for step, loss in updates(learner, sampler, pixels, start, config.steps):
        last = step == config.steps
        logs, validates, saves = (
            last or step % every == 0 for every in (config.log_every, config.validate_every, config.checkpoint_every)
        )
        stop = _agreed(stopping, step, learner.device)
        saves = saves or stop
        # Asking a GPU at every step would make it wait; from a bad step on nothing changes, so later is early enough.
        if (logs or validates or saves or learner.device.type == "cpu") and (bad := learner.failed_at()) is not None:
            if writes:
                run.save(learner.checkpoint(bad, best=best))  # nothing has changed since: the step can be made again
                whole = Sampler(pairs.train_rows, config.pairs, config.seed, strangers=config.strangers)
                _keep_batch(run, bad + 1, *pixels.batch(whole.at(bad)))
            raise NotFiniteError(f"loss or gradient not finite at step {bad + 1}: state and batch are in {run.path}")
        row: Json = {"step": step}
        if logs:
            now = time.perf_counter()
            row |= {"loss": loss.item(), "sigma": config.sigma(step - 1), "rate": config.rate(step - 1)}
            row |= {"steps_per_second": round((step - since_step) / (now - since), 2)}
            since, since_step = now, step
        if writes and len(held_out) and validates:
            validation = validate(learner, pixels, held_out)
            row |= {"validation_loss": validation.loss, "reconstruction_error": validation.error}
            row |= validation.health.row()
            # While heatmaps still shrink a loss says nothing of the ones to come.
            if step > config.sigma_steps and validation.loss < best:
                best = validation.loss
                run.save(learner.checkpoint(step, best=best), best=True)
        if writes and len(row) > 1:
            run.log(row)  # before the checkpoint: a row too many is forgotten on resume, one too few is never written
            observe(row)
        if writes and saves:
            run.save(learner.checkpoint(step, best=best))
        yield step
        if stop:
            break


@torch.no_grad()
def validate(learner: Learner, pixels: ResidentPairs, rows: Int64[np.ndarray, "m"], batch: int = 64) -> Validation:
    """Loss, error and keypoint health on held-out pairs."""
    learner.model.eval()
    losses, errors, parts = [], [], []
    for part in np.array_split(rows, -(-len(rows) // batch)):
        source, target = pixels.batch(Draw(part, np.zeros(len(part), bool)))
        with learner.hardware.autocast(learner.device):
            output = rebuilt(learner.model, learner.config, source, target)
        losses.append(output.loss * len(part))
        errors.append(learner.model.pixels.error(output.prediction, target).sum())
        parts.append((source, target, output.source_points, output.target_points))
    together = [torch.cat(column) for column in zip(*parts, strict=True)]
    loss, error = (float(torch.stack(each).sum() / len(rows)) for each in (losses, errors))
    return Validation(loss, error, health(*together))


def rebuilt(
    model: Model, config: TrainConfig, source: UInt8[Tensor, "b H W 3"], target: UInt8[Tensor, "b H W 3"]
) -> Output:
    """Held-out frames: all of them of what is carried, where some are in training; the rest asks for no following."""
    return model(source, target, *((False, 1.0) if config.carried else ()))


def _agreed(stopping: Callable[[], bool], step: int, device: torch.device) -> bool:
    """Whether to stop here: processes hear of it at different steps, so all of them ask one another now and then."""
    return (place().world == 1 or step % AGREE_EVERY == 0) and anyone(stopping(), device)


def _keep_batch(run: Run, step: int, source: Tensor, target: Tensor) -> None:
    """For inspection."""
    with replacing(run.path / f"not-finite-step-{step}.safetensors") as path:
        save_file({"source": source.cpu().contiguous(), "target": target.cpu().contiguous()}, path)

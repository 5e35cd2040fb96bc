"""transporter train: keypoints from a data set, an environment or video files."""

import dataclasses
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import tyro

from transporter.cli.claimed import leave_a_core, shared_run
from transporter.cli.collect import STEADIED, Source, collect_with_bar, label_of, name_of
from transporter.cli.given import Maybe, above_zero, at_least, check_seeds, device_named, no_empty_folders
from transporter.errors import InputError

if TYPE_CHECKING:
    from transporter.data.manifest import CollectSettings
    from transporter.data.pairs import PairSet
    from transporter.runs import Json, Run
    from transporter.training.config import TrainConfig
    from transporter.training.learner import Hardware


def train(
    source: Source,
    /,
    data: Maybe[Path] = None,
    out: Maybe[Path] = None,
    preset: Literal["auto", "paper", "fast", "tiny"] = "auto",
    recipe: Maybe[str] = None,
    keypoints: Maybe[int] = None,
    size: Maybe[int] = None,
    steps: Maybe[int] = None,
    batch: Maybe[int] = None,
    learning_rate: Maybe[float] = None,
    norm: Maybe[Literal["batch", "instance", "layer"]] = None,
    transport: Maybe[Literal["eq1", "one_by_one"]] = None,
    standardise: Maybe[tyro.conf.FlagConversionOff[bool]] = None,
    sigma: Maybe[float] = None,
    sigma_start: Maybe[float] = None,
    sigma_steps: Maybe[int] = None,
    pairs: Maybe[int] = None,
    moving_camera: bool = False,
    log_every: Maybe[int] = None,
    validate_every: Maybe[int] = None,
    checkpoint_every: Maybe[int] = None,
    seed: int = 0,
    seeds: int = 1,
    device: str = "auto",
    precision: Literal["auto", "fp32", "bf16"] = "auto",
    compile: bool = False,
    tensorboard: bool = False,
) -> None:
    """Train Transporter. Run the same command again to go on; under torchrun it uses all GPUs.

    Args:
        source: An environment (pong, stack_4, sprites, any Atari game), video files, or a folder of videos or images.
        data: A data set from `transporter collect`; by default one is collected first, in data/.
        out: Run folder; by default runs/NAME-PRESET-seedN, or runs/NAME-PRESET-RECIPE-seedN.
        preset: paper: to the letter; fast: for one GPU; tiny: for two CPU cores; auto: fast with a GPU, else tiny.
        recipe: A named change of the preset, such as wide (KeyNet sees further) or alike (for many things that look
            alike); numbers may follow, as in wide+carried=0.5. By default, with the preset fast, what the environment
            is known to need.
        keypoints: K; by default what the environment knows, or 5 for videos.
        size: Frames are size × size; by default the data set's, or the preset's.
        steps: Updates to make; by default the preset's.
        batch: Frames rebuilt in an update, over all processes; by default the preset's.
        learning_rate: Of Adam, at the start; by default the preset's.
        norm: Which norm follows each convolution; by default the preset's.
        transport: Eq. 1 with one heatmap for all keypoints, or the release's loop over them; by default eq1.
        standardise: Each pixel by its own mean and deviation over time; by default the preset's.
        sigma: Width of the heatmaps in the end, in [-1, 1] units; by default the preset's.
        sigma_start: Width of the heatmaps at the start; by default the preset's.
        sigma_steps: Steps over which they shrink; by default the preset's.
        pairs: How many pairs to collect where no data set is given; by default what suits the preset.
        moving_camera: Undo what the camera did between the two frames of a pair, in which it may go up to half a frame.
        log_every: Steps between rows of metrics.jsonl; by default the preset's.
        validate_every: Steps between validations, of which the best is kept; by default the preset's.
        checkpoint_every: Steps between checkpoints, to go on from after a crash; by default the preset's.
        seed: Decides every random choice.
        seeds: Train so many, from `seed` on, side by side; the best, by its error and live keypoints, is chosen.
        device: auto (the GPU where there is one), cpu, cuda or cuda:N.
        precision: auto: bf16 on a GPU; coordinates, heatmaps and loss are always fp32.
        compile: torch.compile the networks, on a GPU: a minute before the first step.
        tensorboard: Also write TensorBoard files into the run folder (needs the extra tensorboard).
    """
    at_least(1, keypoints=keypoints, size=size, steps=steps, batch=batch, pairs=pairs)
    at_least(1, log_every=log_every, validate_every=validate_every, checkpoint_every=checkpoint_every)
    at_least(0, sigma_steps=sigma_steps, seed=seed)
    check_seeds(seeds)
    above_zero(learning_rate=learning_rate, sigma=sigma, sigma_start=sigma_start)
    name, label = name_of(source), label_of(source)
    from transporter.cli.console import bold, say
    from transporter.data.pairs import PairSet
    from transporter.training import config as presets
    from transporter.training.distributed import process_group
    from transporter.training.learner import Hardware
    from transporter.training.recipes import SUITED, configure, named
    from transporter.training.recipes import recipe as find

    hardware = Hardware(device_named(device), precision, compile)
    if compile and hardware.device == "cpu":
        raise InputError("--compile is for a GPU: on a CPU it takes longer than it saves")
    if preset == "auto":
        preset = "fast" if hardware.resolve().type == "cuda" else "tiny"
    base = presets.PRESETS[preset]
    if data is not None:
        wanted = data_given(name, data, size, pairs, moving_camera)
    elif os.environ.get("WORLD_SIZE", "1") != "1":
        raise InputError("under torchrun name a data set: make one with `transporter collect`, then give its --data")
    else:
        count = pairs or presets.PAIRS[preset]
        wanted = data_to_collect(name, label, size or base.model.size, count, seed, moving_camera)
    if recipe == SUITED:
        recipe = None
    way = named(SUITED if recipe is None else recipe, default_recipe(name), preset, wanted.settings.size)
    changes: dict[str, Any] = {
        "keypoints": keypoints or default_keypoints(name) * find(way).keypoints,
        "size": wanted.settings.size,
        "seed": seed,
        "steps": steps,
        "batch": batch,
        "learning_rate": learning_rate,
        "norm": norm,
        "transport": transport,
        "standardise": standardise,
        "sigma": sigma,
        "sigma_start": sigma_start,
        "sigma_steps": sigma_steps,
        "log_every": log_every,
        "validate_every": validate_every,
        "checkpoint_every": checkpoint_every,
    }
    config = configure(way, preset, **{field: value for field, value in changes.items() if value is not None})
    made = "-".join(filter(None, (label, preset, recipe))) + STEADIED * wanted.settings.moving_camera
    if seeds > 1:
        path = out or Path("runs") / f"{made}-seeds{seed}to{seed + seeds - 1}"
        train_seeds(path, name, wanted, config, seeds, source if data is None else None, hardware)
        say(f"trained: {bold(path)}")
        return
    path = out or Path("runs") / f"{made}-seed{seed}"
    with process_group(hardware.resolve()) as rank, opened_run(path, name, wanted, config, rank) as run:
        if data is None:
            collect_with_bar(wanted.settings, source, wanted.path, hardware.device)
        found = PairSet.open(wanted.path)
        train_with_bar(config, found, run, hardware, tensorboard, rank)
    if rank == 0:
        then = "track clip.mp4" if name == "video" else f"evaluate {name}"
        say(f"trained: {bold(path)} (next: {bold(f'transporter {then} --model {path}')})")


def train_seeds(
    path: Path,
    name: str,
    wanted: "Wanted",
    config: "TrainConfig",
    seeds: int,
    source: list[str] | None,
    hardware: "Hardware",
) -> None:
    """A run for each seed in one folder; pairs are collected from the source, if there is one."""
    from transporter.cli.seeds import one_per_seed, train_seeds_with_bar
    from transporter.data.pairs import PairSet

    if os.environ.get("WORLD_SIZE", "1") != "1":
        raise InputError("several seeds train side by side in one process: leave out torchrun, or --seeds")
    if (path / "run.json").exists():
        raise InputError(f"{path} is a run itself: name another folder for several seeds")
    configs = one_per_seed(config, seeds)
    with ExitStack() as stack:
        stack.enter_context(no_empty_folders(path))
        runs = [stack.enter_context(opened_run(path / f"seed{c.seed}", name, wanted, c)) for c in configs]
        if source is not None:
            collect_with_bar(wanted.settings, source, wanted.path, hardware.device)
        train_seeds_with_bar(path, configs, PairSet.open(wanted.path), runs, hardware)


class Wanted(NamedTuple):
    """The pairs to train on, there already or yet to be collected."""

    path: Path
    settings: "CollectSettings"


def data_given(name: str, path: Path, size: int | None, pairs: int | None, moving_camera: bool) -> Wanted:
    """A data set of the user's, if it is what the other options say."""
    from transporter.data.pairs import PairSet

    settings = PairSet.open(path).settings
    if settings.environment != name:
        raise InputError(f"{path} holds pairs of {settings.environment}, not of {name}")
    if size is not None and size != settings.size:
        raise InputError(f"{path} holds frames of {settings.size}×{settings.size}, not {size}×{size}")
    if pairs is not None:
        raise InputError("--pairs says how many to collect: with --data there is nothing to collect")
    if moving_camera and not settings.moving_camera:
        raise InputError(f"{path} holds pairs as they were taken: collect it with --moving-camera")
    return Wanted(path, settings)


def data_to_collect(name: str, label: str, size: int, pairs: int, seed: int, moving_camera: bool) -> Wanted:
    from transporter.data.manifest import quick_settings

    settings = quick_settings(name, size, pairs, seed, moving_camera)
    return Wanted(Path("data") / f"{label}-{size}px-{pairs}-seed{seed}{STEADIED * moving_camera}", settings)


def default_keypoints(name: str) -> int:
    from transporter.envs import scene

    return 5 if name == "video" else scene(name).keypoints


def default_recipe(name: str) -> str:
    from transporter.envs import scene

    return "transporter" if name == "video" else scene(name).recipe


@contextmanager
def opened_run(path: Path, name: str, data: Wanted, config: "TrainConfig", rank: int = 0) -> "Iterator[Run]":
    """The run, new or to go on with, for this process (or those of one torchrun) alone."""
    from transporter.training.config import of_today

    settings = {
        "environment": name,
        # Seen from the run folder, so that both can be moved together and used from anywhere.
        "data": os.path.relpath(data.path.resolve(), path.resolve()),
        "collected": dataclasses.asdict(data.settings),
        "config": config.to_json(),
    }
    with shared_run(path, settings, rank, of_today) as run:
        yield run


def train_with_bar(
    config: "TrainConfig",
    data: "PairSet",
    run: "Run",
    hardware: "Hardware",
    tensorboard: bool = False,
    rank: int = 0,
) -> None:
    """Train to the end, or until someone asks to stop; the first process shows and writes, all compute."""
    from transporter.cli.console import bar, warn
    from transporter.cli.stop import stop_when_asked
    from transporter.training.loop import train as train_model
    from transporter.training.tensorboard import writer

    if hardware.resolve().type == "cpu":
        leave_a_core()
    with ExitStack() as stack:
        stop = stack.enter_context(stop_when_asked())
        write = stack.enter_context(writer(run.path)) if tensorboard and rank == 0 else None
        what = f"train {run.settings['environment']}"
        shown = stack.enter_context(bar(what, config.steps, "steps")) if rank == 0 else None
        latest: Json = {}

        def observe(row: "Json") -> None:
            latest.update(row)
            if write:
                write(row)
            if shown:
                shown.at(row["step"], note(latest))

        learner = train_model(config, data, run, hardware, observe, stop.asked)
        if learner.done < config.steps:
            stop.ask()  # whichever process heard it
        if shown:
            shown.at(run.saved_step(), note(latest))
    if rank == 0:
        for warning in run.warnings:
            warn(warning)
    stop.raise_if_asked(f"stopped, state saved in {run.path}: run the same command again to go on")


def note(latest: "Json") -> str:
    """The newest figures of a run in a few words."""
    parts = [f"loss {latest['loss']:.4f}"] if "loss" in latest else []
    if "alive" in latest:
        parts.append(f"{latest['alive']} alive" + (f", {latest['duplicates']} double" if latest["duplicates"] else ""))
    return " · ".join(parts)

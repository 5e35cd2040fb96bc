"""transporter train: keypoints from a data set, an environment or video files."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

if TYPE_CHECKING:
    from transporter.data.pairs import PairSet
    from transporter.runs import Json, Run
    from transporter.training.config import TrainConfig
    from transporter.training.learner import Hardware, Learner


def train(
    source: tyro.conf.Positional[list[str]],
    /,
    data: Path | None = None,
    out: Path | None = None,
    preset: Literal["auto", "paper", "fast", "tiny"] = "auto",
    keypoints: int | None = None,
    size: int | None = None,
    steps: int | None = None,
    batch: int | None = None,
    learning_rate: float | None = None,
    norm: Literal["batch", "instance", "layer"] | None = None,
    transport: Literal["eq1", "one_by_one"] | None = None,
    standardise: bool | None = None,
    sigma: float | None = None,
    sigma_start: float | None = None,
    sigma_steps: int | None = None,
    pairs: int | None = None,
    seed: int = 0,
    device: str = "auto",
    precision: Literal["auto", "fp32", "bf16"] = "auto",
    compile: bool = False,
    tensorboard: bool = False,
) -> None:
    """Train Transporter. Run the same command again to go on; under torchrun it uses all GPUs.

    Args:
        source: An environment (pong, stack_4, sprites, any Atari game) or video files.
        data: A data set from `transporter collect`; by default one is collected first, in data/.
        out: Run folder; by default runs/NAME-PRESET-seedN.
        preset: paper: to the letter; fast: for one GPU; tiny: for two CPU cores; auto: fast with a GPU, else tiny.
        keypoints: K; by default what the environment knows, or 5 for videos.
        size: Frames are size × size; by default the data set's, or the preset's.
        steps: Updates to make.
        batch: Pairs in an update.
        learning_rate: Of Adam, at the start.
        norm: Which norm follows each convolution.
        transport: Eq. 1 with one heatmap for all keypoints, or the release's loop over them.
        standardise: Each pixel by its own mean and deviation over the data set (the camera must stand still).
        sigma: Width of the heatmaps in the end, in [-1, 1] units.
        sigma_start: Width of the heatmaps at the start.
        sigma_steps: Steps over which they shrink.
        pairs: How many pairs to collect where no data set is given.
        seed: Decides every random choice.
        device: auto, cpu, cuda or cuda:N.
        precision: auto: bf16 on a GPU; coordinates, heatmaps and loss are always fp32.
        compile: torch.compile the networks.
        tensorboard: Also write TensorBoard files into the run folder (needs the extra tensorboard).
    """
    from transporter.cli.collect import name_of
    from transporter.cli.console import say
    from transporter.training import config as presets
    from transporter.training.learner import Hardware

    hardware = Hardware(device, precision, compile)
    if preset == "auto":
        preset = "fast" if hardware.resolve().type == "cuda" else "tiny"
    name = name_of(source)
    label = name if name != "video" else Path(source[0]).stem
    base = presets.PRESETS[preset]
    found = open_or_collect(source, data, label, size or base.model.size, pairs or presets.PAIRS[preset], seed)
    changes: dict[str, Any] = {
        "keypoints": keypoints or default_keypoints(name),
        "size": found.settings.size,
        "seed": seed,
        "steps": steps,
        "batch": batch,
        "learning_rate": learning_rate,
        "transport": transport,
        "standardise": standardise,
        "sigma": sigma,
        "sigma_start": sigma_start,
        "sigma_steps": sigma_steps,
    }
    if norm:
        changes["shape"] = dataclasses.replace(base.model.shape, norm=norm)
    config = presets.preset(preset, **{field: value for field, value in changes.items() if value is not None})
    run = open_run(out or Path("runs") / f"{label}-{preset}-seed{seed}", name, found, config)
    train_with_bar(config, found, run, hardware, tensorboard)
    say(f"trained: [bold]{run.path}[/] (transporter evaluate {name} --model {run.path})")


def default_keypoints(name: str) -> int:
    from transporter.envs import scene

    return 5 if name == "video" else scene(name).keypoints


def open_or_collect(source: list[str], data: Path | None, label: str, size: int, pairs: int, seed: int) -> "PairSet":
    """The data set given, or one made for the occasion, by play or from the videos."""
    from transporter.cli.collect import collect_with_bar, name_of
    from transporter.data.manifest import CollectSettings
    from transporter.data.pairs import PairSet

    if data is not None:
        return PairSet.open(data)
    settings = CollectSettings(
        environment=name_of(source), size=size, pairs=pairs, budget=200 * pairs, envs=16, seed=seed
    )
    return collect_with_bar(settings, source, Path("data") / f"{label}-{size}px-{pairs}-seed{seed}")


def open_run(path: Path, name: str, data: "PairSet", config: "TrainConfig") -> "Run":
    from transporter.runs import Run

    settings = {"environment": name, "data": str(data.path), "config": config.to_json()}
    return Run.create(path, settings)


def train_with_bar(
    config: "TrainConfig", data: "PairSet", run: "Run", hardware: "Hardware", tensorboard: bool = False
) -> "Learner":
    from contextlib import ExitStack

    from transporter.cli.console import bar, say
    from transporter.training.distributed import process_group
    from transporter.training.loop import train as train_model
    from transporter.training.tensorboard import writer

    with ExitStack() as stack:
        first = stack.enter_context(process_group(hardware)) == 0
        if first:
            stack.enter_context(run.lock())
        write = stack.enter_context(writer(run.path)) if tensorboard and first else None
        shown = stack.enter_context(bar(f"train {run.path.name}", config.steps, "steps")) if first else None

        def observe(row: "Json") -> None:
            if write:
                write(row)
            if shown:
                shown.at(row["step"], _note(row))

        learner = train_model(config, data, run, hardware, observe)
        for warning in run.warnings:
            say(f"[yellow]{warning}")
        return learner


_last: dict[str, Any] = {}


def _note(row: "Json") -> str:
    _last.update(row)
    parts = [f"loss {_last['loss']:.4f}"] if "loss" in _last else []
    if "alive" in _last:
        parts.append(f"{_last['alive']} alive" + (f", {_last['duplicates']} double" if _last["duplicates"] else ""))
    return " · ".join(parts)

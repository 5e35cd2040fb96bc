"""transporter collect: frame pairs from an environment or from videos."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from transporter.cli.given import Maybe, at_least, device_named, no_empty_folders, without_ending
from transporter.errors import InputError

if TYPE_CHECKING:
    from transporter.data.manifest import CollectSettings
    from transporter.data.pairs import PairSet

STEADIED = "-steadied"  # behind the name of a set in which what the camera did is undone
Source = Annotated[tyro.conf.Positional[list[str]], tyro.conf.arg(metavar="SOURCE [SOURCE ...]", help_behavior_hint="")]


def collect(
    source: Source,
    /,
    out: Maybe[Path] = None,
    pairs: int = 20_000,
    budget: Maybe[int] = None,
    size: int = 128,
    sampler: Maybe[Literal["halves", "offset"]] = None,
    max_offset: int = 20,
    diverse: bool = True,
    envs: int = 64,
    rate: float = 15.0,
    moving_camera: bool = False,
    seed: int = 0,
    device: str = "auto",
) -> None:
    """Make a set of frame pairs to train on: from random play, or from video files. Run again to go on.

    Args:
        source: An environment (pong, stack_4, sprites, any Atari game), video files, or a folder of videos or images.
        out: Folder of the data set; by default data/NAME, after the environment or the first video.
        pairs: How many pairs the set holds (the paper: 100,000).
        budget: Environment steps to play; by default as many as fill the set twice (the paper: 10,000,000).
        size: Frames are stored size × size.
        sampler: halves: one frame from each half of a trajectory, as in the paper; offset: two frames up to max-offset
            steps apart, which is the default with --moving-camera.
        max_offset: Largest distance in time for --sampler offset.
        diverse: Once full, let unusual pairs overwrite usual ones (Appendix B); else the first that come stay.
        envs: Copies of the environment that play at once.
        rate: Frames taken from each second of a video.
        moving_camera: Undo what the camera did between the two frames of a pair, in which it may go up to half a frame.
        seed: Decides every random choice.
        device: Where nearest neighbours are sought: auto (the GPU where there is one), cpu, cuda or cuda:N.
    """
    from transporter.cli.console import bold, say
    from transporter.data.manifest import CollectSettings

    at_least(1, pairs=pairs, budget=budget, size=size, max_offset=max_offset, envs=envs)
    at_least(0, seed=seed)
    device = device_named(device)
    length = 100
    settings = CollectSettings(
        environment=name_of(source),
        size=size,
        pairs=pairs,
        sampler=sampler or ("offset" if moving_camera else "halves"),
        max_offset=max_offset,
        length=length,
        diverse=diverse,
        budget=2 * pairs * length if budget is None else budget,
        envs=envs,
        rate=rate,
        moving_camera=moving_camera,
        seed=seed,
    )
    path = out or Path("data") / f"{label_of(source)}{STEADIED * moving_camera}"
    found = collect_with_bar(settings, source, path, device)
    say(f"{len(found):,} pairs of {size}×{size} frames in {bold(path)}")


def name_of(source: list[str]) -> str:
    """The environment meant, or "video" for files."""
    from transporter.envs import scene

    if not source:
        raise InputError("name an environment (sprites, pong, …) or video files")
    files = [part for part in source if _looks_like_a_file(part)]
    if not files and len(source) == 1:
        return scene(source[0]).name
    if not files:
        raise InputError(f"one environment at a time, not {', '.join(source)}")
    files_of(source)
    return "video"


def files_of(source: list[str]) -> list[Path]:
    """Videos and folders of images; a folder of videos stands for all that are in it."""
    from transporter.envs.images import clips_in

    found: list[Path] = []
    for part in map(Path, source):
        if part.is_dir():
            inside = clips_in(part)
            if not inside:
                raise InputError(f"{part} is a folder that holds neither videos nor images")
            found += inside
        elif part.is_file():
            found.append(part)
        else:
            raise InputError(f"no such file: {part}")
    return found


def _looks_like_a_file(part: str) -> bool:
    """Names of environments have neither dots nor slashes; a folder may well be named like one: then say ./pong."""
    return "." in part or os.sep in part or Path(part).is_file()


def label_of(source: list[str]) -> str:
    """A name for what is made from a source: the environment's, or the first video's or folder's."""
    if name_of(source) != "video":
        return source[0]
    more = f"-and-{len(source) - 1}-more" if len(source) > 1 else ""
    return without_ending(Path(source[0])).name + more


def collect_with_bar(
    settings: "CollectSettings", source: list[str], path: Path, device: str | None = None
) -> "PairSet":
    """Collect, or go on with it, or open what is already whole."""
    from transporter.cli.console import bar
    from transporter.data.clips import collect_video
    from transporter.data.collect import Progress
    from transporter.data.collect import collect as collect_play

    unit = "frames" if settings.environment == "video" else "steps"
    with no_empty_folders(path), bar(f"collect {path.name}", None, unit) as shown:

        def progress(p: Progress) -> None:
            shown.at(p.steps, f"{p.pairs:,} pairs", total=p.of)

        if settings.environment == "video":
            found = collect_video(settings, files_of(source), path, progress, device)
        else:
            found = collect_play(settings, path, progress, device=device)
        shown.at(found.manifest.steps, f"{len(found):,} pairs", total=found.manifest.steps)
        return found

"""transporter collect: frame pairs from an environment or from videos."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from transporter.errors import InputError

if TYPE_CHECKING:
    from transporter.data.manifest import CollectSettings
    from transporter.data.pairs import PairSet


def collect(
    source: tyro.conf.Positional[list[str]],
    /,
    out: Path | None = None,
    pairs: int = 20_000,
    budget: int | None = None,
    size: int = 128,
    sampler: Literal["halves", "offset"] = "halves",
    max_offset: int = 20,
    diverse: bool = True,
    envs: int = 64,
    rate: float = 15.0,
    seed: int = 0,
    device: str | None = None,
) -> None:
    """Make a set of frame pairs to train on: from random play, or from video files. Run again to go on.

    Args:
        source: An environment (pong, stack_4, sprites, any Atari game) or video files.
        out: Folder of the data set; by default data/NAME.
        pairs: How many pairs the set holds (the paper: 100,000).
        budget: Environment steps to play; by default as many as fill the set twice (the paper: 10,000,000).
        size: Frames are stored size × size.
        sampler: halves: one frame from each half of a trajectory; offset: two frames up to max-offset steps apart.
        max_offset: Largest distance in time for --sampler offset.
        diverse: Once full, let unusual pairs overwrite usual ones (Appendix B of the paper).
        envs: Copies of the environment that play at once.
        rate: Frames taken from each second of a video.
        seed: Decides every random choice.
        device: Where nearest neighbours are sought; by default the GPU where there is one.
    """
    from transporter.cli.console import say
    from transporter.data.manifest import CollectSettings

    name = name_of(source)
    length = 100
    settings = CollectSettings(
        environment=name,
        size=size,
        pairs=pairs,
        sampler=sampler,
        max_offset=max_offset,
        length=length,
        diverse=diverse,
        budget=budget or 2 * pairs * length,
        envs=envs,
        rate=rate,
        seed=seed,
    )
    path = out or Path("data") / (name if name != "video" else Path(source[0]).stem)
    found = collect_with_bar(settings, source, path, device)
    say(f"{len(found):,} pairs of {settings.size}×{settings.size} frames in [bold]{path}[/]")


def name_of(source: list[str]) -> str:
    """The environment meant, or "video" for files."""
    if any(Path(part).suffix or Path(part).exists() for part in source):
        missing = [part for part in source if not Path(part).is_file()]
        if missing:
            raise InputError(f"no such file: {missing[0]}")
        return "video"
    if len(source) != 1:
        raise InputError(f"one environment at a time, not {', '.join(source)}")
    from transporter.envs import scene

    return scene(source[0]).name


def collect_with_bar(
    settings: "CollectSettings", source: list[str], path: Path, device: str | None = None
) -> "PairSet":
    from transporter.cli.console import bar
    from transporter.data.clips import collect_video
    from transporter.data.collect import Progress
    from transporter.data.collect import collect as collect_play

    with bar(f"collect {path.name}", None, "steps") as shown:

        def progress(p: Progress) -> None:
            shown.at(p.steps, f"{p.pairs:,} pairs", total=p.of)

        if settings.environment == "video":
            return collect_video(settings, [Path(part) for part in source], path, progress)
        return collect_play(settings, path, progress, device=device)


Device = Annotated[str, tyro.conf.arg(help="auto, cpu, cuda or cuda:N.")]

"""transporter reproduce exploration: Figure 6, random actions beside random options, on the paper's three games."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from transporter.cli.explore import carry_out, check_frames, experiment_of, result_file
from transporter.cli.given import Maybe, at_least, device_named, folder_named, room_for
from transporter.cli.reproduce.gathered import result_at, sources
from transporter.cli.reproduce.publish import docs_named, into_docs
from transporter.control.options.config import OptionsConfig
from transporter.errors import InputError
from transporter.files import is_number

if TYPE_CHECKING:
    from transporter.runs import Json


@dataclass(frozen=True)
class Options:
    """By default the three games of the paper, fifty million frames each."""

    games: str = "montezuma_revenge,ms_pacman,seaquest"
    """Environments, with commas between them, one after another."""
    frames: int = 50_000_000
    """Of each game (the paper: four billion)."""
    seed: int = 0
    """Decides every random choice."""
    out: Path = Path("results/exploration")
    """Folder for the results: a JSON file for each game, summary.json and table.md."""
    runs: Path = Path("runs/exploration")
    """Folder for the run folders; what is there already is not made again."""
    gather: bool = False
    """Nothing is explored: the table of these games, from the JSON files that are in --out."""
    docs: Maybe[Path] = None
    """Folder of a results.md that has the markers and gets the table, and of the figure."""
    video: int = 60
    """Seconds of a clip of each game; 0: none."""
    evaluate_every: int = 10_000_000
    """Frames between evaluations."""
    log_every: int = 250_000
    """Frames between rows of metrics.jsonl."""
    checkpoint_every: int = 5_000_000
    """Frames between checkpoints."""
    device: str = "auto"
    """Where to compute: auto (the GPU where there is one), cpu, cuda or cuda:N."""


DEFAULTS = Options()


def exploration(
    given: tyro.conf.OmitArgPrefixes[Options] = DEFAULTS,
    settings: Annotated[OptionsConfig, tyro.conf.arg(name="")] = OptionsConfig(),  # noqa: B008
) -> None:
    """Returns of random actions, of options, and of those of the most controllable keypoint. Run again to go on."""
    at_least(0, seed=given.seed, video=given.video)
    at_least(1, evaluate_every=given.evaluate_every, log_every=given.log_every)
    if given.frames < 1 or given.checkpoint_every < 1:
        raise InputError("--frames and --checkpoint-every must be at least 1")
    device, out = device_named(given.device), folder_named(given.out)
    games = [name.strip() for name in given.games.split(",")]
    docs_named(given.docs)
    if len(set(games)) != len(games):
        raise InputError("name games, each once")
    if given.gather:
        return publish({game: measured(out / f"{game}.json", game) for game in games}, given)
    experiments = [experiment_of(game, given.seed, settings, None, None, device) for game in games]
    from transporter.control.options.experiment import Schedule, of_today
    from transporter.control.options.experiment import settings as settings_of
    from transporter.files import write_text
    from transporter.runs import Run

    schedule = Schedule(given.frames, given.evaluate_every, given.log_every, given.checkpoint_every)
    for experiment in experiments:  # all of them now: what is refused is refused before anything is learnt
        if run := Run.check(given.runs / experiment.game, settings_of(experiment), of_today):
            check_frames(experiment, run, schedule)
    results: dict[str, Json] = {}
    with room_for(out / "summary.json"):
        for experiment in experiments:
            path = given.runs / experiment.game
            carry_out(experiment, path, device, schedule, given.video)
            text = result_file(path).read_text(encoding="utf-8")
            results[experiment.game] = json.loads(text)
            write_text(out / f"{experiment.game}.json", text)
        publish(results, given)


def measured(path: Path, game: str) -> "Json":
    """A result of before, with all that the table, the figure and summary.json take from it."""
    from transporter.control.options.evaluation import WAYS

    def check(found: "Json") -> None:
        figures, lines = found["figures"], [found["curves"][way] for way in WAYS]
        points = [point for line in lines for point in line]
        numbers = [*figures.values(), *(number for frames, returns in points for number in (frames, *returns))]
        needed = {"frames", *(f"{way} {what}" for way in WAYS for what in ("mean", "std"))}
        whole = all(lines) and all(frames > 0 and returns for frames, returns in points)
        if not (needed <= figures.keys() and all(map(is_number, numbers)) and whole):
            raise ValueError
        caution_of(found)

    return result_at(path, f"exploration {game}", "an exploration", check)


def caution_of(result: "Json") -> float:
    """Of an exploration by whichever version."""
    return OptionsConfig.from_json(result["config"]).network.caution


def publish(results: "dict[str, Json]", given: Options) -> None:
    """summary.json, the table, and the figure where it can be drawn."""
    from transporter.cli.console import bold, say
    from transporter.control.options.evaluation import TITLES, WAYS
    from transporter.files import write_text
    from transporter.report.published import markdown_table
    from transporter.results import Result

    rows = []
    for game, result in results.items():
        f = result["figures"]
        spread = [f"{f[f'{way} mean']:.1f} ± {f[f'{way} std']:.1f}" for way in WAYS]
        avatar, rooms = f.get("avatar"), [f.get(f"{way} rooms") for way in WAYS]
        rooms[-1] = rooms[-1] or f.get("rooms, most")  # all that earlier versions said
        rows.append(
            [game, f"{f['frames'] / 1e6:.0f}", f"{caution_of(result):g}", *spread,
             "–" if avatar is None else f"{avatar:.0%}",
             ", ".join("?" if n is None else f"{n:.0f}" for n in rooms) if any(rooms) else "–"]
        )  # fmt: skip
    heads = ["game", "million frames", "caution", *(TITLES[way] for way in WAYS), "on the avatar", "rooms, by way"]
    table = markdown_table(heads, rows)
    figures = {
        f"{game}: {name}": value for game, result in results.items() for name, value in result["figures"].items()
    }
    summary = Result("exploration", figures, {}, {}, {"from": sources(results)})
    summary.write(given.out / "summary.json")
    write_text(given.out / "table.md", table + "\n")
    if given.docs is not None:
        into_docs(given.docs, "exploration", table)
        draw(results, given.docs)
    say(f"written: {bold(given.out / 'summary.json')} and {bold(given.out / 'table.md')}")


def draw(results: "dict[str, Json]", docs: Path) -> None:
    from transporter.cli.console import bold, say, warn
    from transporter.control.options.evaluation import TITLES, WAYS

    try:
        from transporter.report.exploration import exploration_figure
        from transporter.report.published import save_figure

        curves = {game: result["curves"] for game, result in results.items()}
        figure = exploration_figure({game: {TITLES[way]: found[way] for way in WAYS} for game, found in curves.items()})
        say(f"curves: {', '.join(bold(path) for path in save_figure(figure, docs, 'exploration'))}")
    except ImportError as error:
        warn(f"no figure without {error.name}: run the same command again where it is installed")

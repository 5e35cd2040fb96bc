"""transporter reproduce keyqn: Table 1, beside published agents and what the same learner does with other inputs."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import tyro

from transporter.cli.given import Maybe, at_least, check_seeds, device_named, folder_named, room_for
from transporter.cli.keyqn import Observation, carry_out, check_games, detectors_for, titled
from transporter.cli.reproduce.gathered import check_replaced, gathered, played, sources
from transporter.cli.reproduce.publish import docs_named, into_docs
from transporter.control.keyqn.config import DEFAULT, PRESETS, KeyQNConfig, Preset
from transporter.errors import InputError
from transporter.files import is_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from transporter.runs import Json


@dataclass(frozen=True)
class Options:
    """By default the five games of the paper, from keypoints, with three seeds each."""

    games: str = "breakout,frostbite,ms_pacman,pong,seaquest"
    """Atari games, with commas between them; all of them learn at once."""
    observations: str = "keypoints"
    """What agents see, with commas between: keypoints, points, features, objects, pixels; and random, for no agent."""
    preset: Preset = DEFAULT
    """Where the settings below begin: light, which a CPU can carry out, too; or full, larger networks."""
    seeds: int = 3
    """How many agents learn each game."""
    model: Maybe[list[str]] = None
    """GAME=MODEL, for games without a shipped model or with another."""
    out: Maybe[Path] = None
    """Folder for results: JSON, summary.json, table.md; by default results/keyqn, with full results/keyqn/full."""
    runs: Path = Path("runs/keyqn")
    """Folder for the run folders; what is there already is not made again."""
    gather: bool = False
    """Nothing is learnt or played: the table of these games and observations, from the files in --out as they are."""
    more: Maybe[list[str]] = None
    """With --gather: OBSERVATION=FILE, results of `transporter keyqn --json` with other seeds or games."""
    docs: Maybe[Path] = None
    """Folder of a results.md that has the markers (keyqn, with full keyqn-full) and gets the table."""
    video: int = 0
    """Seconds of a clip of each game's best agent at play; 0: none."""
    checkpoint_every: int = 25_000
    """Interactions between checkpoints; 0: only when asked to stop."""
    device: str = "auto"
    """Where to compute: auto (the GPU where there is one), cpu, cuda or cuda:N."""
    compile: bool = False
    """Compile the memory's arithmetic (torch.compile)."""


DEFAULTS = Options()


def keyqn(
    given: tyro.conf.OmitArgPrefixes[Options] = DEFAULTS,
    settings: Annotated[KeyQNConfig, tyro.conf.arg(name="")] = PRESETS[DEFAULT],
) -> None:
    """Scores after 100,000 interactions, game by game, beside the paper's and others'. Run again to go on."""
    check_seeds(given.seeds)
    at_least(0, video=given.video, checkpoint_every=given.checkpoint_every)
    device, out = (
        device_named(given.device),
        folder_named(given.out or Path("results/keyqn", "" if given.preset == DEFAULT else given.preset)),
    )
    docs_named(given.docs)
    games, observations = ([name.strip() for name in names.split(",")] for names in (given.games, given.observations))
    known = (*get_args(Observation), "random")
    if len(set(observations)) < len(observations):
        raise InputError("name observations, each once")
    if wrong := [name for name in observations if name not in known]:
        raise InputError(f"no observation named {wrong[0]!r}: there are {', '.join(known)}")
    for name in observations:
        check_games(games, name)  # type: ignore[arg-type]
    marker = titled("keyqn", given.preset)
    if given.gather:
        if settings != PRESETS[given.preset]:
            raise InputError("--gather learns nothing: leave out what decides agents, such as --learning and --network")
        return publish(games, gathered(out, observations, games, given.more or []), out, given.docs, marker)
    if given.more:
        raise InputError("--more is for a table from files: say --gather, too")
    from transporter.control.keyqn.experiment import LOOKS, Experiment, of_today
    from transporter.control.keyqn.experiment import settings as settings_of
    from transporter.control.keyqn.outcome import config_told, seen_by
    from transporter.runs import Run
    from transporter.training.learner import Hardware

    looking = any(name in LOOKS for name in observations)
    detectors = detectors_for(games, given.model or [], device) if looking else {}
    hardware = Hardware(device, compile=given.compile)
    # All of them now: what is refused is refused before anything is learnt.
    experiments = {
        name: Experiment(tuple(games), tuple(range(given.seeds)), name, settings, detectors if name in LOOKS else {})  # type: ignore[arg-type]
        for name in observations
        if name != "random"
    }
    paths = {name: given.runs / titled(name, given.preset) for name in experiments}
    for name, experiment in experiments.items():
        Run.check(paths[name], settings_of(experiment), of_today)
    results = {}
    with ExitStack() as rooms:
        for name in observations:
            asked = experiments.get(name)
            new = {"config": config_told(asked), "detectors": seen_by(asked)} if asked else random_told(settings)
            check_replaced(out / f"{name}.json", name, new, games, list(range(given.seeds)))
        for name in (*observations, "summary"):
            rooms.enter_context(room_for(out / f"{name}.json"))
        for name in observations:
            if name == "random":
                results[name] = at_random(games, given.seeds, settings, out)
                continue
            path = paths[name]
            told = out / f"{name}.json"
            results[name] = carry_out(
                experiments[name], path, hardware, 1_000, given.checkpoint_every, given.video, told
            )
        publish(games, results, out, given.docs, marker)


def random_told(settings: KeyQNConfig) -> "Json":
    """What of them matters where nobody learns, as a result tells it."""
    return {"config": {"protocol": {"episodes": settings.protocol.episodes, "sticky": settings.protocol.sticky}}}


def at_random(games: list[str], seeds: int, settings: KeyQNConfig, out: Path) -> "Json":
    """What no agent at all scores in the same games."""
    from transporter.control.keyqn.evaluation import play_at_random
    from transporter.control.keyqn.games import UNSEEN, game
    from transporter.control.keyqn.measure import PLAYERS
    from transporter.control.keyqn.outcome import figures
    from transporter.control.rollout import Arena
    from transporter.files import parse_json
    from transporter.results import Result

    scores, agents = {}, list(range(seeds))
    episodes, sticky = settings.protocol.episodes, settings.protocol.sticky
    for name in games:
        played = game(name, agents, "pixels", UNSEEN, sticky)
        arena = Arena([played.make(min(episodes, PLAYERS)) for _ in agents], life_loss_ends=False)
        scores[name] = play_at_random(arena, [played.actions] * seeds, agents, episodes).tolist()
        arena.close()
    made = Result(
        "keyqn random", figures(scores, agents), random_told(settings)["config"], {"agents": agents}, {"scores": scores}
    )
    made.write(out / "random.json")
    return parse_json((out / "random.json").read_bytes())  # with all that tells where it comes from


def against_humans(games: list[str], scores: "Sequence[float | None]") -> str:
    """The mean of what is known of them, between random play at 0 and humans at 1."""
    from transporter.control.keyqn.scores import human_normalised

    known = ((game, score) for game, score in zip(games, scores, strict=True) if score is not None)
    shares = [share for game, score in known if (share := human_normalised(game, score)) is not None]
    return f"{sum(shares) / len(shares):.3f}" if shares else "–"


def publish(games: list[str], results: "dict[str, Json]", out: Path, docs: Path | None, marker: str) -> None:
    """summary.json, and the table with every published agent in it. Ours: so many agents × so many episodes of each."""
    from transporter.cli.console import bold, say
    from transporter.control.keyqn.scores import PUBLISHED, published
    from transporter.files import write_text
    from transporter.report.published import markdown_table
    from transporter.results import Result

    rows: list[list[str]] = []
    summary: dict[str, float] = {}
    for name, result in results.items():
        means = [result["figures"][f"{game} mean"] for game in games]
        cells = [
            f"{mean:.1f} ± {result['figures'][f'{game} std']:.1f}" if len(result["scores"][game]) > 1 else f"{mean:.1f}"
            for game, mean in zip(games, means, strict=True)
        ]
        counts = [played(result, game) for game in games]
        usual = max(counts, key=counts.count)
        others = (f"{game} {count}" for game, count in zip(games, counts, strict=True) if count != usual)
        of = ", ".join((usual, *others))
        rows.append([f"**ours, {name}** ({of})", *cells, against_humans(games, means)])
        figures = {figure: value for figure, value in result["figures"].items() if figure.split(" ")[0] in games}
        summary |= {f"{name}: {figure}": value for figure, value in figures.items() if is_number(value)}
    for agent in PUBLISHED:
        scores = [published(agent, game) for game in games]
        cells = ["–" if score is None else f"{score:.1f}" for score in scores]
        rows.append([agent, *cells, against_humans(games, scores)])
    table = markdown_table(["agent", *games, "mean, human-normalised"], rows)
    Result("keyqn", summary, {}, {}, {"from": sources(results)}).write(out / "summary.json")
    write_text(out / "table.md", table + "\n")
    into_docs(docs, marker, table)
    say(f"written: {bold(out / 'summary.json')} and {bold(out / 'table.md')}")

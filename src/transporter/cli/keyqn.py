"""transporter keyqn: agents that learn Atari games from keypoints in 100,000 interactions."""

import time
from argparse import ArgumentParser
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from transporter.cli.claimed import claimed_run, leave_a_core
from transporter.cli.given import Maybe, at_least, check_seeds, device_named, room_for_json, warn_of_another
from transporter.control.keyqn.config import DEFAULT, LATELY, PRESETS, KeyQNConfig, Preset
from transporter.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from transporter.control.keyqn.experiment import Experiment
    from transporter.models.detector import Detector
    from transporter.runs import Json, Run
    from transporter.training.learner import Hardware

Games = Annotated[tyro.conf.Positional[list[str]], tyro.conf.arg(metavar="GAME [GAME ...]", help_behavior_hint="")]
Observation = Literal["keypoints", "points", "features", "objects", "pixels"]
Settings = Annotated[KeyQNConfig, tyro.conf.arg(name="")]
RATE = 15  # steps a second: four frames each, at the console's 60


def settings_of_preset(arguments: list[str]) -> dict[str, object]:
    """The settings that all others change: of the preset that is named there, before the parser looks."""
    scan = ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    scan.add_argument("--preset", nargs="?")
    named = scan.parse_known_args(arguments)[0].preset
    return {"settings": PRESETS[named]} if named in PRESETS else {}  # what is wrong there, the parser says


def keyqn(
    game: Games,
    /,
    seeds: int = 3,
    first_seed: int = 0,
    observation: Observation = "keypoints",
    preset: Preset = DEFAULT,
    model: Maybe[list[str]] = None,
    out: Maybe[Path] = None,
    json: Maybe[Path] = None,
    video: int = 60,
    log_every: int = 1_000,
    checkpoint_every: int = 25_000,
    in_loop: bool = False,
    device: str = "auto",
    compile: bool = False,
    settings: Settings = PRESETS[DEFAULT],
) -> None:
    """Learn to play Atari games in 100,000 interactions, then evaluate. Run the same command again to go on.

    All games and seeds learn side by side in one process, their networks batched.

    Args:
        game: Atari games (pong, breakout, ms_pacman, …).
        seeds: How many agents learn each game.
        first_seed: The first of their seeds.
        observation: keypoints and features under them, either of the two, true objects, or the pixels.
        preset: Where the settings below begin: light, which a CPU can carry out, too; or full, larger networks.
        model: The detector, for one game; or GAME=MODEL for each. By default the shipped model of the game's name.
        out: Run folder; by default runs/keyqn-GAMES-OBSERVATION, and -PRESET where that is not light.
        json: Also write the results to this file.
        video: Seconds of a clip of each game's best agent at play, with its keypoints; 0: none.
        log_every: Interactions between rows of metrics.jsonl.
        checkpoint_every: Interactions between checkpoints, to go on from after a crash; 0: only when asked to stop.
        in_loop: Each agent's Transporter keeps learning, from the agent's own frames.
        device: auto (the GPU where there is one), cpu, cuda or cuda:N.
        compile: torch.compile the memory's arithmetic.
        settings: What decides an agent.
    """
    check_seeds(seeds)
    at_least(1, log_every=log_every)
    at_least(0, first_seed=first_seed, checkpoint_every=checkpoint_every, video=video)
    device = device_named(device)
    from transporter.control.keyqn.experiment import LOOKS, Experiment
    from transporter.control.keyqn.outcome import result_file
    from transporter.training.learner import Hardware

    check_games(game, observation)
    if model and observation not in LOOKS:
        raise InputError(f"--model names a detector, and agents that see {observation} have none")
    detectors = detectors_for(game, model or [], device) if observation in LOOKS else {}
    chosen = tuple(range(first_seed, first_seed + seeds))
    experiment = Experiment(tuple(game), chosen, observation, settings, detectors, in_loop)
    path = out or Path("runs") / f"keyqn-{'-'.join(game)}-{titled(observation, preset)}{'-in-loop' * in_loop}"
    with room_for_json(json):
        carry_out(experiment, path, Hardware(device, compile=compile), log_every, checkpoint_every, video, json)
    from transporter.cli.console import bold, say

    clips = [f"{name}.mp4" for name in game if (path / f"{name}.mp4").exists()]
    drawn = ["curves.png"] if (path / "curves.png").exists() else []
    say(f"done: {bold(path)} ({', '.join(['agents/', result_file(path).name, *drawn, *clips])})")


def carry_out(
    experiment: "Experiment",
    path: Path,
    hardware: "Hardware",
    log_every: int,
    checkpoint_every: int,
    video: int,
    json: Path | None,
) -> "Json":
    """Everything that is not done yet: learn, evaluate, show, draw. Results are in `json`, too, before clips."""
    from transporter.cli.console import warn
    from transporter.control.keyqn.experiment import learnt, of_today, settings
    from transporter.control.keyqn.outcome import doubts, result_file
    from transporter.files import write_text
    from transporter.runs import Run

    with claimed_run(path, settings(experiment), of_today):
        run = Run.open(path)
        if not learnt(experiment, run):
            learn_with_bar(experiment, run, hardware, log_every, checkpoint_every)
            result_file(path).unlink(missing_ok=True)  # of agents that were there before
        result = evaluate_with_bar(experiment, run, hardware)
        show(experiment, result)
        for doubt in doubts(experiment, run.metrics()):
            warn(doubt)
        try:
            if json is not None:
                write_text(json, result_file(path).read_text(encoding="utf-8"))
            picture(experiment, run, result, video, str(hardware.resolve()))
        except KeyboardInterrupt as stop:
            again = "run the same command again for its pictures"
            raise type(stop)(f"interrupted: the scores are in {path}, {again}") from None
    return result


def check_games(games: list[str], observation: Observation) -> None:
    """Refuse what cannot be played before anything is loaded for it."""
    from transporter.envs import atari

    if not games or len(set(games)) != len(games):
        raise InputError("name games, each once: pong, breakout, …")
    for name in games:
        scene = atari.scene(name)
        if observation == "objects" and not scene.has_truth:
            raise InputError(f"{name} has no ground truth to play from")


def detectors_for(games: list[str], models: list[str], device: str) -> "dict[str, Detector]":
    """A detector for each game: the one that was named for it, or the shipped one of the game's name."""
    from transporter.models.zoo import load, shipped

    pairs = [pair.split("=", 1) for pair in models if "=" in pair]
    named = dict(pairs)
    if len(named) < len(pairs) or not all(named.values()):
        raise InputError("--model names one detector for each game: pong=MODEL breakout=MODEL")
    plain = [given for given in models if "=" not in given]
    if plain and (len(games) > 1 or len(plain) > 1):
        raise InputError("with several games say which model is whose: --model pong=MODEL breakout=MODEL")
    if stray := sorted(set(named) - set(games)):
        raise InputError(f"--model {stray[0]}=…: {stray[0]} is not among the games")
    found = {}
    for name in games:
        which = plain[0] if plain else named.get(name, name)
        if which == name and name not in named and name not in shipped():
            raise InputError(f"no model of {name} is shipped: train one, then give --model {name}=MODEL")
        found[name] = load(which, device)
        warn_of_another(found[name], name)
    return found


def learn_with_bar(
    experiment: "Experiment", run: "Run", hardware: "Hardware", log_every: int, checkpoint_every: int
) -> None:
    """Train to the end, or until someone asks to stop."""
    from transporter.cli.console import bar, warn
    from transporter.cli.stop import stop_when_asked
    from transporter.control.keyqn.experiment import Notices, learn

    if hardware.resolve().type == "cpu":
        leave_a_core()
    total = experiment.config.protocol.interactions
    with ExitStack() as stack:
        stop = stack.enter_context(stop_when_asked())
        shown = stack.enter_context(bar(f"learn {' '.join(experiment.games)}", total, "interactions"))
        recent: dict[int, float] = {}

        def observe(row: "Json") -> None:
            recent.update({int(agent): score for agent, score, _ in row["episodes"]})

        notices = Notices(
            step=lambda step: shown.at(step, note(experiment, recent)),
            row=observe,
            again=lambda step: shown.at(step, "playing again"),
            stopping=stop.asked,
        )
        learn(experiment, run, hardware, notices, log_every, checkpoint_every)
    for warning in run.warnings:
        warn(warning)
    stop.raise_if_asked(f"stopped, state saved in {run.path}: run the same command again to go on")


def note(experiment: "Experiment", recent: dict[int, float]) -> str:
    """What the newest episodes scored, game by game."""
    parts = []
    for index, name in enumerate(experiment.games):
        first = index * len(experiment.seeds)
        scores = [recent[i] for i in range(first, first + len(experiment.seeds)) if i in recent]
        parts += [f"{name} scores {sum(scores) / len(scores):.0f}"] if scores else []
    return " · ".join(parts)


def titled(name: str, preset: Preset) -> str:
    """What is called so, of agents of this preset: those of two presets are not in one another's way."""
    return name if preset == DEFAULT else f"{name}-{preset}"


def evaluate_with_bar(experiment: "Experiment", run: "Run", hardware: "Hardware") -> "Json":
    """The scores of the trained agents; measured once for a run."""
    from transporter.cli.console import bar
    from transporter.control.keyqn.measure import measure, scores_file
    from transporter.control.keyqn.outcome import read_result, write_result

    if (found := read_result(experiment, run)) is not None:
        return found
    total = experiment.config.protocol.episodes * len(experiment.agents)
    begun, since = any(scores_file(run, name).exists() for name in experiment.games), time.perf_counter()
    with bar(f"evaluate {' '.join(experiment.games)}", total, "episodes") as shown:
        try:
            scores = measure(experiment, run, hardware, shown.at)
        except KeyboardInterrupt as stop:
            again = "run the same command again to evaluate them"
            raise type(stop)(f"interrupted: the agents are saved in {run.path}, {again}") from None
    took = None if begun else time.perf_counter() - since  # of all, or of none
    return write_result(experiment, run, scores, str(hardware.resolve()), took)


def show(experiment: "Experiment", result: "Json") -> None:
    """The table: ours, seed by seed, above the paper's and others'; a column for each game."""
    from transporter.cli.console import table
    from transporter.control.keyqn.scores import published

    def row(title: str, scores: "Iterable[float | None]") -> list[str]:
        return [title, *("–" if score is None else f"{score:.1f}" for score in scores)]

    def ours(title: str, what: str) -> list[str]:
        return row(title, (result["figures"][f"{name} {what}"] for name in experiment.games))

    rows = [ours("ours", "mean")]
    if len(experiment.seeds) > 1:
        rows += [ours("± over seeds", "std"), *(ours(f"  seed {seed}", f"seed {seed}") for seed in experiment.seeds)]
    others = ("random", "KeyQN (paper)", "SPR", "BBF", "human")
    rows += [row(other, (published(other, name) for name in experiment.games)) for other in others]
    table(f"mean scores from {experiment.kind}", ["", *experiment.games], rows)


def picture(experiment: "Experiment", run: "Run", result: "Json", video: int, device: str) -> None:
    """Curves and clips that are not there yet; a machine without the packages for them leaves them to another."""
    from transporter.cli.console import warn

    try:
        draw_curves(experiment, run)
        for name in experiment.games if video else ():
            record(experiment, run, result, name, video, device)
    except ImportError as error:
        warn(f"no pictures without {error.name}: run the same command again where it is installed")


def draw_curves(experiment: "Experiment", run: "Run") -> None:
    from transporter.control.keyqn.outcome import curves
    from transporter.control.keyqn.scores import published
    from transporter.files import made_of, replacing
    from transporter.report.learning import learning_figure

    with made_of(run.metrics_file):
        lines = curves(run.metrics(), len(experiment.agents))
    if not any(lines) or (run.path / "curves.png").exists():
        return
    seeds = len(experiment.seeds)
    games = {
        name: dict(zip(experiment.seeds, lines[i * seeds : (i + 1) * seeds], strict=True))
        for i, name in enumerate(experiment.games)
    }
    names = ("random", "KeyQN (paper)")
    marks = {g: {n: score for n in names if (score := published(n, g)) is not None} for g in games}
    with replacing(run.path / "curves.png") as temporary:
        learning_figure(games, marks, LATELY).savefig(temporary, dpi=110)


def record(experiment: "Experiment", run: "Run", result: "Json", name: str, seconds: int, device: str) -> None:
    """A clip of the game's best agent."""
    from transporter.control.keyqn.agent import KeyQN
    from transporter.control.keyqn.experiment import FRAME, agent_file
    from transporter.control.keyqn.video import watch
    from transporter.report.clip import ClipWriter
    from transporter.report.draw import draw_keypoints

    path = run.path / f"{name}.mp4"
    if path.exists():
        return
    best = max(experiment.seeds, key=lambda seed: result["figures"][f"{name} seed {seed}"])
    agent = KeyQN.load(agent_file(run, name, best), device)
    size = agent.detector.config.size if agent.detector else FRAME
    with ClipWriter(path, 3 * 160, 3 * 210, rate=RATE) as clip:
        for shown in watch(agent, name, seed=0, size=size, most=seconds * RATE):
            clip.add(draw_keypoints(shown.screen, shown.points, scale=3))

"""transporter explore: options from keypoints, learnt without reward."""

from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from transporter.cli.claimed import leave_a_core, shared_run
from transporter.cli.given import Maybe, at_least, device_named, room_for_json, warn_of_another
from transporter.control.options.config import OptionsConfig
from transporter.errors import InputError

if TYPE_CHECKING:
    from transporter.control.options.experiment import Experiment, Exploring, Make, Schedule
    from transporter.runs import Json, Run
    from transporter.training.learner import Hardware

Settings = Annotated[OptionsConfig, tyro.conf.arg(name="")]
RATE = 15  # steps a second: four frames each, at the console's 60


def explore(
    game: tyro.conf.Positional[str],
    /,
    frames: int = 50_000_000,
    seed: int = 0,
    model: Maybe[str] = None,
    keypoints: Maybe[int] = None,
    out: Maybe[Path] = None,
    json: Maybe[Path] = None,
    video: int = 60,
    evaluate_every: int = 10_000_000,
    log_every: int = 250_000,
    checkpoint_every: int = 5_000_000,
    device: str = "auto",
    ray: Maybe[str] = None,
    actors: int = 16,
    settings: Settings = OptionsConfig(),  # noqa: B008
) -> None:
    """Learn to move every keypoint in every direction, without reward; then see what random options score.

    Keypoints are learnt in the same loop, from the same replay. Run the same command again to go on, with more frames
    if you like. With several GPUs, torchrun --nproc-per-node N -m transporter explore …: players, replay and batches
    are shared among as many learners; the run folder must be on a disk that all of them share.

    Args:
        game: An environment: montezuma_revenge, ms_pacman, seaquest, any Atari game, sprites_control.
        frames: Frames of the game to play in all, each step of Atari counting four.
        seed: Decides every random choice.
        model: A trained detector to use as it is: a shipped model, a run folder or a file. By default one is learnt.
        keypoints: K of the one that is learnt; by default what the environment knows.
        out: Run folder; by default runs/explore-GAME-seedN.
        json: Also write the results to this file.
        video: Seconds of a clip of play, the most controllable keypoint a triangle; 0: none.
        evaluate_every: Frames between evaluations.
        log_every: Frames between rows of metrics.jsonl.
        checkpoint_every: Frames between checkpoints. They hold all that was learnt; on a CPU, of one learner, also a
            replay of up to a gigabyte, and all games begin anew with them. Any other is filled anew after a break.
        device: auto (the GPU where there is one), cpu, cuda or cuda:N.
        ray: Play in processes of their own: the address of a Ray cluster, or `local` to start one on this machine
            (needs the extra ray). By default everything is in this process.
        actors: With --ray, how many processes share the players.
        settings: What decides an exploration.
    """
    from transporter.control.options.experiment import Schedule

    at_least(0, seed=seed, video=video)
    at_least(1, keypoints=keypoints, evaluate_every=evaluate_every, log_every=log_every, actors=actors)
    if frames < 1 or checkpoint_every < 1:
        raise InputError("--frames and --checkpoint-every must be at least 1")
    from transporter.training.distributed import process_group
    from transporter.training.learner import Hardware

    device = device_named(device)
    path = out or Path("runs") / f"explore-{game}-seed{seed}"
    schedule = Schedule(frames, evaluate_every, log_every, checkpoint_every)
    with room_for_json(json):
        with process_group(Hardware(device).resolve()) as rank:
            experiment = experiment_of(game, seed, settings, model, keypoints, device)
            carry_out(experiment, path, device, schedule, video, spread_over(ray, actors), rank)
        if rank != 0:
            return
        if json is not None:
            from transporter.files import write_text

            write_text(json, result_file(path).read_text(encoding="utf-8"))
    from transporter.cli.console import bold, say

    say(f"done: {bold(path)} (options, results and curves)")


def experiment_of(
    game: str, seed: int, settings: OptionsConfig, model: str | None, keypoints: int | None, device: str
) -> "Experiment":
    """What was asked for, refused here if it cannot be."""
    import dataclasses

    from transporter import envs
    from transporter.control.options.experiment import Experiment
    from transporter.models.zoo import load

    if len(envs.scene(game).actions) < 2:
        raise InputError(f"{game} has no actions to choose from")
    detector = None
    if model is not None:
        if keypoints is not None:
            raise InputError("--keypoints says how many are learnt: a --model has its own")
        detector = load(model, device)
        settings = dataclasses.replace(settings, eyes=dataclasses.replace(settings.eyes, size=detector.config.size))
    return Experiment(game, seed, settings, detector, keypoints)


def result_file(path: Path) -> Path:
    return path / "exploration.json"


def spread_over(address: str | None, actors: int) -> "Make | None":
    """How an exploration is made whose players are elsewhere; None: all of it is here."""
    if address is None:
        return None
    if find_spec("ray") is None:
        raise InputError("--ray needs the extra ray: pip install 'transporter[ray]'")

    def make(experiment: "Experiment", hardware: "Hardware") -> "Exploring":
        from transporter.cluster.exploration import Spread

        return Spread(experiment, hardware, actors, address)

    return make


def carry_out(
    experiment: "Experiment",
    path: Path,
    device: str,
    schedule: "Schedule",
    video: int,
    make: "Make | None" = None,
    rank: int = 0,
) -> None:
    """Everything that is not done yet: learn, say what came of it, show. The first of several learners shows."""
    from transporter.control.options.experiment import of_today, settings
    from transporter.training.learner import Hardware

    if experiment.detector is not None and rank == 0:
        warn_of_another(experiment.detector, experiment.game)
    with shared_run(path, settings(experiment), rank, of_today) as run:
        check_frames(experiment, run, schedule)
        learn_with_bar(experiment, run, Hardware(device), schedule, make, rank)
        if rank == 0:
            conclude(experiment, run, device)
            picture(experiment, run, video)


def check_frames(experiment: "Experiment", run: "Run", schedule: "Schedule") -> None:
    if run.saved_step() > schedule.steps(experiment.frames).total:
        had = run.saved_step() * experiment.frames
        raise InputError(f"{run.path} has {had:,} frames already: --frames must be at least that")


def learn_with_bar(
    experiment: "Experiment", run: "Run", hardware: "Hardware", schedule: "Schedule", make: "Make | None", rank: int = 0
) -> None:
    """Until it has seen enough, or someone asks to stop; the first of several learners shows and writes."""
    from transporter.cli.console import bar, warn
    from transporter.cli.stop import stop_when_asked
    from transporter.control.options.experiment import Notices, finished, learn

    if finished(experiment, run, schedule):
        return
    if hardware.resolve().type == "cpu":
        leave_a_core()
    with ExitStack() as stack:
        stop = stack.enter_context(stop_when_asked())
        notices = Notices(stopping=stop.asked)
        if rank == 0:
            total = schedule.steps(experiment.frames).total * experiment.frames
            shown = stack.enter_context(bar(f"explore {experiment.game}", total, "frames"))
            notices = notices._replace(row=lambda row: shown.at(row["frames"], note(row)))
        if not learn(experiment, run, hardware, schedule, notices, make):
            stop.ask()  # whichever learner heard it
    for warning in run.warnings if rank == 0 else ():
        warn(warning)
    stop.raise_if_asked(f"stopped, state saved in {run.path}: run the same command again to go on")


def note(row: "Json") -> str:
    """The newest that is worth a look."""
    parts = [f"gap {max(row['gaps']):.3f}"]
    if row["return"] is not None:
        parts.append(f"return {row['return']:.1f}")
    if row.get("avatar") is not None:
        parts.append(f"avatar {row['avatar']:.0%}")
    return " · ".join(parts)


def conclude(experiment: "Experiment", run: "Run", device: str) -> None:
    """exploration.json, and the table."""
    from transporter.cli.console import table, warn
    from transporter.control.options.evaluation import WAYS
    from transporter.control.options.outcome import curves, doubts, figures
    from transporter.files import made_of
    from transporter.results import Result

    rows = run.metrics()
    with made_of(run.metrics_file):
        found, doubted = figures(rows), doubts(rows)
        details = {
            "curves": {way: [list(point) for point in points] for way, points in curves(rows).items()},
            "rows": [{n: v for n, v in row.items() if n != "returns"} for row in rows],
        }
    if not tells(result_file(run.path), {"figures": found, **details}):  # else it says who measured it, and where
        Result(
            name=f"exploration {experiment.game}",
            figures=found,
            config=experiment.config.to_json(),
            seeds={"explore": experiment.seed},
            details=details,
            device=device,
        ).write(result_file(run.path))
    lines = [
        [way, f"{found[f'{way} mean']:.1f} ± {found[f'{way} std']:.1f}", f"{found[f'{way} p95']:.1f}"]
        for way in WAYS
        if f"{way} mean" in found
    ]
    extra = [f"{name}: {found[name]:g}" for name in ("avatar", "rooms, most", "frames per second") if name in found]
    table(f"{experiment.game}, returns ({', '.join(extra)})", ["way to play", "mean ± std", "95th percentile"], lines)
    for doubt in doubted:
        warn(doubt)


def tells(path: Path, what: "Json") -> bool:
    """Whether the file is there and has all of this in it."""
    from transporter.files import parse_json
    from transporter.results import finite

    try:
        found = parse_json(path.read_bytes())
        return all(found[name] == value for name, value in finite(what).items())
    except (OSError, ValueError, LookupError, TypeError):
        return False


def picture(experiment: "Experiment", run: "Run", video: int) -> None:
    """Curves and a clip; a machine without the packages for them leaves them to another."""
    from transporter.cli.console import warn

    try:
        draw_curves(experiment, run)
        if video:
            record(experiment, run, video)
    except ImportError as error:
        warn(f"no pictures without {error.name}: run the same command again where it is installed")


def draw_curves(experiment: "Experiment", run: "Run") -> None:
    from transporter.control.options.evaluation import TITLES
    from transporter.control.options.outcome import curves
    from transporter.files import replacing
    from transporter.report.exploration import exploration_figure

    with replacing(run.path / "curves.png") as temporary:
        named = {TITLES[way]: points for way, points in curves(run.metrics()).items()}
        exploration_figure({experiment.game: named}).savefig(temporary, dpi=110)


def record(experiment: "Experiment", run: "Run", seconds: int) -> None:
    """A clip of options of the most controllable keypoint, which is a triangle (Figure 3)."""
    from transporter import envs
    from transporter.control.options.agent import OptionsAgent
    from transporter.control.options.evaluation import watch
    from transporter.control.options.experiment import options_file
    from transporter.control.options.eyes import Frozen
    from transporter.report.clip import ClipWriter
    from transporter.report.draw import draw_keypoints
    from transporter.training.learner import Hardware

    path, options = run.path / "options.mp4", options_file(run)
    if path.exists() and path.stat().st_mtime >= options.stat().st_mtime:
        return
    agent = OptionsAgent.load(options)
    env = envs.make(experiment.game, experiment.config.eyes.size)
    eyes = Frozen(agent.detector, Hardware(str(agent.detector.device)))
    height, width = env.reset(seed=0)[0].shape[:2] if not hasattr(env, "screens") else (210, 160)
    scale = max(1, 480 // height)
    commit, steps = experiment.config.acting.commit, seconds * RATE
    with ClipWriter(path, scale * width, scale * height, rate=RATE) as clip:
        for shown in watch(agent.network, eyes, env, commit, experiment.seed, steps):
            clip.add(draw_keypoints(shown.screen, shown.points, scale=scale, triangle=shown.keypoint))
    env.close()

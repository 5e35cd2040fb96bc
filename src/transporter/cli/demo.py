"""transporter demo: the first minutes."""

from pathlib import Path

from transporter.cli.given import Maybe, at_least, folder_named


def demo(out: Path = Path("demo"), steps: Maybe[int] = None, seed: int = 0) -> None:
    """The shipped Pong model at work; then, from nothing: make frames, train, measure, write a report and a clip.

    Args:
        out: Folder for everything that the demo makes; run again to go on.
        steps: Training steps; by default those of the preset tiny.
        seed: Decides every random choice.
    """
    from transporter.cli.collect import collect_with_bar
    from transporter.cli.console import say, write_json
    from transporter.cli.evaluate import evaluate_with_bar, show_evaluation
    from transporter.cli.report import write_run_report
    from transporter.cli.train import Wanted, opened_run, train_with_bar
    from transporter.data.manifest import quick_settings
    from transporter.envs import scene
    from transporter.models.zoo import from_run
    from transporter.training.config import PAIRS, preset
    from transporter.training.learner import Hardware

    at_least(1, steps=steps)
    at_least(0, seed=seed)
    folder_named(out)
    show_shipped("pong", out)
    name = "sprites"
    config = preset("tiny", keypoints=scene(name).keypoints, seed=seed, **({"steps": steps} if steps else {}))
    settings = quick_settings(name, config.model.size, PAIRS["tiny"], seed)
    with opened_run(out / "run", name, Wanted(out / "data", settings), config) as run:
        say(f"[bold]2[/] random play of [bold]{name}[/]: three shapes that bounce; nothing says where they are")
        pairs = collect_with_bar(settings, [name], out / "data")

        say("[bold]3[/] Transporter learns to rebuild one frame from another by moving what is under its keypoints")
        train_with_bar(config, pairs, run, Hardware())

        say("[bold]4[/] do the keypoints follow the shapes? Measured against the truth, on play never seen")
        detector = from_run(run)
        found = evaluate_with_bar(name, detector, frames=2_000, seed=1_000_000)
        write_json(run.path / "evaluation.json", {**found.to_json(), "step": detector.card["step"]})
        show_evaluation(found)

        page = write_run_report(run, out / "report.html")
    say_where(page)


def show_shipped(name: str, out: Path) -> None:
    """A model that comes with the package, at work."""
    from transporter.cli.console import say
    from transporter.cli.evaluate import evaluate_with_bar, show_evaluation
    from transporter.cli.report import write_model_report
    from transporter.models.zoo import load

    say(f"[bold]1[/] the shipped model of [bold]{name}[/], on play it has never seen")
    detector = load(name)
    found = evaluate_with_bar(name, detector, frames=1_000, seed=1_000_000)
    show_evaluation(found)
    out.mkdir(parents=True, exist_ok=True)
    say_where(write_model_report(name, detector, out / f"{name}.html", evaluation=found))


def say_where(page: Path) -> None:
    from transporter.cli.console import bold, say

    say(f"report: {bold(page.resolve())}\nclip:   {bold(page.with_suffix('.mp4').resolve())}\n")

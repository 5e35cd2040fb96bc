"""What the reproductions of perception share: collect, train and measure experiments, each step only where needed."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import tyro

from transporter.cli.given import Maybe, above_zero, at_least, device_named, folder_named
from transporter.errors import InputError

if TYPE_CHECKING:
    from transporter.tracking.experiment import Experiment, Job, Trained
    from transporter.tracking.summary import Group

Base = Literal["paper", "fast", "tiny"]


@dataclass(frozen=True)
class Options:
    """By default each environment and method is trained and measured with several seeds."""

    domains: str
    """Environments with ground truth, with commas between them."""
    methods: str
    """Recipes, with commas between them; the first is compared with the others."""
    seeds: int
    """How many trainings of each method on each environment."""
    out: Path
    """Folder for the results: a JSON file for each training, summary.json, table.md and the figures."""
    runs: Path = Path("runs/tracking")
    """Folder for the run folders; a training that is there already is not made again."""
    steps: Maybe[int] = None
    """Updates in each training; by default the preset's."""
    preset: Base = "fast"
    """What the recipes change."""
    frames: int = 20_000
    """Held-out frames of random play to measure on, in each environment."""
    data: Maybe[Path] = None
    """Folder of data sets named after their environments; by default they are collected in data/."""
    pairs: Maybe[int] = None
    """How many pairs to collect where there is no data set; by default what suits the preset."""
    docs: Maybe[Path] = None
    """Folder for the figures instead; a results.md there that has the markers gets the table."""
    minutes: Maybe[float] = None
    """For collecting and training; what is not through by then is measured as it is, and goes on when run again."""
    workers: Maybe[int] = None
    """Processes side by side; by default one less than there are cores, and on a GPU two to train."""
    together: Maybe[int] = None
    """Trainings on one environment in one process; by default all of them on a GPU: they fill each other's gaps."""
    train_only: bool = False
    """Train, and leave the measuring to another time or machine."""
    evaluate_only: bool = False
    """Measure what is trained."""
    device: str = "auto"
    """Where to compute: auto (the GPU where there is one), cpu, cuda or cuda:N."""


Given = tyro.conf.OmitArgPrefixes[Options]


class FailedError(RuntimeError):
    """Some experiments failed; the others are done."""


class Study(NamedTuple):
    """Environments × recipes × seeds, and where everything is kept."""

    domains: list[str]
    methods: list[str]
    seeds: int
    steps: int
    pairs: int
    base: Base
    frames: int
    out: Path  # results
    work: Path  # run folders
    data: Path | None  # folder of data sets, named after their environments
    device: str

    def experiments(self, domain: str) -> "list[Experiment]":
        from transporter.data.manifest import NAME
        from transporter.data.pairs import PairSet
        from transporter.tracking.experiment import plan
        from transporter.training.config import PRESETS

        path = self.data_of(domain)
        size = PairSet.open(path).settings.size if (path / NAME).exists() else PRESETS[self.base].model.size
        return [
            plan(domain, method, seed, steps=self.steps, size=size, base=self.base)
            for method in self.methods
            for seed in range(self.seeds)
        ]

    def data_of(self, domain: str) -> Path:
        from transporter.training.config import PRESETS

        if self.data is not None:
            return self.data / domain
        return Path("data") / f"{domain}-{PRESETS[self.base].model.size}px-{self.pairs}-seed0"

    def names(self) -> list[str]:
        return [f"{d}-{m}-seed{s}" for d in self.domains for m in self.methods for s in range(self.seeds)]

    def result(self, name: str) -> Path:
        return self.out / f"{name}.json"


def checked(given: Options) -> Study:
    """The study that the options ask for, refused before any work where they cannot be."""
    from transporter.cli.evaluate import check_truth
    from transporter.training.config import PAIRS, PRESETS
    from transporter.training.recipes import recipe

    at_least(1, seeds=given.seeds, steps=given.steps, pairs=given.pairs, frames=given.frames)
    at_least(1, workers=given.workers, together=given.together)
    above_zero(minutes=given.minutes)
    if given.train_only and given.evaluate_only:
        raise InputError("--train-only and --evaluate-only together leave nothing to do")
    domains, methods = _listed("--domains", given.domains), _listed("--methods", given.methods)
    for domain in domains:
        check_truth(domain)
    for method in methods:
        recipe(method)
    for folder in (given.out, given.runs, *([given.data] if given.data else [])):
        folder_named(folder)
    return Study(
        domains,
        methods,
        given.seeds,
        given.steps or PRESETS[given.preset].steps,
        given.pairs or PAIRS[given.preset],
        given.preset,
        given.frames,
        given.out,
        given.runs,
        given.data,
        device_named(given.device),
    )


def follow(given: Options, publish: "Callable[[Study, Sequence[Group], Path], None]") -> None:
    """Train, measure and publish, as far as the options ask for it."""
    from transporter.cli.console import warn

    study = checked(given)
    if not given.evaluate_only:
        train_all(study, given.minutes, given.workers, given.together)
    if not given.train_only:
        groups = measure_all(study, given.workers)
        publish(study, groups, given.docs or study.out)
        if short := partly_trained(groups):
            warn(f"{len(short)} trainings were cut short and measured as they are: run the same command again to go on")


def _listed(flag: str, text: str) -> list[str]:
    names = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not names:
        raise InputError(f"{flag} needs at least one name")
    return names


def collect_all(study: Study) -> None:
    """A data set of random play for each environment that has none yet."""
    from transporter.cli.collect import collect_with_bar
    from transporter.data.manifest import NAME, Manifest, quick_settings
    from transporter.training.config import PRESETS

    for domain in study.domains:
        path = study.data_of(domain)
        if (path / NAME).exists() and (found := Manifest.read(path)).complete:
            if found.settings.environment != domain:
                raise InputError(f"{path} holds pairs of {found.settings.environment}, not of {domain}")
            continue
        settings = quick_settings(domain, PRESETS[study.base].model.size, study.pairs)
        collect_with_bar(settings, [domain], path, study.device)


def train_all(study: Study, minutes: float | None, workers: int | None, together: int | None) -> None:
    """Train every experiment that is not trained yet; what the time is too short for can go on later."""
    from transporter.cli.console import bar, warn
    from transporter.cli.stop import stop_when_asked
    from transporter.tracking.experiment import is_finished, steps_done, train_job
    from transporter.workers import cores, side_by_side

    deadline = float("inf") if minutes is None else time.time() + 60 * minutes
    collect_all(study)
    on_gpu = study.device != "cpu"
    planned = jobs_of(study, together or (len(study.methods) * study.seeds if on_gpu else 1), deadline)
    every = [experiment for job in planned for experiment in job.group]
    jobs = [job for job in planned if not all(is_finished(experiment, study.work) for experiment in job.group)]
    total = sum(experiment.config.steps for experiment in every)
    workers = workers or (2 if on_gpu else max(1, cores() - 1))
    failed = []
    with ExitStack() as stack:
        stop = stack.enter_context(stop_when_asked())
        shown = stack.enter_context(bar(f"train {study.out.name}", total, "steps"))

        going = list(every)

        def look(_: int = 0) -> bool:
            going[:] = [experiment for experiment in going if not is_finished(experiment, study.work)]
            done = total - sum(e.config.steps - steps_done(e, study.work) for e in going)
            shown.at(done, f"{len(every) - len(going)} of {len(every)} trained")
            return stop.asked()

        for ended in side_by_side(train_job, jobs, workers, look=look):
            if ended.error is not None and not stop.asked():  # one that had only just begun may end with the signal
                failed.append(str(ended.job))
                warn(f"{ended.job} failed: {ended.error}")
        look()
    stop.raise_if_asked(f"stopped, state saved in {study.work}: run the same command again to go on")
    if failed:
        raise FailedError(f"{len(failed)} of {len(jobs)} jobs failed: {', '.join(failed)}")


def jobs_of(study: Study, together: int, deadline: float) -> "list[Job]":
    """Experiments in the order of their seeds; with few in a job, every method has its first before any its second."""
    from transporter.tracking.experiment import Job
    from transporter.training.learner import Hardware

    hardware, jobs = Hardware(device=study.device), []
    for domain in study.domains:
        experiments = sorted(study.experiments(domain), key=lambda experiment: experiment.seed)
        for i in range(0, len(experiments), together):
            group = tuple(experiments[i : i + together])
            jobs.append(Job(group, study.data_of(domain), study.work, hardware, deadline))
    return sorted(jobs, key=lambda job: job.group[0].seed)


def measure_all(study: Study, workers: int | None) -> "list[Group]":
    """Measure every experiment whose weights have not been measured yet; all results, method by method."""
    from transporter.cli.console import bar, say, warn
    from transporter.tracking.experiment import trained
    from transporter.tracking.measure import is_measured, measure, shards, to_measure, write_result
    from transporter.tracking.summary import by_method, read_all
    from transporter.workers import cores

    found: list[Trained] = [one for name in study.names() if (one := trained(name, study.work)) is not None]
    ready = {one.name for one in found} | {name for name in study.names() if study.result(name).exists()}
    if not ready:
        raise InputError(f"nothing to measure: there is no trained model in {study.work}")
    for name in study.names():
        if name not in ready:
            warn(f"{name} is not trained: it is left out")
    left = {one.weights: one for one in found if not is_measured(one, study.frames, study.result(one.name))}
    weights = to_measure(list(left.values()))
    errors: dict[str, str] = {}
    if left:
        total = sum(shard.frames for shard in shards(weights, study.frames))
        with bar(f"measure {study.out.name}", total, "frames") as shown:

            def look(done: int) -> bool:
                shown.at(done, f"{len(left)} models watch")
                return False

            side = min(cores(), workers or cores())
            for measured in measure(weights, study.frames, workers=side, device=study.device, look=look):
                of = left[measured.weights]
                if measured.evaluation is None:
                    errors[of.name] = measured.error or ""
                else:
                    write_result(of, measured.evaluation, study.result(of.name))
    paths = [path for name in study.names() if (path := study.result(name)).exists()]
    for name, error in errors.items():
        warn(f"{name} could not be measured: {error}")
    if errors:
        raise FailedError(f"{len(errors)} of {len(left)} models could not be measured")
    say(f"{len(paths)} results in [bold]{study.out}[/]")
    return by_method(read_all(paths))


def partly_trained(groups: "Sequence[Group]") -> list[str]:
    """Names of results whose training was cut short."""
    return [
        m.name for group in groups for m in group.members if m.figures["steps"] < m.data["config"]["train"]["steps"]
    ]

"""The run folders under one root: found, summed up in a line each, and remembered until their files change."""

import os
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from transporter.errors import InputError
from transporter.files import is_number, parse_json
from transporter.report.studio import control
from transporter.report.studio.answers import not_found
from transporter.report.studio.inside import ODD, file_in, json_in, part, signature
from transporter.report.studio.series import sampled
from transporter.runs import CHOSEN, Run
from transporter.tracking.results import Evaluation

DEEPEST = 4  # folders below the root
NO_RUNS = {"checkpoints", "best", "clips", "node_modules"}  # names that never hold runs
FRESH = 30.0  # seconds: where locks cannot be seen, metrics as young as this mean that the run goes on
SPARK = 24  # points of the small curve in the list
RETURNS = ("mean_return", "return", "episode_return", "score")  # what agents may call their score
FILES = ("run.json", "metrics.jsonl", "evaluation.json", *control.RESULTS.values())


class Headline(NamedTuple):
    """A run in one line; what it does not know is None."""

    id: str
    state: str  # running, finished, stopped, new or damaged
    kind: str = control.KEYPOINTS  # what was learnt: keypoints, agents or options
    environment: str | None = None
    keypoints: int | None = None
    size: int | None = None
    seed: int | None = None
    step: int | None = None
    steps: int | None = None
    speed: float | None = None  # steps a second
    loss: float | None = None
    alive: int | None = None
    duplicates: int | None = None
    share: float | None = None  # of the best possible precision and recall over 20 steps
    score: float | None = None  # of agents and options: what came of them, or the newest mean return
    score_name: str = ""
    spark: tuple[float, ...] = ()
    changed: float = 0.0
    trainable: bool = False  # holds a detector that can be loaded
    chosen: bool = False  # of several seeds that were trained together
    line: str | None = None  # what is wrong with it


class RunFolders:
    """All runs under a root; the root itself may be one."""

    def __init__(self, root: Path) -> None:
        self.root, self.given = root.resolve(), root
        self._known: dict[str, tuple[tuple[Any, ...], Headline]] = {}

    def paths(self) -> dict[str, Path]:
        """Folder of each run by its id, its place under the root."""
        if (self.root / "run.json").is_file():
            return {self.root.name: self.root}
        found = {path.relative_to(self.root).as_posix(): path for path in _run_folders(self.root, DEEPEST)}
        return dict(sorted(found.items()))

    def path(self, run: str) -> Path:
        """Only what was found is served: nothing that a request says becomes part of a path."""
        try:
            return self.paths()[run]
        except KeyError:
            raise not_found(f"no run named {run!r} in {self.root.name}/") from None

    def typed(self, run: str) -> str:
        """How a command names a run, in the terminal that the studio was started in."""
        return shlex.quote(str(self.given if self.path(run) == self.root else self.given / run))

    def typed_root(self) -> str:
        return shlex.quote(str(self.given))

    def headlines(self) -> list[Headline]:
        """One line per run, the one that changed last first."""
        locked = locked_files()
        lines = [self._headline(run, path, locked) for run, path in self.paths().items()]
        return sorted(lines, key=lambda line: -line.changed)

    def headline(self, run: str) -> Headline:
        return self._headline(run, self.path(run), locked_files())

    def _headline(self, run: str, path: Path, locked: frozenset[int] | None) -> Headline:
        state = tuple(signature(path / name) for name in FILES)
        if run not in self._known or self._known[run][0] != state:
            self._known[run] = state, _read(run, path)
        line = self._known[run][1]
        return line._replace(state=_state(line, path, locked), chosen=self._chosen(path))

    def _chosen(self, path: Path) -> bool:
        """Whether the command that trained this run and its siblings would take this one; nothing above the root."""
        if path == self.root:
            return False
        return json_in(path.parent, CHOSEN).get("run") == path.name


def _run_folders(folder: Path, deep: int) -> Iterator[Path]:
    """Links are not followed: they could lead out of the root."""
    try:
        inside = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in inside:
        if entry.name.startswith(".") or entry.name in NO_RUNS or not entry.is_dir(follow_symlinks=False):
            continue
        path = Path(entry.path)
        if (path / "run.json").is_file():
            yield path
        if deep > 1:
            yield from _run_folders(path, deep - 1)


def _read(run: str, path: Path) -> Headline:
    """Whatever is in its files: one run that cannot be read must not hide all others."""
    changed = max((found[0] for name in FILES if (found := signature(path / name))), default=0) / 1e9
    try:
        return _summed_up(run, path, changed)
    except (InputError, OSError) as error:
        line = str(error).replace(str(path), run)
    except ODD as error:
        line = f"a file of this run holds what no run writes: {error}"
    return Headline(run, "damaged", changed=changed, line=line)


def _summed_up(run: str, path: Path, changed: float) -> Headline:
    settings = Run.open(path).settings
    kind = control.kind_of(settings)
    config = part(settings, "config")
    model = part(config, "model")
    asked = part(settings, "keyqn") or part(settings, "explore")
    several = asked.get("games")
    games = several if isinstance(several, list) else [asked.get("game")]
    spread, newest = sampled(file_in(path, "metrics.jsonl"), SPARK)
    rows = spread + newest
    curve = next((c for c in ("loss", "validation_loss", *RETURNS) if _values(spread, c)), "")
    returns = [value for name in RETURNS if (value := _last(rows, name)) is not None]
    score = control.score(kind, path) or (control.Score(returns[0], "return") if returns else None)
    gaps = next((row["gaps"] for row in reversed(rows) if isinstance(row.get("gaps"), list)), None)  # one per keypoint
    return Headline(
        run,
        "new" if not rows else "stopped",
        kind,
        environment=_text(settings.get("environment") or ", ".join(g for g in games if isinstance(g, str)) or None),
        keypoints=_whole(model.get("keypoints", len(gaps) if gaps else asked.get("keypoints"))),
        size=_whole(model.get("size")),
        seed=_whole(config.get("seed", asked.get("seed"))),
        step=_whole(_last(rows, "step")),
        steps=_whole(config.get("steps", part(config, "protocol").get("interactions"))),
        speed=_last(rows, "steps_per_second"),
        loss=_last(rows, "validation_loss") or _last(rows, "loss"),
        alive=_whole(_last(rows, "alive")),
        duplicates=_whole(_last(rows, "duplicates")),
        share=_share(file_in(path, "evaluation.json")),
        score=score.value if score else None,
        score_name=score.name if score else "",
        spark=tuple(_values(spread, curve)),
        changed=changed,
        trainable=bool(model) and any((path / name).is_dir() for name in ("best", "checkpoints")),
    )


def _state(line: Headline, path: Path, locked: frozenset[int] | None) -> str:
    if line.state == "damaged":
        return line.state
    if locked is None:
        running = time.time() - line.changed < FRESH
    else:
        lock = signature(path / "lock")
        running = lock is not None and lock[2] in locked
    if running:
        return "running"
    done = line.step is not None and line.steps is not None and line.step >= line.steps
    if done or file_in(path, "options.safetensors"):  # which an exploration writes at its end
        return "finished"
    return line.state


def locked_files() -> frozenset[int] | None:
    """Inodes that some process holds a lock on, without touching any lock; None where the system does not say."""
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return None
    words = (line.split() for line in lines)
    return frozenset(int(part[5].rpartition(":")[2]) for part in words if len(part) > 5 and part[1] == "FLOCK")


def _share(path: Path | None) -> float | None:
    found = read_evaluation(path)
    return found.curve.at(20).ratio if found and 20 in found.curve.lengths else None


def read_evaluation(path: Path | None) -> Evaluation | None:
    """What `transporter evaluate` left; None where it left nothing that can be read."""
    if path is None:
        return None
    try:
        return Evaluation.from_json(parse_json(path.read_text(encoding="utf-8")))
    except (OSError, *ODD):
        return None


def _last(rows: list[dict[str, Any]], key: str) -> Any:
    return next((row[key] for row in reversed(rows) if is_number(row.get(key))), None)


def _values(rows: list[dict[str, Any]], key: str) -> list[float]:
    return [row[key] for row in rows if is_number(row.get(key))]


def _whole(value: Any) -> int | None:
    return int(value) if is_number(value) and abs(value) < 2**53 else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None

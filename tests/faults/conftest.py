"""What the fault suite stands on: how much of it to run, commands that can be killed, and where its figures go.

pytest tests/faults                    # the fast part, which is in `make test`
pytest tests/faults --whole            # all of it: `make faults`
pytest tests/faults --whole --minutes 1    # … with less time for fuzzing and the soak
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from transporter.results import Result
from transporter.tensors import checksum, read_tensors

RESULTS = Path(__file__).parents[2] / "results" / "faults"  # table.py makes a table of them


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--whole", action="store_true", help="the whole fault suite instead of its fast part")
    parser.addoption("--minutes", type=float, default=None, help="for fuzzing each parser, and for the soak")


@dataclass(frozen=True)
class Scale:
    """How often everything is done."""

    whole: bool
    train_kills: int
    save_kills: int  # among them, inside a save
    collect_kills: int
    keyqn_kills: int
    explore_kills: int
    truncations: int
    flips: int
    workers_killed: int
    fuzz_seconds: float
    soak_seconds: float


@pytest.fixture(scope="session")
def scale(request: pytest.FixtureRequest) -> Scale:
    whole = request.config.getoption("--whole", default=False)
    minutes = request.config.getoption("--minutes", default=None)
    if not whole:
        return Scale(False, 4, 2, 2, 1, 0, 20, 150, 2, fuzz_seconds=3, soak_seconds=15)
    fuzz, soak = (10 * 60, 60 * 60) if minutes is None else (60 * minutes, 60 * minutes)
    return Scale(True, 50, 15, 20, 10, 10, 100, 1_000, 20, fuzz_seconds=fuzz, soak_seconds=soak)


class Ended(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def line(self) -> str:
        """What it said in the end."""
        return (self.err.splitlines() or [""])[-1]


class Life(NamedTuple):
    """A command that runs."""

    ask: Callable[[dict[str, Any]], Any]
    pid: int
    said: str

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def poll(self) -> bool:
        """Whether it has ended; then `end` must not be asked any more."""
        return self.ask({"poll": self.pid}) is not None

    def end(self) -> Ended:
        code = self.ask({"wait": self.pid})
        return Ended(code, *(Path(f"{self.said}.{name}").read_text() for name in ("out", "err")))

    def kill(self) -> Ended:
        self.signal(signal.SIGKILL)
        return self.end()


class Start:
    """`start("train", …, cwd=…)`: the command line in a process of its own, which may be killed."""

    def __init__(self, server: "subprocess.Popen[str]", said: Path) -> None:
        self.server, self.said, self.lives = server, said, 0

    def __call__(self, *arguments: str | Path, cwd: Path, largest_file: int = 0) -> Life:
        self.lives += 1
        said = str(self.said / str(self.lives))
        for name in ("out", "err"):
            Path(f"{said}.{name}").touch()
        order = {"start": [*map(str, arguments)], "cwd": str(cwd), "said": said, "largest_file": largest_file}
        return Life(self.ask, self.ask(order), said)

    def ask(self, order: dict[str, Any]) -> Any:
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        print(json.dumps(order), file=self.server.stdin, flush=True)
        return json.loads(self.server.stdout.readline())


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    command = [sys.executable, str(Path(__file__).with_name("server.py"))]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "80", "NO_COLOR": "1"}
    server = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield Start(server, tmp_path_factory.mktemp("said"))
    assert server.stdin is not None
    server.stdin.close()
    server.wait()


# Small enough for seconds, and with everything in it: heatmaps that shrink, rows, validations, checkpoints.
STEPS = 42
TRAIN = ["--preset", "tiny", "--steps", str(STEPS), "--batch", "8", "--sigma-steps", "10", "--log-every", "2",
         "--validate-every", "6", "--checkpoint-every", "3", "--device", "cpu"]  # fmt: skip


class Whole(NamedTuple):
    """Work that no one disturbed."""

    command: list[str]
    path: Path
    seconds: float


@pytest.fixture(scope="session")
def data(start: Start, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """64 pairs of sprites, 32×32, in three segments."""
    cwd = tmp_path_factory.mktemp("data")
    command = ["collect", "sprites", "--pairs", "64", "--budget", "9600", "--size", "32", "--envs", "1", "--out"]
    since = time.monotonic()
    assert start(*command, "data", cwd=cwd).end().code == 0
    return Whole(command, cwd / "data", time.monotonic() - since)


@pytest.fixture(scope="session")
def trained(start: Start, data: Whole, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    cwd = tmp_path_factory.mktemp("trained")
    (cwd / "data").symlink_to(data.path)
    command = ["train", "sprites", "--data", "data", *TRAIN, "--out"]
    since = time.monotonic()
    ended = start(*command, "run", cwd=cwd).end()
    assert ended.code == 0, ended.err
    return Whole(command, cwd / "run", time.monotonic() - since)


@pytest.fixture
def beside_data(tmp_path: Path, data: Whole) -> Path:
    """A folder from which the data set is called data, as for the run that no one disturbed."""
    (tmp_path / "data").symlink_to(data.path)
    return tmp_path


def files_of(folder: Path) -> dict[str, bytes]:
    """Everything in a folder, hidden files too; metrics without the columns that time decides."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != "lock":
            kept = path.read_bytes()
            if path.name == "metrics.jsonl":
                rows = [json.loads(line) for line in kept.splitlines()]
                kept = json.dumps([{k: v for k, v in row.items() if "per_second" not in k} for row in rows]).encode()
            if path.suffix == ".safetensors":  # its head has no order
                kept = checksum(read_tensors(path)).encode()
            found[str(path.relative_to(folder))] = kept
    return found


@pytest.fixture(scope="session")
def same_files() -> Callable[..., None]:
    """Two folders hold the same files with the same bytes, and neither holds anything else; or so do some parts."""

    def compare(one: Path, other: Path, parts: tuple[str, ...] = ("",)) -> None:
        a, b = ({n: kept for n, kept in files_of(f).items() if n.startswith(parts)} for f in (one, other))
        assert a
        assert list(a) == list(b)
        assert [name for name in a if a[name] != b[name]] == []

    return compare


@pytest.fixture(scope="session")
def alive() -> Callable[[int], bool]:
    """Whether a process still runs; one that only waits to be counted does not."""

    def look(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False

    return look


@pytest.fixture(scope="session")
def descendants() -> Callable[[int], list[int]]:
    """The processes that a process has started, those that they have started, and so on."""

    def find(pid: int) -> list[int]:
        found = []
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            with suppress(OSError):  # a thread may end while one looks
                found += [int(child) for child in task.read_text().split()]
        return found + [deeper for child in found for deeper in find(child)]

    return find


Record = Callable[..., None]


@pytest.fixture(scope="session")
def record(scale: Scale) -> Record:
    """`record("1-killed", promise, figure=…, …)`: figures of a part, kept where the whole suite runs."""
    kept: dict[str, dict[str, float]] = {}
    since = time.monotonic()

    def note(part: str, **figures: float) -> None:
        named = {name.replace("_", " "): value for name, value in figures.items()}
        kept[part] = kept.get(part, {}) | named
        if scale.whole and "TRANSPORTER_FAULTS" in os.environ:  # a part of the suite must not stand in for all of it
            seconds = round(time.monotonic() - since, 1)
            details = {"seconds since the suite began": seconds}
            Result(part, kept[part], vars(scale), {}, details, "cpu", "make faults").write(RESULTS / f"{part}.json")

    return note

"""Commands as real processes, and the tiny things that they work on: made once, by the commands themselves."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

import av
import numpy as np
import pytest

from transporter.envs import make

ALONE = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "80", "NO_COLOR": "1"}
STEPS = 150
# Small enough for seconds, and with everything in it: heatmaps that shrink, rows, validations, checkpoints.
TINY = ["--preset", "tiny", "--steps", str(STEPS), "--batch", "8", "--sigma-steps", "10", "--log-every", "5",
        "--validate-every", "20", "--checkpoint-every", "10", "--device", "cpu"]  # fmt: skip


class Ended(NamedTuple):
    code: int
    out: str
    err: str


class Transporter(Protocol):
    def __call__(self, *arguments: str | Path, cwd: Path) -> Ended: ...


@pytest.fixture(scope="session")
def transporter() -> Transporter:
    """`transporter …` to its end."""

    def run(*arguments: str | Path, cwd: Path) -> Ended:
        command = [sys.executable, "-m", "transporter", *map(str, arguments)]
        ended = subprocess.run(command, cwd=cwd, env=ALONE, capture_output=True, text=True)
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    return run


@pytest.fixture
def started() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """`transporter …` in the background, in a process group of its own."""
    running: list[subprocess.Popen[str]] = []

    def start(*arguments: str | Path, cwd: Path) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "transporter", *map(str, arguments)]
        running.append(
            subprocess.Popen(command, cwd=cwd, env=ALONE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        )
        return running[-1]

    yield start
    for process in running:
        if process.poll() is None:
            process.kill()
            process.wait()
        if process.stderr is not None:
            process.stderr.close()


@pytest.fixture(scope="session")
def tiny() -> list[str]:
    return TINY


@pytest.fixture(scope="session")
def data(forked: Transporter, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of 64 pairs of sprites, 32×32."""
    cwd = tmp_path_factory.mktemp("data")
    ended = forked("collect", "sprites", "--pairs", "64", "--budget", "9600", "--size", "32", cwd=cwd)
    assert ended.code == 0, ended.err
    assert "64 pairs of 32×32 frames in data/sprites" in ended.err
    return cwd / "data" / "sprites"


@pytest.fixture(scope="session")
def whole_run(forked: Transporter, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that no one disturbed."""
    cwd = tmp_path_factory.mktemp("whole")
    ended = forked("train", "sprites", "--data", data, *TINY, "--out", "run", cwd=cwd)
    assert ended.code == 0, ended.err
    assert f"train sprites: {STEPS}/{STEPS} steps" in ended.err
    return cwd / "run"


@pytest.fixture(scope="session")
def first_checkpoint() -> Callable[[Path], None]:
    """Wait until a run has one."""

    def wait(run: Path) -> None:
        deadline = time.monotonic() + 60
        while not list(run.glob("checkpoints/step-*")):
            assert time.monotonic() < deadline, "no checkpoint after a minute"
            time.sleep(0.005)

    return wait


@pytest.fixture
def stopped(started: Callable[..., subprocess.Popen[str]], first_checkpoint, tmp_path: Path) -> Callable[..., Path]:
    """`transporter … --out run`, asked to stop once it has a checkpoint; it says where its state is, and soon."""

    def stop(*command: str) -> Path:
        asked = started(*command, "--out", "run", cwd=tmp_path)
        first_checkpoint(tmp_path / "run")
        asked.send_signal(signal.SIGINT)
        since = time.monotonic()
        said = asked.communicate()[1]
        assert time.monotonic() - since < 10
        assert asked.returncode == 130
        assert said.splitlines()[-1] == "transporter: stopped, state saved in run: run the same command again to go on"
        return tmp_path / "run"

    return stop


@pytest.fixture
def refused(forked: Transporter, tmp_path: Path) -> Callable[[str, str], None]:
    """A command that is refused: code 2, one line that says this, and nothing left behind."""

    def refuse(command: str, line: str) -> None:
        ended = forked(*command.split(), cwd=tmp_path)
        assert ended.code == 2
        assert line in ended.err
        assert len(ended.err.splitlines()) == 1
        assert "tyro" not in ended.err
        assert list(tmp_path.iterdir()) == []

    return refuse


@pytest.fixture
def results_page(tmp_path: Path) -> Callable[[str], Path]:
    """docs/results.md with an old table between the markers of that name."""

    def write(name: str) -> Path:
        (tmp_path / "docs").mkdir()
        page = tmp_path / "docs" / "results.md"
        page.write_text(f"before\n<!-- {name} -->\nold\n<!-- /{name} -->\nafter\n")
        return page

    return write


@pytest.fixture(scope="session")
def equal_to_the_bit() -> Callable[[Path, Path], None]:
    """Two runs ended the same: weights, Adam, random state, best checkpoint and all that was logged but the speed."""
    import torch

    from transporter.runs import Run

    def compare(one: Path, other: Path) -> None:
        runs = Run.open(one), Run.open(other)
        for a, b in (tuple(run.latest() for run in runs), tuple(run.best() for run in runs)):
            assert a is not None
            assert b is not None
            assert (a.step, a.state) == (b.step, b.state)
            assert a.tensors.keys() == b.tensors.keys()
            assert {name.partition(".")[0] for name in a.tensors} == {"model", "adam", "random"}
            assert [name for name in a.tensors if not torch.equal(a.tensors[name], b.tensors[name])] == []
        logged = [[{k: v for k, v in row.items() if k != "steps_per_second"} for row in r.metrics()] for r in runs]
        assert logged[0] == logged[1]

    return compare


@pytest.fixture(scope="session")
def dots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clip of two dots that pass each other, 96×64, 4 seconds at 25 frames a second."""
    path = tmp_path_factory.mktemp("clips") / "dots.mp4"
    y, x = np.mgrid[:64, :96]
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        for i in range(100):
            image = np.full((64, 96, 3), 30, np.uint8)
            image[(y - 20) ** 2 + (x - 10 - i % 70) ** 2 < 36] = (250, 60, 60)
            image[(y - 45) ** 2 + (x - 85 + i % 70) ** 2 < 36] = (60, 250, 60)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, "rgb24")))
        container.mux(stream.encode())
    return path


@pytest.fixture(scope="session")
def panning(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clip of 64×64, 100 frames, of shapes in front of a busy ground that the camera goes over."""
    path = tmp_path_factory.mktemp("clips") / "panning.mp4"
    env = make("sprites_panning", 64)
    image, _ = env.reset(seed=0)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=15, options={"crf": "12"})
        stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p"
        for _ in range(100):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, "rgb24")))
            image = env.step(0)[0]
        container.mux(stream.encode())
    return path


# One process imports the heavy packages and forks for each command: as real as any other, and 2 seconds quicker.
FORKS = """
import json, os, sys, traceback
import torch, scipy.optimize, pyarrow.parquet, av, zarr, gymnasium, ale_py, matplotlib.backends.backend_agg
from transporter.cli import main
import transporter.data.clips, transporter.report.html, transporter.training.loop, transporter.models.zoo
for line in sys.stdin:
    arguments, cwd, folder = json.loads(line)
    if (child := os.fork()) == 0:
        os.chdir(cwd)
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        code = 0
        try:
            main(arguments)
        except SystemExit as end:
            code = end.code or 0
        except BaseException:
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="session")
def forked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Transporter]:
    """The same as `transporter`, for the many commands whose start is not what is tested."""
    server = subprocess.Popen(
        [sys.executable, "-c", FORKS], env=ALONE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert server.stdin is not None
    assert server.stdout is not None
    said = tmp_path_factory.mktemp("said")

    def run(*arguments: str | Path, cwd: Path) -> Ended:
        assert server.stdin is not None
        assert server.stdout is not None
        print(json.dumps([list(map(str, arguments)), str(cwd), str(said)]), file=server.stdin, flush=True)
        code = int(server.stdout.readline())
        return Ended(code, (said / "out").read_text(), (said / "err").read_text())

    yield run
    server.stdin.close()
    try:
        server.wait(timeout=10)
    except subprocess.TimeoutExpired:  # some process that a test left behind keeps its input open
        server.kill()
        server.wait()

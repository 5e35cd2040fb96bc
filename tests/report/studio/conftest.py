"""A real studio in a process of its own, over real run folders; and a real browser."""

import asyncio
import http.client
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import av
import numpy as np
import pytest
import torch

from transporter.checkpoints import Checkpoint
from transporter.envs import make
from transporter.models.factory import build
from transporter.models.zoo import from_run
from transporter.runs import Run
from transporter.tracking.evaluate import evaluate
from transporter.training.config import preset

LIMIT = 20_000_000  # bytes that may be dropped on the studio of these tests
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture
def run_async() -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """asyncio.run in a thread: the browser of other tests leaves a running loop in this one."""

    def run(work: Coroutine[Any, Any, Any]) -> Any:
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, work).result()

    return run


def until(page: Any, expression: str, seconds: float = 20.0) -> None:
    """Asked from outside: the studio's policy lets no one evaluate text inside the page, a test's helper included."""
    deadline = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, expression
        time.sleep(0.02)


def no_sideways(page: Any) -> None:
    """Nothing is wider than the screen."""
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), page.url


def make_run(path: Path, seed: int = 0, rows: int = 40, measured: bool = True) -> Run:
    """A run as training leaves it, but for the training: a fresh model that can be loaded."""
    config = preset("tiny", keypoints=3, size=32, steps=10 * rows, seed=seed)
    run = Run.create(path, {"environment": "sprites", "data": "../data", "config": config.to_json()})
    for i in range(1, rows + 1):
        run.log({"step": 10 * i, "loss": 1 / i + 0.01 * seed, "steps_per_second": 100.0})
        if i % 10 == 0:
            health = {"alive": 3, "duplicates": 0, "travel": [0.1, 0.2, 0.3], "change": [3.0, 4.0, 5.0]}
            health["follows"] = [0.4, 0.1, -0.02]
            run.log({"step": 10 * i, "validation_loss": 1 / i, **health})
    torch.manual_seed(seed)
    tensors = {f"model.{name}": tensor for name, tensor in build(config.model).state_dict().items()}
    run.save(Checkpoint(10 * rows, tensors, {"best": 0.1}), best=True)
    if measured:
        found = evaluate(make("sprites", 32), from_run(run, "cpu"), frames=60, seed=seed, lengths=(1, 5, 20))
        (path / "evaluation.json").write_text(json.dumps({**found.to_json(), "step": 10 * rows}))
    return run


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs, and beside it something that no one may read."""
    root = tmp_path_factory.mktemp("studio") / "runs"
    make_run(root / "first")
    make_run(root / "nested" / "second", seed=1)
    (root / "nested" / "chosen.json").write_text('{"run": "second"}')
    (root.parent / "secret.txt").write_text("a canary that must never be seen")
    return root


@pytest.fixture(scope="session")
def agents(root: Path) -> str:
    """A real run of two agents, as small as can be; its id."""
    from transporter.cli.keyqn import keyqn
    from transporter.control.keyqn.config import KeyQNConfig

    c = KeyQNConfig()
    c = replace(
        c,
        network=replace(c.network, hidden=16, memory=8),
        learning=replace(c.learning, batch=2, updates=1),
        protocol=replace(c.protocol, interactions=900, first_updates=850, episodes=1, evaluation_epsilon=1.0),
    )
    of = {"seeds": 2, "observation": "objects", "device": "cpu", "settings": c}  # true objects need no detector
    keyqn(["ms_pacman"], out=root / "agents", video=1, log_every=100, checkpoint_every=0, **of)  # type: ignore[arg-type]
    return "agents"


@pytest.fixture(scope="session")
def options(root: Path) -> str:
    """A real exploration, likewise."""
    from transporter.cli.explore import explore
    from transporter.control.options.config import OptionsConfig

    c = OptionsConfig()
    c = replace(
        c,
        network=replace(c.network, layers=((8, 8, 4),), hidden=16, memory=8),
        learning=replace(c.learning, batch=2, unroll=4, burn_in=2),
        acting=replace(c.acting, players=2, warm_up=8, replay=200),
        eyes=replace(c.eyes, size=32, batch=2, offset=5, tiny=True),
        evaluation=replace(c.evaluation, episodes=2, steps=10, look_every=5),
    )
    when = {"frames": 320, "evaluate_every": 160, "log_every": 80, "checkpoint_every": 320}
    explore("montezuma_revenge", out=root / "options", video=1, device="cpu", settings=c, **when)  # type: ignore[arg-type]
    return "options"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


# Python itself tells of every file that the server opens and of every folder that it lists.
AUDITED = """
import runpy, sys
log = open(sys.argv.pop(1), "w", buffering=1)
def heard(event, arguments):
    if event == "os.remove" and arguments[1] != -1:
        return  # by a folder that is open: shutil.rmtree has said which
    if event in ("open", "os.listdir", "os.scandir", "os.remove", "os.rename", "os.mkdir", "shutil.rmtree"):
        log.write(f"{event} {arguments[0]!r}\\n")
sys.addaudithook(heard)
runpy.run_module("transporter", run_name="__main__")
"""


class Studio:
    """A running studio, and a client that sends exactly what it is told."""

    def __init__(self, root: Path, *options: str) -> None:
        self.log = root.parent / "opened.log"
        begin = [sys.executable, "-c", AUDITED, str(self.log)]
        command = [*begin, "studio", str(root), "--port", "0", "--json", *options]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.errors = (root.parent / "studio.err").open("w")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.errors, env=environment, text=True)
        assert self.process.stdout is not None
        said = "".join(self.process.stdout.readline() for _ in range(4))
        self.address = json.loads(said)["address"]
        parts = urlsplit(self.address)
        self.host, self.port, self.base = parts.netloc, parts.port, f"http://{parts.netloc}"
        self.root = root
        entered = self.ask("GET", f"/?{parts.query}", cookie=None)
        self.set_cookie = entered.headers["set-cookie"]
        self.cookie = self.set_cookie.partition(";")[0]

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
        cookie: str | None = "own",
        **query: str | int,
    ) -> Answer:
        """Nothing is put right on the way: paths and hosts go out as they are."""
        given = {"Host": self.host, "Cookie": self.cookie if cookie == "own" else cookie, **(headers or {})}
        if method != "GET":
            given = {"Origin": self.base, **given}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            url = path + (f"?{urlencode(query)}" if query else "")
            connection.putrequest(method, url, skip_host=True, skip_accept_encoding=True)
            for name, value in given.items():
                if value is not None:
                    connection.putheader(name, value)
            if isinstance(body, bytes) and "Content-Length" not in given and "Transfer-Encoding" not in given:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, found, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **query: str | int) -> Answer:
        return self.ask("GET", path, **query)

    def post(self, path: str, body: dict[str, Any]) -> Answer:
        return self.ask("POST", path, json.dumps(body).encode())

    def drop(self, content: bytes, name: str = "clip.mp4", model: str = "run:first") -> Answer:
        return self.ask("POST", "/api/clips", content, name=name, model=model)

    def opened(self) -> list[str]:
        """Everything that the server has touched so far, in order."""
        return self.log.read_text().splitlines()

    def alive(self) -> bool:
        return self.process.poll() is None and self.get("/api/runs").status == 200

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.errors.close()


@pytest.fixture(scope="session")
def studio(root: Path) -> Iterator[Studio]:
    running = Studio(root, "--upload-limit", str(LIMIT / 1e9), "--device", "cpu")
    yield running
    running.close()


def unpack(body: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """A head with parts behind it, as answers.py says."""
    length = int.from_bytes(body[:4], "little")
    head, at, parts = json.loads(body[4 : 4 + length]), 4 + length, []
    for size in head["parts"]:
        parts.append(body[at : at + size])
        at += size
    assert at == len(body)
    return head, parts


def write_clip(path: Path, frames: int = 60, width: int = 128, height: int = 96, codec: str = "libx264") -> Path:
    """A white bar at column 2i in frame i, so that a picture tells its number."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=25)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for i in range(frames):
            image = np.full((height, width, 3), 40, np.uint8)
            image[:, 2 * i : 2 * i + 4] = 255
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, "rgb24")))
        container.mux(stream.encode())
    return path


@pytest.fixture(scope="session")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clip(tmp_path_factory.mktemp("clip") / "bars.mp4")


@pytest.fixture(scope="session")
def followed(studio: Studio, clip: Path) -> str:
    """A clip that was dropped and followed to its end; its id."""
    made = studio.drop(clip.read_bytes(), name="bars.mp4").json["id"]
    deadline = time.monotonic() + 90
    while (card := studio.get("/api/clip", id=made).json)["state"] != "done":
        assert card["state"] in ("waiting", "tracking"), card
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return made


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Headless Chromium; a test that needs it says plainly when it is not there."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is missing: pip install '.[dev]'")
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine (Debian: apt install chromium)")
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


def _is_trouble(said: Any) -> bool:
    """An upload that is refused is also told to the console: that one is as it should be."""
    return said.type == "error" and "status of 422" not in said.text


@pytest.fixture
def open_page(browser: Any, studio: Studio) -> Iterator[Callable[..., Any]]:
    """A page of the studio, entered with its token; whatever its console complains about fails the test."""
    complaints: list[str] = []
    contexts = []

    def open_at(place: str = "runs", width: int = 1280, height: int = 860, theme: str = "light", **more: Any) -> Any:
        size = {"width": width, "height": height}
        contexts.append(browser.new_context(viewport=size, color_scheme=theme, accept_downloads=True, **more))
        page = contexts[-1].new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda said: complaints.append(said.text) if _is_trouble(said) else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(studio.address)
        page.wait_for_selector("header.top")
        page.goto(f"{studio.base}/#/{place}")
        return page

    yield open_at
    for context in contexts:
        context.close()
    assert complaints == []

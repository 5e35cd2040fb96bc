"""Many Atari games in processes; what they show lies in memory that all of them share.

They only play, and leave film: pictures, which ale-py's own threads make, take about as long as the play. And they tell
what those threads do not know: the truth, and where a game is over unnoticed; who needs that and pictures, too, gets
pictures. ale-py's Python interface holds the interpreter while it works, so threads of ours would take turns.

One program is started (a host, without the memory, threads or GPU of this one), imports what it needs once and forks
as many processes as play. All of them are a group of their own, deaf to Ctrl-C and its like, which are for whoever
started them. They are killed when they are closed, and end by themselves when whoever started them is gone.
"""

import fcntl
import json
import mmap
import os
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from jaxtyping import Int64, UInt8

from transporter.envs import atari_host, atari_truth
from transporter.envs.atari import NOOPS, AtariEnv, come_back
from transporter.envs.atari_host import NO_SEED, RESET, STAY, STEP, Board, Plan, Show
from transporter.envs.base import Truth
from transporter.envs.film import COLOURS, Film
from transporter.envs.processes import PATIENCE, WorkerDiedError, deaf
from transporter.errors import InputError
from transporter.workers import cores

QUIET = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}  # no threads where one forks
BEGIN = "import json, sys; a = json.load(sys.stdin); sys.path[:] = a.pop(); from {} import host; host(*a)"


class AtariProcesses(VectorEnv):
    """count games. Observations are Film, pictures, or (count, objects, 3) of the truth: present, x, y.

    They are to be looked at before the next step is begun, which is written over them. A game that ended restarts at
    the next step.
    """

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(
        self,
        name: str,
        count: int,
        seed: int = 0,
        *,
        show: Show = "film",
        size: int = 1,
        noops: int = NOOPS,
        sticky: float = 0.0,
        workers: int | None = None,
    ) -> None:
        """`size`: of pictures. `workers`: by default one for each core, shared among what torchrun has started."""
        model = AtariEnv(name, 1)
        if show == "film" and model.film.ndim != 3:
            raise InputError(f"the colours of {name} are not known: it cannot be filmed")
        shapes: dict[Show, tuple[int, ...]] = {
            "film": model.film.shape, "pictures": (size, size, 3), "truth": (len(model.scene.objects), 3),
        }  # fmt: skip
        shape = shapes[show]
        low, kind = (-1, np.float32) if show == "truth" else (0, np.uint8)
        self.num_envs, self.name, self.show, self._sticky = count, name, show, sticky
        self.single_action_space = model.action_space
        self.single_observation_space = gymnasium.spaces.Box(low, 255 if low == 0 else 1, shape, kind)
        self.action_space = batch_space(self.single_action_space, count)
        self.observation_space = batch_space(self.single_observation_space, count)
        self._seed: int | None = seed
        self._playing = False
        plan = Plan(name, count, show, tuple(shape), noops, sticky)
        parts = np.array_split(np.arange(count), min(count, workers or _at_once()))
        ranges = [(int(part[0]), int(part[-1]) + 1) for part in parts]
        self._pipes: list[tuple[Connection, Connection]] = []
        with ExitStack() as stack:
            theirs: list[tuple[int, int]] = []
            for _ in parts:
                (hear, tell), (listen, answer) = _pipe(), _pipe()
                self._pipes.append((Connection(tell, readable=False), Connection(listen, writable=False)))
                theirs.append((hear, answer))
                stack.callback(os.close, hear)
                stack.callback(os.close, answer)
            shared = stack.enter_context(_shared(plan.nbytes)).fileno()
            self._board = Board.over(mmap.mmap(shared, plan.nbytes), plan)
            self._view = self._board.view.view(Film) if show == "film" else self._board.view
            with deaf():
                self._host = subprocess.Popen(
                    [sys.executable, "-P", "-c", BEGIN.format(atari_host.__name__)],
                    pass_fds=[shared, *(end for both in theirs for end in both)],
                    env={**os.environ, **QUIET},
                    stdin=subprocess.PIPE,
                    start_new_session=True,
                )
                self._finish = weakref.finalize(self, _end, self._pipes, self._host)  # at the latest with the program
            paths = [str(Path(path).absolute()) for path in sys.path if isinstance(path, str)]
            assert self._host.stdin is not None
            self._host.stdin.write(json.dumps([plan, shared, ranges, theirs, paths]).encode())
            self._host.stdin.close()

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """All games from their start; game i gets seed + i, or the i-th seed. Of a `reset_mask`, those it names."""
        if self._playing:
            self._wait()
        chosen = self._seed if seed is None else seed
        self._seed = None
        seeds = np.full(self.num_envs, NO_SEED) if chosen is None else np.asarray(chosen)
        if chosen is not None and seeds.min() < 0:
            raise InputError(f"seeds are at least 0, not {seeds.min()}")
        each = seeds if seeds.ndim else seeds + np.arange(self.num_envs)
        self._tell(RESET, np.where((options or {}).get("reset_mask", True), each, STAY))
        self._wait()
        return self._view, {"lives": self._board.lives.copy()}

    def come_back(
        self, seeds: Int64[np.ndarray, "n"], restarts: Int64[np.ndarray, "n"], played: Sequence[Int64[np.ndarray, "t"]]
    ) -> np.ndarray | None:
        """See atari.come_back(): None where it does not know how."""
        return None if self._sticky and restarts.any() else come_back(self, seeds, restarts, played)

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        self.step_async(actions)
        return self.step_wait()

    def step_async(self, actions: np.ndarray) -> None:
        """Begin a step; whoever looks at what was shown after this sees it change."""
        if self._playing:
            raise RuntimeError("step_async() twice without step_wait()")
        if not self.action_space.contains(np.asarray(actions)):
            raise InputError(f"not an action for each of {self.num_envs} games: {actions}")
        self._tell(STEP, actions)

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """What step() returns; all but the first is the caller's to keep."""
        if not self._playing:
            raise RuntimeError("step_wait() without step_async()")
        self._wait()
        b = self._board
        told = b.reward.astype(np.float64), b.terminated.copy(), b.truncated.copy()
        return self._view, *told, {"lives": b.lives.copy()}

    def truth(self, part: slice = slice(None)) -> Truth:
        """Centres (n, k, 2) and presence (n, k) in the frames shown last, of some of the games; pictures tell none."""
        if self.show == "pictures":
            raise InputError("the truth is told of film, or alone")
        shown = self._view[part]
        if self.show == "truth":
            return Truth(shown[..., 1:].copy(), shown[..., 0] > 0)
        both = zip(self.ram[part], COLOURS[shown], strict=True)
        found = [atari_truth.truth(self.name, ram, screens) for ram, screens in both]
        return Truth(*(np.stack(parts) for parts in zip(*found, strict=True)))

    @property
    def ram(self) -> UInt8[np.ndarray, "n 128"]:
        """The consoles' memory behind the frames shown last."""
        return self._board.ram

    def _tell(self, word: bytes, order: np.ndarray) -> None:
        if not self._finish.alive:
            raise RuntimeError("these games have been closed")
        self._board.order[:] = order
        self._playing = True
        with self._watched():
            for words, _ in self._pipes:
                words.send_bytes(word)

    def _wait(self) -> None:
        with self._watched():
            for _, answers in self._pipes:
                answers.recv_bytes()
        self._playing = False

    @contextmanager
    def _watched(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, ConnectionError) as error:
            code = _exit_code(self._host)
            self.close_extras()
            raise WorkerDiedError(code) from error
        except BaseException:  # interrupted: some have answered, and nobody knows who
            self.close_extras()
            raise

    def close_extras(self, **kwargs: Any) -> None:
        self._finish()
        self._playing = False


def _at_once() -> int:
    """One for each core, shared among the learners that torchrun has started on this machine."""
    learners = os.environ.get("LOCAL_WORLD_SIZE", "1")
    return max(1, cores() // (int(learners) or 1 if learners.isdigit() else 1))


def _pipe() -> tuple[int, int]:
    """Its ends are neither 0, 1 nor 2, which the host has for itself, also where this program has closed its own."""
    ends = os.pipe()
    kept = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 3) for end in ends)
    for end in ends:
        os.close(end)
    return kept[0], kept[1]


def _shared(nbytes: int) -> IO[bytes]:
    """A file without a name, in memory where there is room for it."""
    for folder in ("/dev/shm", None):
        with suppress(OSError), ExitStack() as stack:
            file = stack.enter_context(tempfile.TemporaryFile(dir=folder))
            # All of it now: later a write to what there is no room for would end the process that writes.
            os.posix_fallocate(file.fileno(), 0, nbytes) if sys.platform == "linux" else file.truncate(nbytes)
            stack.pop_all()
            return file
    raise InputError(f"no room for {nbytes / 2**20:.0f} MiB of what games show, neither in memory nor in a file")


def _exit_code(host: "subprocess.Popen[bytes]") -> int | None:
    """How it ended; it stays, so that its group remains ours to end."""
    give_up = time.monotonic() + PATIENCE
    while (told := os.waitid(os.P_PID, host.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)) is None:
        if time.monotonic() > give_up:
            return None
        time.sleep(0.01)
    return told.si_status if told.si_code == os.CLD_EXITED else -told.si_status


def _end(pipes: Sequence[tuple[Connection, Connection]], host: "subprocess.Popen[bytes]") -> None:
    """At once: they keep nothing that could be lost."""
    os.killpg(host.pid, signal.SIGKILL)
    host.wait()
    for both in pipes:
        for end in both:
            end.close()

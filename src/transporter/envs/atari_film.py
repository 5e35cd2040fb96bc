"""Many Atari games in processes, which only play; their screens lie on film in memory that all of them share.

ale-py's own threads also make pictures, which takes as long as the play itself. Its Python interface holds the
interpreter while it works, so threads of ours would take turns.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from jaxtyping import Bool, Float32, Int64

from transporter.envs.atari import NOOPS, AtariEnv
from transporter.envs.film import Film
from transporter.envs.processes import died_of
from transporter.workers import belong_to_parent, cores, forked

RESET, STEP, DONE = b"reset", b"step", b"done"


class Board(NamedTuple):
    """What all of the processes see: a row of each for every game."""

    film: Film
    order: Int64[np.ndarray, "n"]  # the action to take, or the seed to begin with
    reward: Float32[np.ndarray, "n"]
    terminated: Bool[np.ndarray, "n"]
    truncated: Bool[np.ndarray, "n"]
    lives: Int64[np.ndarray, "n"]

    @classmethod
    def over(cls, memory: Any, games: int, screen: tuple[int, int]) -> "Board":
        """Laid out in shared memory: what has the widest numbers first."""
        kinds = {"order": np.int64, "lives": np.int64, "reward": np.float32, "terminated": bool, "truncated": bool}
        parts: dict[str, np.ndarray] = {}
        at = 0
        for name, kind in kinds.items():
            parts[name] = np.frombuffer(memory, kind, games, at)
            at += parts[name].nbytes
        film = np.frombuffer(memory, np.uint8, games * 2 * screen[0] * screen[1], at)
        return cls(film=film.reshape(games, 2, *screen).view(Film), **parts)

    @staticmethod
    def size(games: int, screen: tuple[int, int]) -> int:
        return games * (8 + 8 + 4 + 1 + 1 + 2 * screen[0] * screen[1])


class FilmVector(VectorEnv):
    """count games; observations are Film, to be looked at before the next step. A game that ended restarts then."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(
        self,
        name: str,
        count: int,
        seed: int = 0,
        *,
        noops: int = NOOPS,
        sticky: float = 0.0,
        workers: int | None = None,
    ) -> None:
        self.num_envs = count
        model = AtariEnv(name, 1)
        height, width = model.film.shape[1:]
        self.single_action_space = model.action_space
        self.single_observation_space = gymnasium.spaces.Box(0, 255, (2, height, width), np.uint8)
        self.action_space = batch_space(self.single_action_space, count)
        self.observation_space = batch_space(self.single_observation_space, count)
        self._seed: int | None = seed
        context = forked(__name__)
        memory = context.RawArray(ctypes.c_uint8, Board.size(count, (height, width)))
        self._board = Board.over(memory, count, (height, width))
        self._pipes: list[Connection] = []
        self._processes = []
        for part in np.array_split(np.arange(count), min(count, workers or cores())):
            ours, theirs = context.Pipe()
            given = (theirs, memory, count, range(int(part[0]), int(part[-1]) + 1), name, noops, sticky)
            process = context.Process(target=_play, args=given, daemon=True)
            process.start()
            theirs.close()  # so that the end of the process ends the pipe
            self._pipes.append(ours)
            self._processes.append(process)

    def reset(
        self, *, seed: int | Int64[np.ndarray, "n"] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Film, dict[str, Any]]:
        """All games from their start; game i gets seed + i, or the i-th seed."""
        chosen = self._seed if seed is None else seed
        self._seed = None
        if chosen is None:
            raise ValueError("only the first reset can do without a seed")
        seeds = np.asarray(chosen)
        self._tell(RESET, seeds if seeds.ndim else seeds + np.arange(self.num_envs))
        self._wait()
        return self._board.film, {"lives": self._board.lives.copy()}

    def step(self, actions: np.ndarray) -> tuple[Film, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        self.step_async(actions)
        return self.step_wait()

    def step_async(self, actions: np.ndarray) -> None:
        """Begin a step; whoever looks at the film after this sees it change."""
        self._tell(STEP, actions)

    def step_wait(self) -> tuple[Film, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """What step() returns; all but the film is the caller's to keep."""
        self._wait()
        b = self._board
        told = b.reward.astype(np.float64), b.terminated.copy(), b.truncated.copy()
        return b.film, *told, {"lives": b.lives.copy()}

    def _tell(self, word: bytes, order: np.ndarray) -> None:
        self._board.order[:] = order
        with self._watched():
            for pipe in self._pipes:
                pipe.send_bytes(word)

    def _wait(self) -> None:
        with self._watched():
            for pipe in self._pipes:
                pipe.recv_bytes()

    @contextmanager
    def _watched(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, ConnectionError) as error:
            died = died_of(self._processes)
            self.close()
            raise died from error

    def close_extras(self, **kwargs: Any) -> None:
        """Without a word: they keep nothing that could be lost."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join()
        for pipe in self._pipes:
            pipe.close()


def _play(pipe: Connection, memory: Any, count: int, part: range, name: str, noops: int, sticky: float) -> None:
    """A process's life: some of the games, until nobody asks any more."""
    belong_to_parent()
    games = [AtariEnv(name, 1, sticky=sticky, noops=noops) for _ in part]
    board = Board.over(memory, count, games[0].film.shape[1:])
    for number, game in zip(part, games, strict=True):
        game.film = board.film[number]
    over = dict.fromkeys(part, False)
    while True:
        try:
            word = pipe.recv_bytes()
        except EOFError:
            return
        for number, game in zip(part, games, strict=True):
            reward, ended, cut = 0.0, False, False
            if word == RESET or over[number]:
                game.begin(seed=int(board.order[number]) if word == RESET else None)
            else:
                reward = game.play(int(board.order[number]))
                ended, cut = game.ended()
            board.reward[number], board.lives[number] = reward, game.ale.lives()
            board.terminated[number], board.truncated[number] = ended, cut
            over[number] = ended or cut
        pipe.send_bytes(DONE)

"""What happens in the processes that play Atari: a host forks them, and they play word by word.

Whoever started the host (atari_processes) writes orders on a board that all of them share, and reads the outcome there.
"""

import mmap
import os
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np
from jaxtyping import Bool, Float32, Int64, Shaped, UInt8

from transporter.envs.atari import AtariEnv

RESET, STEP, DONE = b"reset", b"step", b"done"
NO_SEED, STAY = -1, -2  # of a game that is to begin, and of one that is not
RAM = 128  # bytes of the console's memory
Show = Literal["film", "pictures", "truth"]


class Plan(NamedTuple):
    """Which games are played, and what is to be seen of them."""

    name: str
    games: int
    show: Show
    shape: tuple[int, ...]  # of one game's view
    noops: int
    sticky: float

    @property
    def layout(self) -> tuple[np.dtype, ...]:
        """What the board holds of each game, one part after the other: those with the widest numbers first."""
        view = np.dtype((np.float32 if self.show == "truth" else np.uint8, tuple(self.shape)))
        ram = np.dtype((np.uint8, RAM))
        return (*map(np.dtype, (np.int64, np.int64, np.float32)), view, ram, *map(np.dtype, (bool, bool)))

    @property
    def nbytes(self) -> int:
        return self.games * sum(part.itemsize for part in self.layout)


class Board(NamedTuple):
    """What all of the processes see: a row of each for every game."""

    order: Int64[np.ndarray, "n"]  # the action to take, or the seed to begin with
    lives: Int64[np.ndarray, "n"]
    reward: Float32[np.ndarray, "n"]
    view: Shaped[np.ndarray, "n *shape"]
    ram: UInt8[np.ndarray, "n 128"]
    terminated: Bool[np.ndarray, "n"]
    truncated: Bool[np.ndarray, "n"]

    @classmethod
    def over(cls, memory: mmap.mmap, plan: Plan) -> "Board":
        """In memory that is shared, as the plan lays it out."""
        parts, at = [], 0
        for part in plan.layout:
            parts.append(np.ndarray(plan.games, part, memory, at))
            at += parts[-1].nbytes
        return cls(*parts)


def host(
    plan: Sequence[Any], shared: int, ranges: Sequence[tuple[int, int]], ends: Sequence[tuple[int, int]]
) -> NoReturn:
    """In the program that was started: fork, and say with the exit code how the first of them that failed ended."""
    told = Plan(*plan)
    memory = mmap.mmap(shared, told.nbytes)
    for own, part in zip(ends, ranges, strict=True):
        if os.fork() == 0:
            for end in {end for both in ends for end in both} - set(own):
                os.close(end)
            _live(told, memory, range(*part), *(Connection(end) for end in own))
    for both in ends:
        for end in both:
            os.close(end)
    for _ in ends:
        _, status = os.wait()
        if (code := os.waitstatus_to_exitcode(status)) != 0:
            os._exit(code if code > 0 else 128 - code)
    os._exit(0)


def _live(plan: Plan, memory: mmap.mmap, part: range, words: Connection, answers: Connection) -> NoReturn:
    try:
        _play(plan, memory, part, words, answers)
    except (EOFError, ConnectionError):  # nobody asks any more
        os._exit(0)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)


def _play(plan: Plan, memory: mmap.mmap, part: range, words: Connection, answers: Connection) -> NoReturn:
    """Some of the games, word by word."""
    board = Board.over(memory, plan)
    size = plan.shape[0] if plan.show == "pictures" else 1
    games = {number: AtariEnv(plan.name, size, sticky=plan.sticky, noops=plan.noops) for number in part}
    if plan.show == "film":
        for number, game in games.items():
            game.film = board.view[number]  # where the emulator writes from now on
    over = dict.fromkeys(part, False)
    while True:
        word = words.recv_bytes()
        for number, game in games.items():
            order, reward, ended, cut = int(board.order[number]), 0.0, False, False
            if word == RESET and order == STAY:
                continue
            if word == RESET or over[number]:
                game.begin(seed=order if word == RESET and order != NO_SEED else None)
            else:
                reward = game.play(order)
                ended, cut = game.ended()
            if plan.show == "truth":
                board.view[number] = game.truth().rows()
            elif plan.show == "pictures":
                board.view[number] = game.picture()
            game.ale.getRAM(board.ram[number])
            board.reward[number], board.lives[number] = reward, game.ale.lives()
            board.terminated[number], board.truncated[number] = ended, cut
            over[number] = ended or cut
        answers.send_bytes(DONE)

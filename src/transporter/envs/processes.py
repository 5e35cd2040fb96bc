"""Environments in processes of their own, one of which may die: then all of them end, and one line says so.

Each is a group of its own: who ends a command often tells all of its group, and the first of it has a state to save.
"""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing import connection, resource_tracker
from typing import Any

from gymnasium import Env
from gymnasium.vector import AsyncVectorEnv
from gymnasium.vector.async_vector_env import AsyncState, _async_worker

PATIENCE = 2.0  # seconds for a process to end when asked
DEAF_TO = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}


class WorkerDiedError(RuntimeError):
    """A process that plays is gone."""

    def __init__(self, code: int | None) -> None:
        super().__init__(f"a process that plays ended with code {code}: run the same command again to go on")


@contextmanager
def deaf() -> Iterator[None]:
    """What is started meanwhile never hears of Ctrl-C and its like, not even in its first moment; we do, afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, DEAF_TO)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _apart(*given: Any) -> None:
    """What gymnasium's processes do, in a group of their own; what was told to the other meanwhile is not for them."""
    os.setsid()
    for number in DEAF_TO:
        signal.signal(number, signal.SIG_IGN)  # which forgets what is waiting to be heard
    signal.pthread_sigmask(signal.SIG_UNBLOCK, DEAF_TO)
    for number in DEAF_TO:
        signal.signal(number, signal.SIG_DFL)  # what is told to them alone ends them
    _async_worker(*given)


class Processes(AsyncVectorEnv):
    """gymnasium's vector of processes, which by itself would speak of broken pipes, and leave the others behind."""

    def __init__(self, builders: Sequence[Callable[[], Env]], **kwargs: Any) -> None:
        resource_tracker.ensure_running()  # now: starting it would open the ears of whoever starts it
        with ExitStack() as self._starting:
            self._starting.enter_context(deaf())
            super().__init__(builders, worker=_apart, **kwargs)

    @contextmanager
    def _watched(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, ConnectionError) as error:
            ended = connection.wait([process.sentinel for process in self.processes], PATIENCE)
            gone = [process for process in self.processes if process.sentinel in ended]
            for process in gone:
                process.join(PATIENCE)  # its pipes end before it does
            code = next((process.exitcode for process in gone), None)
            self._end_all()
            raise WorkerDiedError(code) from error
        except (KeyboardInterrupt, SystemExit):  # some have answered, and nobody knows who
            self._end_all()  # any other error is one of theirs, after which gymnasium has put things in order
            raise

    def _end_all(self) -> None:
        """Without a word to the others: they may wait for an answer that never comes."""
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.join(PATIENCE)
            if process.is_alive():
                process.kill()
                process.join()
        self._state = AsyncState.DEFAULT

    def _check_spaces(self) -> None:
        """The last that is done when they start: all are there, and have not answered yet."""
        with self._watched():
            self._starting.close()
            super()._check_spaces()

    def reset_async(self, *args: Any, **kwargs: Any) -> None:
        with self._watched():
            super().reset_async(*args, **kwargs)

    def reset_wait(self, *args: Any, **kwargs: Any) -> Any:
        with self._watched():
            return super().reset_wait(*args, **kwargs)

    def step_async(self, actions: Any) -> None:
        with self._watched():
            super().step_async(actions)

    def step_wait(self, timeout: float | None = None) -> Any:
        with self._watched():
            return super().step_wait(timeout)

    def close_extras(self, timeout: float | None = None, terminate: bool = False) -> None:
        """Also where some of them are gone."""
        if any(not process.is_alive() for process in self.processes):
            self._end_all()
            for pipe in self.parent_pipes:
                if pipe is not None:  # as that of one which has said what went wrong
                    pipe.close()
            return
        super().close_extras(timeout, terminate)

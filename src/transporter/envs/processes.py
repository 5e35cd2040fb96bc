"""Environments in processes of their own, one of which may die: then all of them end, and one line says so.

They are deaf to Ctrl-C and its like, which are for whoever started them, and may be told to all of a group.
"""

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing import connection, resource_tracker
from typing import Any

from gymnasium.vector import AsyncVectorEnv
from gymnasium.vector.async_vector_env import AsyncState

PATIENCE = 2.0  # seconds in which a process that has ended is seen to
DEAF_TO = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}


@contextmanager
def deaf() -> Iterator[None]:
    """What is started meanwhile never hears of Ctrl-C and its like, not even in its first moment."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, DEAF_TO)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class WorkerDiedError(RuntimeError):
    """A process that plays is gone."""

    def __init__(self, code: int | None) -> None:
        super().__init__(f"a process that plays ended with code {code}: run the same command again to go on")


class Processes(AsyncVectorEnv):
    """gymnasium's vector of processes, which by itself would speak of broken pipes, and leave the others behind."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        resource_tracker.ensure_running()  # Python's, which opens the ears of whoever starts it
        with ExitStack() as self._starting:
            self._starting.enter_context(deaf())
            super().__init__(*args, **kwargs)

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

    def _end_all(self) -> None:
        """At once and without a word: they may wait for an answer that never comes, and keep nothing that matters."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.join()
        self._state = AsyncState.DEFAULT

    def _check_spaces(self) -> None:
        self._starting.close()  # all are there: who waits for them hears again
        with self._watched():
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
        if terminate or any(not process.is_alive() for process in self.processes):
            self._end_all()
            for pipe in self.parent_pipes:
                pipe.close()
            return
        super().close_extras(timeout, terminate)

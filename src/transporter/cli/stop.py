"""Ctrl-C and SIGTERM: work ends well instead of in the middle of something."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

IMPATIENT = 1.0  # seconds; torchrun hands a Ctrl-C on to processes that the terminal has told already


class Terminated(KeyboardInterrupt):
    """SIGTERM, which ends work as Ctrl-C does."""


def terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated("terminated")


class Stop:
    """Whether someone has asked, and how."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._since = 0.0

    def asked(self) -> bool:
        return self.signal is not None

    def raise_if_asked(self, line: str) -> None:
        if self.signal is not None:
            raise Terminated(line) if self.signal == signal.SIGTERM else KeyboardInterrupt(line)

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self.signal is None:
            self.signal, self._since = number, time.monotonic()
        elif time.monotonic() - self._since > IMPATIENT:
            self.raise_if_asked("stopped at once, nothing saved since the last checkpoint")


@contextmanager
def stop_when_asked() -> Iterator[Stop]:
    """Inside, a first signal is only noted, for the work to end at a place of its choice; a second one ends it."""
    stop = Stop()
    before = {number: signal.signal(number, stop._take) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

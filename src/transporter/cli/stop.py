"""Ctrl-C and SIGTERM: work ends well instead of in the middle of something."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from types import FrameType

IMPATIENT = 1.0  # seconds; torchrun hands a Ctrl-C on to processes that the terminal has told already
DEAF = 1.0  # seconds after which work that does not hear a second signal is ended from outside
AT_ONCE = "stopped at once, nothing saved since the last checkpoint"


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

    def ask(self) -> None:
        """Another process of the same work was asked."""
        self.signal = self.signal or signal.SIGTERM

    def raise_if_asked(self, line: str) -> None:
        if self.signal is not None:
            raise Terminated(line) if self.signal == signal.SIGTERM else KeyboardInterrupt(line)

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self.signal is None:
            self.signal, self._since = number, time.monotonic()
        elif time.monotonic() - self._since > IMPATIENT:
            self.raise_if_asked(AT_ONCE)


@contextmanager
def stop_when_asked() -> Iterator[Stop]:
    """Inside, a first signal is only noted, for the work to end at a place of its choice; a second one ends it."""
    stop = Stop()
    before = {number: signal.signal(number, stop._take) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with _listener():
            yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _listener() -> Iterator[None]:
    """A second signal is obeyed also where Python hears none: within one call into torch that takes a minute."""
    ear, mouth = os.pipe()
    os.set_blocking(mouth, False)
    over = Event()
    before = signal.set_wakeup_fd(mouth, warn_on_full_buffer=False)
    thread = Thread(target=_listen, args=(ear, over), name="signals", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        signal.set_wakeup_fd(before)
        os.close(mouth)
        thread.join()
        os.close(ear)


def _listen(ear: int, over: Event) -> None:
    first, since = 0, 0.0
    while heard := os.read(ear, 1):
        if heard[0] not in (signal.SIGINT, signal.SIGTERM):
            continue
        if not first:
            first, since = heard[0], time.monotonic()
        elif time.monotonic() - since > IMPATIENT and not over.wait(DEAF):
            shown = "\x1b[?25h\n" if sys.stderr.isatty() else ""  # the cursor, which a progress bar hides
            print(f"{shown}transporter: {AT_ONCE}", file=sys.stderr, flush=True)
            os._exit(128 + first)

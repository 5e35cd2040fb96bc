"""Processes of this machine, of whose end the system itself tells: Ray tells too, but seconds later."""

import os
import select
import time
from contextlib import suppress

LOOK = 0.5  # seconds between looks, where the system does not tell


class Watch:
    """On one process, by its number."""

    def __init__(self, process: int) -> None:
        self._process, self._handle = process, -1
        if hasattr(os, "pidfd_open"):
            with suppress(ProcessLookupError):  # it has ended already
                self._handle = os.pidfd_open(process)

    def ended(self) -> bool:
        return bool(select.select([self._handle], [], [], 0)[0]) if self._handle >= 0 else not _exists(self._process)

    def wait(self) -> None:
        """Until it has ended."""
        if self._handle >= 0:
            select.select([self._handle], [], [])
        while not self.ended():
            time.sleep(LOOK)

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def _exists(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True

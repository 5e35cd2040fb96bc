"""Imported by the server that processes are forked from, and by nobody else.

Who ends a command often signals all of its processes. The server stays until the one that started it is gone: without
it, processes that play on would be taken for dead.
"""

import signal

signal.signal(signal.SIGTERM, lambda *_: None)

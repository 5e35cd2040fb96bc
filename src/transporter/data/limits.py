"""How much a file would become in memory, read from its first bytes: what is too much is refused before it is there."""

import os
from pathlib import Path

MAGIC = bytes.fromhex("28b52ffd")  # of a Zstandard frame (RFC 8878, 3.1.1)
RAW, REPEATED, COMPRESSED = 0, 1, 2


def physical_memory() -> int:
    """Bytes that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def unpacked_size(path: Path, trailer: int = 4) -> int | None:
    """Bytes that a file of one Zstandard frame, and a trailer after it, says it unpacks to; None: it is something else.

    A frame that does not say its size, or a second one behind it, would unpack to anything.
    """
    data = path.read_bytes()
    if data[:4] != MAGIC or len(data) < 18:
        return None
    flags = data[4]
    single, has_sum = flags >> 5 & 1, flags >> 2 & 1
    at = 5 + (1 - single) + (0, 1, 2, 4)[flags & 3]  # window, dictionary
    width = (1 if single else 0, 2, 4, 8)[flags >> 6]
    size = int.from_bytes(data[at : at + width], "little") + (256 if width == 2 else 0)
    if width == 0:
        return None
    at += width
    last = False
    while not last:
        if at + 3 > len(data):
            return None
        block = int.from_bytes(data[at : at + 3], "little")
        last = bool(block & 1)
        at += 3 + (1 if block >> 1 & 3 == REPEATED else block >> 3)
    return size if at + 4 * has_sum + trailer == len(data) else None

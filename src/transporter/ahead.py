"""Making the next thing while the last one is used."""

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, Queue
from threading import Event, Thread
from typing import TypeVar

Item = TypeVar("Item")


@contextmanager
def ahead(items: Iterable[Item], depth: int) -> Iterator[Iterator[Item]]:
    """The same items, made in a thread of their own, at most `depth` of them waiting.

    What goes wrong in the making is raised where the items are used. The thread has ended when the block has.
    """
    queue: Queue[Item | _End] = Queue(depth)
    stop = Event()

    def make() -> None:
        end = _End(None)
        try:
            for item in items:
                queue.put(item)
                if stop.is_set():
                    break
            if isinstance(items, Generator):  # cleaned up here and now, not when someone lets go of it
                items.close()
        except BaseException as error:  # for the user of the items to raise
            end = _End(error)
        queue.put(end)

    def received() -> Iterator[Item]:
        while not isinstance(item := queue.get(), _End):
            yield item
        if item.error is not None:
            raise item.error

    thread = Thread(target=make, name="ahead", daemon=True)
    thread.start()
    try:
        yield received()
    finally:
        stop.set()
        while thread.is_alive():  # it may be waiting for room
            with suppress(Empty):
                queue.get(timeout=0.01)


class _End:
    """The last thing in the queue: why there are no more."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error

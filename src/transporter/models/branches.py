"""Networks that do not wait for one another."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

import torch
from torch import Tensor

First = TypeVar("First", bound=Tensor)
Second = TypeVar("Second", bound=Tensor)
STREAMS = 8  # at once


def beside(purpose: str) -> torch.cuda.Stream:
    """A stream for this purpose beside the current one.

    Memory is handed on within a stream without waiting: were one shared by several trainings, one could write over what
    another, on a stream of its own, has not read yet.
    """
    here = torch.cuda.current_stream()
    return here if _queue.one_by_one else _beside(purpose, here.device, here.cuda_stream, here.priority)


class _Queue:
    one_by_one = False  # for all threads: the backward pass runs in one of its own


_queue = _Queue()


@contextmanager
def one_by_one() -> Iterator[None]:
    """Within it nothing goes on beside: for one of many models, which fill each other's gaps."""
    before, _queue.one_by_one = _queue.one_by_one, True
    try:
        yield
    finally:
        _queue.one_by_one = before


@cache
def _beside(purpose: str, device: torch.device, stream: int, priority: int) -> torch.cuda.Stream:
    return torch.cuda.Stream(device, priority=priority)


def side_by_side(
    first: Callable[[Tensor], First], second: Callable[[Tensor], Second], x: Tensor, y: Tensor
) -> tuple[First, Second]:
    """first(x) and second(y), on two streams of a GPU: one's sums fill the gaps that the other's memory leaves."""
    if not x.is_cuda:
        return first(x), second(y)
    here, side = torch.cuda.current_stream(x.device), beside("branch")
    side.wait_stream(here)
    with torch.cuda.stream(side):
        b = second(y)
    a = first(x)
    here.wait_stream(side)
    # Memory is given back stream by stream: what the other one still reads must not be written over.
    y.record_stream(side)
    b.record_stream(here)
    return a, b


def together(work: Sequence[Callable[[], First]], reads: Sequence[Tensor]) -> list[First]:
    """What each gives, in several streams of a GPU: for many small kernels, which leave most of it idle.

    `reads`: what was made here, before, and is read there.
    """
    if len(work) == 1 or not reads[0].is_cuda:
        return [one() for one in work]
    here, found = torch.cuda.current_stream(reads[0].device), []
    sides = [beside(f"together {i}") for i in range(min(len(work), STREAMS))]
    for side in sides:
        side.wait_stream(here)
    for number, one in enumerate(work):
        with torch.cuda.stream(sides[number % STREAMS]):
            found.append(one())
    for side in sides:
        here.wait_stream(side)
        for tensor in reads:
            tensor.record_stream(side)
    for tensor in found:
        tensor.record_stream(here)
    return found


def once(x: Tensor, what: Hashable, make: Callable[[], Tensor]) -> Tensor:
    """What `make` makes of x: by whichever of two branches asks first, for both. It lasts as long as x does."""
    made: dict[Hashable, tuple[Tensor, torch.cuda.Event | None]] = x.__dict__.setdefault("_made", {})
    if what not in made:
        value = make()
        made[what] = value, torch.cuda.current_stream(x.device).record_event() if x.is_cuda else None
        return value
    value, ready = made[what]
    if ready is not None:
        here = torch.cuda.current_stream(x.device)
        here.wait_event(ready)
        value.record_stream(here)
    return value

"""Work on a GPU as one CUDA graph: a single launch instead of hundreds."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

Outcome = TypeVar("Outcome")


def record(
    work: Callable[[], Outcome], pool: Any = None, *, urgent: bool = False
) -> tuple[torch.cuda.CUDAGraph, Outcome]:
    """The graph of `work`, which reads and writes tensors that stay where they are; and what each replay writes anew.

    It is run for real a few times first: kernels are chosen and workspaces made by that. What it changes then is the
    caller's to put back. `urgent` graphs have their turn before others.
    """
    stream = torch.cuda.Stream(priority=-1 if urgent else 0)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    # Only this thread's work is recorded: others may go on copying frames.
    with _own_scratch(), torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
        outcome = work()
    return graph, outcome


@contextmanager
def _own_scratch() -> Iterator[None]:
    """Matrix products keep their scratch space by stream, of which torch has few: graphs that share one and run at once
    would write over each other's. Forgotten before and after, it is made anew in the graph's own memory."""
    torch._C._cuda_clearCublasWorkspaces()
    try:
        yield
    finally:
        torch._C._cuda_clearCublasWorkspaces()

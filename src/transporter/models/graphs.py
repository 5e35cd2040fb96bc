"""Work on a GPU as one CUDA graph: a single launch instead of hundreds."""

from collections.abc import Callable
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
    # A stream of its own: products keep their scratch space by stream, and graphs recorded on one, as torch does by
    # default, would write over each other's when they run at once.
    stream = torch.cuda.Stream(priority=-1 if urgent else 0)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    # Only this thread's work is recorded: others may go on copying frames.
    with torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
        outcome = work()
    return graph, outcome

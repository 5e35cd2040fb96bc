"""Work on a GPU as one CUDA graph: a single launch instead of hundreds."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

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


class Captured(Generic[Outcome]):
    """Calls `work`, which reads and writes tensors that stay where they are; on a GPU, from the first call, as a graph.

    `changed` names the tensors that `work` changes and also reads: warming up must leave them as they were, and those
    that it makes, which come last, at nothing. Graphs of several of these may run at once; `urgent` ones have their
    turn first. What a replay gives is good until the next.
    """

    def __init__(
        self,
        work: Callable[[], Outcome],
        changed: Callable[[], Sequence[Tensor]],
        capture: bool,
        *,
        urgent: bool = False,
    ) -> None:
        self.work, self.changed, self.capture, self.urgent = work, changed, capture, urgent
        self.recorded = False

    def __call__(self) -> Outcome:
        if self.capture:
            self._try()
        return self.work()

    def _try(self) -> None:
        """Once: from then on `work` is the replay, and what it came from is not held on to."""
        self.capture = False
        kept, changed = [tensor.detach().clone() for tensor in self.changed()], self.changed
        try:
            graph, outcome = record(self.work, urgent=self.urgent)
            self.work, self.changed, self.recorded = partial(_replayed, graph, outcome), list, True
        except RuntimeError as error:  # work may do what a graph cannot, such as drawing numbers on the CPU
            warnings.warn(f"not captured as a CUDA graph: {str(error).splitlines()[0]}", stacklevel=3)
        finally:
            now = changed()
            with torch.no_grad():
                for tensor, old in zip(now, kept + [torch.zeros_like(t) for t in now[len(kept) :]], strict=True):
                    tensor.copy_(old)


def _replayed(graph: torch.cuda.CUDAGraph, outcome: Outcome) -> Outcome:
    graph.replay()
    return outcome

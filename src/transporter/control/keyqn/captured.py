"""Work on a GPU as one CUDA graph: a single launch instead of hundreds."""

import warnings
from collections.abc import Callable, Sequence

import torch
from torch import Tensor


class Captured:
    """Calls `work`, which reads and writes tensors that stay where they are; on a GPU, from the first call, as a graph.

    `changed` are the tensors that `work` changes and also reads: warming up must leave them as they were.
    """

    def __init__(self, work: Callable[[], None], changed: Sequence[Tensor], capture: bool) -> None:
        self.work, self.changed, self.capture = work, changed, capture
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        if self.capture and self._graph is None:
            self._try()
        if self._graph is None:
            self.work()
        else:
            self._graph.replay()

    def _try(self) -> None:
        kept = [tensor.detach().clone() for tensor in self.changed]
        graph = torch.cuda.CUDAGraph()
        try:
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(3):  # kernels are chosen and workspaces made by real calls
                    self.work()
            torch.cuda.current_stream().wait_stream(stream)
            with torch.cuda.graph(graph):
                self.work()
            self._graph = graph
        except RuntimeError as error:
            self.capture = False
            warnings.warn(f"not captured as a CUDA graph: {str(error).splitlines()[0]}", stacklevel=3)
        finally:
            with torch.no_grad():
                for tensor, old in zip(self.changed, kept, strict=True):
                    tensor.copy_(old)

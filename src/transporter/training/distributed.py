"""More than one process: torchrun starts them, this joins them, and lets them compute as one."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from transporter.errors import InputError
from transporter.models.graphs import Captured

Outcome = TypeVar("Outcome")
Item = TypeVar("Item")

PATIENCE = timedelta(hours=2)  # with a process that does not answer: the first one may be evaluating


class Place(NamedTuple):
    """Of this process among all."""

    rank: int = 0
    world: int = 1


def place() -> Place:
    """0 of 1 where it is alone."""
    if not torch.distributed.is_initialized():
        return Place()
    return Place(torch.distributed.get_rank(), torch.distributed.get_world_size())


@contextmanager
def process_group(device: torch.device) -> Iterator[int]:
    """This process's rank; 0 where it is alone."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield 0
        return
    if device.index is not None:
        raise InputError(f"torchrun gives each process a GPU of its own: --device {device.type}, without a number")
    backend = "gloo"
    if device.type == "cuda":
        gpus = torch.cuda.device_count()
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % gpus)
        if int(os.environ["LOCAL_WORLD_SIZE"]) <= gpus:  # NCCL refuses processes that share a GPU
            backend = "nccl"
    torch.distributed.init_process_group(backend, timeout=PATIENCE)
    try:
        yield torch.distributed.get_rank()
        torch.distributed.barrier()  # no one hangs up on another: gloo ends a process for that
    finally:
        torch.distributed.destroy_process_group()


# All processes must ask these at the same time; one that is alone agrees with itself.


def from_first(said: Item) -> Item:
    """What the process of rank 0 says, in every process."""
    if place().world == 1:
        return said
    shared = [said]
    torch.distributed.broadcast_object_list(shared)
    return shared[0]


def all_of(items: Sequence[Item]) -> list[Item]:
    """Everyone's, in every process."""
    world = place().world
    if world == 1:
        return list(items)
    gathered: list[Any] = [None] * world
    torch.distributed.all_gather_object(gathered, list(items))
    return [item for part in gathered for item in part]


@torch.no_grad()
def begin_alike(tensors: Iterable[Tensor]) -> None:
    """Each becomes the first process's, in place: what is drawn on other machines may differ in its last digits."""
    if place().world > 1:
        for tensor in tensors:
            torch.distributed.broadcast(tensor, 0)


def check_same(step: int, path: object) -> None:
    """Processes go on from one step, or not at all."""
    if len(set(all_of([step]))) > 1:
        raise InputError(f"not everyone finds the same checkpoint in {path}: it must be on a disk that all share")


def anyone(wish: bool, device: torch.device) -> bool:
    """Whether at least one process wishes it."""
    if place().world == 1:
        return wish
    heard = torch.tensor(float(wish), device=device)
    torch.distributed.all_reduce(heard, torch.distributed.ReduceOp.MAX)
    return bool(heard)


def everyone(wish: bool, device: torch.device) -> bool:
    """Whether all processes wish it."""
    return not anyone(not wish, device)


@torch.no_grad()
def average(tensors: Sequence[Tensor]) -> None:
    """Each becomes its mean over all processes, in place; all of them in one message."""
    world = place().world
    if world == 1:
        return
    flat = torch.cat([tensor.flatten() for tensor in tensors])
    torch.distributed.all_reduce(flat)
    for tensor, mean in zip(tensors, (flat / world).split([tensor.numel() for tensor in tensors]), strict=True):
        tensor.copy_(mean.view_as(tensor))


class SharedStep(Generic[Outcome]):
    """A step of learning: `differentiate`, then `apply`. Between them processes average what they `share`.

    On a GPU each half is a graph, and alone both are one. `changed` is as of `Captured`; what is shared is read and
    written where `differentiate` left it: `apply` can be a graph only where that stays in place, in a graph itself.
    """

    def __init__(
        self,
        differentiate: Callable[[], Outcome],
        apply: Callable[[], None],
        share: Callable[[], Sequence[Tensor]],
        changed: Callable[[], Sequence[Tensor]],
        capture: bool,
    ) -> None:
        def whole() -> Outcome:
            outcome = differentiate()
            apply()
            return outcome

        alone = place().world == 1
        self._first = Captured(whole if alone else differentiate, changed, capture)
        # Alone nothing is held on to once the graph is made.
        self._rest = None if alone else (share, Captured(apply, changed, capture))

    def __call__(self) -> Outcome:
        outcome = self._first()
        if self._rest is not None:
            share, second = self._rest
            average(share())
            second.capture = second.capture and self._first.recorded
            second()
        return outcome

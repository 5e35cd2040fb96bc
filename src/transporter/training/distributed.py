"""More than one GPU: torchrun starts the processes, this joins them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from transporter.errors import InputError
from transporter.training.learner import Hardware


@contextmanager
def process_group(hardware: Hardware) -> Iterator[int]:
    """This process's rank; 0 where it is alone."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield 0
        return
    device = hardware.resolve()
    if device.index is not None:
        raise InputError(f"torchrun gives each process a GPU of its own: --device {device.type}, without a number")
    if device.type == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield torch.distributed.get_rank()
    finally:
        torch.distributed.destroy_process_group()


def from_first(text: str | None) -> str | None:
    """What the process of rank 0 says, in every process; all must ask at the same time."""
    if not torch.distributed.is_initialized():
        return text
    shared = [text]
    torch.distributed.broadcast_object_list(shared)
    return shared[0]

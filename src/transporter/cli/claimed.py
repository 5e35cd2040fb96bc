"""A run folder that is one command's alone while it works, and the cores that it leaves to others."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from transporter.cli.given import no_empty_folders
from transporter.errors import InputError

if TYPE_CHECKING:
    from transporter.runs import Json, Run


@contextmanager
def shared_run(
    path: Path, settings: "Json", rank: int, today: "Callable[[Json], Json]" = lambda settings: settings
) -> "Iterator[Run]":
    """The run of all processes of one torchrun: the first claims it, and what is refused is refused to all."""
    from transporter.runs import Run
    from transporter.training.distributed import from_first

    with ExitStack() as stack:
        refused = None
        if rank == 0:
            try:
                stack.enter_context(claimed_run(path, settings, today))
            except InputError as error:
                refused = str(error)
        if refused := from_first(refused):
            raise InputError(refused)
        yield Run.open(path)


@contextmanager
def claimed_run(
    path: Path, settings: "Json", today: "Callable[[Json], Json]" = lambda settings: settings
) -> Iterator[None]:
    """The run folder, made and locked; what is refused, or fails, before it has learnt anything leaves none behind."""
    from transporter.runs import Run

    new = not (path / "run.json").exists()
    with no_empty_folders(path), Run.create(path, settings, today).lock():
        try:
            yield
        except Exception:
            if new and not any((path / learnt).exists() for learnt in ("checkpoints", "metrics.jsonl")):
                for file in ("run.json", "lock"):
                    (path / file).unlink(missing_ok=True)
            raise


def leave_a_core() -> None:
    """Threads wait for one another: where one loses its core to other work, a step takes ten times as long."""
    import torch

    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, torch.get_num_threads() - 1))

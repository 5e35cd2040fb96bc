"""metrics.jsonl's rows as TensorBoard scalars, for those who ask for it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from transporter.errors import InputError
from transporter.runs import Json


@contextmanager
def writer(folder: Path) -> Iterator[Callable[[Json], None]]:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InputError("TensorBoard files need one more package: pip install 'transporter[tensorboard]'") from None
    summary = SummaryWriter(str(folder / "tensorboard"))

    def write(row: Json) -> None:
        for name, value in row.items():
            if isinstance(value, int | float) and name != "step":
                summary.add_scalar(name, value, row["step"])

    try:
        yield write
    finally:
        summary.close()

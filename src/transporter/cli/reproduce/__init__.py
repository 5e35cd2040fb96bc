"""transporter reproduce: a figure or table of the paper, side by side with ours. One file for each."""

from collections.abc import Callable

from transporter.cli.reproduce.exploration import exploration
from transporter.cli.reproduce.keyqn import keyqn
from transporter.cli.reproduce.pixels import pixels
from transporter.cli.reproduce.tracking import tracking

FIGURES: dict[str, Callable[..., None]] = {
    "tracking": tracking,
    "pixels": pixels,
    "keyqn": keyqn,
    "exploration": exploration,
}


def reproduce() -> None:
    """Make a figure or table of the paper again, side by side with ours: `transporter reproduce --help` lists them."""

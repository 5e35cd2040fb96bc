"""Figures and tables into the documents that show them: a run that is made again replaces what it wrote before."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from transporter.errors import InputError
from transporter.files import replacing, write_text
from transporter.report.draw import Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """First column to the left, the others to the right."""
    if any(len(row) != len(heads) for row in rows):
        raise InputError("every row of a table needs as many cells as it has heads")
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def put_between_markers(path: Path, name: str, text: str) -> bool:
    """Replace what stands between <!-- name --> and <!-- /name -->; False where the document has no such place."""
    if not path.is_file():
        return False
    document = path.read_text(encoding="utf-8")
    place = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- /{re.escape(name)} -->)", re.DOTALL)
    if not place.search(document):
        return False
    write_text(path, place.sub(lambda found: f"{found[1]}{text.strip()}\n{found[2]}", document, count=1))
    return True


def save_figure(figure: "Figure", folder: Path, name: str) -> list[Path]:
    """As PNG and as SVG, the same bytes for the same figure."""
    from matplotlib import rc_context

    paths = [folder / f"{name}.png", folder / f"{name}.svg"]
    for path in paths:
        metadata = {"Software": None} if path.suffix == ".png" else {"Date": None, "Creator": None}
        with replacing(path) as temporary, rc_context({"svg.hashsalt": name}):  # else names in an SVG are random
            figure.savefig(temporary, dpi=110, metadata=metadata)
    return paths


def save_picture(picture: Picture, path: Path) -> Path:
    from PIL import Image

    with replacing(path) as temporary:
        Image.fromarray(picture).save(temporary, optimize=True)
    return path

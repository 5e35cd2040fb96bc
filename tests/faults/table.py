"""All figures of the fault suite, one a row: results/faults/table.md.

python tests/faults/table.py SECONDS    # that the whole suite took, which is a figure as well
"""

import json
import sys
from pathlib import Path

from transporter.files import write_text
from transporter.results import Result

RESULTS = Path(__file__).parents[2] / "results" / "faults"


def table() -> str:
    parts = sorted(RESULTS.glob("*.json"), key=lambda path: int(path.name.split("-")[0]))
    rows = [f"| {p.stem} | {n} | {v:g} |" for p in parts for n, v in json.loads(p.read_text())["figures"].items()]
    return "\n".join(["| part | figure | value |", "|---|---|---:|", *rows]) + "\n"


if __name__ == "__main__":
    suite = {"minutes": round(float(sys.argv[1]) / 60, 1)}
    Result("0-suite", suite, {}, {}, {}, "cpu", "make faults").write(RESULTS / "0-suite.json")
    write_text(RESULTS / "table.md", table())
    print(table())

"""A file in results/: JSON with one head for all, so that a program can read any of them."""

import datetime
import json
import math
import os
import platform
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transporter.files import write_text


@dataclass(frozen=True)
class Result:
    """What was measured, and all that is needed to measure it again."""

    name: str
    figures: dict[str, float]  # flat: name → number
    config: dict[str, Any]
    seeds: dict[str, Any]
    details: dict[str, Any] = field(default_factory=dict)
    device: str | None = None  # where it ran, if not on the GPU that is there
    command: str = field(default_factory=lambda: _command(sys.argv))  # makes it again

    def write(self, path: Path) -> None:
        """Head first, then commit, machine, torch and date, then the details."""
        head = {name: getattr(self, name) for name in ("name", "command", "figures", "config", "seeds")}
        head["figures"] = {name: figure for name, figure in self.figures.items() if math.isfinite(figure)}
        whole = finite({**head, **provenance(self.device), **self.details})
        write_text(path, json.dumps(whole, indent=1, allow_nan=False) + "\n")


def finite(value: Any) -> Any:
    """Without what JSON does not know: a number that is none becomes null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: finite(part) for name, part in value.items()}
    return [finite(part) for part in value] if isinstance(value, list | tuple) else value


def _command(words: list[str]) -> str:
    """As one would type it, without the place where this machine keeps its programs."""
    program = Path(words[0])
    if program.stem in ("transporter", "__main__"):
        return shlex.join(["transporter", *words[1:]])
    return shlex.join(["python", str(program), *words[1:]])


def provenance(device: str | None = None) -> dict[str, str]:
    """Which code ran, where and when. TRANSPORTER_COMMIT names the commit where there is no repository."""
    import torch

    on_gpu = torch.cuda.is_available() and device != "cpu"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    cpu = f"{platform.machine()}, {cores} cores, {torch.get_num_threads()} threads"
    return {
        "commit": os.environ.get("TRANSPORTER_COMMIT") or _commit(),
        "machine": torch.cuda.get_device_name() if on_gpu else cpu,
        "torch": torch.__version__,
        "date": datetime.date.today().isoformat(),
    }


def _commit() -> str:
    """The commit of the repository that this file is in, with a + where code has changed since."""
    here = Path(__file__).parent
    try:
        head = _git("rev-parse", "HEAD", cwd=here).stdout.strip()
        root = _git("rev-parse", "--show-toplevel", cwd=here).stdout.strip()
        changed = _git("status", "--porcelain", "--", "src", "benchmarks", cwd=Path(root)).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + ("+" if changed else "")


def _git(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *words], cwd=cwd, capture_output=True, text=True, check=True)

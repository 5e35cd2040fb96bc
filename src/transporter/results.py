"""A file in results/: JSON with one head for all, so that a program can read any of them."""

import datetime
import json
import os
import platform
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transporter.files import write_text


@dataclass(frozen=True)
class Result:
    """What was measured, and all that is needed to measure it again."""

    name: str
    command: str  # makes it again
    figures: dict[str, float]  # flat: name → number
    config: dict[str, Any]
    seeds: dict[str, Any]
    details: dict[str, Any] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Head first, then commit, machine, torch and date, then the details."""
        head = {name: getattr(self, name) for name in ("name", "command", "figures", "config", "seeds")}
        write_text(path, json.dumps({**head, **provenance(), **self.details}, indent=1) + "\n")


def provenance() -> dict[str, str]:
    """Which code ran, where and when. TRANSPORTER_COMMIT names the commit where there is no repository."""
    import torch

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "commit": os.environ.get("TRANSPORTER_COMMIT") or _commit(),
        "machine": gpu or f"{platform.machine()}, {cores} cores, {torch.get_num_threads()} threads",
        "torch": torch.__version__,
        "date": datetime.date.today().isoformat(),
    }


def _commit() -> str:
    """The commit of the repository that this file is in, with a + where files have changed since."""
    try:
        here = Path(__file__).parent
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, check=True)
        changed = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", "."], cwd=here, check=False)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head.stdout.strip() + ("+" if changed.returncode else "")

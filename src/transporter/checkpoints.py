"""A checkpoint: all of a run at one step, in a folder that appears whole, and in which no damage goes unnoticed."""

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple, Self

import safetensors
from torch import Tensor

from transporter.files import READABLE, parse_json, sync
from transporter.tensors import load_file, save_file

FORMAT = 1
TENSORS, STATE, MANIFEST = "tensors.safetensors", "state.json", "manifest.json"


class DamagedError(Exception):
    """A checkpoint on disk is not what was written."""


class Checkpoint(NamedTuple):
    """All of a run at one step: tensors by name, and everything else as JSON."""

    step: int
    tensors: dict[str, Tensor]
    state: dict[str, Any]

    def part(self, prefix: str) -> dict[str, Tensor]:
        """The tensors under a prefix, without it."""
        return {name.removeprefix(prefix): t for name, t in self.tensors.items() if name.startswith(prefix)}

    def save(self, folder: Path) -> None:
        """Published by one rename."""
        temporary = folder.with_name(f".{folder.name}.{os.getpid()}.part")
        before = folder.with_name(f"{folder.name}-before")
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        try:
            tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in self.tensors.items()}
            save_file(tensors, temporary / TENSORS)
            (temporary / TENSORS).chmod(READABLE)
            (temporary / STATE).write_text(json.dumps({"step": self.step, **self.state}))
            sums = {name: _sha256(temporary / name) for name in (TENSORS, STATE)}
            (temporary / MANIFEST).write_text(json.dumps({"format": FORMAT, "sha256": sums}))
            for name in (*sums, MANIFEST):
                sync(temporary / name)
            sync(temporary)
            remove(before)
            if folder.exists():  # saved again at the same step: the old one stays within reach until the new one is
                folder.rename(before)
            temporary.rename(folder)
            sync(folder.parent)
            remove(before)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """A checkpoint whose every byte is what was written, or DamagedError."""
        try:
            manifest = parse_json((folder / MANIFEST).read_bytes())
            if manifest["format"] > FORMAT:
                raise DamagedError("written by a newer version of transporter")
            for name in (TENSORS, STATE):
                if _sha256(folder / name) != manifest["sha256"][name]:
                    raise DamagedError(f"{name} has changed since it was written")
            state = parse_json((folder / STATE).read_bytes())
            return cls(state.pop("step"), load_file(folder / TENSORS).tensors, state)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, safetensors.SafetensorError) as error:
            raise DamagedError(str(error)) from error


def remove(folder: Path) -> None:
    """At once, for those who look: half of a checkpoint is never seen under its name."""
    if folder.exists():
        aside = folder.with_name(f".{folder.name}.{os.getpid()}.part")
        shutil.rmtree(aside, ignore_errors=True)
        folder.rename(aside)
        shutil.rmtree(aside)


def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()

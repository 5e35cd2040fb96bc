"""Named tensors in one file, with a head of words: written whole, and refused when a single bit has changed."""

import hashlib
import json
import os
import re
from pathlib import Path
from typing import NamedTuple

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from transporter.errors import InputError
from transporter.files import SEAL, replacing, take_seal


class Stored(NamedTuple):
    """What a file holds."""

    head: dict[str, str]
    tensors: dict[str, Tensor]


def save_file(tensors: dict[str, Tensor], path: Path, head: dict[str, str] | None = None) -> None:
    """As safetensors does it; but what a disk refuses is said as the system says it, with the file's name."""
    try:
        safetensors.torch.save_file(tensors, path, metadata=head)
    except safetensors.SafetensorError as error:
        if (found := re.search(r"os error (\d+)", str(error))) is None:
            raise
        number = int(found[1])
        raise OSError(number, os.strerror(number), str(path)) from None


def load_file(path: Path) -> Stored:
    """All of a file. By way of numpy: opened for torch, safetensors 0.8 keeps some kilobytes of each file for good."""
    with safetensors.safe_open(path, "np") as file:
        tensors = {name: torch.from_numpy(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
        return Stored(file.metadata() or {}, tensors)


def write_tensors(path: Path, tensors: dict[str, Tensor], head: dict[str, str]) -> None:
    """One .safetensors file; any reader of that format can open it."""
    kept = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with replacing(path) as temporary:
        save_file(kept, temporary, {**head, SEAL: checksum(Stored(head, kept))})


def read_tensors(path: Path, what: str = "a file of weights") -> Stored:
    """Or an InputError that says what is wrong. Files of version 0.1 have no checksum, and are believed."""
    if path.is_dir():
        raise InputError(f"{path} is a folder, not {what}")
    try:
        head, tensors = load_file(path)
    except FileNotFoundError:  # which is also what safetensors says of a file that may not be read
        reason = "may not be read" if path.exists() else "does not exist"
        raise InputError(f"{path} {reason}") from None
    except (OSError, ValueError, safetensors.SafetensorError) as error:
        raise InputError(f"{path} is not {what}, or is damaged: {error}") from error
    try:
        expected = take_seal(head)
    except ValueError as error:
        raise InputError(f"{path} is damaged: {error}") from error
    if expected is not None and expected != checksum(Stored(head, tensors)):
        raise InputError(f"{path} is damaged: it has changed since it was written")
    return Stored(head, tensors)


def checksum(stored: Stored) -> str:
    """Of all that a reader will use: words, names, shapes and every number; not of how the file arranges them."""
    found = hashlib.sha256(json.dumps(stored.head, sort_keys=True).encode())
    for name, tensor in sorted(stored.tensors.items()):
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        found.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()

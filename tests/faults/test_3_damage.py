"""Damaged files: cut short anywhere, or one bit of them flipped. Nothing crashes; nothing wrong is used in silence."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

from transporter.data.collect import collect
from transporter.data.manifest import CollectSettings
from transporter.data.pairs import CHUNK, PairSet
from transporter.errors import InputError
from transporter.models.blocks import TINY
from transporter.models.zoo import load
from transporter.runs import Run
from transporter.training.config import preset
from transporter.training.learner import Hardware, Learner


class Found(NamedTuple):
    """What a reader got, and whether it was told of any damage."""

    content: bytes
    told: bool


class Kept(NamedTuple):
    """A kind of file, how it is read, whether there is one before to fall back to, and what may change unnoticed."""

    files: list[Path]
    read: Callable[[], Found]
    falls_back: bool
    unread: frozenset[Path] = frozenset()  # files that hold bytes which no reader uses


def flat(tensors: dict[str, torch.Tensor]) -> bytes:
    return b"".join(name.encode() + t.contiguous().numpy().tobytes() for name, t in sorted(tensors.items()))


def read_run(path: Path) -> Found:
    run = Run.open(path)
    found = run.latest()
    assert found is not None
    return Found(f"{run.settings} {found.step} {found.state}".encode() + flat(found.tensors), bool(run.warnings))


def read_detector(path: Path) -> Found:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        detector = load(path, "cpu")
    return Found(f"{detector.config} {detector.card}".encode() + flat(detector.net.state_dict()), bool(said))


def read_pairs(path: Path) -> Found:
    pairs = PairSet.open(path)
    parts = pairs.settings, pairs.train_rows.tolist(), pairs.validation_rows.tolist(), pairs.manifest.steps
    return Found(f"{parts}".encode() + pairs.load_all().tobytes(), False)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Kept]:
    """One of each, small: 20 pairs, and a detector of some hundred weights."""
    root = tmp_path_factory.mktemp("kept")
    collect(CollectSettings(environment="sprites", size=16, pairs=20, length=10, budget=3_000), root / "data")
    shape = replace(TINY, filters=(2, 2, 4), refine=(4, 2))
    config = preset("tiny", shape=shape, size=16, keypoints=3)
    run = Run.create(root / "run", {"environment": "sprites", "config": config.to_json()})
    learner = Learner(config, Hardware(device="cpu"))
    for step in (1, 2):
        learner.model.sigma.fill_(step)
        run.save(learner.checkpoint(step, best=0.5))
    card = {"environment": "sprites", "measured": {"recall": 0.97}, "failures": "loses the small one"}
    detector = load(root / "run", "cpu")
    detector.card = card
    exported = root / "model.safetensors"
    detector.save(exported)
    checkpoint = sorted((root / "run" / "checkpoints").iterdir())[-1]
    data = [path for path in (root / "data").rglob("*") if path.is_file() and path.name != "lock"]
    # Chunks all of whose pairs were overwritten (`verify` reads them), and what zarr says for others: names, more rows.
    live = {f"{row // CHUNK}.0.0.0.0" for row in PairSet.open(root / "data").manifest.live.tolist()}
    unread = frozenset(path for path in data if path.name not in {"manifest.json", *live})
    return {
        "checkpoint": Kept(sorted(checkpoint.iterdir()), lambda: read_run(root / "run"), True),
        "the run that a detector comes from": Kept(
            sorted(checkpoint.iterdir()), lambda: read_detector(root / "run"), True
        ),
        "settings of a run": Kept([root / "run" / "run.json"], lambda: read_run(root / "run"), False),
        "data set": Kept(data, lambda: read_pairs(root / "data"), False, unread),
        "weights and card": Kept([exported], lambda: read_detector(exported), False),
    }


UNREAD = "no one reads there"
KINDS = ["checkpoint", "the run that a detector comes from", "settings of a run", "data set", "weights and card"]


def attempt(read: Callable[[], Found]) -> Found | InputError:
    try:
        return read()
    except InputError as error:
        return error


def harm(kind: Kept, times: int, seed: int, change: Callable[[bytes, np.random.Generator], bytes]) -> dict[str, int]:
    """Change one file at a time and read: told, or unharmed where no one reads. All else is a failure."""
    rng = np.random.default_rng(seed)
    whole = kind.read()
    assert not whole.told
    sizes = np.array([max(1, path.stat().st_size) for path in kind.files])
    chances = (sizes**0.5) / (sizes**0.5).sum()  # large files more often, small ones often enough
    ended = {"refused": 0, "fell back": 0, UNREAD: 0}
    for _ in range(times):
        path = kind.files[rng.choice(len(sizes), p=chances)]
        before = path.read_bytes()
        path.write_bytes(change(before, rng))
        found = attempt(kind.read)
        path.write_bytes(before)
        if isinstance(found, InputError):
            assert len(str(found).splitlines()) == 1
            assert not kind.falls_back, f"{path.name}: {found}"
            ended["refused"] += 1
        else:
            assert found.told or found == whole, f"{path.name} was changed, and used in silence"
            assert found.told or path in kind.unread, f"{path.name} was changed, and no one noticed"
            assert kind.falls_back or not found.told
            ended["fell back" if found.told else UNREAD] += 1
    assert kind.read() == whole
    return ended


def cut(data: bytes, rng: np.random.Generator) -> bytes:
    return data[: rng.integers(len(data))] if data else b""


def flip(data: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(data)
    changed[rng.integers(len(data))] ^= 1 << rng.integers(8)
    return bytes(changed)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", KINDS)
def test_cut_short(name: str, kept: dict[str, Kept], scale, record) -> None:
    ended = harm(kept[name], -(-scale.truncations // len(KINDS)), 1, cut)
    record("3-damage", **{f"{name}, cut: {way}": count for way, count in ended.items()})


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", KINDS)
def test_one_bit_flipped(name: str, kept: dict[str, Kept], scale, record) -> None:
    ended = harm(kept[name], -(-scale.flips // len(KINDS)), 2, flip)
    record("3-damage", **{f"{name}, a bit flipped: {way}": count for way, count in ended.items()})

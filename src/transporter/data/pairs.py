"""A set of frame pairs on disk: a zarr array that only grows, and a manifest that says which of its rows count.

Overwriting a pair of the set appends the new one and changes the index; what was committed is never written again,
so a crash costs no more than the work since the last commit.
"""

import fcntl
import math
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import zarr
from jaxtyping import Int, UInt8
from zarr.abc.store import Store
from zarr.codecs import Crc32cCodec, ZstdCodec
from zarr.storage import LocalStore, MemoryStore

from transporter.data.limits import physical_memory, unpacked_size
from transporter.data.manifest import NAME, CollectSettings, Manifest, damaged
from transporter.errors import InputError
from transporter.files import is_temporary, make_folder, stamp, sweep, sync

Pairs = UInt8[np.ndarray, "n 2 h w 3"]  # [source, target] in the order of time

CHUNK = 32  # pairs in a file: 3 MB of frames at 128×128, some tens of kB on disk
ARRAY = "pairs"
CONFIG: Any = {"write_empty_chunks": True}  # a black chunk is a file like any other


class PairSet:
    """A finished set of pairs; pair i is the same in read(), load_all(), train_rows and validation_rows."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path, self.manifest = path, manifest
        self.settings = manifest.settings
        self._check_chunks()
        try:
            # Never an array of version 2, which may name pickle among its filters.
            self._array: Any = zarr.open_array(path / ARRAY, mode="r", zarr_format=3)
        except Exception:  # the description may be wrong in any way
            raise damaged(path, "the description of its array cannot be read") from None
        side = self.settings.size
        if self._array.shape[1:] != (2, side, side, 3) or self._array.shape[0] < len(manifest.chunk_bytes) * CHUNK:
            raise damaged(path, f"its array has shape {self._array.shape}")
        if _description(self._array) != _description(_create(MemoryStore(), side)):
            raise damaged(path, "its array is not stored as it should be")
        self.train_rows, self.validation_rows = _split(manifest)

    @classmethod
    def open(cls, path: Path | str) -> "PairSet":
        """A finished set, its manifest and the size of every chunk checked; the frames are checked as they are read."""
        path = Path(path)
        manifest = Manifest.read(path)
        if not manifest.complete:
            raise InputError(
                f"{path} is not finished ({len(manifest.live):,} of {manifest.settings.pairs:,} pairs, "
                f"{manifest.steps:,} steps done): run the same `transporter collect` again to go on"
            )
        return cls(path, manifest)

    @staticmethod
    def create(path: Path | str, settings: CollectSettings) -> "PairWriter":
        """Begin a set, or go on with one that was begun with the same settings."""
        return PairWriter(Path(path), settings)

    def __len__(self) -> int:
        return len(self.manifest.live)

    def read(self, rows: Int[np.ndarray, "n"]) -> Pairs:
        """The pairs at these places in the set, in the order asked for."""
        rows = np.asarray(rows, np.int64)
        if rows.size and not (rows.min() >= 0 and rows.max() < len(self)):
            raise IndexError(f"rows {rows.min()}..{rows.max()} of a set of {len(self)} pairs")
        if (taken := rows.size * math.prod(self._array.shape[1:])) > physical_memory():
            raise InputError(f"{self.path}: {taken / 2**30:.0f} GB of frames are more than this machine can hold")
        chunks, offsets = np.divmod(self.manifest.live[rows], CHUNK)
        order = np.argsort(chunks, kind="stable")
        needed, starts = np.unique(chunks[order], return_index=True)
        out = np.empty((len(rows), *self._array.shape[1:]), np.uint8)

        def fetch(chunk: int, places: Int[np.ndarray, "m"]) -> None:
            out[places] = self._chunk(chunk)[offsets[places]]

        with ThreadPoolExecutor(os.cpu_count()) as pool:  # zstd and the copies run outside Python's lock
            for _ in pool.map(fetch, needed.tolist(), np.split(order, starts[1:])):
                pass
        return out

    def load_all(self) -> Pairs:
        """Every pair, in one array."""
        return self.read(np.arange(len(self)))

    def verify(self) -> None:
        """Read every committed chunk against its checksum; InputError at the first that is damaged."""
        self._check_chunks()
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for _ in pool.map(lambda chunk: self._chunk(chunk) is None, range(len(self.manifest.chunk_bytes))):
                pass

    def _chunk(self, chunk: int) -> Pairs:
        try:
            if unpacked_size(self.path / ARRAY / _file(chunk)) != CHUNK * math.prod(self._array.shape[1:]):
                raise damaged(self.path, f"chunk {chunk} holds something else")
            return np.asarray(self._array[chunk * CHUNK : (chunk + 1) * CHUNK])
        except (ValueError, RuntimeError, OSError) as error:
            if isinstance(error, InputError):
                raise
            raise damaged(self.path, f"chunk {chunk} fails its checksum") from None

    def _check_chunks(self) -> None:
        """zarr reads a chunk that is not there as zeros, so look before."""
        expected, live = self.manifest.chunk_bytes, self.manifest.live
        if live.size and not (live.min() >= 0 and live.max() < len(expected) * CHUNK):
            raise damaged(self.path, f"{NAME} names rows that were never written")
        folder = self.path / ARRAY
        found = {e.name: e.stat().st_size for e in os.scandir(folder)} if folder.is_dir() else {}
        for chunk, size in enumerate(expected):
            if (there := found.get(_file(chunk))) != size:
                state = "is missing" if there is None else f"has {there} bytes instead of {size}"
                raise damaged(self.path, f"chunk {chunk} {state}")


class PairWriter:
    """Fills a set, piece by piece, as the only writer of its folder; use it in a `with` statement."""

    def __init__(self, path: Path, settings: CollectSettings) -> None:
        self.path, self.settings = path, settings
        self.manifest = Manifest(settings)
        self.appended = 0  # pairs by this writer
        self._bytes: list[int] = []  # of every chunk file, those not committed included
        self._live: list[int] = []
        self._trajectory: list[int] = []
        self._waiting: list[UInt8[np.ndarray, "2 h w 3"]] = []  # for the next chunk

    def __enter__(self) -> Self:
        _refuse_foreign(self.path)
        make_folder(self.path)
        with ExitStack() as stack:
            lock = stack.enter_context((self.path / "lock").open("w"))
            try:
                # A POSIX lock, which children do not inherit: workers that outlive a killed run must not hold it.
                fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise InputError(f"another process is writing to {self.path}: wait for it or stop it") from None
            new = not (self.path / NAME).exists()
            try:
                self._resume()
            except OSError:
                if new:
                    self._discard()
                raise
            self._release = stack.pop_all()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not self._in_place():
            self._discard_remade()
        elif self.manifest.segments == 0:
            self._discard()
        self._release.close()

    def _in_place(self) -> bool:
        """Whether the folder is still there, with the manifest that this writer found or left in it."""
        # Nothing may open the lock here: it would be given up with the first handle that is closed.
        return (self.path / "lock").exists() and stamp(self.path / NAME) == self._left

    def _check_in_place(self) -> None:
        if not self._in_place():
            raise InputError(f"{self.path} was taken away or changed while it was written to")

    def __len__(self) -> int:
        return len(self._live)

    def append(self, pair: UInt8[np.ndarray, "2 h w 3"], slot: int, trajectory: int) -> None:
        """Store a pair and let it be number `slot` of the set: a new place at the end, or one to overwrite."""
        if slot == len(self._live):
            self._live.append(0)
            self._trajectory.append(0)
        self._live[slot] = len(self._bytes) * CHUNK + len(self._waiting)
        self._trajectory[slot] = trajectory
        self._waiting.append(pair)
        self.appended += 1
        if len(self._waiting) == CHUNK:
            self._write_chunk()

    def commit(self, steps: int, trajectories: int, complete: bool) -> None:
        """Make all since the last commit durable; the last chunk is padded, so that no later one writes to it."""
        if self._waiting:
            self._write_chunk()
        folder = self.path / ARRAY
        for name in ["zarr.json", *map(_file, range(len(self.manifest.chunk_bytes), len(self._bytes)))]:
            sync(folder / name)
        sync(folder)
        self._check_in_place()  # a manifest here would speak of chunks that are elsewhere
        live, trajectory = np.array(self._live, np.int64), np.array(self._trajectory, np.int64)
        segments = self.manifest.segments + 1
        sizes = list(self._bytes)
        manifest = Manifest(self.settings, live, trajectory, sizes, segments, steps, trajectories, complete)
        manifest.write(self.path)
        if not (self.path / "lock").exists():  # a file is written with the folders above it
            (self.path / NAME).unlink(missing_ok=True)
            self._check_in_place()
        self._left = stamp(self.path / NAME)
        self.manifest = manifest  # only now

    def committed(self, block: int = 1024) -> Iterator[Pairs]:
        """The pairs of the set as of the last commit, in order, some at a time."""
        done = PairSet(self.path, self.manifest)
        for start in range(0, len(done), block):
            yield done.read(np.arange(start, min(start + block, len(done))))

    def _resume(self) -> None:
        sweep(self.path)
        for stray in self.path.glob("**/*.partial"):  # zarr's
            stray.unlink()
        if (self.path / NAME).exists():
            self.manifest = Manifest.read(self.path)
            if differences := _differences(self.manifest.settings, self.settings):
                raise InputError(f"{self.path} was begun with other settings ({differences}): choose another folder")
        else:
            self.manifest.write(self.path)
        self._left = stamp(self.path / NAME)
        self._bytes = list(self.manifest.chunk_bytes)
        self._live, self._trajectory = self.manifest.live.tolist(), self.manifest.trajectory.tolist()
        if self.manifest.complete:
            return
        if self._bytes:
            PairSet(self.path, self.manifest)  # checks what is there
            self._array: Any = zarr.open_array(self.path / ARRAY, mode="r+", config=CONFIG)
        else:
            self._array = _create(LocalStore(self.path), self.settings.size)
        # Work that was not committed goes: it will be done again, the same.
        self._array.resize((len(self._bytes) * CHUNK, *self._array.shape[1:]))

    def _discard(self) -> None:
        """Nothing was committed, so leave nothing behind."""
        shutil.rmtree(self.path / ARRAY, ignore_errors=True)
        for entry in list(os.scandir(self.path)):
            if entry.name in ("zarr.json", NAME, "lock") or is_temporary(entry.name):
                Path(entry).unlink()
        with suppress(OSError):  # someone else's file may have come
            self.path.rmdir()

    def _discard_remade(self) -> None:
        """What zarr made again where the folder was, unless there is anything else by now."""
        ours = {"zarr.json", *map(_file, range(len(self.manifest.chunk_bytes), len(self._bytes) + 1))}
        folder = self.path / ARRAY
        with suppress(OSError):
            if {e.name for e in os.scandir(self.path)} == {ARRAY} and {e.name for e in os.scandir(folder)} <= ours:
                shutil.rmtree(folder)
            self.path.rmdir()

    def _write_chunk(self) -> None:
        self._check_in_place()  # zarr would make the folder again, and half of a set with it
        chunk = len(self._bytes)
        block = np.zeros((CHUNK, *self._array.shape[1:]), np.uint8)
        block[: len(self._waiting)] = self._waiting
        self._array.resize(((chunk + 1) * CHUNK, *self._array.shape[1:]))
        self._array[chunk * CHUNK :] = block
        self._bytes.append((self.path / ARRAY / _file(chunk)).stat().st_size)
        self._waiting.clear()


def _create(store: Store, size: int) -> Any:
    return zarr.create_array(
        store,
        name=ARRAY,
        shape=(0, 2, size, size, 3),
        chunks=(CHUNK, 2, size, size, 3),
        dtype="uint8",
        # Pairs of one game share their background: zstd's window finds it, and the checksum finds damage.
        compressors=[ZstdCodec(level=1), Crc32cCodec()],
        chunk_key_encoding={"name": "v2", "separator": "."},  # one flat folder: quick to list
        config=CONFIG,
        overwrite=True,
    )


def _description(array: Any) -> dict[str, Any]:
    """Everything that decides how chunks are read; zarr's, so that its versions may write it differently."""
    return {name: value for name, value in array.metadata.to_dict().items() if name not in ("shape", "attributes")}


def _file(chunk: int) -> str:
    return f"{chunk}.0.0.0.0"


def _refuse_foreign(path: Path) -> None:
    """Never write among files that are not ours; what a run leaves when it is killed at its very start is ours."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file: name a folder for the data set")
    foreign = (
        [e.name for e in os.scandir(path) if e.name != "lock" and not is_temporary(e.name)] if path.is_dir() else []
    )
    if foreign and NAME not in foreign:
        raise InputError(f"{path} holds other files and no data set: choose another folder")


def _differences(before: CollectSettings, now: CollectSettings) -> str:
    old, new = asdict(before), asdict(now)
    return ", ".join(f"{name} {old[name]}, now {new[name]}" for name in old if old[name] != new[name])


def _split(manifest: Manifest) -> tuple[Int[np.ndarray, "a"], Int[np.ndarray, "b"]]:
    """Train and validation pairs. A trajectory's pairs stay on one side: frames that nearly repeat must not leak."""
    every = np.arange(len(manifest.live))
    wanted = round(manifest.settings.validation * len(every))
    _, group, counts = np.unique(manifest.trajectory, return_inverse=True, return_counts=True)
    if (
        counts.max(initial=0) > 2 * wanted
    ):  # a short clip is few trajectories, each too much to hold out: part of one must do
        group, counts = every, np.ones(len(every), np.int64)
    order = np.random.default_rng([manifest.settings.seed, *b"validation"]).permutation(len(counts))
    most = max(wanted, counts[order[0]]) if wanted else 0
    held_out = np.isin(group, order[np.cumsum(counts[order]) <= most])
    return every[~held_out], every[held_out]

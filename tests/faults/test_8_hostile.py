"""Files that mean harm, pickles and bombs: one clear line, and nothing runs or bursts."""

import json
import pickle  # noqa: TID251  # to make what must never be read
import resource
import shutil
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import av
import numcodecs
import numpy as np
import pytest
import safetensors.torch
import torch

from transporter.control.keyqn.agent import KeyQN
from transporter.control.options.agent import OptionsAgent
from transporter.data.limits import unpacked_size
from transporter.data.pairs import CHUNK, PairSet
from transporter.envs.images import Images
from transporter.envs.video import open_video
from transporter.errors import InputError
from transporter.models.factory import ModelConfig
from transporter.models.zoo import load
from transporter.report.tables import read_tracks
from transporter.runs import Run

V1 = Path(__file__).parent / "files" / "v1"
SIZE = 16


@pytest.fixture(autouse=True)
def _room() -> Iterator[None]:
    """What bursts all the same must not take the machine with it."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (10 * 2**30, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Good files of every kind, to be spoilt; those of version 0.1 have no checksum that would end it all too soon."""
    shutil.copytree(V1, tmp_path / "files")
    return tmp_path / "files"


# Pickles


class Harm:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return Path.touch, (self.path,)


def of_torch(path: Path, harm: bytes) -> None:
    """The format of torch.save: a zip with a pickle in it."""
    import zipfile

    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", harm)
        archive.writestr("archive/version", "3")


def old_array(folder: Path, harm: bytes) -> None:
    """zarr's version 2 lets an array name pickle as the filter of its chunks."""
    (folder / "zarr.json").unlink()
    shape = [64, 2, SIZE, SIZE, 3]
    filters = [{"id": "pickle", "protocol": 5}]
    description = {"zarr_format": 2, "shape": shape, "chunks": [CHUNK, *shape[1:]], "dtype": "|O", "fill_value": 0,
                   "order": "C", "filters": filters, "compressor": None, "dimension_separator": "."}  # fmt: skip
    (folder / ".zarray").write_text(json.dumps(description))
    for chunk in (0, 1):
        size = (folder / f"{chunk}.0.0.0.0").stat().st_size
        (folder / f"{chunk}.0.0.0.0").write_bytes(harm.ljust(size, b"."))


def pickling_codec(folder: Path, harm: bytes) -> None:
    description = json.loads((folder / "zarr.json").read_text())
    description["codecs"] = [{"name": "numcodecs.pickle", "configuration": {"protocol": 5}}]
    (folder / "zarr.json").write_text(json.dumps(description))
    for chunk in (0, 1):
        size = (folder / f"{chunk}.0.0.0.0").stat().st_size
        (folder / f"{chunk}.0.0.0.0").write_bytes(harm.ljust(size, b"."))


def put(name: str) -> Callable[[Path, bytes], None]:
    return lambda files, harm: (files / name).write_bytes(harm)  # type: ignore[return-value]


def in_a_checkpoint(files: Path, harm: bytes) -> None:
    """With a checksum that fits."""
    import hashlib

    folder = next((files / "run" / "checkpoints").iterdir())
    (folder / "tensors.safetensors").write_bytes(harm)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["sha256"]["tensors.safetensors"] = hashlib.sha256(harm).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))


def read_pairs(files: Path) -> None:
    PairSet.open(files / "data").load_all()


PLACES: dict[str, tuple[Callable[[Path, bytes], None], Callable[[Path], object]]] = {
    "weights": (put("model.safetensors"), lambda files: load(files / "model.safetensors")),
    "torch's own format": (lambda f, h: of_torch(f / "model.pt", h), lambda files: load(files / "model.pt")),
    "an agent": (put("agent.safetensors"), lambda files: KeyQN.load(files / "agent.safetensors")),
    "options": (put("options.safetensors"), lambda files: OptionsAgent.load(files / "options.safetensors")),
    "settings of a run": (put("run/run.json"), lambda files: load(files / "run")),
    "a checkpoint": (in_a_checkpoint, lambda files: load(files / "run")),
    "state of a checkpoint": (put("run/checkpoints/step-0000000012/state.json"), lambda files: load(files / "run")),
    "manifest of a checkpoint": (
        put("run/checkpoints/step-0000000012/manifest.json"), lambda files: load(files / "run")
    ),
    "metrics": (put("run/metrics.jsonl"), lambda files: Run.open(files / "run").metrics()),
    "manifest of a data set": (put("data/manifest.json"), read_pairs),
    "description of a data set": (put("data/pairs/zarr.json"), read_pairs),
    "an array of an older kind": (lambda f, h: old_array(f / "data" / "pairs", h), read_pairs),
    "an array that says pickle": (lambda f, h: pickling_codec(f / "data" / "pairs", h), read_pairs),
    "pairs": (lambda f, h: put("0.0.0.0.0")(f / "data" / "pairs", h.ljust(4037)), read_pairs),
    "a video": (put("clip.mp4"), lambda files: open_video(files / "clip.mp4")),
    "an image": (put("data/0.png"), lambda files: Images(files / "data")),
    "tracks as CSV": (put("tracks.csv"), lambda files: read_tracks(files / "tracks.csv")),
    "tracks as Parquet": (put("tracks.parquet"), lambda files: read_tracks(files / "tracks.parquet")),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("place", PLACES)
def test_no_pickle_is_ever_run(place: str, files: Path, tmp_path: Path, record) -> None:
    canary = tmp_path / "canary"
    harm = pickle.dumps(Harm(canary))
    spoil, use = PLACES[place]
    spoil(files, harm)
    try:
        use(files)
    except InputError as error:
        assert len(str(error).splitlines()) == 1  # noqa: PT017
    assert not canary.exists()
    pickle.loads(harm)  # noqa: S301  # it would have worked
    assert canary.exists()
    record("8-hostile", places_for_pickles=len(PLACES), pickles_that_ran=0)


# Bombs


def frame(size: int | None, blocks: bytes) -> bytes:
    """A Zstandard frame that says its size, or does not."""
    head = b"\xe0" + struct.pack("<Q", size) if size is not None else b"\x00\x58"
    return bytes.fromhex("28b52ffd") + head + blocks


def repeated(count: int, last: bool = True) -> bytes:
    """A block of one byte, many times over: four bytes for up to 128 kB."""
    return (count << 3 | 1 << 1 | last).to_bytes(3, "little") + b"\0"


def crc(data: bytes) -> bytes:
    from google_crc32c import Checksum  # zarr's own

    return Checksum(data).digest()[::-1]


def chunk_of(files: Path, data: bytes) -> None:
    """In the place of the first chunk, with a checksum and a size that fit."""
    whole = data + crc(data)
    (files / "data" / "pairs" / "0.0.0.0.0").write_bytes(whole)
    manifest = json.loads((files / "data" / "manifest.json").read_text())
    manifest["chunk_bytes"][0] = len(whole)
    (files / "data" / "manifest.json").write_text(json.dumps(manifest))


MANY = b"".join(repeated(2**17, last=False) for _ in range(20_000)) + repeated(1)  # 80 kB that become 2.6 GB


def huge_chunks(files: Path) -> None:
    description = json.loads((files / "data" / "pairs" / "zarr.json").read_text())
    description["chunk_grid"]["configuration"]["chunk_shape"][0] = 10**8
    (files / "data" / "pairs" / "zarr.json").write_text(json.dumps(description))


def huge_model(files: Path) -> None:
    head = {"format": "1", "card": "{}"}
    config = ModelConfig().to_json()
    config["shape"]["filters"] = [2**20] * 6
    head["config"] = json.dumps(config)
    safetensors.torch.save_file({"w": torch.zeros(1)}, files / "model.safetensors", metadata=head)


def huge_frames(files: Path) -> None:
    """Ten thousand small pictures would take 120 TB."""
    for name in ("manifest.json", "pairs/zarr.json"):
        path = files / "data" / name
        path.write_text(path.read_text().replace(f'"size": {SIZE}', '"size": 2048'))
    description = json.loads((files / "data" / "pairs" / "zarr.json").read_text())
    text = json.dumps(description).replace(f"2, {SIZE}, {SIZE}, 3", "2, 2048, 2048, 3")
    (files / "data" / "pairs" / "zarr.json").write_text(text.replace('"shape": [64', f'"shape": [{10**6}'))
    manifest = json.loads((files / "data" / "manifest.json").read_text())
    rows = list(range(5 * 10**4))
    chunks = len(rows) // CHUNK + 1
    manifest |= {"live": rows, "trajectory": rows, "chunk_bytes": [4] * chunks}
    (files / "data" / "manifest.json").write_text(json.dumps(manifest))
    for chunk in range(chunks):
        (files / "data" / "pairs" / f"{chunk}.0.0.0.0").write_bytes(b"tiny")


def huge_video(files: Path) -> None:
    """An AVI whose head says 30,000 × 30,000; the picture itself is small."""
    with av.open(str(files / "clip.avi"), "w") as container:
        stream = container.add_stream("mjpeg", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 64, "yuvj420p"
        container.mux(stream.encode(av.VideoFrame.from_ndarray(np.zeros((64, 64, 3), np.uint8))))
        container.mux(stream.encode())
    data = bytearray((files / "clip.avi").read_bytes())
    at = data.index(b"strf") + 8  # the header of the bitmap: its size, then width and height
    data[at + 4 : at + 12] = struct.pack("<ii", 30_000, 30_000)
    jpeg = data.index(b"\xff\xc0")  # and again in the picture
    data[jpeg + 5 : jpeg + 9] = struct.pack(">HH", 30_000, 30_000)
    (files / "clip.avi").write_bytes(data)


def huge_image(files: Path) -> None:
    """A PNG that says 60,000 × 60,000."""
    head = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)

    def part(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    png = b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", zlib.compress(bytes(10**6))) + part(b"IEND", b"")
    (files / "data" / "0.png").write_bytes(png)


BOMBS: dict[str, tuple[Callable[[Path], None], Callable[[Path], object]]] = {
    "a chunk that says 1 TB": (lambda files: chunk_of(files, frame(2**40, repeated(9))), read_pairs),
    "a chunk that does not say": (lambda files: chunk_of(files, frame(None, MANY)), read_pairs),
    "one frame after another": (
        lambda files: chunk_of(files, frame(CHUNK * 2 * SIZE * SIZE * 3, repeated(9)) + frame(2**32, MANY)), read_pairs
    ),
    "chunks of 10⁸ pairs": (huge_chunks, read_pairs),
    "more frames than memory": (huge_frames, read_pairs),
    "a model of 10¹³ weights": (huge_model, lambda files: load(files / "model.safetensors")),
    "a video of 30,000 × 30,000": (huge_video, lambda files: list(open_video(files / "clip.avi"))),
    "an image of 60,000 × 60,000": (huge_image, lambda files: Images(files / "data")),
    "JSON without end": (
        lambda files: (files / "data" / "manifest.json").write_text("[" * 10**6) and None, read_pairs
    ),
    "settings without end": (
        lambda files: (files / "run" / "run.json").write_text('{"a":' * 10**6) and None,
        lambda files: load(files / "run"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("bomb", BOMBS)
def test_what_would_burst_is_refused_by_its_size(bomb: str, files: Path, record) -> None:
    make, use = BOMBS[bomb]
    make(files)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    since = time.monotonic()
    with pytest.raises(InputError):
        use(files)
    assert time.monotonic() - since < 10
    taken = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert taken < 200, f"{taken:.0f} MB were taken"
    record("8-hostile", bombs_refused=len(BOMBS))


def test_the_size_of_a_chunk_is_read_as_zstd_writes_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for size in (1, 255, 256, 300, 70_000, 1_000_000):
        for pixels in (np.zeros(size, np.uint8), rng.integers(0, 256, size, np.uint8)):
            (tmp_path / "chunk").write_bytes(numcodecs.Zstd(level=1).encode(pixels) + b"sum.")
            if (tmp_path / "chunk").stat().st_size >= 18:
                assert unpacked_size(tmp_path / "chunk") == size

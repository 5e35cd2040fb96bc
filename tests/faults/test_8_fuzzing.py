"""Whatever a fuzzer thinks of, for as long as there is time: nothing but one clear line comes of a bad file."""

import itertools
import json
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import safetensors
import safetensors.torch
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from transporter.control.keyqn.config import KeyQNConfig
from transporter.data.pairs import PairSet
from transporter.envs.video import open_video
from transporter.errors import InputError
from transporter.files import sealed
from transporter.models.factory import ModelConfig
from transporter.models.zoo import load
from transporter.training.config import TrainConfig

V1 = Path(__file__).parent / "files" / "v1"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Good files of every kind, to be spoilt; those of version 0.1 have no checksum that would end it all too soon."""
    return Path(shutil.copytree(V1, tmp_path / "files"))


Edit = tuple[str, float, bytes]
edits = st.lists(
    st.tuples(st.sampled_from(["write", "insert", "cut", "drop", "double"]), st.floats(0, 1), st.binary(max_size=12)),
    min_size=1, max_size=5,
)  # fmt: skip
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.sampled_from([0, -1, 2**31, 2**63, 2**70, 1e308, "1", "sprites"]),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=3), inside, max_size=3),
    max_leaves=4,
)  # fmt: skip


def edited(data: bytes, changes: list[Edit]) -> bytes:
    for kind, where, piece in changes:
        at = int(where * len(data))
        if kind == "write":
            data = data[:at] + piece + data[at + len(piece) :]
        elif kind == "insert":
            data = data[:at] + piece + data[at:]
        elif kind == "cut":
            data = data[:at]
        elif kind == "drop":
            data = data[:at] + data[at + len(piece) * 5 :]
        else:
            data = data[:at] + data[at : at + 5 * len(piece)] + data[at:]
    return data


def replaced(record: Any, where: float, value: Any) -> Any:
    """The same JSON with one of its values changed."""
    places = list(_places(record))
    *way, last = places[int(where * (len(places) - 1))]
    changed = inside = json.loads(json.dumps(record))
    for step in way:
        inside = inside[step]
    inside[last] = value
    return changed


def _places(record: Any) -> Any:
    inside = record.items() if isinstance(record, dict) else enumerate(record) if isinstance(record, list) else ()
    for key, value in inside:
        yield (key,)
        yield from ((key, *rest) for rest in _places(value))


def hammer(seconds: float, strategy: st.SearchStrategy, check: Callable[[Any], None]) -> int:
    """Examples until the time is over; only an InputError is an answer, everything else a failure."""
    until, tried = time.monotonic() + seconds, 0

    for number in itertools.count():

        @seed(number)
        @settings(max_examples=25, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(strategy)
        def once(example: Any) -> None:
            nonlocal tried
            tried += 1
            try:
                check(example)
            except InputError as error:
                assert len(str(error).splitlines()) == 1  # noqa: PT017

        once()
        if time.monotonic() > until:
            return tried
    return tried


def clip(path: Path, codec: str, pixels: str) -> bytes:
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=25)
        stream.width, stream.height, stream.pix_fmt = 48, 32, pixels
        for i in range(6):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.full((32, 48, 3), 40 * i, np.uint8))))
        container.mux(stream.encode())
    return path.read_bytes()


@pytest.mark.timeout(1500)
def test_fuzzing_the_video_reader(tmp_path: Path, scale, record) -> None:
    av.logging.set_level(None)
    kinds = {
        "mp4": ("libx264", "yuv420p"),
        "mkv": ("ffv1", "bgr0"),
        "avi": ("mjpeg", "yuvj420p"),
        "webm": ("libvpx-vp9", "yuv420p"),
    }
    good = {ending: clip(tmp_path / f"good.{ending}", *kind) for ending, kind in kinds.items()}

    def check(example: tuple[str, list[Edit]]) -> None:
        ending, changes = example
        path = tmp_path / f"clip.{ending}"
        path.write_bytes(edited(good[ending], changes))
        with open_video(path) as video:
            for seen in itertools.islice(video, 20):
                assert seen.image.dtype == np.uint8

    tried = hammer(scale.fuzz_seconds, st.tuples(st.sampled_from(list(good)), edits), check)
    record("8-fuzzing", videos_tried=tried, minutes_for_each=round(scale.fuzz_seconds / 60, 1))


@pytest.mark.timeout(1500)
def test_fuzzing_the_opener_of_data_sets(files: Path, scale, record) -> None:
    folder = files / "data"
    names = ["manifest.json", "pairs/zarr.json", "pairs/0.0.0.0.0", "pairs/1.0.0.0.0"]
    good = {name: (folder / name).read_bytes() for name in names}
    texts = {name: json.loads(good[name]) for name in names[:2]}
    by_bytes = st.tuples(st.sampled_from(names), edits)
    by_value = st.tuples(st.sampled_from(names[:2]), st.floats(0, 1), json_values, st.booleans())

    def check(example: tuple[Any, ...]) -> None:
        name, *change = example
        if len(change) == 1:
            (folder / name).write_bytes(edited(good[name], change[0]))
        else:
            where, value, seal = change
            record = replaced(texts[name], where, value)
            record = sealed(record) if seal and isinstance(record, dict) else record
            (folder / name).write_text(json.dumps(record))
        try:
            PairSet.open(folder).load_all()
        finally:
            (folder / name).write_bytes(good[name])

    record("8-fuzzing", data_sets_tried=hammer(scale.fuzz_seconds, by_bytes | by_value, check))


@pytest.mark.timeout(1500)
def test_fuzzing_weights_and_their_cards(files: Path, scale, record) -> None:
    path = files / "model.safetensors"
    good = path.read_bytes()
    with safetensors.safe_open(path, "pt") as file:
        head = file.metadata()
    tensors = safetensors.torch.load_file(path)
    by_bytes = edits.map(lambda changes: (changes,))
    by_value = st.tuples(st.sampled_from(["config", "card"]), st.floats(0, 1), json_values)

    def check(example: tuple[Any, ...]) -> None:
        if len(example) == 1:
            at = 8 + int.from_bytes(good[:8], "little")
            path.write_bytes(good[:8] + edited(good[8:at], example[0]) + good[at:])
        else:
            name, where, value = example
            text = json.dumps(replaced(json.loads(head[name]), where, value))
            safetensors.torch.save_file(tensors, path, metadata={**head, name: text})
        detector = load(path, "cpu")
        assert np.isfinite(detector(np.zeros((1, 8, 8, 3), np.uint8))).all()

    record("8-fuzzing", weights_tried=hammer(scale.fuzz_seconds, by_bytes | by_value, check))


@pytest.mark.timeout(1500)
def test_fuzzing_settings(files: Path, scale, record) -> None:
    run = files / "run"
    whole = json.loads((run / "run.json").read_text())
    train = whole["settings"]["config"]
    parsers: dict[str, tuple[Any, Callable[[Any], object]]] = {
        "training": (train, TrainConfig.from_json),
        "model": (train["model"], ModelConfig.from_json),
        "agent": (KeyQNConfig().to_json(), KeyQNConfig.from_json),
    }

    def check(example: tuple[str, float, Any]) -> None:
        which, where, value = example
        if which == "run":
            (run / "run.json").write_text(json.dumps(replaced(whole, where, value)))
            load(run, "cpu")
        else:
            good, parse = parsers[which]
            with suppress(ValueError):  # of shapes that cannot be: whoever opens a file makes one line of it
                parse(replaced(good, where, value))

    values = st.tuples(st.sampled_from([*parsers, "run"]), st.floats(0, 1), json_values)
    record("8-fuzzing", settings_tried=hammer(scale.fuzz_seconds, values, check))

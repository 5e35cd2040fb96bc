"""The data set on disk: what goes in comes out, and damage of every kind is one clear line."""

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from transporter.data.pairs import CHUNK, CollectSettings, PairSet
from transporter.errors import InputError

SETTINGS = CollectSettings(environment="sprites", size=8, pairs=70, validation=0.1)


def numbered(number: int, size: int = 8) -> np.ndarray:
    """A pair that says which it is."""
    pair = np.zeros((2, size, size, 3), np.uint8)
    pair[0], pair[1] = number % 256, number // 256
    return pair


def numbers(pairs: np.ndarray) -> list[int]:
    return (pairs[:, 0, 0, 0, 0] + 256 * pairs[:, 1, 0, 0, 0].astype(int)).tolist()


def make(path: Path, settings: CollectSettings = SETTINGS, per_trajectory: int = 1, complete: bool = True) -> Path:
    """Pair i is number i, of trajectory i // per_trajectory; committed in two parts."""
    with PairSet.create(path, settings) as writer:
        for part in np.array_split(np.arange(settings.pairs), 2):
            for i in part.tolist():
                writer.append(numbered(i, settings.size), i, i // per_trajectory)
            writer.commit(0, 0, complete and settings.pairs - 1 in part)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make(tmp_path / "set")


def chunk_file(folder: Path, chunk: int) -> Path:
    return folder / "pairs" / f"{chunk}.0.0.0.0"


def test_what_goes_in_comes_out(folder: Path) -> None:
    pairs = PairSet.open(folder)
    assert len(pairs) == 70
    assert pairs.settings == SETTINGS
    assert numbers(pairs.load_all()) == list(range(70))
    assert numbers(pairs.read(np.array([69, 3, 3, 40]))) == [69, 3, 3, 40]
    assert pairs.read(np.array([], int)).shape == (0, 2, 8, 8, 3)
    pairs.verify()
    with pytest.raises(IndexError):
        pairs.read(np.array([70]))


def test_overwriting_appends_and_moves_the_index(tmp_path: Path) -> None:
    with PairSet.create(tmp_path, replace(SETTINGS, pairs=3)) as writer:
        for i in range(3):
            writer.append(numbered(i), i, i)
        writer.commit(0, 3, False)
        before = chunk_file(tmp_path, 0).read_bytes()
        writer.append(numbered(700), 1, 3)
        writer.commit(0, 4, True)
    assert numbers(PairSet.open(tmp_path).load_all()) == [0, 700, 2]
    assert PairSet.open(tmp_path).manifest.live.tolist() == [0, CHUNK, 2]
    assert chunk_file(tmp_path, 0).read_bytes() == before


def test_split_is_fixed_and_takes_its_share(folder: Path) -> None:
    pairs = PairSet.open(folder)
    assert len(pairs.validation_rows) == 7
    assert sorted([*pairs.train_rows, *pairs.validation_rows]) == list(range(70))
    np.testing.assert_array_equal(pairs.validation_rows, PairSet.open(folder).validation_rows)


def test_split_keeps_a_trajectory_on_one_side(tmp_path: Path) -> None:
    pairs = PairSet.open(make(tmp_path / "set", per_trajectory=4))
    train, validation = set(pairs.train_rows // 4), set(pairs.validation_rows // 4)
    assert validation
    assert not train & validation


def test_split_of_a_single_trajectory_and_no_split_at_all(tmp_path: Path) -> None:
    assert len(PairSet.open(make(tmp_path / "one", per_trajectory=70)).validation_rows) == 7
    assert len(PairSet.open(make(tmp_path / "none", replace(SETTINGS, validation=0.0))).validation_rows) == 0


def test_a_flipped_bit_is_caught_on_reading(folder: Path) -> None:
    file = chunk_file(folder, 1)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 4
    file.write_bytes(data)
    pairs = PairSet.open(folder)
    assert numbers(pairs.read(np.arange(20))) == list(range(20))
    for attempt in (pairs.load_all, pairs.verify):
        with pytest.raises(InputError, match=r"chunk 1 fails its checksum.*collect it again"):
            attempt()


def test_a_short_or_missing_chunk_is_caught_on_opening(folder: Path) -> None:
    file = chunk_file(folder, 2)
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"chunk 2 has .* bytes instead of"):
        PairSet.open(folder)
    file.unlink()
    with pytest.raises(InputError, match="chunk 2 is missing"):
        PairSet.open(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m | {"format": 3}, "newer transporter .format 3, not 2.: upgrade"),
        (lambda m: m | {"complete": False}, "not finished .*run the same"),
        (lambda m: m | {"live": [*m["live"][:-1], 10**6]}, "never written"),
        (lambda m: m | {"live": m["live"][:-1]}, "without their trajectories"),
        (lambda m: {k: v for k, v in m.items() if k != "settings"}, "lacks fields"),
        (lambda m: m | {"settings": m["settings"] | {"size": 16}}, "its array has shape"),
        (lambda m: [], "cannot be read"),
    ],
)
def test_a_wrong_manifest(folder: Path, change, message: str) -> None:
    file = folder / "manifest.json"
    record = {name: value for name, value in json.loads(file.read_text()).items() if name != "sha256"}
    file.write_text(json.dumps(change(record)))
    with pytest.raises(InputError, match=message):
        PairSet.open(folder)


def test_a_cut_manifest_or_array_description(folder: Path) -> None:
    description = folder / "pairs" / "zarr.json"
    description.write_bytes(description.read_bytes()[:50])
    with pytest.raises(InputError, match="description of its array"):
        PairSet.open(folder)
    (folder / "manifest.json").write_bytes(b'{"format": 1, "live": [0, 1')
    with pytest.raises(InputError, match=r"manifest.json cannot be read"):
        PairSet.open(folder)


def test_no_data_set_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no data set at"):
        PairSet.open(tmp_path / "nowhere")
    with pytest.raises(InputError, match="is not a data set"):
        PairSet.open(tmp_path)


def test_other_settings_and_other_peoples_folders_are_left_alone(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"other settings \(seed 0, now 1\)"):
        PairSet.create(folder, replace(SETTINGS, seed=1)).__enter__()
    assert len(PairSet.open(folder)) == 70
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("mine")
    for path in (tmp_path / "home", tmp_path / "home" / "thesis.txt"):
        with pytest.raises(InputError):
            PairSet.create(path, SETTINGS).__enter__()
    assert [p.name for p in (tmp_path / "home").iterdir()] == ["thesis.txt"]


def test_a_run_that_commits_nothing_leaves_nothing(tmp_path: Path) -> None:
    with PairSet.create(tmp_path / "set", SETTINGS) as writer:
        for i in range(CHUNK + 1):
            writer.append(numbered(i), i, i)
        assert chunk_file(tmp_path / "set", 0).exists()
    assert not (tmp_path / "set").exists()


@pytest.mark.parametrize("moment", ["before a chunk", "while one is written", "and another set is there",
                                    "and someone else's files come"])  # fmt: skip
def test_a_folder_that_is_taken_away_does_not_come_back_as_half_of_one(tmp_path: Path, moment: str) -> None:
    with PairSet.create(tmp_path / "set", SETTINGS) as writer:
        for i in range(CHUNK):
            writer.append(numbered(i), i, i)
        writer.commit(0, 0, False)
        if moment != "while one is written":
            writer.append(numbered(CHUNK), CHUNK, CHUNK)
        (tmp_path / "set").rename(tmp_path / "away")
        if moment == "while one is written":  # as zarr does it: with the folders above
            writer._array.resize((2 * CHUNK, *writer._array.shape[1:]))
        elif moment == "and another set is there":
            make(tmp_path / "set")
        elif moment == "and someone else's files come":
            (tmp_path / "set" / "pairs").mkdir(parents=True)
            (tmp_path / "set" / "pairs" / "mine").touch()
        with pytest.raises(InputError, match=r"set was taken away or changed while it was written to"):
            writer.commit(0, 0, False)
    if moment == "and another set is there":
        PairSet.open(tmp_path / "set").verify()
    elif moment == "and someone else's files come":
        assert (tmp_path / "set" / "pairs" / "mine").exists()
    else:
        assert not (tmp_path / "set").exists()
    with PairSet.create(tmp_path / "away", SETTINGS) as writer:
        assert len(writer) == CHUNK


def test_two_writers_at_once_are_refused(tmp_path: Path) -> None:
    second = (
        "import sys; from transporter.data.pairs import *\n"
        "try:\n  PairSet.create(sys.argv[1], CollectSettings(size=8)).__enter__()\n"
        "except ValueError as error: print(error)"
    )
    with PairSet.create(tmp_path / "set", CollectSettings(size=8)):
        ran = subprocess.run([sys.executable, "-c", second, str(tmp_path / "set")], capture_output=True, text=True)
    assert "another process is writing to" in ran.stdout


def test_opens_at_once(tmp_path: Path) -> None:
    folder = make(tmp_path / "set", replace(SETTINGS, pairs=20_000))
    start = time.perf_counter()
    PairSet.open(folder)
    assert time.perf_counter() - start < 3


@pytest.mark.parametrize(
    "wrong", [{"size": 4}, {"pairs": 0}, {"length": 1}, {"budget": 99}, {"validation": 1.0}, {"sampler": "no"}]
)
def test_settings_are_checked(wrong: dict) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        CollectSettings(**wrong)

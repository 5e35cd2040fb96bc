"""Disks that are full, too small, read-only or gone: one clear line, and the last good state as it was.

A real full disk needs the right to mount one (root); where that is missing, the tests that need it say so.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import av
import numpy as np
import pytest

from transporter.data.manifest import Manifest
from transporter.runs import Run

STATE = ("checkpoints", "best", "metrics.jsonl")
FULL = ("No space left on device", "File too large")


@pytest.fixture
def disk(beside_data: Path) -> Iterator[Callable[[str], Path]]:
    """`disk("size=1m")`: a file system in memory, made anew or changed."""
    path = beside_data / "disk"
    path.mkdir()

    def mount(options: str) -> Path:
        change = "remount," if path.is_mount() else ""
        made = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", change + options, "none", path], capture_output=True, text=True
        )
        if made.returncode:
            pytest.skip(f"this user may not mount a small disk: {made.stderr.strip()}")
        return path

    yield mount
    if path.is_mount():
        subprocess.run(["umount", path], check=True)


def failed_well(ended, *reasons: str) -> None:
    """Not with success, and with one line that names the reason."""
    assert ended.code in (1, 2), ended.err
    assert "Traceback" not in ended.err
    assert ended.line.startswith("transporter: ")
    assert any(reason in ended.line for reason in reasons), ended.line
    assert not any(word in ended.err for word in ("trained:", "written:", "pairs of"))  # what success would say


def test_training_on_a_full_disk_goes_on_when_there_is_room(start, trained, disk, same_files, record) -> None:
    place = disk("size=1300k")
    ended = start(*trained.command, "disk/run", cwd=place.parent).end()
    failed_well(ended, *FULL)
    run = Run.open(place / "run")
    saved = run.latest()
    assert saved is not None
    assert run.warnings == []
    disk("size=20m")
    assert start(*trained.command, "disk/run", cwd=place.parent).end().code == 0
    same_files(place / "run", trained.path, STATE)
    record("4-disks", trainings_on_a_full_disk=1)


def test_collecting_on_a_full_disk_goes_on_when_there_is_room(start, data, disk, same_files, record) -> None:
    for size in ("12k", "20k", "28k"):
        place = disk(f"size={size}")
        shutil.rmtree(place / "data", ignore_errors=True)
        failed_well(start(*data.command, "disk/data", cwd=place.parent).end(), *FULL)
        assert not (place / "data" / "manifest.json").exists() or Manifest.read(place / "data").segments
        disk("size=20m")
        assert start(*data.command, "disk/data", cwd=place.parent).end().code == 0
        same_files(place / "data", data.path)
        subprocess.run(["umount", place], check=True)
    record("4-disks", collections_on_a_full_disk=3)


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("clip") / "clip.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p"
        for i in range(50):
            image = np.random.default_rng(i).integers(0, 256, (64, 64, 3), np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, "rgb24")))
        container.mux(stream.encode())
    return path


def test_results_that_do_not_fit_leave_nothing(start, trained, clip, disk, record) -> None:
    place = disk("size=8k")
    for command in (["export", trained.path, "disk/model.safetensors"],
                    ["track", clip, "--model", trained.path, "--device", "cpu", "--out", "disk/tracks"]):  # fmt: skip
        failed_well(start(*command, cwd=place.parent).end(), *FULL)
        assert list(place.iterdir()) == []
    record("4-disks", results_that_did_not_fit=2)


@pytest.mark.parametrize("largest", [100, 100_000])
def test_a_limit_on_the_size_of_files(start, trained, beside_data, same_files, largest: int, record) -> None:
    """What a quota does, for anyone: a write beyond it fails half-way."""
    ended = start(*trained.command, "run", cwd=beside_data, largest_file=largest).end()
    failed_well(ended, *FULL)
    assert not list(beside_data.glob("run/*/step-*"))
    assert start(*trained.command, "run", cwd=beside_data).end().code == 0
    same_files(beside_data / "run", trained.path)
    record("4-disks", **{f"trainings with files of at most {largest} bytes": 1})


def test_a_folder_that_may_only_be_read(start, trained, data, disk, beside_data, same_files, record) -> None:
    place = disk("size=20m") if os.geteuid() == 0 else beside_data / "disk"  # permissions do not stop root
    shutil.copytree(trained.path, place / "run")
    shutil.copytree(data.path, place / "data")
    if os.geteuid() == 0:
        disk("ro")
    else:
        for path in (place, *place.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
    reasons = ("Read-only file system", "Permission denied", "cannot be written to")
    for command in (
        [*trained.command, "disk/new"],
        [*data.command, "disk/new"],
        ["train", "sprites", "--data", "data", "--steps", "1", "--out", "disk/run/inside"],
        ["export", trained.path, "disk/model.safetensors"],
    ):
        ended = start(*command, cwd=beside_data).end()
        failed_well(ended, *reasons)
        assert ended.code == 2
    same_files(place / "run", trained.path)
    ended = start("export", "disk/run", "model.safetensors", cwd=beside_data).end()
    assert ended.code == 0, ended.err  # to read it is enough to use it
    record("4-disks", refusals_to_write_where_one_may_only_read=4)


@pytest.mark.parametrize("what", ["run", "data set"])
def test_a_folder_that_is_taken_away(start, trained, data, beside_data, same_files, what: str, record) -> None:
    whole, folder = (trained, "run") if what == "run" else (data, "new")
    marks = "checkpoints/step-*" if what == "run" else "pairs/0.0.0.0.0"
    life = start(*whole.command, folder, cwd=beside_data)
    deadline = time.monotonic() + 60
    while not list((beside_data / folder).glob(marks)):
        assert time.monotonic() < deadline
        time.sleep(0.002)
    (beside_data / folder).rename(beside_data / "away")
    failed_well(life.end(), "No such file or directory", "taken away")
    assert not (beside_data / folder).exists()  # half of it must not come back
    (beside_data / "away").rename(beside_data / folder)
    ended = start(*whole.command, folder, cwd=beside_data).end()
    assert ended.code == 0, ended.err
    same_files(beside_data / folder, whole.path)
    record("4-disks", **{f"{what} taken away": 1})

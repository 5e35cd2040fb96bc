"""Folders as footage: of images, which are one clip, and of videos, which are one each."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from transporter.cli.collect import files_of, label_of, name_of
from transporter.data.clips import collect_video, frames_at
from transporter.data.manifest import CollectSettings
from transporter.errors import InputError


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Picture i is as bright as i, and one of them is none."""
    folder = tmp_path / "images"
    folder.mkdir()
    for i in range(60):
        Image.new("RGB", (20, 10), (4 * i, 0, 0)).save(folder / f"frame{i}.png")
    (folder / "frame7.png").write_text("no image")
    return folder


def test_every_image_is_taken_in_the_order_of_its_number(images: Path) -> None:
    seen = [int(frame[0, 0, 0]) for frame in frames_at(images, rate=3.0)]
    assert seen == [4 * i for i in range(60) if i != 7]


def test_pairs_of_a_folder_of_images(images: Path, tmp_path: Path) -> None:
    settings = CollectSettings(environment="video", pairs=40, size=16)
    with pytest.warns(UserWarning, match="images: 1 frame missing, flawed or unreadable: taking what there is of it"):
        found = collect_video(settings, [images], tmp_path / "set")
    assert found.manifest.steps == 59
    assert len(found) == 40
    pairs = found.read(np.arange(40))
    assert (pairs[:, 0, 0, 0, 0] != pairs[:, 1, 0, 0, 0]).all()  # two pictures, never the same one twice
    assert str(images) not in str(found.manifest.settings.sources)


def test_a_folder_stands_for_what_is_in_it(images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    videos = tmp_path / "videos"
    videos.mkdir()
    for name in ("b10.mp4", "b9.mp4", "notes.txt"):
        (videos / name).touch()
    assert [path.name for path in files_of([str(videos), str(images)])] == ["b9.mp4", "b10.mp4", "images"]
    assert (name_of([f"{videos}/"]), label_of([f"{videos}/"])) == ("video", "videos")
    for name in ("trial.1", "trial.2"):
        images.with_name(name).symlink_to(images)
        assert label_of([str(tmp_path / name)]) == name  # a folder has no ending, and a link its own name
    assert label_of([str(videos / "b9.mp4"), str(images)]) == "b9-and-1-more"
    monkeypatch.chdir(images)
    assert label_of(["."]) == "images"
    (images / "deeper").mkdir()
    monkeypatch.chdir(images / "deeper")
    assert label_of([".."]) == "images"
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="neither videos nor images"):
        files_of([str(tmp_path / "empty")])
    (videos / "poster.JPG").touch()
    with pytest.raises(InputError, match="videos holds 2 videos and 1 image: name the files"):
        files_of([str(videos)])

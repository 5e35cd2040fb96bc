"""The page is whole, harmless and self-contained, whatever parts there are."""

import base64
import io
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from transporter.errors import InputError
from transporter.report import html
from transporter.report.html import Report, render, write_report
from transporter.tracking.match import Episode
from transporter.tracking.metrics import following, tracking_curve
from transporter.tracking.results import Evaluation, keypoint_rows, object_rows

NAMES = ("ball", "paddle <left>")


def evaluation() -> Evaluation:
    """Keypoint 1 sits on the ball, keypoint 0 nowhere; the paddle is alone."""
    centres = np.tile(np.array([[0, 0], [0.9, 0]], np.float32), (40, 1, 1))
    points = np.tile(np.array([[-0.9, 0.9], [0.03, 0]], np.float32), (40, 1, 1))
    episodes = [Episode(points, centres, np.ones((40, 2), bool))]
    followed = following(episodes, 0.2, 20)
    curve = tracking_curve(episodes, 0.2)
    rows = keypoint_rows(followed, NAMES), object_rows(followed, NAMES)
    return Evaluation("pong", 3, 40, 1, curve, 20, *rows)


class Page(HTMLParser):
    """Open tags must be closed; addresses and text are kept."""

    VOID = frozenset({"meta", "img", "link", "br", "input"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "poster")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words += data.split()

    @property
    def text(self) -> str:
        return " ".join(self.words)


def picture(shade: int) -> np.ndarray:
    return np.full((20, 90, 3), shade, np.uint8)


def full_report(clip: Path) -> Report:
    return Report(
        title="Pong & <script>alert(1)</script>",
        summary="A short run.",
        evaluation=evaluation(),
        curves={"baseline": evaluation().curve},
        config={"steps": 20000, "model": {"size": 128, "shape": {"filters": (32, 64)}, "blur": None, "norm": True}},
        metrics=[{"step": 1, "loss": 0.5}, {"step": 20000, "loss": 0.1, "validation_loss": 0.2, "alive": 1,
                 "duplicates": 0, "travel": [0.01, 0.3], "home": [0.1, -0.25, 0.5, 0.5]}],
        video=clip,
        strip=picture(10),
        reconstructions=picture(20),
        heatmaps=picture(30),
        notes=("The paddle stands still.",),
    )  # fmt: skip


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    path = tmp_path / "clip.mp4"
    path.write_bytes(b"\0\0\0\x18ftypmp42")
    return path


def test_full_report_says_everything(tmp_path: Path, clip: Path) -> None:
    path = write_report(tmp_path / "new" / "report.html", full_report(clip))
    page = Page(path.read_text())
    for words in (
        "Pong & <script>alert(1)</script>",
        "A short run.",
        "Frame by frame 50 % of what is possible Precision ceiling 1.00 0.50 Recall ceiling 1.00 0.50",
        "Over 200 steps 50 %",
        "Keypoints alive 1 of 2",
        "Best validation loss 0.2",
        "0 nothing 0 % 0.010 0.10, −0.25 1 ball 100 % 0.300 0.50, 0.50",
        "ball 100 % 0.030 1 paddle <left> 0 % – nobody",
        "Through time",
        "Reconstructions",
        "Heatmaps",
        "The paddle stands still.",
        "steps 20,000",
        "model.shape filters 32, 64",
        "blur – norm yes",
        "40 frames of random play in 1 episode of pong (seed 3), with 2 keypoints",
    ):
        assert words in page.text


def test_nothing_is_fetched_and_nothing_is_run(clip: Path) -> None:
    text = render(full_report(clip))
    page = Page(text)
    assert len(page.addresses) == 6  # clip, two figures, three pictures
    assert all(address.startswith("data:") for address in page.addresses)
    assert "<script" not in text
    assert not re.search(r"url\(|@import|https?://", text)


def test_pictures_and_clip_arrive_unchanged(clip: Path) -> None:
    addresses = Page(render(full_report(clip))).addresses
    data = {
        kind: [a.split(",")[1] for a in addresses if a.startswith(f"data:{kind}")] for kind in ("image/png", "video")
    }
    assert base64.b64decode(data["video"][0]) == clip.read_bytes()
    shades = [np.asarray(Image.open(io.BytesIO(base64.b64decode(png)))) for png in data["image/png"]]
    assert [int(shade.mean()) for shade in shades] == [10, 20, 30]


def test_run_without_truth() -> None:
    metrics = [{"step": 5, "loss": 0.5, "alive": 2, "duplicates": 1, "travel": [0.1, 0.2, 0.0]}]
    text = Page(render(Report("kitchen.mp4", metrics=metrics, strip=picture(9)))).text
    assert "Keypoints alive 2 of 3" in text
    assert "Keypoints How far" in text
    for word in ("Precision", "Ceiling", "Follows", "random play", "Reconstructions", "Settings"):
        assert word not in text


def test_how_much_keypoints_follow_is_one_fact_and_explained() -> None:
    row = {"step": 5, "alive": 2, "duplicates": 0, "travel": [0.1, 0.2], "follows": [0.5, -0.1]}
    text = Page(render(Report("kitchen.mp4", metrics=[row]))).text
    assert "Follows 0.20 " in text  # their mean
    assert "Follows: how much more alike what lies under a keypoint is from frame to frame" in text
    assert "Follows" not in Page(render(Report("of an earlier version", metrics=[row | {"follows": []}]))).text


def test_empty_report_is_a_page() -> None:
    assert Page(render(Report("Nothing yet"))).text.startswith("Nothing yet")


def test_large_clip_is_named_and_missing_clip_is_refused(clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="no such clip"):
        render(Report("x", video=clip.with_name("other.mp4")))
    monkeypatch.setattr(html, "LARGEST_VIDEO", 4)
    page = Page(render(Report("x", video=clip)))
    assert not page.addresses
    assert "too large for this page: clip.mp4" in page.text


def test_a_failed_report_leaves_the_old_one(tmp_path: Path) -> None:
    path = write_report(tmp_path / "report.html", Report("first"))
    with pytest.raises(InputError):
        write_report(path, Report("second", video=tmp_path / "missing.mp4"))
    assert "first" in path.read_text()
    write_report(path, Report("third"))
    assert "third" in path.read_text()
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]

"""Episodes, features, reconstructions, games and clips, as the page asks for them."""

import io
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from transporter.report.formats import FORMATS
from transporter.report.tables import read_tracks

from .conftest import Studio, unpack

K, T = 3, 30


def picture(content: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(content)))


@pytest.fixture(scope="module")
def episode(studio: Studio) -> tuple[dict[str, Any], list[bytes]]:
    return unpack(studio.get("/api/episode", model="run:first", seed=5, frames=T).body)


def test_an_episode_has_points_truth_and_a_picture_per_frame(episode) -> None:
    head, parts = episode
    assert (head["scene"], head["frames"], head["keypoints"], head["step"]) == ("sprites", T, K, 400)
    n = len(head["truth"]["objects"])
    points, centres = (np.frombuffer(part, "<f4") for part in parts[:2])
    present, followed = np.frombuffer(parts[2], "u1"), np.frombuffer(parts[3], "i1")
    assert (len(points), len(centres), len(present), len(followed)) == (T * K * 2, T * n * 2, T * n, T * K)
    assert np.abs(points).max() <= 1
    assert len(parts) == 4 + T
    assert picture(parts[4]).shape == (head["height"], head["width"], 3)
    # A keypoint is only ever matched with an object within ε.
    points, centres = points.reshape(T, K, 2), centres.reshape(T, n, 2)
    for t, k in zip(*np.nonzero(followed.reshape(T, K) >= 0), strict=True):
        distance = np.hypot(*(points[t, k] - centres[t, followed.reshape(T, K)[t, k]]))
        assert distance <= head["truth"]["radius"] + 1e-6


def test_features_of_the_episode(studio: Studio, episode) -> None:
    head, (values,) = unpack(studio.get("/api/features", model="run:first", seed=5, frames=T).body)
    assert len(values) == T * K * head["channels"]


def test_the_target_is_painted_from_the_source(studio: Studio, episode) -> None:
    asked = {"model": "run:first", "seed": 5, "frames": T}
    _, parts = unpack(studio.get("/api/reconstruction", source=0, target=9, **asked).body)
    source, target, painted = map(picture, parts)
    assert source.shape == target.shape == painted.shape == (32, 32, 3)
    assert (source != target).any()


def test_a_shipped_model_says_what_it_lacks(studio: Studio) -> None:
    models = studio.get("/api/models").json
    assert {"shipped:pong", "run:first", "run:nested/second"} <= {model["id"] for model in models["models"]}
    assert "pong" in models["games"]
    answer = studio.get("/api/reconstruction", model="shipped:pong", frames=2, source=0, target=1)
    assert answer.status == 409
    assert "shipped model" in answer.json["error"]


def test_a_game_goes_on_and_ends(studio: Studio) -> None:
    head, (shown,) = unpack(studio.post("/api/play", {"model": "shipped:pong", "seed": 3}).body)
    assert (head["scene"], head["step"], head["keypoints"]) == ("pong", 0, 3)
    assert picture(shown).shape == (210, 160, 3)
    up = head["actions"].index("RIGHT")
    before = after = None
    for step in range(1, 41):
        state, _ = unpack(studio.post(f"/api/play/{head['id']}", {"action": up}).body)
        assert state["step"] == step
        player = state["centres"][head["objects"].index("player")]
        before, after = (player if step == 25 else before), player
    assert after[1] < -0.3  # the paddle went up, and stays there
    assert before is not None
    bad = studio.post(f"/api/play/{head['id']}", {"action": 99})
    assert (bad.status, "no action 99" in bad.json["error"]) == (400, True)
    assert studio.ask("DELETE", f"/api/play/{head['id']}").status == 200
    assert studio.post(f"/api/play/{head['id']}", {"action": 0}).status == 404


def test_a_clip_from_drop_to_every_table(studio: Studio, clip: Path, tmp_path: Path) -> None:
    dropped = studio.drop(clip.read_bytes(), name="bars.mp4")
    assert dropped.status == 202
    made = dropped.json["id"]
    deadline = time.monotonic() + 60
    while (card := studio.get("/api/clip", id=made).json)["state"] != "done":
        assert card["state"] in ("waiting", "tracking"), card
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert (card["name"], card["frames"], card["width"], card["height"], card["keypoints"]) == (
        "bars.mp4",
        60,
        128,
        96,
        K,
    )
    _, (times, _points) = unpack(studio.get("/api/clip/points", id=made).body)
    np.testing.assert_allclose(np.frombuffer(times, "<f8"), np.arange(60) / 25, atol=1e-4)
    for name, kind in FORMATS.items():
        answer = studio.get("/api/clip/tracks", id=made, format=name)
        assert answer.status == 200
        assert f"{made}{kind.ending}" in answer.headers["content-disposition"]
        path = tmp_path / f"tracks{kind.ending}"
        path.write_bytes(answer.body)
        assert read_tracks(path).pixels.shape == (60, K, 2)  # every decoded frame has its row
    part = studio.ask("GET", f"/api/clip/video?id={made}&kind=preview", headers={"Range": "bytes=0-99"})
    assert (part.status, len(part.body)) == (206, 100)
    assert studio.get("/api/clip/video", id=made, kind="labelled").body[4:8] == b"ftyp"
    assert sorted(p.name for p in (studio.root / "clips" / made).iterdir()) == sorted(
        ["clip.json", "source.mp4", "preview.mp4", "labelled.mp4", *(f"tracks{k.ending}" for k in FORMATS.values())]
    )
    assert json.loads((studio.root / "clips" / made / "clip.json").read_text())["damaged"] == 0
    assert studio.ask("DELETE", "/api/clip", id=made).status == 200
    assert studio.get("/api/clip", id=made).status == 404


def test_a_run_page_has_what_its_folder_has(studio: Studio) -> None:
    (studio.root / "first" / "results.json").write_text('{"name": "x", "figures": {"rooms": 7, "mean_return": 1.5}}')
    run = studio.get("/api/run", id="first").json
    assert run["figures"] == {"results": {"rooms": 7.0, "mean_return": 1.5}}
    assert run["headline"]["share"] is not None
    assert run["evaluation"]["curve"]["lengths"] == [1, 5, 20]
    assert [group["name"] for group in run["settings"]][:2] == ["", "config"]
    both = studio.ask("GET", "/api/tracking?id=first&id=nested/second").json
    assert set(both) == {"first", "nested/second"}

"""Paths that lead elsewhere, and files that are no videos: refused with a clear line, and nothing read or left."""

import ast
import random
import sys
from pathlib import Path
from urllib.parse import quote

import av
import numpy as np
import pytest

import transporter
from transporter.report.studio.server import PAGE

from .conftest import LIMIT, write_clip

SOURCE = Path(transporter.__file__).parent

PARTS = ["../", "..\\", "%2e%2e/", "..%2f", "%252e%252e%252f", "..%c0%af", ".../...//", "..;/", "/./../", "%00../"]
TARGETS = ["secret.txt", "studio.err", "etc/passwd", "../secret.txt", "first/../../secret.txt", "..%5csecret.txt"]
TRAVERSALS = [part * depth + target for part in PARTS for depth in (1, 2, 3, 8) for target in TARGETS]


def tree(folder: Path) -> list[tuple[str, int]]:
    ours = ("studio.err", "opened.log")
    return sorted((str(path), path.stat().st_size) for path in folder.rglob("*") if path.name not in ours)


def strayed(studio, since: int) -> list[str]:
    """What the server touched outside the run folders, but for the page's own files, locks, and Python's modules."""
    inside = (str(studio.root), str(PAGE), "/proc/locks", "/dev/null", sys.prefix, sys.base_prefix, str(SOURCE))
    touched = [line.partition(" ")[2] for line in studio.opened()[since:]]
    paths = {ast.literal_eval(path) for path in touched if path[0] in "'\""}
    return sorted(path for path in paths if not path.startswith(inside))


def test_two_hundred_ways_out_lead_nowhere(studio) -> None:
    assert len(set(TRAVERSALS)) >= 200
    before, since = tree(studio.root.parent), len(studio.opened())
    ids = [f"/api/{name}" for name in ("run", "rows", "tracking", "control", "clip", "clip/points", "clip/latest")]
    for i, way in enumerate(TRAVERSALS):
        asked = [
            f"/static/{way}",
            f"/{way}",
            f"{ids[i % len(ids)]}?id={way}",
            f"{ids[i % len(ids)]}?id={quote(way, safe='')}",
            f"/api/video?id=first&name={quote(way, safe='')}",
            f"/api/clip/tracks?id={quote(way, safe='')}&format={quote(way, safe='')}",
        ]
        for path in asked:
            answer = studio.get(path)
            assert 400 <= answer.status < 500, (path, answer.status)
            assert b"canary" not in answer.body
            assert b"root:" not in answer.body
    assert studio.ask("DELETE", "/api/clip", id="../first").status == 404
    assert studio.get("/api/episode", model="../../secret.txt").status == 404
    assert studio.alive()
    assert tree(studio.root.parent) == before
    assert len(studio.opened()) > since + 200  # it did look, among the runs
    assert strayed(studio, since) == []


def test_links_that_lead_out_are_not_followed(studio) -> None:
    outside = studio.root.parent / "outside"
    outside.mkdir()
    (outside / "run.json").write_text('{"format": 1, "settings": {"environment": "a canary"}}')
    link, lent = studio.root / "link", studio.root / "lent"
    link.symlink_to(outside)
    lent.mkdir()
    (lent / "run.json").write_text('{"format": 1, "settings": {"explore": {"game": "sprites"}}}')
    (lent / "metrics.jsonl").symlink_to(studio.root.parent / "secret.txt")
    (lent / "film.mp4").symlink_to(studio.root.parent / "secret.txt")
    (outside / "exploration.json").write_text('{"figures": {"rooms, most": 31337}}')
    (lent / "exploration.json").symlink_to(outside / "exploration.json")
    try:
        assert "canary" not in (listed := studio.get("/api/runs").body.decode())
        assert "31337" not in listed
        assert studio.get("/api/run", id="link").status == 404
        assert studio.get("/api/rows", id="lent").json["curves"] == {}
        assert studio.get("/api/run", id="lent").json["videos"] == []
        assert studio.get("/api/run", id="lent").json["figures"] == {}
        assert studio.get("/api/video", id="lent", name="film.mp4").status == 404
    finally:
        link.unlink()
        for path in (*lent.iterdir(), *outside.iterdir()):
            path.unlink()
        lent.rmdir()
        outside.rmdir()


def no_frames(path: Path) -> bytes:
    with av.open(str(path), "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p"
        container.start_encoding()
    return path.read_bytes()


def sound_only(path: Path) -> bytes:
    with av.open(str(path), "w", format="wav") as container:
        stream = container.add_stream("pcm_s16le", rate=8000)
        sound = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), layout="mono")
        sound.sample_rate = 8000
        container.mux(stream.encode(sound))
    return path.read_bytes()


def too_wide(path: Path) -> bytes:
    with av.open(str(path), "w", format="avi") as container:
        stream = container.add_stream("ffv1", rate=25)
        stream.width, stream.height, stream.pix_fmt = 20_000, 64, "yuv420p"
        container.mux(stream.encode(av.VideoFrame.from_ndarray(np.zeros((64, 20_000, 3), np.uint8), "rgb24")))
        container.mux(stream.encode())
    return path.read_bytes()


def huge_still(path: Path) -> bytes:
    from PIL import Image

    Image.new("L", (20_000, 20_000)).save(path, "PNG")  # 400 million pixels in some 60 kB
    return path.read_bytes()


BAD = {
    "empty": (lambda path: b"", "empty"),
    "words": (lambda path: b"some words\n" * 100, "cannot be read as a video"),
    "noise": (lambda path: random.Random(0).randbytes(50_000), "cannot be read as a video"),
    "a page": (lambda path: b"<!doctype html><script>alert(1)</script>" * 50, "cannot be read as a video"),
    "a playlist": (lambda path: b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n", ""),
    "a list of files": (lambda path: b"ffconcat version 1.0\nfile '/etc/passwd'\n", ""),
    "no frames": (no_frames, ""),
    "only sound": (sound_only, "holds no video"),
    "20,000 wide": (too_wide, "too many"),
    "20,000 square": (huge_still, ""),
    "cut short": (lambda path: write_clip(path.with_suffix(".avi"), codec="mpeg4").read_bytes()[:9000], "cut short"),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_is_no_video_is_refused_and_leaves_nothing(studio, tmp_path: Path, kind: str) -> None:
    make, says = BAD[kind]
    before, since = tree(studio.root.parent), len(studio.opened())
    answer = studio.drop(make(tmp_path / "bad"), name=f"{kind}.mp4")
    assert 400 <= answer.status < 500, answer
    line = answer.json["error"]
    assert line
    assert says in line
    assert str(studio.root) not in line
    assert studio.alive()
    assert tree(studio.root.parent) == before
    assert strayed(studio, since) == []


def test_fuzzed_containers_never_bring_the_studio_down(studio, clip: Path) -> None:
    """Some are still videos; those are taken, and can be deleted again."""
    before = tree(studio.root.parent)
    rng, content = random.Random(1), clip.read_bytes()
    for round in range(6):
        broken = bytearray(content)
        if round % 2:
            broken = broken[: rng.randrange(100, len(broken))]
        for _ in range(rng.choice((1, 20, 400))):
            broken[rng.randrange(len(broken))] = rng.randrange(256)
        answer = studio.drop(bytes(broken), name=f"fuzz{round}.mp4")
        assert answer.status == 202 or 400 <= answer.status < 500
        if answer.status == 202:
            assert studio.ask("DELETE", "/api/clip", id=answer.json["id"]).status == 200
        else:
            assert answer.json["error"]
    assert studio.alive()
    left = [entry for entry in tree(studio.root.parent) if not entry[0].endswith("/clips")]
    assert left == before


def test_too_large_is_refused_before_it_is_sent_and_while_it_comes(studio) -> None:
    before = tree(studio.root)
    path = "/api/clips?name=large.mp4&model=run:first"
    said = studio.ask("POST", path, headers={"Content-Length": str(LIMIT + 1)})
    assert said.status == 413
    assert "--upload-limit" in said.json["error"]
    # Without a length: in pieces, until it is too much.
    piece = b"%x\r\n" % 2**20 + bytes(2**20) + b"\r\n"
    pieces = piece * (LIMIT // 2**20 + 3) + b"0\r\n\r\n"
    try:
        status = studio.ask("POST", path, pieces, headers={"Transfer-Encoding": "chunked"}).status
    except (BrokenPipeError, ConnectionResetError):
        status = 413  # it did not even wait for the rest
    assert status == 413
    assert studio.alive()
    assert [entry for entry in tree(studio.root) if not entry[0].endswith("/clips")] == before


def test_names_of_clips_stay_names(studio, clip: Path) -> None:
    for name in ("../../secret\x00.txt", "/etc/<img src=x onerror=alert(1)>.mp4", "." * 300):
        answer = studio.drop(clip.read_bytes(), name=name)
        assert answer.status == 202
        made = answer.json["id"]
        assert all(letter.isalnum() or letter == "-" for letter in made)
        assert (studio.root / "clips" / made).is_dir()
        assert studio.ask("DELETE", "/api/clip", id=made).status == 200
        assert not (studio.root / "clips" / made).exists()


BODIES = [
    b"",
    b"[]",
    b"{",
    b'{"model": 3}',
    b'{"model": "run:first", "seed": "x"}',
    b"null",
    b'"' + b"a" * 100_000 + b'"',
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: str(body[:20]))
def test_bodies_that_are_wrong(studio, body: bytes) -> None:
    assert 400 <= studio.ask("POST", "/api/play", body).status < 500
    assert 400 <= studio.ask("POST", "/api/play/nothing", body).status < 500


def test_questions_that_are_wrong(studio) -> None:
    for path in ("/api/run", "/api/rows?id=first&cursor=../x", "/api/episode?model=run:first&frames=0",
                 "/api/episode?model=run:first&frames=99999999999", "/api/episode?model=run:first&seed=-1",
                 "/api/reconstruction?model=run:first&source=0&target=9999", "/api/clip/video?id=x&kind=source",
                 "/api/unknown", "/api/runs/../../etc/passwd"):  # fmt: skip
        answer = studio.get(path)
        assert 400 <= answer.status < 500, path
        assert answer.json["error"]
    assert studio.ask("PUT", "/api/runs", b"").status == 405


def test_clips_are_never_written_through_a_link(run_async, tmp_path: Path) -> None:
    from collections.abc import AsyncIterator

    from transporter.report.studio.answers import Refused
    from transporter.report.studio.clips import Clips

    async def body() -> AsyncIterator[bytes]:
        yield b"x"

    (tmp_path / "runs").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "runs" / "clips").symlink_to(tmp_path / "outside")
    with pytest.raises(Refused, match="is a link"):
        run_async(Clips(tmp_path / "runs", ("false",), LIMIT).take("a.mp4", "m", "m", body(), None))
    assert list((tmp_path / "outside").iterdir()) == []

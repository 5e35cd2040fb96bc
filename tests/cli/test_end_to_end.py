"""From nothing to a report, as a user would, with a kill in the middle; and from a video of one's own."""

import json
import os
import signal
from pathlib import Path

import av
import numpy as np

from transporter.data.pairs import PairSet
from transporter.report.tables import read_tracks
from transporter.runs import Run


def frames_of(clip: Path) -> int:
    with av.open(str(clip)) as container:
        return sum(1 for _ in container.decode(video=0))


def test_collect_train_kill_resume_evaluate_track_report(
    transporter, forked, started, first_checkpoint, equal_to_the_bit, data, whole_run, tiny, dots, tmp_path: Path
) -> None:
    command = ["train", "sprites", "--data", data, *tiny, "--out", "run"]
    run = tmp_path / "run"
    killed = started(*command, cwd=tmp_path)
    first_checkpoint(run)
    os.killpg(killed.pid, signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    left = Run.open(run).latest()
    assert left is not None
    assert 10 <= left.step < 150

    resumed = transporter(*command, cwd=tmp_path)
    assert resumed.code == 0, resumed.err
    equal_to_the_bit(run, whole_run)

    measured = forked(
        "evaluate", "sprites", "--model", "run", "--frames", "250", "--json", "figures.json", cwd=tmp_path
    )
    assert measured.code == 0, measured.err
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures == json.loads((run / "evaluation.json").read_text())
    assert (figures["scene"], figures["frames"], len(figures["curve"]["lengths"])) == ("sprites", 250, 200)
    assert 0 <= figures["figures"]["precision@20"] <= figures["figures"]["precision_ceiling@20"] == 1

    other = forked("evaluate", "sprites_pong", "--model", "run", "--frames", "50", cwd=tmp_path)
    assert "the model learnt from sprites, not from sprites_pong" in other.err + other.out
    assert json.loads((run / "evaluation.json").read_text()) == figures

    tracked = forked("track", dots, "--model", "run", "--out", "tracks", cwd=tmp_path)
    assert tracked.code == 0, tracked.err
    assert sorted(path.name for path in (tmp_path / "tracks").iterdir()) == [
        "labelled.mp4", "tracks.csv", "tracks.parquet"]  # fmt: skip
    table = read_tracks(tmp_path / "tracks" / "tracks.csv")
    assert table.points.shape == (100, 3, 2)
    assert np.abs(table.points).max() <= 1
    assert frames_of(tmp_path / "tracks" / "labelled.mp4") == 100

    reported = forked("report", "run", "--frames", "25", cwd=tmp_path)
    assert reported.code == 0, reported.err
    page = (run / "report.html").read_text()
    assert "data:video/mp4" in page
    assert page.count("data:image/png") == 3  # the strip, the reconstructions, the heatmaps
    assert page.count("data:image/svg") == 2  # tracking and training
    assert "no reconstructions" not in page
    assert frames_of(run / "report.mp4") == 25
    assert sorted(path.name for path in run.iterdir()) == [
        "best", "checkpoints", "evaluation.json", "lock", "metrics.jsonl", "report.html", "report.mp4", "run.json"
    ]  # fmt: skip


def test_train_on_a_video_and_track_it(forked, dots, tmp_path: Path) -> None:
    ended = forked(
        "train", dots, "--keypoints", "4", "--pairs", "48", "--size", "32", "--steps", "12", "--batch", "8",
        "--device", "cpu", cwd=tmp_path
    )  # fmt: skip
    assert ended.code == 0, ended.err
    assert (tmp_path / "data" / "dots-32px-48-seed0" / "manifest.json").exists()
    assert "transporter track clip.mp4 --model runs/dots-tiny-seed0" in ended.err
    tracked = forked("track", dots, "--model", "runs/dots-tiny-seed0", "--out", "out", "--no-clip", cwd=tmp_path)
    assert tracked.code == 0, tracked.err
    assert read_tracks(tmp_path / "out" / "tracks.parquet").points.shape == (100, 4, 2)
    reported = forked("report", "runs/dots-tiny-seed0", "--out", "page/index.html", cwd=tmp_path)
    assert reported.code == 0, reported.err
    assert "Keypoints found in video" in (tmp_path / "page" / "index.html").read_text()


def test_train_on_a_video_of_a_moving_camera(forked, panning, tmp_path: Path) -> None:
    small = ["--keypoints", "4", "--pairs", "48", "--size", "32", "--steps", "4", "--batch", "8", "--device", "cpu"]
    ended = forked("train", panning, *small, "--moving-camera", cwd=tmp_path)
    assert ended.code == 0, ended.err
    assert "transporter track clip.mp4 --model runs/panning-tiny-steadied-seed0" in ended.err
    assert forked("collect", panning, "--pairs", "48", "--size", "32", "--sampler", "offset", cwd=tmp_path).code == 0
    steadied, plain = (
        np.abs(np.diff(PairSet.open(tmp_path / "data" / name).load_all().astype(int), axis=1)).mean()
        for name in ("panning-32px-48-seed0-steadied", "panning")
    )
    assert steadied < plain / 3
    refused = forked("train", panning, "--data", "data/panning", "--moving-camera", cwd=tmp_path)
    assert (refused.code, refused.err.splitlines()[-1]) == (
        2,
        "transporter: data/panning holds pairs as they were taken: collect it with --moving-camera",
    )


def test_a_data_set_is_named_after_its_videos(forked, dots, tmp_path: Path) -> None:
    other = tmp_path / "more.mp4"
    other.write_bytes(dots.read_bytes())
    small = ["--pairs", "8", "--size", "16"]
    assert forked("collect", dots, *small, cwd=tmp_path).code == 0
    assert forked("collect", dots, other, *small, cwd=tmp_path).code == 0
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["dots", "dots-and-1-more"]

"""Figures inline: what a notebook asks an object for is there."""

from pathlib import Path

import numpy as np
import pytest

import transporter
from transporter.errors import InputError
from transporter.runs import Run

FRAMES = np.random.default_rng(0).integers(0, 256, (40, 24, 32, 3), np.uint8)


def follow(frames: np.ndarray) -> np.ndarray:
    return np.zeros((len(frames), 2, 2), np.float32)


def test_frames_are_shown_as_a_picture() -> None:
    shown = transporter.show(follow, FRAMES)
    assert shown._repr_png_()[1:4] == b"PNG"
    one = transporter.show(follow, FRAMES[0])
    assert one.width < shown.width
    with pytest.raises(InputError, match="no frame"):
        transporter.show(follow, FRAMES[:0])


def test_a_detector_shows_what_it_sees() -> None:
    detector = transporter.load("pong")
    shown = detector.show(FRAMES, every=20)
    assert shown._repr_png_()[1:4] == b"PNG"
    again = transporter.show(detector, FRAMES, every=20)
    np.testing.assert_array_equal(np.asarray(shown), np.asarray(again))


def test_a_run_is_plotted(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", {"environment": "pong"})
    with pytest.raises(InputError, match="nothing to draw"):
        transporter.plot(run)
    for step in range(3):
        run.log({"step": step, "loss": 1 / (step + 1)})
    assert "<svg" in transporter.plot(tmp_path / "run")._repr_svg_()
    assert "<svg" in Run.open(tmp_path / "run").plot()._repr_svg_()
    transporter.plot(run).save(tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes()[1:4] == b"PNG"
    with pytest.raises(InputError, match="not measured yet"):
        run.plot("tracking")

"""From weights to keypoints: files, sizes, features, ONNX."""

from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

import transporter
from transporter.errors import InputError
from transporter.models.blocks import NOTEBOOK, TINY
from transporter.models.detector import Detector, features_under
from transporter.models.factory import ModelConfig


def frames(count: int = 5, height: int = 40, width: int = 56) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, height, width, 3), dtype=np.uint8)


@pytest.fixture
def detector() -> Detector:
    torch.manual_seed(0)
    made = Detector(ModelConfig(keypoints=4, size=32, shape=TINY, standardise=True), {"environment": "sprites"}, "cpu")
    with torch.no_grad():  # fresh weights put every keypoint in the middle: sharpen them
        made.net.keypoints.head.weight.mul_(50)
    return made


def test_points_of_frames_of_any_size(detector: Detector) -> None:
    points = detector(frames())
    assert (points.shape, points.dtype) == ((5, 4, 2), np.float32)
    assert np.abs(points).max() <= 1
    assert points.std() > 0.01


def test_batches_do_not_change_the_answer(detector: Detector) -> None:
    np.testing.assert_allclose(detector(frames(), batch=2), detector(frames(), batch=5), atol=1e-5)
    assert detector(frames(0)).shape == (0, 4, 2)


def test_features_come_with_the_points(detector: Detector) -> None:
    points, features = detector(frames(), features=True)
    np.testing.assert_allclose(points, detector(frames()), atol=1e-6)
    assert features.shape == (5, 4, 32)


def test_features_are_the_mean_under_the_heatmap() -> None:
    features = torch.zeros(1, 2, 4, 4)
    features[0, 0, :, :2] = 1  # channel 0 is on in the left half, channel 1 everywhere
    features[0, 1] = 3
    points = torch.tensor([[[-0.75, 0.0], [0.75, 0.0], [0.0, 0.0]]])
    under = features_under(features, points, sigma=0.1)
    torch.testing.assert_close(under[0], torch.tensor([[1.0, 3.0], [0.0, 3.0], [0.5, 3.0]]))


def test_a_file_gives_the_same_detector(detector: Detector, tmp_path: Path) -> None:
    detector.save(tmp_path / "full.safetensors", half=False)
    detector.save(tmp_path / "half.safetensors")
    loaded = transporter.load(tmp_path / "full.safetensors", "cpu")
    assert np.array_equal(loaded(frames()), detector(frames()))
    assert loaded.card == {"environment": "sprites"}
    np.testing.assert_allclose(
        transporter.load(tmp_path / "half.safetensors", "cpu")(frames()), detector(frames()), atol=0.03
    )
    assert (tmp_path / "half.safetensors").stat().st_size < 0.6 * (tmp_path / "full.safetensors").stat().st_size


def test_what_is_not_a_detector_is_refused_in_one_line(detector: Detector, tmp_path: Path) -> None:
    text = tmp_path / "text.safetensors"
    text.write_text("not weights")
    with pytest.raises(InputError, match="not a detector"):
        transporter.load(text)
    safetensors.torch.save_file({"x": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(InputError, match="not a detector"):
        transporter.load(tmp_path / "other.safetensors")
    with pytest.raises(InputError, match="neither a shipped model"):
        transporter.load("no_such_thing")
    detector.save(tmp_path / "d.safetensors")
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes((tmp_path / "d.safetensors").read_bytes()[:-100])
    with pytest.raises(InputError, match="not a detector"):
        transporter.load(cut)
    with pytest.raises(InputError, match="do not fit"):
        Detector.from_tensors(ModelConfig(keypoints=5, size=32, shape=TINY), detector.net.state_dict())


def test_wrong_frames_are_refused(detector: Detector) -> None:
    with pytest.raises(InputError, match="uint8"):
        detector(frames().astype(np.float32))
    with pytest.raises(InputError, match=r"\(40, 56, 3\)"):
        detector(frames()[0])


def test_onnx_gives_the_same_answers(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    from transporter.models.export import export_onnx

    torch.manual_seed(0)
    detector = Detector(ModelConfig(keypoints=3, size=32, shape=NOTEBOOK, standardise=True), device="cpu")
    with torch.no_grad():
        detector.net.keypoints.head.weight.mul_(50)
    export_onnx(detector, tmp_path / "detector.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "detector.onnx")
    for count in (1, 3):
        given = frames(count, 32, 32)
        points, features = session.run(None, {"frames": given.astype(np.float32)})
        expected_points, expected_features = detector(given, features=True)
        np.testing.assert_allclose(points, expected_points, atol=1e-4)
        np.testing.assert_allclose(features, expected_features, atol=1e-4)

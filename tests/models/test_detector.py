"""From weights to keypoints: files, sizes, features, ONNX."""

import copy
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

import transporter
from transporter.envs import atari
from transporter.errors import InputError
from transporter.frames import resize
from transporter.models.blocks import NOTEBOOK, SMALL, TINY, Norm, RefineNet
from transporter.models.detector import Detector, features_under
from transporter.models.factory import Kind, ModelConfig
from transporter.models.swift import fold, swift
from transporter.tracking.evaluate import play


def frames(count: int = 5, height: int = 40, width: int = 56, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, height, width, 3), dtype=np.uint8)


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


def test_tensors_give_the_same_and_may_feed_a_network_that_learns(detector: Detector) -> None:
    given = torch.from_numpy(frames())
    points, features = detector.tensor(given, features=True)
    np.testing.assert_allclose(points.numpy(), detector(frames()), atol=1e-6)
    assert features.shape == (5, 4, 32)
    learner = torch.nn.Linear(2, 1)
    learner(detector.tensor(given)).sum().backward()
    assert learner.weight.grad is not None
    assert detector.tensor(given[:0]).shape == (0, 4, 2)
    with pytest.raises(InputError, match="uint8"):
        detector.tensor(given.float())


def lively(config: ModelConfig, precision: str = "fp32") -> Detector:
    """As after training: norms that have seen something, keypoints that stand somewhere."""
    torch.manual_seed(0)
    made = Detector(config, device="cpu", precision=precision)  # type: ignore[arg-type]
    with torch.no_grad():
        made.net.train()
        for _ in range(20):
            made.net(torch.rand(8, config.size, config.size, 3) * 255)
        for module in made.net.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.weight.uniform_(0.5, 1.5)
                module.bias.normal_(0, 0.3)
        made.net.keypoints.head.weight.mul_(10)
    made.net.eval()
    return made


@pytest.mark.parametrize("norm", ["batch", "instance", "layer"])
@pytest.mark.parametrize("kind", ["transporter", "zhang"])
def test_folded_norms_change_nothing(norm: Norm, kind: Kind) -> None:
    detector = lively(ModelConfig(kind=kind, keypoints=4, size=32, shape=replace(SMALL, norm=norm), standardise=True))
    given = torch.from_numpy(frames(6, 32, 32))
    with torch.no_grad():
        expected = detector.net.points(given.float())
    assert expected.std() > 0.01
    torch.testing.assert_close(detector.tensor(given), expected, atol=1e-5, rtol=0)
    norms = [m for m in swift(detector.net, half=False).modules() if isinstance(m, torch.nn.BatchNorm2d)]
    assert not norms
    assert norm != "batch" or any(isinstance(m, torch.nn.BatchNorm2d) for m in detector.net.modules())


def test_half_precision_stays_within_a_fraction_of_a_pixel() -> None:
    game = atari.make("pong", 80)
    game.reset(seed=0)
    shown = np.stack([game.step(int(a))[0] for a in np.random.default_rng(0).integers(6, size=40)])
    detector = transporter.load("pong", "cpu")
    exact = detector(shown)
    detector.precision = "bf16"
    apart = np.abs(detector(shown) - exact) * 40  # pixels of 80
    assert 0 < apart.max() < 0.25
    assert apart.mean() < 0.03


def test_new_weights_are_used_at_once(detector: Detector) -> None:
    before = detector(frames())
    with torch.no_grad():
        detector.net.keypoints.head.weight.neg_()
    assert np.abs(detector(frames()) - before).max() > 0.01


def test_another_net_is_used_at_once(detector: Detector) -> None:
    before = detector(frames())
    other = copy.deepcopy(detector.net)
    with torch.no_grad():
        other.keypoints.head.weight.neg_()
    detector.net = other
    assert np.abs(detector(frames()) - before).max() > 0.01


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_agrees_for_every_number_of_frames() -> None:
    config = ModelConfig(keypoints=4, size=32, shape=SMALL, standardise=True)
    detector = lively(config)
    weights = detector.net.state_dict()
    exact = Detector.from_tensors(config, weights, device="cuda")
    exact.precision = "fp32"
    fast = Detector.from_tensors(config, weights, device="cuda")
    for count in (1, 2, 3, 8, 5, 1):  # graphs of 1, 2, 4 and 8 frames, used again
        given = frames(count)
        np.testing.assert_allclose(exact(given), detector(given), atol=0.005)  # convolutions may run in TF32
        np.testing.assert_allclose(fast(given), detector(given), atol=0.05)
        np.testing.assert_allclose(fast(given, features=True)[0], fast(given), atol=1e-6)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_two_streams_do_not_read_each_others_frames() -> None:
    detector = lively(ModelConfig(keypoints=4, size=32, shape=SMALL, standardise=True))
    detector = Detector.from_tensors(detector.config, detector.net.state_dict(), device="cuda")
    given = [torch.from_numpy(frames(64, seed=seed)).cuda() for seed in range(2)]
    expected = [detector.tensor(each) for each in given]
    streams = [torch.cuda.Stream() for _ in given]
    torch.cuda.synchronize()
    found: list[list[torch.Tensor]] = [[], []]
    for _ in range(50):
        for stream, each, answers in zip(streams, given, found, strict=True):
            with torch.cuda.stream(stream):
                answers.append(detector.tensor(each))
    torch.cuda.synchronize()
    for answers, right in zip(found, expected, strict=True):
        assert all(torch.equal(answer, right) for answer in answers)


def test_a_decoder_that_doubles_is_folded_without_a_change() -> None:
    torch.manual_seed(0)
    net, maps = RefineNet(TINY), torch.rand(4, TINY.filters[-1], 8, 8)
    net(maps)  # norms that have seen something
    before = net.eval()(maps)
    torch.testing.assert_close(fold(net)(maps), before, rtol=1e-4, atol=1e-5)


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


def test_a_screen_is_seen_as_the_frames_that_were_learnt_from() -> None:
    """Seaquest's water never changes: half a grey level of it moves keypoints."""
    seaquest, env = transporter.load("seaquest", device="cpu"), atari.make("seaquest", 80)
    env.reset(seed=0)
    chance, screens = np.random.default_rng(0), []
    for _ in range(120):
        env.step(int(chance.integers(env.action_space.n)))
        screens.append(env.render())
    shown = np.stack(screens[::4])
    np.testing.assert_allclose(seaquest(shown), seaquest(resize(shown, 80, 80)), atol=1e-3)


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


def test_frames_that_are_none_are_refused_in_one_line(detector: Detector) -> None:
    shown = frames()
    for given, line in (
        (shown[:, :0], "not (5, 0, 56, 3)"),
        (shown[0], "frame[None]"),
        ([shown[0], shown[0, :20]], "not all of one size"),
    ):
        with pytest.raises(InputError, match=re.escape(line)):
            detector(given)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="must be a torch tensor, not ndarray"):
        detector.tensor(shown)  # type: ignore[arg-type]


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_device_that_is_not_there_is_named(detector: Detector) -> None:
    with pytest.raises(InputError, match="device cuda: "):
        Detector(detector.config, device="cuda")


def test_accustomed_to_frames_that_came_by_way_of_another_size() -> None:
    """What stands still has its edges elsewhere there; a model that knows the emulator's frames takes them for new."""
    pong = transporter.load("pong", "cpu")
    shown = np.stack([sight.frame for sight in play(atari.make("pong", 160), frames=100, seed=1)])
    known, other = pong(shown), resize(shown, 128, 128)
    used = pong.accustomed(other)
    assert (np.linalg.norm(pong(other) - known, axis=-1) < 0.1).mean() < 0.5
    assert (np.linalg.norm(used(other) - known, axis=-1) < 0.1).mean() > 0.9
    assert used.card == pong.card
    np.testing.assert_array_equal(pong(shown), known)  # it has not changed itself


def test_blinkered_to_what_some_frames_show(detector: Detector, tmp_path: Path) -> None:
    shown = frames(5, 32, 32)
    blind = detector.blinkered(shown)
    np.testing.assert_array_equal(blind(shown), detector(shown))  # all of it is known
    low, high = shown.min(0), shown.max(0)
    other = frames(5, 32, 32, seed=9)
    np.testing.assert_array_equal(blind(other), detector(np.clip(other, low, high)))
    assert not np.allclose(blind(other), detector(other))
    for half in (False, True):
        blind.save(tmp_path / "blind.safetensors", half=half)
        again = Detector.from_file(tmp_path / "blind.safetensors", "cpu")
        np.testing.assert_allclose(again(other), blind(other), atol=0.02 if half else 0)
        np.testing.assert_array_equal(again.net.pixels.low, blind.net.pixels.low)  # bytes are whole in half precision
    large = frames(5, 64, 64, seed=9)
    np.testing.assert_allclose(blind(large), blind(resize(large, 32, 32)), atol=0.02)
    np.testing.assert_array_equal(blind.opened()(other), detector(other))
    assert (blind.card["blinkers"], "blinkers" in blind.opened().card) == ("blind to what 5 frames do not show", False)
    detector(other)
    detector.net.pixels.keep_within(*(torch.from_numpy(part).permute(2, 0, 1) for part in (low, high)))
    np.testing.assert_array_equal(detector(other), blind(other))  # it notices
    tensors = blind.net.state_dict()
    for wrong in (
        {**tensors, "pixels.low": torch.zeros(3, 4, 4)},
        {n: t for n, t in tensors.items() if n[-4:] != "high"},
    ):
        with pytest.raises(InputError, match="the weights do not fit"):
            Detector.from_tensors(blind.config, wrong, device="cpu")
    now, then = blind.accustomed(other // 2).net.pixels, blind.net.pixels
    assert now.low is not None
    assert then.low is not None
    assert not torch.equal(now.low, then.low)
    torch.testing.assert_close(now.low - now.mean, then.low - then.mean)  # what it is used to takes its bounds along


def test_nothing_to_be_blinkered_to(detector: Detector) -> None:
    with pytest.raises(InputError, match="no frame to know anything from"):
        detector.blinkered(frames(0))
    for wrong, line in (("a.mp4", "not str"), (None, "not NoneType"), (frames()[0], r"not \(56, 3\) uint8")):
        with pytest.raises(InputError, match=line):
            detector.blinkered(wrong)  # type: ignore[arg-type]
    for batch in (0, -1, 1.5):
        with pytest.raises(InputError, match="batch must be a whole number"):
            detector(frames(), batch=batch)  # type: ignore[call-overload]
    plain = Detector(ModelConfig(keypoints=4, size=32, shape=TINY), device="cpu")
    with pytest.raises(InputError, match="others mind no single pixel"):
        plain.blinkered(frames())


def test_nothing_to_be_accustomed_to(detector: Detector) -> None:
    with pytest.raises(InputError, match="no frame to be accustomed to"):
        detector.accustomed(frames(0))
    with pytest.raises(InputError, match=r"frames must be \(T, H, W, 3\) uint8"):
        detector.accustomed(frames() / 255)
    plain = Detector(ModelConfig(keypoints=4, size=32, shape=TINY), device="cpu")
    with pytest.raises(InputError, match="has no background"):
        plain.accustomed(frames())

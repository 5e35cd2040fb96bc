import numpy as np
import pytest
import torch

from transporter.coords import from_pixels, to_pixels
from transporter.frames import resize, resize_tensor


def test_halving_averages_blocks() -> None:
    frame = np.array([[0, 100, 10, 10], [100, 200, 10, 10]], np.uint8)[..., None].repeat(3, -1)
    assert resize(frame, 1, 2)[..., 0].tolist() == [[100, 10]]


def test_fractions_of_pixels_count_by_area() -> None:
    frame = np.array([[0, 90, 240]], np.uint8)[..., None].repeat(3, -1)
    # three cells into two: 0 + half of 90, half of 90 + 240, each over 1.5
    assert resize(frame, 1, 2)[0, :, 0].tolist() == [30, 190]


def test_the_mean_light_is_kept() -> None:
    frames = np.random.default_rng(0).integers(0, 256, (3, 210, 160, 3), dtype=np.uint8)
    small = resize(frames, 80, 80)
    assert small.shape == (3, 80, 80, 3)
    assert abs(small.mean() - frames.mean()) < 0.1


def test_halves_are_even_whoever_adds_them_up() -> None:
    """Every mean of two by two greys that lies just between two levels goes to the even one, alone or among others."""
    low = np.arange(0, 254, dtype=np.uint8)
    frame = np.stack((low, low + 1), 1)[:, :, None].repeat(3, -1)  # one pixel over another, a level apart
    frame = frame.transpose(1, 0, 2).repeat(2, 1)
    assert resize(frame, 1, 254)[0, :, 0].tolist() == [value + value % 2 for value in range(254)]

    frames = np.random.default_rng(2).integers(0, 256, (24, 210, 160, 3), dtype=np.uint8)
    together = resize(frames, 84, 84)
    for alone, expected in zip(frames, together, strict=True):
        np.testing.assert_array_equal(resize(alone, 84, 84), expected)
    np.testing.assert_array_equal(resize_tensor(torch.from_numpy(frames), 84, 84).numpy(), together)


def test_arrays_and_tensors_agree() -> None:
    frames = np.random.default_rng(1).integers(0, 256, (2, 33, 47, 3), dtype=np.uint8)
    expected = resize(frames, 20, 64)
    np.testing.assert_array_equal(resize_tensor(torch.from_numpy(frames), 20, 64).numpy(), expected)
    with torch.autocast("cpu", torch.bfloat16):
        np.testing.assert_array_equal(resize_tensor(torch.from_numpy(frames), 20, 64).numpy(), expected)


@pytest.mark.parametrize("precision", ["ieee", "tf32"])
def test_however_precision_was_set_it_stays(precision: str) -> None:
    frames, before = torch.zeros(1, 6, 6, 3, dtype=torch.uint8), torch.backends.cuda.matmul.fp32_precision
    try:
        torch.backends.cuda.matmul.fp32_precision = precision
        resize_tensor(frames.to("cuda" if torch.cuda.is_available() else "cpu"), 3, 3)
        assert torch.backends.cuda.matmul.fp32_precision == precision
    finally:
        torch.backends.cuda.matmul.fp32_precision = before


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_agrees_whatever_it_is_content_with_elsewhere() -> None:
    frames = np.random.default_rng(1).integers(0, 256, (2, 210, 160, 3), dtype=np.uint8)
    torch.set_float32_matmul_precision("high")
    try:
        found = resize_tensor(torch.from_numpy(frames).cuda(), 80, 80).cpu().numpy()
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")
    np.testing.assert_array_equal(found, resize(frames, 80, 80))


def test_points_and_pixels_are_inverse_and_edges_are_one() -> None:
    corners = np.array([[-1.0, -1.0], [1.0, 1.0], [0.0, 0.0]])
    assert to_pixels(corners, 160, 210).tolist() == [[0, 0], [160, 210], [80, 105]]
    assert np.allclose(from_pixels(to_pixels(corners, 160, 210), 160, 210), corners)
    assert torch.equal(to_pixels(torch.zeros(2, 2), 4, 8), torch.tensor([[2.0, 4.0]] * 2))


def test_a_large_frame_needs_little_memory() -> None:
    """Every row paired with every column would be 53 GB here."""
    frames = torch.zeros(1, 1080, 1920, 3, dtype=torch.uint8)
    frames[:, 540:] = 200
    small = resize_tensor(frames, 80, 80)
    torch.testing.assert_close(small[0, :, 0, 0], torch.tensor([0.0] * 40 + [200.0] * 40), atol=0.01, rtol=0)

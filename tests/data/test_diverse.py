"""Appendix B on buffers small enough to work out by hand, and on real Pong."""

import numpy as np
import pytest
import torch

from transporter.data.diverse import CHANCE, DiverseBuffer, _dots, gray_copy
from transporter.data.play import halves, offers, trajectories


class Rigged(np.random.Generator):
    """Draws the first slots in order and a uniform number that never (or always) falls under the chance."""

    def __init__(self, uniform: float = 1.0) -> None:
        super().__init__(np.random.PCG64(0))
        self.uniform = uniform

    def choice(self, a, size, replace):  # type: ignore[override]
        assert not replace
        return np.arange(size)

    def random(self, size):  # type: ignore[override]
        return np.full(size, self.uniform)


def line(*values: int) -> np.ndarray:
    """Pairs that are points on a line."""
    return np.array(values, np.uint8)[:, None]


def buffer_of(*values: int, capacity: int | None = None) -> DiverseBuffer:
    buffer = DiverseBuffer(capacity or len(values), 1, "cpu")
    buffer.fill(line(*values))
    return buffer


def values(buffer: DiverseBuffer) -> list[int]:
    return (buffer._points[:, 0].int() + 128).tolist()


def test_one_dimension_by_hand() -> None:
    # Slot 0 (10) has its nearest other at 12: distance 2. A newcomer at 16 is 4 from 12 and 4 from 20: it wins.
    buffer = buffer_of(10, 12, 20, 200)
    assert buffer.offer(line(16), Rigged()).tolist() == [0]
    assert values(buffer) == [16, 12, 20, 200]
    # Now slot 0 (16) is 4 from its nearest. A newcomer at 23 is 3 from 20: it loses.
    assert buffer.offer(line(23), Rigged()).tolist() == [-1]
    assert values(buffer) == [16, 12, 20, 200]


def test_an_equal_distance_or_a_duplicate_does_not_replace() -> None:
    buffer = buffer_of(10, 14, 30)
    assert buffer.offer(line(26), Rigged()).tolist() == [-1]  # 4 from 30, as 10 is 4 from 14
    assert buffer.offer(line(30), Rigged()).tolist() == [-1]  # a duplicate is 0 from its twin
    duplicates = buffer_of(7, 7, 7)
    assert duplicates.offer(line(7), Rigged()).tolist() == [-1]
    assert duplicates.offer(line(8), Rigged()).tolist() == [0]


def test_a_small_chance_replaces_whatever_the_distances() -> None:
    assert buffer_of(10, 100).offer(line(100), Rigged(uniform=CHANCE)).tolist() == [-1]
    assert buffer_of(10, 100).offer(line(100), Rigged(uniform=CHANCE - 1e-9)).tolist() == [0]
    # Where all are equal, only luck replaces.
    twins = DiverseBuffer(2048, 1, "cpu")
    twins.fill(line(*[7] * 2048))
    replaced = twins.offer(line(*[7] * 2000), np.random.default_rng(0)) >= 0
    assert 0.03 < replaced.mean() < 0.07


def test_fills_first_and_spills_over_into_competition() -> None:
    buffer = DiverseBuffer(3, 1, "cpu")
    assert buffer.offer(line(5, 5), Rigged()).tolist() == [0, 1]
    assert buffer.offer(line(5, 50), Rigged()).tolist() == [2, 0]
    assert values(buffer) == [50, 5, 5]


def test_nearest_leaves_itself_out_but_not_its_twin() -> None:
    buffer = buffer_of(3, 9, 9, 20)
    assert buffer.nearest(buffer._points, itself=torch.arange(4)).tolist() == [36, 0, 0, 121]
    assert buffer.nearest(buffer._points).tolist() == [0, 0, 0, 0]


def test_no_slot_twice_in_a_round() -> None:
    rng = np.random.default_rng(3)
    buffer = DiverseBuffer(64, 4, "cpu")
    buffer.fill(np.zeros((64, 4), np.uint8))
    slots = buffer.offer(rng.integers(1, 256, (buffer.round, 4), dtype=np.uint8), rng)
    assert (slots >= 0).all()
    assert len(set(slots.tolist())) == buffer.round == 8


def test_distances_are_exact_where_float32_would_round(monkeypatch: pytest.MonkeyPatch) -> None:
    # Nearly white against nearly black, 8192 numbers: sums pass 2^24, and close pairs differ by a few units.
    monkeypatch.setattr("transporter.data.diverse.BLOCK", 7)
    rng = np.random.default_rng(0)
    points = rng.choice(np.array([0, 1, 254, 255], np.uint8), (20, 8192))
    points[10:] = points[:10] ^ (rng.random((10, 8192)) < 0.001)  # twins that differ in some last bits
    buffer = DiverseBuffer(20, 8192, "cpu")
    buffer.fill(points)
    differences = points[:, None].astype(np.int64) - points[None]
    expected = (differences**2).sum(-1) + np.diag(np.full(20, 2**40))
    found = buffer.nearest(buffer._points, itself=torch.arange(20))
    np.testing.assert_array_equal(found.numpy(), expected.min(1))


@pytest.mark.parametrize("bytewise", [True, False])
@pytest.mark.parametrize(("m", "n", "d"), [(1, 1, 1), (3, 20, 4), (17, 33, 2304), (64, 40, 8192), (256, 9, 8)])
def test_products_are_exact_whatever_the_shape(
    m: int, n: int, d: int, bytewise: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not bytewise:
        monkeypatch.setattr("transporter.data.diverse._multiplies_bytes", lambda kind: False)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-128, 128, (rows, d), dtype=np.int8) for rows in (m, n))
    a[0] = b[0] = -128  # the largest product of bytes, which some processors add up wrongly
    found = _dots(torch.from_numpy(a), torch.from_numpy(b))
    np.testing.assert_array_equal(found.numpy(), a.astype(np.int64) @ b.T.astype(np.int64))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("precision", ["highest", "high"])
def test_the_gpu_chooses_as_the_cpu_does(precision: str) -> None:
    rng = np.random.default_rng(0)
    gray = rng.integers(0, 256, (6000, 8192), dtype=np.uint8)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        slots = [DiverseBuffer(5000, 8192, d).offer(gray, np.random.default_rng(1)) for d in ("cpu", "cuda")]
    finally:
        torch.set_float32_matmul_precision(before)
    np.testing.assert_array_equal(*slots)


def test_gray_copy_averages_by_area_and_weighs_the_colours() -> None:
    pairs = np.zeros((1, 2, 128, 128, 3), np.uint8)
    pairs[0, 0, :2, 0] = 255  # two white pixels of the four under the first cell
    pairs[0, 1, ..., 1] = 255  # all green
    gray = gray_copy(pairs)
    assert gray.shape == (1, 2 * 64 * 64)
    assert gray[0, 0] == 127
    assert gray[0, 1:4096].max() == 0
    assert set(gray[0, 4096:]) == {255 * 150 // 256}


@pytest.mark.parametrize("size", [9, 64, 84, 128, 256, 257, 300])
def test_gray_copy_rounds_down_exact_averages(size: int) -> None:
    pairs = np.random.default_rng(0).integers(200, 256, (1, 2, size, size, 3), dtype=np.uint8)
    pairs[0, 0] = 255
    luma = (pairs.astype(np.int64) @ [77, 150, 29]) >> 8
    side = min(size, 64)
    # Each old cell as side² equal parts: the new cells then hold whole numbers of them.
    parts = luma.repeat(side, 2).reshape(1, 2, side, size, size).sum(3)
    parts = parts.repeat(side, 3).reshape(1, 2, side, side, size).sum(4)
    np.testing.assert_array_equal(gray_copy(pairs), (parts // size**2).reshape(1, -1))


@pytest.mark.parametrize("size", [48, 64, 84, 130])
def test_gray_copy_does_not_depend_on_the_batch(size: int) -> None:
    pairs = np.random.default_rng(0).integers(0, 256, (6, 2, size, size, 3), dtype=np.uint8)
    together = gray_copy(pairs)
    assert together.shape[1] == 2 * min(size, 64) ** 2
    np.testing.assert_array_equal(together, np.concatenate([gray_copy(pair[None]) for pair in pairs]))


def test_pong_pairs_lie_farther_apart_than_unconditional_ones(pong) -> None:
    rng = np.random.default_rng(0)
    played = offers(trajectories(pong, rng, halves, length=20, steps=640), halves, rng)
    gray = gray_copy(np.stack([offer.frames for offer in played]))
    capacity = 48
    assert len(gray) > 4 * capacity
    plain, diverse = DiverseBuffer(capacity, 8192, "cpu"), DiverseBuffer(capacity, 8192, "cpu")
    plain.fill(gray[:capacity])
    taken = diverse.offer(gray, np.random.default_rng(1))[capacity:] >= 0
    assert 0 < taken.sum() < len(taken)

    def spread(buffer: DiverseBuffer) -> float:
        return float(buffer.nearest(buffer._points, itself=torch.arange(capacity)).double().sqrt().mean())

    assert spread(diverse) > 1.1 * spread(plain)

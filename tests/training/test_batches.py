import numpy as np
import pytest
import torch

from transporter.training.batches import IN_FLIGHT, Draw, ResidentPairs, Sampler, StreamedPairs


def test_an_epoch_shows_every_pair_once_and_the_next_in_another_order() -> None:
    rows = np.array([3, 5, 7, 11, 13, 17])
    sampler = Sampler(rows, batch=2, seed=0)
    first = np.concatenate([sampler.at(step).rows for step in range(3)])
    second = np.concatenate([sampler.at(step).rows for step in range(3, 6)])
    assert sorted(first) == sorted(second) == rows.tolist()
    assert first.tolist() != second.tolist()


def test_a_batch_depends_on_its_number_alone() -> None:
    rows = np.arange(10)
    walked = Sampler(rows, batch=4, seed=1)
    for step in range(7):
        walked.at(step)
    jumped = Sampler(rows, batch=4, seed=1)
    for a, b in zip(walked.at(7), jumped.at(7), strict=True):
        assert np.array_equal(a, b)


def test_processes_share_a_batch_without_overlap() -> None:
    rows = np.arange(100)
    whole = Sampler(rows, batch=8, seed=2).at(5)
    parts = [Sampler(rows, 8, 2, rank, world=2).at(5) for rank in range(2)]
    assert np.array_equal(np.concatenate([p.rows for p in parts]), whole.rows)
    assert np.array_equal(np.concatenate([p.swap for p in parts]), whole.swap)


def test_strangers_meet_the_second_frame_of_another_row() -> None:
    rows = np.arange(100)
    drawn = Sampler(rows, batch=8, seed=2, strangers=0.5).at(5)
    assert np.array_equal(drawn.rows, Sampler(rows, batch=8, seed=2).at(5).rows)
    assert sorted(drawn.partners[:4]) == sorted(drawn.rows[:4])
    assert (drawn.partners[:4] != drawn.rows[:4]).all()
    assert np.array_equal(drawn.partners[4:], drawn.rows[4:])
    parts = [Sampler(rows, 8, 2, rank, world=2, strangers=0.5).at(5) for rank in range(2)]
    assert np.array_equal(np.concatenate([p.partners for p in parts]), drawn.partners)
    frames = np.arange(200, dtype=np.uint8).reshape(100, 2, 1, 1, 1).repeat(3, axis=4)
    source, target = ResidentPairs(frames, torch.device("cpu")).batch(drawn)
    assert np.array_equal(source[:, 0, 0, 0] // 2, drawn.rows)
    assert np.array_equal(target[:, 0, 0, 0] // 2, drawn.partners)
    assert (
        source[:, 0, 0, 0] % 2 != target[:, 0, 0, 0] % 2
    ).all()  # a first and a second frame, or the other way round


def test_swapped_pairs_run_backwards() -> None:
    pairs = np.arange(2 * 2 * 1 * 1 * 3, dtype=np.uint8).reshape(2, 2, 1, 1, 3)
    source, target = ResidentPairs(pairs, torch.device("cpu")).batch(Draw(np.array([0, 1]), np.array([False, True])))
    assert source.flatten().tolist() == [0, 1, 2, 9, 10, 11]
    assert target.flatten().tolist() == [3, 4, 5, 6, 7, 8]


def test_statistics_are_those_of_all_frames_of_the_rows() -> None:
    pairs = np.random.default_rng(0).integers(0, 256, (1100, 2, 2, 3, 3), dtype=np.uint8)
    rows = np.arange(1050)
    mean, std = ResidentPairs(pairs, torch.device("cpu")).statistics(rows)
    frames = pairs[rows].reshape(-1, 2, 3, 3).astype(np.float64)
    np.testing.assert_allclose(mean.numpy(), frames.mean(0).transpose(2, 0, 1), rtol=1e-5)
    np.testing.assert_allclose(std.numpy(), frames.std(0).transpose(2, 0, 1), rtol=1e-5)


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])
def test_pairs_that_are_streamed_are_those_that_are_resident(device: str) -> None:
    pairs = np.random.default_rng(0).integers(0, 256, (600, 2, 4, 4, 3), dtype=np.uint8)
    resident, streamed = (kind(pairs, torch.device(device)) for kind in (ResidentPairs, StreamedPairs))
    sampler = Sampler(np.arange(600), 16, seed=0, strangers=0.5)
    draws = [sampler.at(step) for step in range(3 * IN_FLIGHT)]
    there = [streamed.batch(draw) for draw in draws]  # none is looked at before the last is on its way
    for draw, found in zip(draws, there, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(resident.batch(draw), found, strict=True))
        assert found[0].device.type == device
    for a, b in zip(resident.statistics(np.arange(600)), streamed.statistics(np.arange(600)), strict=True):
        torch.testing.assert_close(a, b)

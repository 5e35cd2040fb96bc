"""What the camera did is found from two frames, and undone; what moves by itself goes on moving."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from transporter.data.collect import Progress, collect
from transporter.data.manifest import quick_settings
from transporter.data.pairs import PairSet
from transporter.data.steady import camera_motion, steadied
from transporter.envs.sprites import make_vector

SIDE = 64


def scenes(count: int, side: int = 4 * SIDE) -> np.ndarray:
    """Pictures far larger than a frame, (count, side, side, 3), with coarse and fine parts as most pictures have."""
    generator = torch.Generator().manual_seed(0)
    sizes = (4, 8, 16, 32, 64)  # pixels
    parts = (torch.randn(count, 3, side // size, side // size, generator=generator) * size**0.5 for size in sizes)
    whole = sum(F.interpolate(part, size=(side, side), mode="bicubic", align_corners=False) for part in parts)
    assert isinstance(whole, torch.Tensor)
    return (128 + 12 * whole).clamp(0, 255).permute(0, 2, 3, 1).numpy().round().astype(np.uint8)


def shot(scene: np.ndarray, x: int, y: int) -> np.ndarray:
    """What a camera shows whose view begins at that column and row."""
    return scene[..., y : y + SIDE, x : x + SIDE, :]


def tensor(frames: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(frames).movedim(-1, 1).float()


def noisy(frames: np.ndarray, levels: float, seed: int) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(0, levels, frames.shape)
    return (frames + noise).clip(0, 255).round().astype(np.uint8)


def unchanged(pairs: np.ndarray, lost: float = 0) -> None:
    found = steadied(pairs)
    np.testing.assert_array_equal(found.pairs, pairs)
    assert not found.moved.any()
    assert found.lost.mean() >= lost if lost else not found.lost.any()


@pytest.mark.parametrize(("right", "down"), [(3, 0), (-5, 7), (20, -11), (0, 0)])
def test_a_pan_is_undone_and_what_only_the_second_frame_shows_is_taken_from_it(right: int, down: int) -> None:
    scene = scenes(8)
    first, second = shot(scene, 90, 90), shot(scene, 90 + right, 90 + down)
    motion = camera_motion(tensor(first), tensor(second))
    expected = torch.tensor([[1, 0, right * 2 / SIDE], [0, 1, down * 2 / SIDE]])
    torch.testing.assert_close(motion, expected.expand_as(motion), atol=0.02, rtol=0)  # 0.02 is 0.6 of a pixel
    found = steadied(np.stack((first, second), 1)).pairs
    np.testing.assert_array_equal(found[:, 1], second)
    assert np.abs(found[:, 0].astype(int) - second).mean() < 1.5  # now both are the same frame, but for rounding
    if right or down:
        assert np.abs(first.astype(int) - second).mean() > 15
    if right > 5:  # the last columns are those that the first frame did not show
        np.testing.assert_array_equal(found[:, 0, :, -right + 1 :], second[:, :, -right + 1 :])


def test_a_camera_that_turns_and_zooms() -> None:
    scene = tensor(scenes(8))
    angle, zoom = 0.1, 1.1
    turn = zoom * torch.tensor([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]).float()
    truth = torch.cat((turn, torch.tensor([[0.1], [-0.2]])), 1)
    # Of a scene four times as wide as a frame: the second frame shows what the first did at truth · (x, y, 1).
    views = [torch.eye(2, 3) / 4, truth / 4]
    first, second = (
        F.grid_sample(scene, F.affine_grid(view.expand(8, 2, 3), [8, 3, SIDE, SIDE], align_corners=False),
                      align_corners=False)
        for view in views
    )  # fmt: skip
    motion = camera_motion(first, second)
    torch.testing.assert_close(motion, truth.expand_as(motion), atol=0.02, rtol=0)


def test_what_moves_by_itself_does_not_pull_the_camera_along() -> None:
    scene = scenes(8)
    first, second = shot(scene, 90, 90).copy(), shot(scene, 96, 88).copy()
    for frames, at in ((first, 15), (second, 40)):  # a thing of a tenth of the frame
        frames[:, 20:40, at : at + 20] = (250, 20, 20)
    motion = camera_motion(tensor(first), tensor(second))
    torch.testing.assert_close(motion[:, :, 2], torch.tensor([6.0, -2.0]).expand(8, 2) * 2 / SIDE, atol=0.02, rtol=0)
    found = steadied(np.stack((first, second), 1)).pairs[:, 0]
    inside = found[:, 20 + 2 + 1 : 40 + 2 - 1, 15 - 6 + 1 : 35 - 6 - 1]  # as seen from six to the right, two further up
    assert np.abs(inside.astype(int) - (250, 20, 20)).max() < 10


@pytest.mark.parametrize("name", ["sprites", "sprites_score"])
def test_a_camera_that_stands_still_changes_nothing(name: str) -> None:
    env = make_vector(name, 32, SIDE)
    first = env.reset()[0].copy()
    for _ in range(10):
        second = env.step(np.zeros(32, int))[0]
    unchanged(np.stack((first, second), 1))


def test_noise_and_things_that_move_are_no_camera() -> None:
    scene = shot(scenes(16), 90, 90)
    first, second = scene.copy(), scene.copy()
    for frames, at in ((first, 5), (second, 40)):
        frames[:, 30:50, at : at + 20] = (250, 20, 20)
    for levels in (0, 5, 10):
        unchanged(np.stack((noisy(first, levels, 0), noisy(second, levels, 1)), 1))


def test_what_no_camera_did_stays_as_it_is() -> None:
    """A cut to another scene, which nothing explains; half the light; and the same upside down."""
    scene = shot(scenes(32), 90, 90)
    unchanged(np.stack((scene[:16], scene[16:]), 1), lost=0.9)
    unchanged(np.stack((scene, scene // 2), 1), lost=0.9)
    unchanged(np.stack((scene, scene[:, ::-1]), 1), lost=0.9)


def test_flat_colours_that_pan() -> None:
    """Less than half of the pixels change, and still the frame has moved."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[: 2 * SIDE, : 2 * SIDE]
    spots, colours = rng.uniform(0, 2 * SIDE, (120, 2)), rng.integers(0, 255, (16, 120, 3))
    cells = ((x[..., None] - spots[:, 0]) ** 2 + (y[..., None] - spots[:, 1]) ** 2).argmin(-1)
    cartoon = colours[:, cells].astype(np.uint8)
    first, second = shot(cartoon, 30, 30), shot(cartoon, 35, 30)
    assert (first != second).any(-1).mean() < 0.5
    motion = camera_motion(tensor(first), tensor(second))
    torch.testing.assert_close(motion[:, :, 2], torch.tensor([10.0 / SIDE, 0]).expand(16, 2), atol=0.02, rtol=0)


@pytest.mark.parametrize("size", [8, 13, 23])
def test_small_frames_are_shifted_at_most(size: int) -> None:
    scene = scenes(16)[:, : 4 * size, : 4 * size].reshape(16, size, 4, size, 4, 3).mean((2, 4)).astype(np.uint8)
    motion = camera_motion(tensor(scene), tensor(np.roll(scene, -2, 2)))
    torch.testing.assert_close(motion[:, :, :2], torch.eye(2).expand(16, 2, 2))


def test_frames_without_anything_to_see_stay_as_they_are() -> None:
    unchanged(np.full((3, 2, 48, 48, 3), 90, np.uint8))
    unchanged(np.stack((np.full((3, 48, 48, 3), 90, np.uint8), np.full((3, 48, 48, 3), 0, np.uint8)), 1), lost=1)


def test_stripes_tell_of_one_direction_alone() -> None:
    stripes = np.broadcast_to(scenes(2)[:, :1, :60], (2, 48, 60, 3))
    motion = camera_motion(tensor(stripes[:, :, :48].copy()), tensor(stripes[:, :, 2:50].copy()))
    torch.testing.assert_close(motion[:, :, 2], torch.tensor([2 * 2 / 48, 0]).expand(2, 2), atol=0.02, rtol=0)


def test_a_set_of_a_moving_camera(tmp_path: Path) -> None:
    """The same play, with and without: frames are far nearer to one another, and what went too far is left out."""
    for name, moving in (("plain", False), ("steady", True)):
        collect(quick_settings("sprites_panning", 48, 128, moving_camera=moving), tmp_path / name)
    plain, steady = (PairSet.open(tmp_path / name).load_all() for name in ("plain", "steady"))
    taken = {pair[1].tobytes() for pair in plain}
    assert all(pair[1].tobytes() in taken for pair in steady)
    assert len(plain) == 128 > len(steady) > 100
    before, after = (np.abs(pairs[:, 0].astype(int) - pairs[:, 1]).mean() for pairs in (plain, steady))
    assert after < before / 3


def test_a_collection_that_was_stopped_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    settings = dataclasses.replace(
        quick_settings("sprites_panning", 32, 64, moving_camera=True), diverse=True, budget=20_000, envs=2
    )

    def stop(progress: Progress) -> None:
        if progress.steps > 8_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collect(settings, tmp_path / "stopped", stop)
    resumed, whole = collect(settings, tmp_path / "stopped"), collect(settings, tmp_path / "whole")
    np.testing.assert_array_equal(resumed.load_all(), whole.load_all())


def test_whoever_says_that_the_camera_moves_where_it_does_not_is_told(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"of 64 pairs, what the camera did was undone in 0, and 0 were left out"):
        collect(quick_settings("sprites", 48, 64, moving_camera=True), tmp_path / "still")


def test_plain_sets_are_written_as_earlier_versions_read_them(tmp_path: Path) -> None:
    for moving, version in ((False, 1), (True, 2)):
        collect(quick_settings("sprites_panning", 32, 48, moving_camera=moving), tmp_path / f"{version}")
        manifest = json.loads((tmp_path / f"{version}" / "manifest.json").read_text())
        assert (manifest["format"], "moving_camera" in manifest["settings"]) == (version, moving)

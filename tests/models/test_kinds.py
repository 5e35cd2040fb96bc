"""What every kind of model must do: survive JSON, train in the one loop, go on where it stopped, become a detector."""

import dataclasses
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch

from transporter.errors import InputError
from transporter.models.blocks import NOTEBOOK, TINY
from transporter.models.detector import Detector
from transporter.models.factory import Kind, ModelConfig, build
from transporter.models.pixels import Pixels
from transporter.models.transporter import Transporter
from transporter.models.zoo import from_run
from transporter.runs import Run
from transporter.training.config import TrainConfig, preset
from transporter.training.learner import Hardware
from transporter.training.loop import train

CPU = Hardware(device="cpu")
every_kind = pytest.mark.parametrize("kind", get_args(Kind))


def config_of(kind: Kind) -> TrainConfig:
    thin = dataclasses.replace(TINY, filters=(4, 8, 8))
    return preset("tiny", kind=kind, shape=thin, keypoints=2, size=32, steps=6, batch=2, sigma_steps=2, log_every=1,
                  validate_every=2, validation_pairs=4, checkpoint_every=2, raise_every=2)  # fmt: skip


@every_kind
def test_config_survives_json(kind: Kind) -> None:
    config = ModelConfig(kind=kind, keypoints=7, size=80, shape=NOTEBOOK, raise_every=5)
    assert ModelConfig.from_json(config.to_json()) == config
    train_config = config_of(kind)
    assert TrainConfig.from_json(train_config.to_json()) == train_config


def test_a_config_from_before_there_were_kinds_is_a_transporters() -> None:
    old = ModelConfig(shape=TINY).to_json()
    del old["kind"], old["raise_every"]
    assert ModelConfig.from_json(old) == ModelConfig(shape=TINY)
    assert isinstance(build(ModelConfig.from_json(old)), Transporter)


def test_what_no_model_can_do_is_refused() -> None:
    with pytest.raises(InputError, match="called 'jacob': there are transporter, jakab, zhang, pixel"):
        ModelConfig.from_json({**ModelConfig().to_json(), "kind": "jacob"})
    with pytest.raises(InputError, match="multiple of 16 for a zhang"):
        ModelConfig(kind="zhang", size=40)
    with pytest.raises(InputError, match="raise_every"):
        ModelConfig(raise_every=0)


@every_kind
def test_the_loop_trains_it_and_its_detector_finds_the_models_points(tmp_path: Path, sprites, kind: Kind) -> None:
    config = config_of(kind)
    run = Run.create(tmp_path / "run", {"environment": "sprites", "config": config.to_json()})
    learner = train(config, sprites, run, CPU)
    assert [row["step"] for row in run.metrics()] == [1, 2, 3, 4, 5, 6]
    assert all(np.isfinite(row["loss"]) for row in run.metrics())

    frames = sprites.pairs[:5]
    model = learner.model.eval()
    with torch.no_grad():
        output = model(torch.from_numpy(frames[:, 0]), torch.from_numpy(frames[:, 1]))
    assert output.prediction.shape == (5, 3, 32, 32)
    newest = run.latest()
    assert newest is not None
    detector = Detector.from_tensors(config.model, newest.part("model."), device="cpu")
    np.testing.assert_allclose(detector(frames[:, 0]), output.source_points, atol=1e-5)
    np.testing.assert_allclose(detector(frames[:, 1]), output.target_points, atol=1e-5)
    assert from_run(run, "cpu")(frames[:, 0]).shape == (5, 2, 2)


@every_kind
def test_a_run_that_was_stopped_ends_with_the_same_weights(tmp_path: Path, sprites, kind: Kind) -> None:
    config = config_of(kind)
    whole, broken = (Run.create(tmp_path / name, config.to_json()) for name in ("whole", "broken"))
    train(config, sprites, whole, CPU)
    train(dataclasses.replace(config, steps=4), sprites, broken, CPU)
    torch.manual_seed(123)  # another process would have another state
    train(config, sprites, broken, CPU)
    expected, got = whole.latest(), broken.latest()
    assert expected is not None
    assert got is not None
    assert expected.step == got.step == 6
    for name, tensor in expected.tensors.items():
        assert torch.equal(tensor, got.tensors[name]), name


@every_kind
def test_features_are_those_of_a_phi_or_refused_in_one_line(kind: Kind) -> None:
    detector = Detector(ModelConfig(kind=kind, keypoints=2, size=32, shape=TINY), device="cpu")
    frames = np.zeros((3, 40, 40, 3), np.uint8)
    assert detector(frames).shape == (3, 2, 2)
    if kind in ("transporter", "jakab"):
        assert detector(frames, features=True)[1].shape == (3, 2, 32)
        assert detector.heatmaps(frames).shape == (3, 2, 16, 16)
    else:
        with pytest.raises(InputError, match=f"a {kind} model gives points only"):
            detector(frames, features=True)
        assert detector.heatmaps(frames).shape == (3, 2, 32, 32)


@every_kind
def test_a_file_gives_the_same_detector(tmp_path: Path, kind: Kind) -> None:
    torch.manual_seed(0)
    detector = Detector(ModelConfig(kind=kind, keypoints=2, size=32, shape=TINY), device="cpu")
    frames = np.random.default_rng(0).integers(0, 256, (3, 32, 32, 3), dtype=np.uint8)
    detector.save(tmp_path / "detector.safetensors", half=False)
    assert np.array_equal(Detector.from_file(tmp_path / "detector.safetensors", "cpu")(frames), detector(frames))


def test_an_error_is_of_colours_whatever_the_networks_see() -> None:
    pixels = Pixels(2, 2)
    pixels.fit(torch.full((3, 2, 2), 51.0), torch.tensor([10.0, 20.0, 0.0])[:, None, None].expand(3, 2, 2), floor=0.02)
    frames = torch.full((2, 2, 2, 3), 51, dtype=torch.uint8)
    values = pixels.encode(frames)
    assert pixels.error(values, frames).tolist() == [0, 0]
    seen = frames.float()
    seen[1, 0, 0, 1] += 102  # two fifths of a colour, in one of twelve numbers
    assert pixels.error(pixels.encode(seen), frames).tolist() == pytest.approx([0, 0.16 / 12], abs=1e-6)


def test_grain_is_in_grey_levels_and_of_three_sizes() -> None:
    pixels = Pixels(20, 20)
    pixels.fit(torch.zeros(3, 20, 20), torch.full((3, 20, 20), 4.9), floor=0.02)  # a scale of ten grey levels
    off = (pixels.grained(torch.zeros(64, 3, 20, 20), levels=2.0) * 10).double()
    assert 5 < off.abs().max() <= 6
    assert off.std() == pytest.approx(2.0, rel=0.05)  # three times a variance of 4/3
    assert torch.equal(off, (pixels.grained(torch.zeros(64, 3, 20, 20), levels=2.0) * 10).double())  # of one turn
    pixels.turn += 1
    other = (pixels.grained(torch.zeros(64, 3, 20, 20), levels=2.0) * 10).double()
    assert abs(torch.corrcoef(torch.stack((off.flatten(), other.flatten())))[0, 1]) < 0.02
    blocks = off[..., :16, :16].unfold(2, 8, 8).unfold(3, 8, 8).mean((-1, -2))
    assert blocks.std() == pytest.approx((8 / 3) ** 0.5, rel=0.1)  # pixel by pixel it averages out
    assert off.mean((-1, -2)).std() == pytest.approx((4 / 3 + 4 / 3 / 9) ** 0.5, rel=0.25)  # of nine blocks each


def test_sway_moves_rows_and_columns_by_parts_of_a_pixel() -> None:
    pixels = Pixels(1, 20)
    pixels.fit(torch.full((3, 1, 20), 7.0), torch.full((3, 1, 20), 4.9))
    ramp = pixels.encode(10 * torch.arange(20.0)[:, None].expand(64, 12, 20, 3))  # ten levels a column, rows alike
    moved = (pixels.swayed(ramp, 0.5) - ramp) * pixels.scale
    inside = moved[..., 1:-1]
    assert 4.9 < inside.abs().max() <= 5.0001  # half a pixel of ten levels
    assert inside.std() == pytest.approx(5 / 3**0.5, rel=0.05)
    assert torch.allclose(moved, moved[:, :1, :1].expand_as(moved), atol=1e-3)  # a column goes as a whole
    assert (moved[..., 0] >= -1e-3).all()  # beyond the edge there is more of the same
    still = pixels.encode(torch.full((2, 12, 20, 3), 99.0))
    torch.testing.assert_close(pixels.swayed(still, 0.5), still)
    sideways = pixels.encode(10 * torch.arange(12.0)[:, None, None].expand(64, 12, 20, 3))
    assert 4.9 < ((pixels.swayed(sideways, 0.5) - sideways) * pixels.scale)[:, :, 1:-1].abs().max() <= 5.0001
    before = pixels.swayed(ramp, 0.5)
    pixels.turn += 1
    assert not torch.allclose(pixels.swayed(ramp, 0.5), before)


def test_clutter_is_patches_of_one_colour_each() -> None:
    pixels = Pixels(1, 40)
    pixels.fit(torch.full((3, 1, 40), 7.0), torch.full((3, 1, 40), 4.9))
    frames = pixels.encode(torch.full((512, 30, 40, 3), 300.0))  # a colour that no patch has
    off = pixels.cluttered(frames, 0.5) != frames
    assert torch.equal(off[:, 0], off[:, 1])  # a patch covers all colours
    changed = off[:, 0]
    some = changed.flatten(1).any(1)
    assert some.float().mean() == pytest.approx(1 - (1 - 0.5 / 8) ** 8, abs=0.05)
    seen = pixels.colours(pixels.cluttered(frames, 0.5)).movedim(1, -1)[changed]
    assert 0 <= seen.min() < 20 < 235 < seen.max() <= 255.01
    assert pixels.cluttered(frames, 0.5).is_contiguous(memory_format=torch.channels_last)
    full = pixels.cluttered(frames, 8.0)
    assert (full != frames)[:, 0].float().mean() > 3 * changed.float().mean()
    assert pixels.colours(full).max() == pytest.approx(300, abs=1e-2)  # where there is none it stays
    pixels.turn += 1
    assert not torch.equal(pixels.cluttered(frames, 0.5) != frames, off)


def test_a_patch_is_a_rectangle_of_at_most_a_fifth_and_a_pixel() -> None:
    pixels = Pixels()
    frames = torch.full((256, 3, 40, 40), 2.0)
    seen = pixels.cluttered(frames, 0.1)
    sides = []
    for frame in seen:
        values = frame[0].unique()
        if len(values) == 2:  # one patch
            rows, columns = torch.nonzero(frame[0] != 2, as_tuple=True)
            high, wide = int(rows.max() - rows.min()) + 1, int(columns.max() - columns.min()) + 1
            assert high * wide == len(rows)
            sides += [high, wide]
    assert len(sides) > 20
    assert 1 <= min(sides) < max(sides) <= 0.2 * 40 + 2


@pytest.mark.parametrize("noise", [{"grain": 20.0}, {"sway": 0.3}, {"clutter": 4.0}])
def test_only_keypoints_in_training_see_noise(noise: dict[str, float]) -> None:
    torch.manual_seed(0)
    model = build(ModelConfig(keypoints=2, size=32, shape=TINY, **noise))  # type: ignore[arg-type]
    assert isinstance(model, Transporter)
    x = model.pixels.encode(torch.randint(0, 256, (4, 32, 32, 3), dtype=torch.uint8))
    seen: dict[str, list[torch.Tensor]] = {"features": [], "keypoints": []}
    for name, inputs in seen.items():
        part: torch.nn.Module = getattr(model, name)
        part.register_forward_pre_hook(lambda _, given, kept=inputs: kept.append(given[0]))
    model.train().encode(x)
    model.eval().encode(x)
    most = {"grain": 60 / 255, "sway": 2 * 0.3, "clutter": 1}[next(iter(noise))]
    assert torch.equal(seen["features"][0], x)
    assert torch.equal(seen["features"][1], x)
    assert 10 / 255 < (seen["keypoints"][0] - x).abs().max() <= most
    assert torch.equal(seen["keypoints"][1], x)


@pytest.mark.parametrize("kind", ["jakab", "zhang"])
@pytest.mark.parametrize("noise", ["grain", "sway", "clutter"])
def test_baselines_have_no_noise(kind: Kind, noise: str) -> None:
    with pytest.raises(InputError, match="trained without grain, sway and clutter"):
        ModelConfig(kind=kind, size=32, shape=TINY, **{noise: 1.0})  # type: ignore[arg-type]

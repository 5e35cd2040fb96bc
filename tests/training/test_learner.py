"""A step asks nothing of the CPU, so that it can be captured; a captured step is the plain step."""

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from transporter.models.blocks import NEAR, PAPER, SMALL, Shape
from transporter.training.batches import ResidentPairs, Sampler, StreamedPairs
from transporter.training.config import preset
from transporter.training.learner import Hardware, Learner
from transporter.training.loop import updates

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def losses(
    hardware: Hardware, steps: int = 30, kept: type[ResidentPairs] = ResidentPairs
) -> tuple[list[float], Learner]:
    config = preset("tiny", keypoints=3, size=32, batch=8, sigma_steps=20, standardise=False)
    learner = Learner(config, hardware)
    pairs = np.random.default_rng(0).integers(0, 256, (64, 2, 32, 32, 3), dtype=np.uint8)
    pixels = kept(pairs, learner.device)
    found = [done.loss.item() for done in updates(learner, Sampler(np.arange(64), 8, 0), pixels, 0, steps)]
    return found, learner


class NoQuestions(TorchDispatchMode):
    """Fails where a kernel's outcome is carried to the CPU, which a CUDA graph cannot do."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert func is not torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("transport", ["eq1", "one_by_one"])
def test_a_step_asks_nothing_of_the_cpu(transport: str) -> None:
    learner = Learner(preset("tiny", keypoints=3, size=32, transport=transport), Hardware(device="cpu"))
    frames = torch.randint(0, 256, (4, 32, 32, 3), dtype=torch.uint8)
    learner.update(frames, frames)  # makes Adam's moments
    with NoQuestions():
        learner.update(frames, frames.flip(0))


@needs_gpu
@pytest.mark.parametrize("how", [(), (True, 0.0), (True, 0.5)], ids=["one way", "both ways", "half carried"])
@pytest.mark.parametrize(("shape", "keynet"), [(PAPER, None), (SMALL, None), (NEAR, SMALL)])
def test_the_kernels_of_a_gpu_give_the_gradients_of_plain_layers(
    shape: Shape, keynet: Shape | None, how: tuple[bool, float]
) -> None:
    """Everything at once: rearranged and fused layers, Eq. 1, streams beside. Plain is what a CPU runs."""
    torch.backends.cudnn.allow_tf32 = False
    changes = {"shape": shape, "keynet": keynet, "both_ways": bool(how), "carried": how[1] if how else 0.0}
    config = preset("fast", keypoints=3, size=32, batch=8, standardise=False, **changes)
    frames = torch.randint(0, 256, (2, 4, 32, 32, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    plain = Learner(config, Hardware(device="cpu", precision="fp32")).model
    plain(*frames, *how).loss.backward()
    fast = Learner(config, Hardware(device="cuda", precision="fp32", graph=False))
    fast.optimiser.step = lambda: None  # type: ignore[method-assign]
    fast.model.load_state_dict(plain.state_dict())
    fast.update(*frames.cuda())
    expected = {name: p.grad for name, p in plain.named_parameters() if p.grad is not None}
    largest = max(gradient.norm().item() for gradient in expected.values())
    for name, ours in fast.model.named_parameters():
        if name in expected:  # some are zero but for rounding, as that of a bias before a softmax
            off = (ours.grad.cpu() - expected[name]).norm().item() / max(expected[name].norm().item(), 1e-3 * largest)
            assert off < 0.02, f"{name}: {off:.4f} of its length"  # rounding takes a few values across a ReLU's kink


@needs_gpu
def test_a_captured_step_gives_the_losses_of_the_plain_one() -> None:
    plain, _ = losses(Hardware(precision="fp32", graph=False))
    captured, _ = losses(Hardware(precision="fp32"))
    np.testing.assert_allclose(captured, plain, rtol=1e-3)


@needs_gpu
def test_streamed_pairs_give_the_losses_of_resident_ones() -> None:
    resident, _ = losses(Hardware(precision="fp32"))
    streamed, _ = losses(Hardware(precision="fp32"), kept=StreamedPairs)
    np.testing.assert_allclose(streamed, resident, rtol=1e-3)


@needs_gpu
def test_a_captured_step_stops_at_a_value_that_is_not_finite() -> None:
    _, learner = losses(Hardware())
    before = [p.detach().clone() for p in learner.model.parameters()]
    learner.model.refine[-1].bias.data.fill_(torch.inf)
    frames = torch.zeros(8, 32, 32, 3, dtype=torch.uint8, device="cuda")
    learner.step(30, frames, frames)
    learner.step(31, frames, frames)
    assert learner.failed_at() == 30
    after = list(learner.model.parameters())
    assert all(torch.equal(a, b) for a, b in zip(before[:-1], after[:-1], strict=True))


@needs_gpu
def test_a_restored_learner_goes_on_in_a_new_graph() -> None:
    _, learner = losses(Hardware(precision="fp32"), steps=10)
    checkpoint = learner.checkpoint(10)
    again = Learner(learner.config, Hardware(precision="fp32"))
    again.restore(checkpoint)
    frames = torch.randint(0, 256, (8, 32, 32, 3), dtype=torch.uint8, device="cuda")
    for step in range(10, 13):
        expected, got = learner.step(step, frames, frames).item(), again.step(step, frames, frames).item()
        assert got == pytest.approx(expected, rel=1e-3)

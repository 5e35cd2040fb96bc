"""The batched network against torch's own parts, one agent at a time."""

import dataclasses
import math
from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional as F

from transporter.control.keyqn.config import NetworkConfig
from transporter.control.keyqn.network import NEVER, QNetwork, expected
from transporter.control.keyqn.observe import Objects, Pixels, observer, thermometer
from transporter.control.keyqn.weights import Layout, linear
from transporter.control.lstm import unroll
from transporter.control.replay import Before, Memory
from transporter.models import pixels as models

A, T, B, M = 2, 6, 3, 4
SMALL = NetworkConfig(thermometer=4, speeds=0, hidden=8, memory=M)


def torch_lstms() -> list[torch.nn.LSTM]:
    torch.manual_seed(0)
    return [torch.nn.LSTM(5, M).double() for _ in range(A)]


def gates(lstm: torch.nn.LSTM, weight: torch.Tensor) -> torch.Tensor:
    """torch's order is i, f, candidate, o; ours is i, f, o, candidate."""
    i, f, g, o = weight.chunk(4)
    return torch.cat((i, f, o, g))


def test_unroll_is_torchs_lstm_there_and_back() -> None:
    lstms, x = torch_lstms(), torch.randn(A, T, B, 5, dtype=torch.double)
    weight = torch.stack([gates(n, n.weight_hh_l0.detach()).T for n in lstms]).contiguous().requires_grad_()
    z = torch.stack(
        [F.linear(x[a], gates(n, n.weight_ih_l0), gates(n, n.bias_ih_l0 + n.bias_hh_l0)) for a, n in enumerate(lstms)]
    )
    zeros = torch.zeros(A, B, M, dtype=torch.double)
    ours, memory = unroll(z.detach().requires_grad_(), weight, Memory(zeros, zeros), torch.zeros(A, T, B) > 0)
    ours.square().sum().backward()
    for a, lstm in enumerate(lstms):
        theirs, (h, c) = lstm(x[a])
        theirs.square().sum().backward()
        torch.testing.assert_close(ours[a], theirs)
        torch.testing.assert_close(memory.h[a], h[0])
        torch.testing.assert_close(memory.c[a], c[0])
        torch.testing.assert_close(weight.grad[a], gates(lstm, lstm.weight_hh_l0.grad).T)  # type: ignore[index]


@pytest.mark.parametrize("skip", [0, 2])
def test_gradients_with_forgetting_and_burning_in(skip: int) -> None:
    generator = torch.Generator().manual_seed(0)
    z, weight = (torch.randn(*s, dtype=torch.double, generator=generator) for s in ((A, T, B, 4 * M), (A, M, 4 * M)))
    memory = Memory(*(torch.rand(A, B, M, dtype=torch.double, generator=generator) for _ in range(2)))
    first = torch.rand(A, T, B, generator=generator) < 0.3

    def after_burn_in(z: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """What `skip` means: a memory that is brought up to date without gradients, then the rest."""
        with torch.no_grad():
            burnt = unroll(z[:, :skip], weight, memory, first[:, :skip])[1] if skip else memory
        return unroll(z[:, skip:], weight, burnt, first[:, skip:])[0]

    for wanted in (z, weight):
        wanted.requires_grad_()
    if not skip:
        assert torch.autograd.gradcheck(lambda z, w: unroll(z, w, memory, first)[0], (z, weight))
    one = torch.autograd.grad(unroll(z, weight, memory, first, skip)[0].square().sum(), (z, weight))
    two = torch.autograd.grad(after_burn_in(z, weight).square().sum(), (z, weight))
    for a, b in zip(one, two, strict=True):
        torch.testing.assert_close(a, b)


def network(actions: tuple[int, ...] = (2, 3)) -> QNetwork:
    legal = torch.arange(max(actions)) < torch.tensor(actions)[:, None]
    return QNetwork(SMALL, Objects(2).inputs(SMALL), legal)


def think(net: QNetwork, flat: torch.Tensor, rows: torch.Tensor, first: torch.Tensor) -> torch.Tensor:
    before = Before(first, torch.ones(first.shape, dtype=torch.int64), torch.ones(first.shape))
    return net(net.layout.views(flat), net.read(rows, rows), before, net.nothing(first.shape[2])).q


def fresh(net: QNetwork) -> torch.Tensor:
    return torch.stack([net.layout.fresh(torch.Generator().manual_seed(seed)) for seed in range(A)])


def test_an_agent_thinks_the_same_alone_and_in_a_crowd() -> None:
    net, rows, first = network((3, 3)), torch.rand(A, T, B, 2, 3), torch.zeros(A, T, B) > 0
    together = think(net, fresh(net), rows, first)
    alone = network((3,))
    for a in range(A):
        torch.testing.assert_close(
            think(alone, fresh(net)[a : a + 1], rows[a : a + 1], first[a : a + 1])[0], together[a]
        )


def test_opinions_differ_and_the_first_is_that_of_a_network_with_one() -> None:
    rows, first = torch.rand(A, T, B, 2, 3), torch.zeros(A, T, B) > 0
    before = Before(first, torch.ones(first.shape, dtype=torch.int64), torch.ones(first.shape))
    one = network((3, 3))
    several = QNetwork(dataclasses.replace(SMALL, opinions=3), Objects(2).inputs(SMALL), one.legal)
    flat = fresh(several)
    thought = several(several.layout.views(flat), several.read(rows, rows), before, several.nothing(B))
    alone = think(one, flat[:, : one.layout.size], rows, first)
    each = expected(thought.scores, SMALL.limit)
    torch.testing.assert_close(each[0], alone)
    torch.testing.assert_close(thought.q, each.mean(0))
    torch.testing.assert_close(thought.least, each.amin(0))
    assert (each.std(0) > 0).all()


def test_what_keeps_a_memory_is_added_to_its_forget_gates_and_to_nothing_else() -> None:
    plain, rows, first = network((3, 3)), torch.rand(A, T, B, 2, 3), torch.zeros(A, T, B) > 0
    keeping = QNetwork(dataclasses.replace(SMALL, forget=2.0), Objects(2).inputs(SMALL), plain.legal)
    flat = fresh(plain)
    biased = flat.clone()
    plain.layout.views(biased)["gates.bias"][..., M : 2 * M] += 2
    torch.testing.assert_close(think(keeping, flat, rows, first), think(plain, biased, rows, first))
    assert not torch.allclose(think(keeping, flat, rows, first), think(plain, flat, rows, first))


def test_actions_that_a_game_lacks_are_never_best() -> None:
    net = network((2, 3))
    q = think(net, fresh(net), torch.rand(A, T, B, 2, 3), torch.zeros(A, T, B) > 0)
    assert (q[0, ..., 2] == NEVER).all()
    assert (q[1] > NEVER / 2).all()


def test_an_episode_knows_nothing_of_the_one_before() -> None:
    net, rows = network((3, 3)), torch.rand(A, T, B, 2, 3)
    first = torch.zeros(A, T, B) > 0
    first[:, 3] = True
    other = rows.clone()
    other[:, :3] = torch.rand(A, 3, B, 2, 3)
    one, two = think(net, fresh(net), rows, first), think(net, fresh(net), other, first)
    assert not torch.allclose(one[:, :3], two[:, :3])
    torch.testing.assert_close(one[:, 3:], two[:, 3:])
    assert not torch.allclose(think(net, fresh(net), rows, first & False)[:, 3:], one[:, 3:])


def test_pixels_pass_through_convolutions_of_each_agents_own() -> None:
    eyes, config = Pixels(40), NetworkConfig(hidden=8, memory=M)
    views = torch.randint(0, 256, (A, 60, 60, 3), dtype=torch.uint8)
    rows = eyes([views[:1], views[1:]])
    assert rows.shape == (A, 40, 40)
    assert rows.dtype == torch.uint8
    net = QNetwork(config, eyes.inputs(config), torch.ones(A, 3) > 0)
    rows = rows.view(A, 1, 1, 40, 40)
    q = think(net, fresh(net), rows, torch.ones(A, 1, 1) > 0)
    swapped = think(net, fresh(net).flip(0), rows.flip(0), torch.ones(A, 1, 1) > 0)
    torch.testing.assert_close(q, swapped.flip(0))


def test_thermometer_by_hand() -> None:
    code = thermometer(torch.tensor([-1.0, -0.75, 0.0, 0.3, 1.0]), 4)  # thresholds -0.75, -0.25, 0.25, 0.75
    assert code.tolist() == [[0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]


def test_absent_objects_and_empty_slots_say_nothing() -> None:
    eyes = Objects(3)
    inputs = eyes.inputs(SMALL)
    rows = eyes([torch.tensor([[[1.0, 0.5, -0.5], [0.0, 0.9, 0.9]]])])
    code = inputs.read(rows[None], rows[None]).view(3, -1)
    # x ≥ -0.75, -0.25, 0.25; y ≥ -0.75; then the place itself; no motion
    assert code[0, :13].tolist() == [1, 1, 1, 1, 0, 1, 0, 0, 0, 0.5, -0.5, 0, 0]
    assert not code[0, 13:].any()  # to the next multiple of eight
    assert code.shape[1] == 16
    assert not code[1:].any()


class Under(torch.nn.Module):
    """Finds two keypoints in the middle of any frame, with these features under each."""

    def __init__(self, *features: float) -> None:
        super().__init__()
        self.found = torch.tensor(features)
        self.net, self.keypoints, self.feature_size = self, 2, len(features)
        self.config = SimpleNamespace(size=4)

    def forward(self, frames: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.zeros(len(frames), 2, 2), self.found.expand(len(frames), 2, -1)


def test_features_are_brought_to_the_size_of_the_rest_each_detectors_by_themselves() -> None:
    """As they come they are forty times as large as places, and all that a network sees."""
    detectors = [Under(60, 20, -20, 20), Under(3, 1)]
    views = [torch.zeros(1, 4, 4, 3, dtype=torch.uint8)] * 2
    plain, level = (
        observer("keypoints", NetworkConfig(level_features=level), detectors)(views).float() for level in (False, True)
    )
    assert plain[:, 0, 3:].tolist() == [[60, 20, -20, 20], [3, 1, 0, 0]]
    expected = torch.tensor([[2**0.5, 0.0, -(2**0.5), 0.0], [1.0, -1.0, 0.0, 0.0]])
    torch.testing.assert_close(level[:, 0, 3:], expected, atol=1e-3, rtol=0)
    assert torch.equal(plain[..., :3], level[..., :3])


def test_the_ground_is_the_mean_of_each_part_of_a_frame_as_the_detector_standardises_it() -> None:
    """Four by four pixels in two by two parts; blinkers keep a keypoint from what is new, not the ground."""
    seen = Under(1, 1)
    seen.pixels = models.Pixels(4, 4)
    seen.pixels.fit(torch.full((3, 4, 4), 100.0), torch.full((3, 4, 4), 5.0), floor=0.0)
    seen.pixels.keep_within(torch.full((3, 4, 4), 100.0), torch.full((3, 4, 4), 100.0))
    config = dataclasses.replace(SMALL, ground=2, level_features=False)
    eyes = observer("keypoints", config, [seen])
    frame = torch.full((1, 4, 4, 3), 100, dtype=torch.uint8)
    frame[0, 1, 2] = 120  # of the right upper part, one pixel is four deviations brighter
    rows = eyes([frame])
    assert rows.shape == (1, *eyes.row)
    assert rows[0, -12:].tolist() == pytest.approx(3 * [0.0, math.asinh(1), 0.0, 0.0], abs=1e-3)
    assert torch.equal(rows, eyes.rows(seen, frame))  # what Transporters in the loop renew a replay with

    plain = observer("keypoints", dataclasses.replace(config, ground=0), [seen])
    assert torch.equal(rows[:, :-12].view(1, *plain.row), plain([frame]))
    inputs, without = eyes.inputs(config), plain.inputs(config)
    read, keypoints = inputs.read(rows[None], rows[None]), without.read(plain([frame])[None], plain([frame])[None])
    assert read.shape[-1] == inputs.width
    assert torch.equal(read[..., : without.width], keypoints)
    half = rows[None, :, -12:].float() / 2  # by the number of parts on a side: all of it weighs as much as one
    assert torch.equal(read[..., without.width :], F.pad(half, (0, inputs.width - without.width - 12)))

    by = torch.full((1, 1, 1, 2, 2), 0.25)
    moved = inputs.shifted(rows[None, None], by)
    assert torch.equal(moved[..., :-12].unflatten(-1, plain.row), without.shifted(plain([frame])[None, None], by))
    assert torch.equal(moved[..., -12:], rows[None, None, :, -12:].float())


def test_motion_is_the_way_from_the_row_before() -> None:
    inputs = Objects(1).inputs(SMALL)
    rows, earlier = torch.tensor([[[[1.0, 0.50, 0.0]]]]), torch.tensor([[[[1.0, 0.45, 0.5]]]])
    assert inputs.read(rows, earlier)[0, 0, 11:13].tolist() == pytest.approx([0.5, -1.0])
    earlier[..., 0] = 0  # it was not there
    assert inputs.read(rows, earlier)[0, 0, 11:].tolist() == [0] * 5


def test_fast_and_slow_are_told_apart_by_the_thermometer_of_motion() -> None:
    inputs = Objects(1).inputs(dataclasses.replace(SMALL, speeds=4))
    moved = torch.tensor([-0.3, -0.1, 0.0, 0.1, 0.3])  # thresholds: ±0.4 · 0.25^1.5 = ±0.05, ±0.4 · 0.75^1.5 = ±0.26
    rows = torch.stack((torch.ones(5), moved, torch.zeros(5)), 1).view(1, 5, 1, 3)
    earlier = torch.tensor([1.0, 0, 0]).expand_as(rows).clone()
    x = inputs.read(rows, earlier)[0, :, 13:17]
    assert x.tolist() == [[0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
    earlier[..., 0] = 0
    assert not inputs.read(rows, earlier)[..., 13:].any()


def test_a_layout_goes_there_and_back() -> None:
    layout = Layout({**linear("one", 3, 5), **linear("two", 5, 1, last=True)})
    flat = torch.stack([layout.fresh(torch.Generator().manual_seed(s)) for s in range(2)])
    views = layout.views(flat)
    assert views["one.weight"].shape == (2, 3, 5)
    into = torch.zeros_like(flat)
    layout.join(views, into)
    torch.testing.assert_close(into, flat)
    last = layout.views(layout.last()[None])
    assert last["two.bias"].all()
    assert not last["one.weight"].any()


def test_blocks_of_pixels_are_convolved_as_pixels_are() -> None:
    inputs = Pixels(40).inputs(NetworkConfig(hidden=8))
    layout = Layout(inputs.weights)
    weights = layout.views(torch.stack([layout.fresh(torch.Generator().manual_seed(s)) for s in range(2)]))
    rows, earlier = torch.randint(256, (2, 2, 3, 40, 40), dtype=torch.uint8)
    found = inputs(weights, inputs.read(rows, earlier))
    for agent in range(2):
        x = torch.stack((rows[agent], earlier[agent]), 1).float() / 255
        for index, stride in enumerate((4, 2, 1)):
            x = F.relu(F.conv2d(x, *(weights[f"look{index}.{part}"][agent] for part in ("weight", "bias")), stride))
        joined = F.relu(x.flatten(1) @ weights["look.weight"][agent] + weights["look.bias"][agent])
        torch.testing.assert_close(found[agent], joined)

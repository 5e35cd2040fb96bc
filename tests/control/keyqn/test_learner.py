"""Targets by hand, and what an update may and may not touch."""

import dataclasses

import pytest
import torch

from transporter.control.keyqn.config import LearningConfig, NetworkConfig
from transporter.control.keyqn.learner import Learner, histogram, misfit
from transporter.control.keyqn.network import QNetwork, Thought, expected
from transporter.control.keyqn.observe import Objects, Pixels
from transporter.control.replay import Before, Memory, Outcome, SequenceReplay, Window
from transporter.control.returns import rescale
from transporter.models.branches import one_by_one

SMALL = NetworkConfig(thermometer=4, hidden=8, memory=4)
PLAIN = LearningConfig(
    batch=4, burn_in=1, unroll=3, steps_start=2, steps_end=2, gamma_start=0.5, gamma_end=0.5, rescale=False,
    reset_every=0, weight_decay=0.0, trace=0.0,
)  # fmt: skip


def learner(config: LearningConfig = PLAIN, seeds: tuple[int, ...] = (0, 1)) -> Learner:
    """Two agents with twenty rows of chance behind them."""
    eyes, agents = Objects(2), len(seeds)
    network = QNetwork(SMALL, eyes.inputs(SMALL), torch.ones(agents, 3) > 0)
    replay = SequenceReplay(agents, 20, eyes.row, eyes.dtype, SMALL.memory, torch.device("cpu"))
    for agent, seed in enumerate(seeds):
        generator = torch.Generator().manual_seed(seed)
        replay.rows[agent] = torch.rand(replay.rows.shape[1:], generator=generator)
        replay.reward[agent] = torch.rand(20, generator=generator)
        replay.action[agent] = torch.randint(0, 3, (20,), generator=generator)
    replay.discount.fill_(1)
    replay.real.fill_(True)
    return Learner(config, network, replay, seeds, total=1_000)


class Told:
    """A network that thinks what it is told: the weights are its Q-values, or those of several opinions."""

    config = SMALL

    def read(self, rows: torch.Tensor, earlier: torch.Tensor) -> torch.Tensor:
        return rows

    def __call__(self, q: torch.Tensor, read: torch.Tensor, before: Before, memory: Memory, skip: int) -> Thought:
        opinions = (q if q.dim() == 5 else q[None])[:, :, skip:]
        return Thought(opinions.mean(0), opinions.amin(0), opinions[..., None], memory)


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("double", [False, True])
def test_the_target_of_a_row_by_hand(double: bool, scaled: bool) -> None:
    made = learner(dataclasses.replace(PLAIN, double=double, rescale=scaled), seeds=(0,))
    made.network = Told()  # type: ignore[assignment]
    # Rows 1 to 4 after one that is burnt in; two actions. The online network prefers the second, the frozen one the
    # first; both values grow by 10 a row.
    rows = torch.arange(5.0)[None, :, None]
    squeeze = rescale if scaled else (lambda x: x)
    online = squeeze(torch.stack((10 * rows, 10 * rows + 1), -1))
    frozen = squeeze(torch.stack((10 * rows + 5, 10 * rows + 2), -1))
    action, ones = torch.zeros(1, 5, 1, dtype=torch.int64), torch.ones(1, 5, 1)
    discount = ones.clone()
    discount[0, 3] = 0  # the episode ends with the action on row 3
    window = Window(
        rows, rows, Before(ones > 2, action, ones), Outcome(action, ones, discount, ones > 0), Memory(ones, ones)
    )
    loss, value, _ = made.fit(online, frozen, window)  # type: ignore[arg-type]
    extra = 2 if double else 5  # the frozen network's value of whichever action is chosen
    # n = 2, γ = ½, reward 1. Row 1: 1 + ½ + ¼ v(3); row 2: 1 + ½ (row 3 ends it); row 3: 1.
    targets = squeeze(torch.tensor([1.5 + 0.25 * (30 + extra), 1.5, 1.0]))
    taken = squeeze(torch.tensor([10.0, 20.0, 30.0]))
    expected = torch.nn.functional.smooth_l1_loss(taken, targets)
    assert float(loss) == pytest.approx(float(expected), rel=1e-4)
    assert float(value) == pytest.approx(float(taken.mean()), rel=1e-5)


def test_returns_go_on_while_actions_were_near_the_best() -> None:
    made = learner(dataclasses.replace(PLAIN, trace=0.5, tolerance=0.1, double=False), seeds=(0,))
    made.network = Told()  # type: ignore[assignment]
    rows = torch.arange(5.0)[None, :, None]
    # What the first action, which was taken, is worth, and the second. On row 2 the second is far better; on row 3 a
    # little, and what counts as little is a tenth of what the best are worth: of 1 + 4 + 2.1 + 1, a mean of 2.
    online = torch.tensor([[9.0, 9], [1, 1], [1, 4], [2, 2.1], [1, 1]]).view(1, 5, 1, 2)
    frozen = torch.tensor([[0.0, 0], [0, 0], [8, 0], [16, 0], [32, 0]]).view(1, 5, 1, 2)
    action, ones = torch.zeros(1, 5, 1, dtype=torch.int64), torch.ones(1, 5, 1)
    before = Before(ones > 2, action, ones)

    def off(real: torch.Tensor) -> list[float]:
        window = Window(rows, rows, before, Outcome(action, ones, ones, real), Memory(ones, ones))
        return made.fit(online, frozen, window).off.flatten().tolist()  # type: ignore[arg-type]

    # γ = ½, reward 1. Row 3: 1 + ½ 32 = 17; row 2 goes on with it by half: 1 + ½ (½ 16 + ½ 17); row 1 not: 1 + ½ 8.
    assert off(ones > 0) == pytest.approx([5 - 1, 9.25 - 1, 17 - 2])
    real = ones > 0
    real[0, 3] = False  # the last row of an episode: nothing goes on through it, and nothing is learnt from it
    assert off(real) == pytest.approx([5 - 1, 9 - 1, 0])


def test_the_least_opinion_of_the_best_action_is_believed() -> None:
    made = learner(dataclasses.replace(PLAIN, rescale=False), seeds=(0,))
    made.network = Told()  # type: ignore[assignment]
    ones, action = torch.ones(1, 3, 1), torch.zeros(1, 3, 1, dtype=torch.int64)
    outcome = Outcome(action, ones, ones, ones > 0)
    window = Window(ones, ones, Before(ones > 2, action, ones), outcome, Memory(ones, ones))
    # Two opinions of two actions, the same on every row. By their mean the second action is the better one, by the
    # least of them the first.
    online = torch.tensor([[1.0, 9.0], [2.0, 0.0]])[:, None, None, None].expand(2, 1, 3, 1, 2)
    frozen = torch.tensor([[9.0, 7.0], [9.0, 8.0]])[:, None, None, None].expand(2, 1, 3, 1, 2)
    loss, value, _ = made.fit(online, frozen, window)  # type: ignore[arg-type]
    # One row is learnt from: reward 1, γ = ½, and the least that is said of the second action, 7. The opinions of the
    # action taken are 1 and 2; each is off by so much, less the half that is Huber's.
    assert float(loss) == pytest.approx((4.5 - 1 - 0.5) + (4.5 - 2 - 0.5))
    assert float(value) == 1.5


def test_rows_without_a_step_are_not_learnt_from() -> None:
    made = learner(seeds=(0,))
    made.replay.real[:, 8] = False
    views = made.network.layout.views(made.frozen)
    window = made.replay.window(torch.tensor([[6]]), 5)
    before = made.fit(views, views, window)[0]
    window.outcome.reward[:, 2] = 1e6  # what is said of row 8 means nothing
    torch.testing.assert_close(made.fit(views, views, window)[0], before)


def test_an_agent_learns_the_same_alone_and_in_a_crowd() -> None:
    crowd, alone = learner(seeds=(0, 1)), learner(seeds=(1,))
    starts = torch.tensor([[1, 5, 9, 12], [2, 4, 8, 11]])
    crowd.starts.copy_(starts)
    alone.starts.copy_(starts[1:])
    for _ in range(3):
        crowd.update()
        alone.update()
    torch.testing.assert_close(crowd.online[1], alone.online[0])
    assert not torch.equal(crowd.online[0], crowd.online[1])


def test_the_frozen_network_follows_slowly_or_is_refitted_at_once() -> None:
    slow = learner(dataclasses.replace(PLAIN, target_rate=0.25))
    first = slow.frozen.clone()
    slow.update()
    torch.testing.assert_close(slow.frozen, first + 0.25 * (slow.online.detach() - first))
    fitted = learner(dataclasses.replace(PLAIN, refit_every=2))
    first = fitted.frozen.clone()
    fitted.update()
    assert torch.equal(fitted.frozen, first)
    fitted.update()
    assert torch.equal(fitted.frozen, fitted.online)


def test_what_plays_is_handed_over_and_stays_while_an_update_is_made() -> None:
    made = learner()
    made.update()
    assert not torch.equal(made.playing, made.frozen)
    made.hand_over()
    before = made.frozen.clone()
    made.update()
    assert torch.equal(made.playing, before)
    assert not torch.equal(made.playing, made.frozen)


def test_a_reset_makes_the_last_layers_anew_and_starts_the_schedules_over() -> None:
    made = learner(dataclasses.replace(PLAIN, reset_every=3, shrink=1.0, steps_end=1, anneal=3))
    for _ in range(3):
        made.update()
    assert (made.done, made.since) == (3, 0)
    names = made.network.layout.views(made.online.detach())
    untouched = learner(dataclasses.replace(PLAIN, reset_every=0, steps_end=1, anneal=3))
    for _ in range(3):
        untouched.update()
    before = untouched.network.layout.views(untouched.online.detach())
    torch.testing.assert_close(names["see.weight"], before["see.weight"])
    assert not torch.allclose(names["judge.weight"], before["judge.weight"])
    assert not any(slot.any() for slot in made.optimiser.state[made.online].values())  # Adam has made no step yet
    fresh = made.online.detach().clone()
    made.update()
    assert (made.online - fresh).abs().max() <= 1.01 * PLAIN.rate  # none of its first steps is larger than its rate


def test_keypoints_are_learnt_from_near_their_places_the_same_throughout_a_sequence() -> None:
    made = learner(dataclasses.replace(PLAIN, jitter=0.25))
    assert (learner().numbers, made.numbers) == (1, 1 + 2 * 2)
    assert learner(dataclasses.replace(PLAIN, jitter=0.25, priority=0.5)).numbers == 2 + 2 * 2
    draws = torch.rand(2, 4, made.numbers, generator=torch.Generator().manual_seed(0))
    draws[0, 0, 1:] = torch.tensor([0.0, 0.5, 1.0, 0.75])
    made.draw(draws, 15)
    window = made.replay.window(made.starts, 5)
    rows = made.network.inputs.shifted(window.rows, made.offsets[:, None])
    went = rows - window.rows
    assert not went[..., 0].any()  # who is there is there
    torch.testing.assert_close(went[0, :, 0, :, 1:], torch.tensor([[-0.25, 0.0], [0.25, 0.125]]).expand(5, 2, 2))
    assert went.abs().max() <= 0.2501
    plain = learner()
    plain.draw(draws[..., :1], 15)
    assert torch.equal(plain.starts, made.starts)
    for one in (plain, made):
        one.update()
    assert not torch.equal(plain.online, made.online)


@pytest.mark.parametrize("priority", [0.0, 0.5])
def test_windows_lie_within_what_was_played(priority: float) -> None:
    """The first begins at the first view that followed an action, the last ends at the last row."""
    made = learner(dataclasses.replace(PLAIN, priority=priority))
    for draw, start in ((0.0, 1), (1 - 1e-7, 15 - PLAIN.length + 1)):
        made.draw(torch.full((2, 4, made.numbers), draw), 15)
        assert made.starts.unique().tolist() == [start]


def test_in_the_end_the_rate_falls_to_nothing() -> None:
    config = dataclasses.replace(PLAIN, cool=0.2, rate=1e-3)
    assert [config.rate_left(done, 1_000) for done in (0, 800, 900, 999)] == pytest.approx([1, 1, 0.5, 0.005])
    assert PLAIN.rate_left(999, 1_000) == 1
    moves = []
    for done in (0, 900):
        made = learner(config)
        made.done = done
        before = made.online.detach().clone()
        made.update()
        moves.append(made.online.detach() - before)
    torch.testing.assert_close(moves[1], moves[0] / 2)


def test_what_is_kept_is_a_mean_of_the_weights_since_the_last_reset() -> None:
    config = dataclasses.replace(PLAIN, steady=0.4, reset_every=5)
    made, plain = learner(config), learner(dataclasses.replace(PLAIN, steady=0))
    assert plain.kept is plain.acting
    seen = []
    for share in (1, 9 / 10, 9 / 11, 9 / 12):  # at first of few
        made.update()
        seen.append(made.online.detach().clone())
        mean = seen[0] if share == 1 else mean.lerp(seen[-1], share)
        torch.testing.assert_close(made.kept, mean)
    assert not torch.equal(made.kept, made.acting)
    other = learner(config)
    other.restore({name: tensor.clone() for name, tensor in made.tensors().items()}, made.done, made.since)
    assert torch.equal(other.kept, made.kept)
    made.update()
    assert made.since == 0
    assert torch.equal(made.kept, made.online)
    made.update()  # and of few again
    torch.testing.assert_close(made.kept, made.online.detach())
    late = learner(dataclasses.replace(PLAIN, steady=0.4))
    late.since, before = 20, late.kept.clone()  # 9 / 29 would be less than what it is renewed by in the end
    late.update()
    torch.testing.assert_close(late.kept, before.lerp(late.online.detach(), 0.4))


def test_a_gradient_that_is_not_finite_changes_one_agent_only() -> None:
    made = learner()
    made.replay.reward[0].fill_(torch.inf)
    before = made.online.detach().clone()
    made.update()
    assert torch.equal(made.online[0], before[0])
    assert not torch.equal(made.online[1], before[1])
    assert made.bad.tolist() == [1, 0]


def test_the_histogram_of_a_target_has_it_as_its_mean() -> None:
    targets = torch.tensor([-9.0, -0.37, 0.0, 4.2, 9.0])
    bins = histogram(targets, 51, 10.0)
    torch.testing.assert_close(bins.sum(-1), torch.ones(5))
    torch.testing.assert_close(expected(bins.log(), 10.0), targets, atol=0.02, rtol=0)
    assert int(bins[2].argmax()) == 25
    assert histogram(torch.tensor([99.0]), 51, 10.0).argmax() == 50  # beyond the range: in the last bin


def test_a_histogram_fits_its_own_target_best() -> None:
    target = torch.tensor([1.3])
    own = (histogram(target, 51, 10.0) + 1e-9).log()
    assert misfit(own, target, 10.0) < misfit(own, target + 0.2, 10.0)
    assert float(misfit(torch.tensor([[1.0]]), torch.tensor([3.0]), 10.0)) == pytest.approx(1.5)  # Huber: 2 - ½


def test_schedules() -> None:
    config = LearningConfig(steps_end=3, gamma_end=0.997)  # BBF's
    assert [config.steps(n) for n in (0, 5_000, 10_000, 99_999)] == [10, 5, 3, 3]
    assert config.gamma(0) == pytest.approx(0.97)
    assert config.gamma(10**6) == pytest.approx(0.997)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("capture", [False, True])
def test_pixels_seen_by_agents_side_by_side_teach_what_they_do_one_by_one(capture: bool) -> None:
    eyes, seeds, device = Pixels(40), tuple(range(10)), torch.device("cuda")

    def learnt() -> torch.Tensor:
        network = QNetwork(SMALL, eyes.inputs(SMALL), torch.ones(10, 3, device=device) > 0)
        replay = SequenceReplay(10, 20, eyes.row, eyes.dtype, SMALL.memory, device)
        replay.rows.random_(generator=torch.Generator(device).manual_seed(0))
        replay.reward[:, ::3], replay.discount[:], replay.real[:] = 1, 1, True
        made = Learner(PLAIN, network, replay, seeds, total=1_000, capture=capture)
        for _ in range(20):
            made.update()
        return torch.stack((made.online.detach(), made.kept)).cpu()

    together = learnt()
    with one_by_one():
        torch.testing.assert_close(learnt(), together, atol=1e-4, rtol=0)

"""Returns of options by hand, and a learner that agrees with them."""

import dataclasses

import numpy as np
import pytest
import torch

from transporter.control.options.config import LearningConfig, NetworkConfig
from transporter.control.options.learner import Learner, option_returns
from transporter.control.options.network import OptionsNet
from transporter.control.replay import Memory, Outcome, SequenceReplay

SMALL = NetworkConfig(layers=((4, 4, 2),), hidden=8, memory=6, caution=0)


def column(*values: float) -> torch.Tensor:
    """One sequence: (t, 1)."""
    return torch.tensor(values, dtype=torch.float32)[:, None]


def every(*values: float) -> torch.Tensor:
    """The same for one keypoint's four options: (t, 1, 1, 4)."""
    return column(*values)[..., None, None].expand(-1, 1, 1, 4)


def test_peng_by_hand() -> None:
    # γ = λ = ½. Backwards: G₂ = 1 + ½·8 = 5; G₁ = 1 + ½(½·4 + ½·5) = 3.25; G₀ = 1 + ½(½·2 + ½·3.25) = 2.3125
    on = column(1, 1, 1) > 0
    found = option_returns(every(1, 1, 1), column(0.5, 0.5, 0.5), every(2, 4, 8), 0.5, on)
    assert found[:, 0, 0, 0].tolist() == [2.3125, 3.25, 5.0]


def test_a_trace_does_not_go_into_the_next_episode() -> None:
    # Row 1 holds no transition (a game was cut short at it): G₀ ends with the value of row 1's state.
    found = option_returns(every(1, 0, 100), column(0.5, 0.5, 0.5), every(2, 4, 8), 0.5, column(1, 0, 1) > 0)
    assert found[0, 0, 0].tolist() == [2.0] * 4
    # And at a death (discount 0) nothing follows at all.
    found = option_returns(every(1, 1, 100), column(0.5, 0, 0.5), every(2, 4, 8), 0.5, column(1, 1, 1) > 0)
    assert found[1, 0, 0].tolist() == [1.0] * 4


def test_watkins_cuts_each_option_by_itself() -> None:
    greedy = torch.ones(3, 1, 1, 4, dtype=torch.bool)
    greedy[1, ..., 1] = False  # the action at 1 was not greedy for option 1: what follows is not what it would do
    on = column(1, 1, 1) > 0
    found = option_returns(every(1, 1, 1), column(0.5, 0.5, 0.5), every(2, 4, 8), 0.5, on, greedy)
    assert found[0, 0, 0].tolist() == [2.3125, 2.0, 2.3125, 2.3125]


class Corner:
    """Eyes for frames of one grey: their brightness is where the keypoint is."""

    keypoints = 1

    def __call__(self, frames: torch.Tensor) -> torch.Tensor:
        at = frames[:, 0, 0, 0].float() / 100 - 1
        return torch.stack((at, at), -1)[:, None]


@pytest.fixture
def replay() -> SequenceReplay:
    """Two players, eight rows each in a ring that has gone round once: frames count up by ten."""
    kept = SequenceReplay(2, 8, (8, 8, 3), torch.uint8, 6, torch.device("cpu"))
    memory = Memory(torch.zeros(2, 6), torch.zeros(2, 6))
    for row in range(12):
        at = torch.tensor([row % 8])
        frames = torch.full((2, 8, 8, 3), 10 * row, dtype=torch.uint8)
        frames[1] += 5
        kept.see(at, frames, torch.tensor([row == 0] * 2), memory)
        one = torch.ones(2)
        kept.end(at, Outcome(torch.full((2,), row % 3), 0 * one, one, one > 0))
    return kept


def test_sequences_go_round_the_ring(replay: SequenceReplay) -> None:
    window = replay.sequences(torch.tensor([1, 0]), torch.tensor([6, 5]), 4)  # rows 6…9 of player 1, 5…8 of player 0
    assert window.rows[0, :, :, 0, 0, 0].tolist() == [[65, 50], [75, 60], [85, 70], [95, 80]]
    assert window.earlier[0, 0, :, 0, 0, 0].tolist() == [55, 40]
    assert window.outcome.action[0, :, 0].tolist() == [0, 1, 2, 0]


def test_rows_from_elsewhere_go_round_the_ring_too(replay: SequenceReplay) -> None:
    other = SequenceReplay(2, 8, (8, 8, 3), torch.uint8, 6, torch.device("cpu"))
    rows = {name: t.index_select(1, torch.tensor([6, 7, 0, 1])) for name, t in replay.tensors(8).items()}  # 6 … 9
    other.put(slice(1, 2), 6, {name: t[1:] for name, t in rows.items()})
    found = other.sequences(torch.tensor([1]), torch.tensor([7]), 3)
    assert found.rows[0, :, 0, 0, 0, 0].tolist() == [75, 85, 95]
    assert found.outcome.action[0, :, 0].tolist() == [1, 2, 0]
    assert other.rows[0].sum() == 0  # the other agent's


def test_the_loss_is_the_error_of_the_action_taken(replay: SequenceReplay) -> None:
    """Frames count up by 10, so the keypoint moves by (0.1, 0.1) in each step: with γ ≈ 0 that is all there is."""
    torch.manual_seed(0)
    network = OptionsNet(SMALL, 8, keypoints=1, actions=3)
    config = LearningConfig(batch=2, burn_in=1, unroll=2, discount=1e-9, trace=0.0)
    learner = Learner(config, network, Corner(), replay)
    window = replay.sequences(torch.tensor([0, 1]), torch.tensor([5, 6]), config.length)
    found = learner.loss_of(window)
    frames, first = window.rows[0], window.before.first[0]
    q = network(frames, first, Memory(*(m[0] for m in window.memory)), 1).q
    rewards = np.array([0.1, -0.1, 0.1, -0.1])
    taken = [[0, 1], [1, 2]]  # rows 6, 7 of player 0, rows 7, 8 of player 1 (row modulo 3), by time then player
    errors = [
        ((q[t, b, 0, :, taken[t][b]].detach().numpy() - rewards) ** 2).sum() / 2 for t in range(2) for b in range(2)
    ]
    assert found.total.item() == pytest.approx(float(np.mean(errors)), rel=1e-4)
    assert found.jumps.tolist() == [0.0]


def test_a_return_goes_on_with_the_worth_of_the_state_that_came_next(replay: SequenceReplay) -> None:
    """γ = λ = ½, and every row is worth something else: G₁ = r + ½ max Q(2), G₀ = r + ½ (½ max Q(1) + ½ G₁)."""
    torch.manual_seed(0)
    network = OptionsNet(SMALL, 8, keypoints=1, actions=3)
    with torch.no_grad():
        network.head.weight.mul_(1_000)
    config = LearningConfig(batch=1, burn_in=1, unroll=2, discount=0.5, trace=0.5)
    learner = Learner(config, network, Corner(), replay)
    window = replay.sequences(torch.tensor([0]), torch.tensor([5]), config.length)  # rows 6, 7 and 8 are learnt from
    with torch.no_grad():
        q = network(window.rows[0], window.before.first[0], Memory(*(m[0] for m in window.memory)), 1).q[:, 0, 0]
    moved, best = torch.tensor([0.1, -0.1, 0.1, -0.1]), q.amax(-1)
    assert (best[1:] - best[:-1]).abs().min() > 0.01  # or any row would do
    later = moved + best[2] / 2
    now = moved + (best[1] / 2 + later / 2) / 2
    error = ((q[0, :, 0] - now) ** 2).sum() / 2 + ((q[1, :, 1] - later) ** 2).sum() / 2
    assert learner.loss_of(window).total.item() == pytest.approx(error.item() / 2, rel=1e-4)


def test_what_is_known_of_lost_lives(replay: SequenceReplay) -> None:
    """A life is lost at row 6, and at row 7 a game only begins anew, which costs nobody's; γ = 0.9, λ = 0."""
    torch.manual_seed(0)
    network = OptionsNet(dataclasses.replace(SMALL, caution=0.1), 8, keypoints=1, actions=3)
    config = LearningConfig(batch=2, burn_in=1, unroll=3, discount=1e-9, foresight=0.9, trace=0.0)
    learner = Learner(config, network, Corner(), replay)
    for row, real in ((6, True), (7, False)):
        no = torch.zeros(2)
        replay.end(torch.tensor([row % 8]), Outcome(torch.full((2,), row % 3), no, no, torch.tensor([real] * 2)))
    window = replay.sequences(torch.tensor([0]), torch.tensor([5]), config.length)  # row 5 is burnt in
    q, _, safety = network(window.rows[0], window.before.first[0], Memory(*(m[0] for m in window.memory)), 1)
    assert safety.shape == (4, 1, 3)
    moved = torch.tensor([0.1, -0.1, 0.1, -0.1])
    error = (q[0, 0, 0, :, 0] ** 2).sum() / 2 + (safety[0, 0, 0] + 1) ** 2 / 2  # of row 6: action 0, the end
    safest = 0.9 * safety[3, 0].max()  # row 8: action 2, and life goes on
    error = error + ((q[2, 0, 0, :, 2] - moved) ** 2).sum() / 2 + (safety[2, 0, 2] - safest) ** 2 / 2
    assert learner.loss_of(window).total.item() == pytest.approx(error.item() / 2, rel=1e-4)


@pytest.mark.parametrize(("caution", "after"), [(0.1, -0.2), (0.5, -0.6)], ids=["reckless", "as safe as any"])
def test_nobody_is_warned_of_what_only_the_reckless_did_next(
    replay: SequenceReplay, caution: float, after: float
) -> None:
    """Rows 6 and 7: action 0, then action 1, which loses the life and is known to be riskier by 0.4. γ = λ = 0.5."""
    torch.manual_seed(0)
    network = OptionsNet(dataclasses.replace(SMALL, caution=caution), 8, keypoints=1, actions=3)
    with torch.no_grad():
        network.head.weight.zero_()
        network.head.bias.copy_(torch.tensor([*([0.0] * 12), -0.2, -0.6, -0.2]))
    config = LearningConfig(batch=2, burn_in=1, unroll=2, discount=1e-9, foresight=0.5, trace=0.5)
    learner = Learner(config, network, Corner(), replay)
    no = torch.zeros(2)
    replay.end(torch.tensor([7]), Outcome(torch.ones(2, dtype=torch.int64), no, no, no == 0))
    window = replay.sequences(torch.tensor([0]), torch.tensor([5]), config.length)
    of_options = 4 * 0.1**2 / 2  # row 6 moves the keypoint; at row 7 everything ends
    of_life = ((-0.2 - 0.5 * after) ** 2 + (-0.6 + 1) ** 2) / 2  # row 6: what row 7 is worth; row 7: the end
    assert learner.loss_of(window).total.item() == pytest.approx((of_options + of_life) / 2, rel=1e-4)


def test_what_is_too_risky_is_worth_nothing_afterwards_either(replay: SequenceReplay) -> None:
    """The best of what comes next is the best of what would be done."""
    torch.manual_seed(0)
    network = OptionsNet(dataclasses.replace(SMALL, caution=0.5), 8, keypoints=1, actions=3)
    with torch.no_grad():
        network.head.weight.zero_()
        network.head.bias.copy_(torch.tensor([*([0.0, 1.0, 5.0] * 4), 0.0, -0.4, -0.6]))  # the best is too risky
    config = LearningConfig(batch=2, burn_in=1, unroll=2, discount=0.5, trace=0.0, foresight=1e-9)
    learner = Learner(config, network, Corner(), replay)
    window = replay.sequences(torch.tensor([0]), torch.tensor([5]), config.length)  # rows 6, 7: actions 0, 1
    moved = np.array([0.1, -0.1, 0.1, -0.1])
    errors = [((mine - (moved + 0.5 * 1.0)) ** 2).sum() / 2 + life**2 / 2 for mine, life in ((0, 0), (1, -0.4))]
    assert learner.loss_of(window).total.item() == pytest.approx(float(np.mean(errors)), rel=1e-4)


@pytest.mark.parametrize(("caution", "goes_on"), [(0.1, False), (0.5, True)], ids=["reckless", "as safe as any"])
def test_no_option_is_worth_what_only_the_reckless_did_next(
    replay: SequenceReplay, caution: float, goes_on: bool
) -> None:
    """Rows 6 and 7: action 0, then action 1, riskier than the others by 0.4. γ = λ = ½, and the best is worth 3."""
    torch.manual_seed(0)
    network = OptionsNet(dataclasses.replace(SMALL, caution=caution), 8, keypoints=1, actions=3)
    with torch.no_grad():
        network.head.weight.zero_()
        network.head.bias.copy_(torch.tensor([*([0.0, 1.0, 3.0] * 4), -0.2, -0.6, -0.2]))
    config = LearningConfig(batch=2, burn_in=1, unroll=2, discount=0.5, trace=0.5, foresight=1e-9)
    learner = Learner(config, network, Corner(), replay)
    window = replay.sequences(torch.tensor([0]), torch.tensor([5]), config.length)
    moved = np.array([0.1, -0.1, 0.1, -0.1])
    later = moved + 3 / 2
    now = moved + ((3 / 2 + later / 2) / 2 if goes_on else 3 / 2)
    of_options = (((0 - now) ** 2).sum() + ((1 - later) ** 2).sum()) / 2
    of_life = (0.2**2 + 0.6**2) / 2
    assert learner.loss_of(window).total.item() == pytest.approx((of_options + of_life) / 2, rel=1e-4)


def test_nobody_is_taken_to_be_better_than_certain_to_live(replay: SequenceReplay) -> None:
    """The best of what comes next is guessed at +0.5, as if a life could be won: it counts as none lost."""
    torch.manual_seed(0)
    network = OptionsNet(dataclasses.replace(SMALL, caution=0.1), 8, keypoints=1, actions=3)
    with torch.no_grad():
        network.head.weight.zero_()
        network.head.bias.copy_(torch.tensor([*([0.0] * 12), 0.5, 0.3, -1.0]))
    config = LearningConfig(batch=2, burn_in=1, unroll=2, discount=1e-9, foresight=0.5, trace=0.0)
    learner = Learner(config, network, Corner(), replay)
    found = learner.loss_of(replay.sequences(torch.tensor([0]), torch.tensor([5]), config.length))
    of_options, of_life = 4 * 0.1**2 / 2, (0.5**2 + 0.3**2) / 2 / 2  # rows 6 and 7: actions 0 and 1
    assert found.total.item() == pytest.approx(of_options + of_life, rel=1e-4)
    assert found.risk.item() == pytest.approx(-0.5)
    assert found.forbidden.item() == pytest.approx(1 / 3)  # the second is no riskier than the first


def test_updates_teach_the_reward(replay: SequenceReplay) -> None:
    torch.manual_seed(0)
    network = OptionsNet(SMALL, 8, keypoints=1, actions=3)
    learner = Learner(LearningConfig(batch=4, burn_in=1, unroll=2, discount=1e-9, rate=1e-2), network, Corner(), replay)
    chance = np.random.default_rng(0)
    for _ in range(150):
        starts = torch.from_numpy(chance.integers(5, 9, 4))
        learner.update(torch.from_numpy(chance.integers(2, size=4)), starts)
    assert learner.done == 150
    assert float(learner.loss) < 1e-4
    assert int(learner.bad) == 0


def test_gradients_may_be_laid_out_otherwise_than_their_parameters(replay: SequenceReplay, monkeypatch) -> None:
    """cuDNN gives those of convolutions as it likes; Adam, fused, takes both in one order."""
    network = OptionsNet(SMALL, 8, keypoints=1, actions=3)
    assert not network.look[0].weight.is_contiguous()
    grad = torch.autograd.grad
    monkeypatch.setattr(torch.autograd, "grad", lambda *of: [g.contiguous() for g in grad(*of)])
    learner = Learner(LearningConfig(batch=2, burn_in=1, unroll=2), network, Corner(), replay)
    learner.update(torch.tensor([0, 1]), torch.tensor([6, 6]))
    assert learner.network.look[0].weight.grad.stride() == learner.network.look[0].weight.stride()


def test_burnt_rows_teach_nothing(replay: SequenceReplay) -> None:
    network = OptionsNet(SMALL, 8, keypoints=1, actions=3)
    frames = torch.randint(0, 255, (4, 2, 8, 8, 3), dtype=torch.uint8)
    first = torch.zeros(4, 2, dtype=torch.bool)
    whole = network(frames, first, network.nothing(2)).q
    late = network(frames, first, network.nothing(2), skip=2).q
    torch.testing.assert_close(late, whole[2:])
    # What an episode begins with forgets all before: the same as from there.
    first[2] = True
    again = network(frames, first, network.nothing(2), skip=2).q
    torch.testing.assert_close(again, network(frames[2:], first[2:], network.nothing(2)).q)


def test_restored_learners_go_on_alike(replay: SequenceReplay) -> None:
    def fresh() -> Learner:
        torch.manual_seed(1)
        network = OptionsNet(SMALL, 8, keypoints=1, actions=3)
        return Learner(LearningConfig(batch=2, burn_in=1, unroll=2), network, Corner(), replay)

    at = torch.tensor([0, 1]), torch.tensor([5, 6])
    one, other = fresh(), fresh()
    for _ in range(3):
        one.update(*at)
    other.restore({name: t.clone() for name, t in one.tensors().items()}, one.done)
    one.update(*at)
    other.update(*at)
    assert all(torch.equal(a, b) for a, b in zip(one.tensors().values(), other.tensors().values(), strict=True))

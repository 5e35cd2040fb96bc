"""Returns against sums that can be done by hand."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transporter.control.returns import n_step_returns, q_lambda_returns, rescale, unscale, watkins_traces

ONES, HALF = torch.ones(4), torch.full((4,), 0.5)
VALUES = torch.tensor([10.0, 20.0, 30.0, 40.0])  # v_{t+1}


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (1, [1 + 5, 1 + 10, 1 + 15, 1 + 20]),
        (2, [1.5 + 5, 1.5 + 7.5, 1.5 + 10, 1 + 20]),  # the last has only one step to go
        (3, [1.75 + 3.75, 1.75 + 5, 1.5 + 10, 1 + 20]),
        (9, [1.875 + 2.5, 1.75 + 5, 1.5 + 10, 1 + 20]),
    ],
)
def test_n_steps_of_reward_one_at_discount_half(steps: int, expected: list[float]) -> None:
    assert n_step_returns(ONES, HALF, VALUES, steps).tolist() == pytest.approx(expected)
    as_tensor = n_step_returns(ONES, HALF, VALUES, torch.tensor(steps), most=10)
    assert as_tensor.tolist() == pytest.approx(expected)


def test_nothing_after_the_end_counts() -> None:
    discounts = torch.tensor([0.5, 0.0, 0.5, 0.5])  # the episode ends with the second action
    assert n_step_returns(ONES, discounts, VALUES, 4).tolist() == pytest.approx([1.5, 1.0, 1.5 + 10, 1 + 20])


def test_an_episode_that_was_cut_short_ends_with_the_value_of_its_last_state() -> None:
    going_on = torch.tensor([True, True, False, True])  # row 2 shows that state; from there the game began anew
    rewards = torch.tensor([1.0, 1.0, 99.0, 1.0])
    returns = n_step_returns(rewards, HALF, VALUES, 4, going_on)
    assert returns[:2].tolist() == pytest.approx([1.5 + 0.25 * 20, 1 + 0.5 * 20])


def test_q_lambda_between_one_step_and_the_whole_sum() -> None:
    assert q_lambda_returns(ONES, HALF, VALUES, 0.0).tolist() == pytest.approx([6, 11, 16, 21])
    assert q_lambda_returns(ONES, HALF, VALUES, 1.0).tolist() == pytest.approx([1.875 + 2.5, 1.75 + 5, 1.5 + 10, 21])
    # λ = ½: G_3 = 21, G_2 = 1 + ½(15 + 10.5), G_1 = 1 + ½(10 + ½ G_2), G_0 = 1 + ½(5 + ½ G_1)
    assert q_lambda_returns(ONES, HALF, VALUES, 0.5).tolist() == pytest.approx([5.859375, 9.4375, 13.75, 21])


def test_watkins_cuts_a_trace_at_an_action_that_was_not_greedy() -> None:
    traces = watkins_traces(0.8, torch.tensor([True, True, False, True]))
    assert traces.tolist() == pytest.approx([0.8, 0.0, 0.8, 0.0])
    returns = q_lambda_returns(ONES, HALF, VALUES, watkins_traces(1.0, torch.tensor([True, True, False, True])))
    assert returns[1] == pytest.approx(1 + 0.5 * 20)  # its next action was not greedy: one step only
    assert returns[0] == pytest.approx(1 + 0.5 * 11)


def test_peng_with_trace_one_is_the_longest_n_step_return() -> None:
    generator = torch.Generator().manual_seed(0)
    rewards, discounts, values = (torch.rand(6, 3, generator=generator) for _ in range(3))
    torch.testing.assert_close(
        q_lambda_returns(rewards, discounts, values, 1.0), n_step_returns(rewards, discounts, values, 6)
    )


def test_rescaling_by_hand() -> None:
    assert rescale(torch.tensor([0.0, 3.0, -3.0, 8.0]), 0.0).tolist() == pytest.approx([0, 1, -1, 2])


@given(st.floats(-1e4, 1e4))
def test_unscale_undoes_rescale(x: float) -> None:
    value = torch.tensor(x, dtype=torch.float64)
    assert float(unscale(rescale(value))) == pytest.approx(x, rel=1e-6, abs=1e-6)

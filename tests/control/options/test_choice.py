"""Eq. 2, commitment and ε, by hand."""

import numpy as np
import torch

from transporter.control.options.choice import (
    KEEP,
    MOST,
    Commitment,
    epsilon_greedy,
    log_uniform,
    most_controllable,
    q_gap,
    without_risk,
)


def test_eq_2_is_the_mean_over_directions_of_max_minus_min() -> None:
    q = torch.zeros(1, 2, 4, 3)  # a state, two keypoints, four directions, three actions
    q[0, 0, 0] = torch.tensor([1.0, 5.0, 3.0])  # 4
    q[0, 0, 1] = torch.tensor([-2.0, 0.0, 0.0])  # 2
    q[0, 1] = 7.0  # worth much, whatever one does
    assert q_gap(q).tolist() == [[1.5, 0.0]]
    assert most_controllable(q).tolist() == [0]


def test_what_is_too_risky_is_left_out_whatever_it_is_worth() -> None:
    q = torch.tensor([1.0, 2.0, 3.0]).expand(1, 2, 4, 3)
    safety = torch.tensor([[-0.1, -0.25, -0.75]])  # the safest costs a life one time in ten
    assert without_risk(q, safety, 0.25).argmax(-1).tolist() == [[[1] * 4] * 2]
    assert without_risk(q, safety, 0.1).argmax(-1).tolist() == [[[0] * 4] * 2]
    assert torch.equal(without_risk(q, safety[:, :0], 0.0), q)


def test_an_option_lasts_t_steps_or_until_its_episode_ends() -> None:
    commitment = Commitment(2, keypoints=3, steps=4, among="all", chance=np.random.default_rng(0))
    kept = []
    for step in range(10):
        first = np.array([step == 0, step in (0, 6)])  # the second player's episode begins anew at step 6
        kept.append(commitment.next(first).keypoint == KEEP)
    begins = ~np.array(kept)
    assert np.flatnonzero(begins[:, 0]).tolist() == [0, 4, 8]
    assert np.flatnonzero(begins[:, 1]).tolist() == [0, 4, 6]


def test_options_are_drawn_evenly_and_the_controllable_one_is_left_to_the_network() -> None:
    chance = np.random.default_rng(0)
    drawn = Commitment(12_000, 3, 20, "all", chance).next(np.ones(12_000, bool))
    counts = np.bincount(drawn.keypoint * 4 + drawn.direction, minlength=12)
    assert len(counts) == 12
    assert counts.min() > 850  # of 1000
    assert (Commitment(5, 3, 20, "controllable", chance).next(np.ones(5, bool)).keypoint == MOST).all()


def test_epsilon_is_log_uniform() -> None:
    epsilon = log_uniform(1e-4, 0.4, 20_000, np.random.default_rng(0))
    assert epsilon.min() >= 1e-4
    assert epsilon.max() <= 0.4
    assert abs(np.median(epsilon) - np.sqrt(1e-4 * 0.4)) < 5e-4  # the middle in ratio


def test_each_player_has_its_own_epsilon() -> None:
    best = np.full(4_000, 2)
    epsilon = np.where(np.arange(4_000) < 2_000, 0.0, 1.0)
    taken = epsilon_greedy(best, epsilon, 4, np.random.default_rng(0))
    assert (taken[:2_000] == 2).all()
    assert np.bincount(taken[2_000:], minlength=4).min() > 400

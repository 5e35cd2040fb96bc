"""Four rewards for each keypoint, by hand."""

import pytest
import torch

from transporter.control.options.rewards import DIRECTIONS, displacement_rewards, jumped

BEFORE = torch.tensor([[[0.0, 0.0], [0.5, -0.5]]])  # one frame, two keypoints
AFTER = torch.tensor([[[0.1, -0.2], [-0.9, -0.5]]])


def test_right_left_down_up() -> None:
    assert DIRECTIONS == ("right", "left", "down", "up")
    rewards = displacement_rewards(BEFORE, AFTER)
    expected = torch.tensor([[[0.1, -0.1, -0.2, 0.2], [-1.4, 1.4, 0.0, 0.0]]])
    torch.testing.assert_close(rewards, expected)


def test_a_keypoint_that_jumps_earns_nothing_and_the_others_do() -> None:
    assert jumped(BEFORE, AFTER, 0.5).tolist() == [[False, True]]
    rewards = displacement_rewards(BEFORE, AFTER, jump=0.5)
    assert rewards[0, 1].tolist() == [0, 0, 0, 0]
    assert rewards[0, 0].tolist() == pytest.approx([0.1, -0.1, -0.2, 0.2])

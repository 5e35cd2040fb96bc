import torch

from transporter.coords import cell_centres
from transporter.training.health import health


def moving_dot(pairs: int = 40, size: int = 32) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """One bright pixel at random places: (source, target, source place, target place)."""
    generator = torch.Generator().manual_seed(0)
    cells = torch.randint(4, size - 4, (2, pairs, 2), generator=generator)
    frames = torch.zeros(2, pairs, size, size, 3, dtype=torch.uint8)
    for side in range(2):
        frames[side, torch.arange(pairs), cells[side, :, 1], cells[side, :, 0]] = 255
    points = cell_centres(size)[cells]
    return frames[0], frames[1], points[0], points[1]


def test_a_keypoint_on_the_dot_lives_and_its_twin_is_a_duplicate_and_a_parked_one_is_dead() -> None:
    source, target, at_s, at_t = moving_dot()
    parked = torch.full_like(at_s, 0.9)
    found = health(source, target, torch.stack((at_s, parked, at_s), 1), torch.stack((at_t, parked, at_t), 1))
    assert found.alive.tolist() == [True, False, True]
    assert found.duplicate.tolist() == [False, False, True]
    assert found.row()["alive"] == 1
    assert found.row()["duplicates"] == 1


def test_a_keypoint_that_roams_where_nothing_changes_is_dead() -> None:
    source, target, at_s, at_t = moving_dot()
    found = health(source, target, torch.stack((at_s, -at_t), 1), torch.stack((at_t, -at_s), 1))
    assert found.alive.tolist() == [True, False]


def test_a_keypoint_on_something_that_changes_but_stays_is_not_alive() -> None:
    source, target = torch.zeros(2, 10, 16, 16, 3, dtype=torch.uint8)
    target[:, 2, 2] = 255  # a digit of the score
    points = cell_centres(16)[torch.tensor([2, 2])].expand(10, 1, 2)
    found = health(source, target, points, points)
    assert found.change[0] > 2
    assert not found.alive[0]


def test_a_keypoint_follows_a_thing_or_lets_things_pass_under_it() -> None:
    """Two kinds of squares go by: one keypoint stays with the first, the other sits where both pass."""
    generator = torch.Generator().manual_seed(0)
    pairs, size = 200, 32
    frames = torch.zeros(2, pairs, size, size, 3, dtype=torch.uint8)
    cells = torch.randint(3, size - 3, (2, pairs, 2), generator=generator)  # columns of both things
    for side in range(2):
        for pair in range(pairs):
            red, green = cells[side, pair].tolist()
            frames[side, pair, 13:16, red - 1 : red + 2, 0] = 255
            frames[side, pair, 16:19, green - 1 : green + 2, 1] = 255
    columns = cell_centres(size)[cells[..., 0]]
    on = torch.stack((columns, torch.full_like(columns, cell_centres(size)[14].item())), dim=-1)
    window = torch.zeros(pairs, 2)
    window_moves = window + 0.05 * torch.randn(2, pairs, 2, generator=generator)
    points = torch.stack((on, window_moves), dim=2)
    found = health(*frames, *points)
    assert found.follows[0] > 0.5
    assert found.follows[1] < 0.2

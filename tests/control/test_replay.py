"""Windows of a replay in which a row is its own number: agent 1's third row holds 103."""

import torch

from transporter.control.replay import Memory, Outcome, SequenceReplay

AGENTS, CAPACITY = 2, 12


def filled(first: set[int] = frozenset({0})) -> SequenceReplay:  # type: ignore[assignment]
    replay = SequenceReplay(AGENTS, CAPACITY, (1,), torch.float32, 2, torch.device("cpu"))
    base = torch.tensor([0.0, 100.0])
    for t in range(CAPACITY):
        number = base + t
        begins = torch.full((AGENTS,), t in first)
        replay.see(
            torch.tensor([t]),
            number[:, None],
            begins,
            Memory(number[:, None].expand(-1, 2), -number[:, None].expand(-1, 2)),
        )
        replay.end(torch.tensor([t]), Outcome(torch.tensor([t, t]), number, torch.ones(AGENTS), torch.ones(AGENTS) > 0))
    return replay


def test_a_window_holds_the_rows_from_its_start_and_what_came_before_each() -> None:
    window = filled().window(torch.tensor([[3, 5], [1, 7]]), length=3)
    assert window.rows.shape == (2, 3, 2, 1)
    assert window.rows[0, :, 0, 0].tolist() == [3, 4, 5]
    assert window.rows[1, :, 1, 0].tolist() == [107, 108, 109]
    assert window.earlier[1, :, 1, 0].tolist() == [106, 107, 108]
    assert window.before.action[0, :, 1].tolist() == [4, 5, 6]
    assert window.before.reward[1, :, 0].tolist() == [100, 101, 102]
    assert window.outcome.action[0, :, 1].tolist() == [5, 6, 7]


def test_the_memory_is_the_one_that_its_first_row_found() -> None:
    memory = filled().window(torch.tensor([[3, 5], [1, 7]]), length=2).memory
    assert memory.h[:, :, 0].tolist() == [[3, 5], [101, 107]]
    assert memory.c[1, 1].tolist() == [-107, -107]


def test_where_an_episode_begins_nothing_came_before() -> None:
    window = filled({0, 4}).window(torch.tensor([[3], [3]]), length=3)
    assert window.before.first[0, :, 0].tolist() == [False, True, False]
    assert window.earlier[0, :, 0, 0].tolist() == [2, 4, 4]  # row 4 is its own predecessor


def test_saved_and_restored() -> None:
    replay, other = filled({0, 5}), SequenceReplay(AGENTS, CAPACITY, (1,), torch.float32, 2, torch.device("cpu"))
    other.restore(replay.tensors(9))
    starts = torch.tensor([[2], [4]])
    for one, two in zip(replay.window(starts, 5), other.window(starts, 5), strict=True):
        torch.testing.assert_close(one, two)
    assert not other.rows[:, 9:].any()


def test_steps_that_are_left_in_an_episode_round_the_ring() -> None:
    replay = filled({0, 4, 5})
    rows = torch.tensor([0, 2, 3, 4, 9, CAPACITY + 1])
    left = replay.steps_left(torch.zeros_like(rows), rows, most=3)
    assert left.tolist() == [3, 1, 0, 0, 2, 2]  # after row 11 comes row 0, where one begins

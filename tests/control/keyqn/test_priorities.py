"""Rows far off are drawn more often, and by how much is known."""

import torch

from transporter.control.keyqn.priorities import LEAST, Priorities

PART, ROWS = 4, range(3, 43)


def made(power: float = 1.0, correction: float = 1.0) -> Priorities:
    """Two agents; the first's row 20 is far off, of the second's rows none is."""
    priorities = Priorities(2, 50, power, correction, torch.device("cpu"))
    priorities.errors[:, : ROWS.stop] = 1 - LEAST
    priorities.errors[0, 20] = 9 - LEAST
    priorities.seen.fill_(ROWS.stop)
    return priorities


def drawn(priorities: Priorities, times: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return priorities.draw(torch.rand(2, times, 2, generator=generator, dtype=torch.float64), ROWS, PART)


def test_rows_are_drawn_by_their_errors_and_parts_stay_within_the_rows() -> None:
    first = drawn(made(), 20_000)
    assert int(first.min()) == ROWS.start
    assert int(first.max()) == ROWS.stop - PART
    holds = ((first <= 20) & (first > 20 - PART)).float().mean(1)
    # The second agent's row is in four parts of forty that are drawn alike. The first's row is worth 9 of 48, and parts
    # drawn by it all hold it; those drawn by a row one, two, three away hold it in three, two, one of four cases.
    torch.testing.assert_close(holds, torch.tensor([(9 + 2 * 1.5) / 48, 4 / 40]), atol=0.012, rtol=0)


def test_weights_undo_what_drawing_did() -> None:
    """Each row counts as often as by chance alone: how often it was learnt from times what it counted."""
    priorities = made()
    first = drawn(priorities, 20_000)
    weights = priorities.weights(first, PART)
    rows = first[:, None] + torch.arange(PART)[:, None]
    counted = torch.zeros(2, 50).scatter_add_(1, rows.flatten(1), weights.flatten(1)) / 20_000
    inside = slice(ROWS.start + PART, ROWS.stop - PART)  # parts at the ends are moved inwards
    torch.testing.assert_close(counted[:, inside], torch.full_like(counted[:, inside], PART / 40), atol=0.02, rtol=0)
    half = made(correction=0.5)
    drawn(half, 10)
    torch.testing.assert_close(half.weights(first, PART), weights.sqrt())


def test_new_rows_come_before_all_and_learnt_ones_have_their_error() -> None:
    priorities = made(power=0.5)
    priorities.learnt(torch.tensor([[5, 7], [5, 5]]), torch.tensor([[[0.1, -3], [0.2, 4], [0.3, 0], [0.4, 5]]] * 2))
    assert priorities.errors[0, 5:11].tolist() == torch.tensor([0.1, 0.2, 3, 4, 0, 5]).tolist()
    assert priorities.errors[1, 5:9].tolist() == [3, 4, torch.tensor(0.3).item(), 5]
    assert priorities.largest.tolist() == [5, 5]
    priorities.draw(torch.rand(2, 1, 2), range(3, 46), PART)
    assert (priorities.errors[:, 43:46] == 5).all()
    assert not priorities.errors[:, 46:].any()


def test_with_power_nothing_all_rows_are_alike() -> None:
    priorities = made(power=0.0)
    holds = drawn(priorities, 20_000)
    share = ((holds <= 20) & (holds > 20 - PART)).float().mean(1)
    torch.testing.assert_close(share, torch.full((2,), 0.1), atol=0.008, rtol=0)
    torch.testing.assert_close(priorities.weights(holds, PART), torch.ones(2, PART, 20_000))

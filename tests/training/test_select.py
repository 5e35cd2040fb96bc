"""The choice that a user without labels makes."""

import pytest

from transporter.errors import InputError
from transporter.training.select import Candidate, checkpoints, choose, ranked


def seed(name: str, loss: float, alive: int, keypoints: int = 3, error: float | None = None) -> Candidate:
    return Candidate(name, 100, keypoints, loss, alive, error)


def test_the_lowest_loss_among_the_healthiest() -> None:
    seeds = [seed("dead point, low loss", 0.1, 2), seed("good", 0.2, 3), seed("worse", 0.3, 3), seed("lost", 0.9, 0)]
    assert [c.name for c in ranked(seeds)] == ["good", "worse", "dead point, low loss", "lost"]
    assert choose(seeds).name == "good"


def test_the_error_goes_before_the_loss_where_all_have_one() -> None:
    seeds = [seed("low loss", 0.1, 3, error=0.02), seed("low error", 0.2, 3, error=0.01)]
    assert [c.name for c in ranked(seeds)] == ["low error", "low loss"]
    assert choose([*seeds, seed("an old one", 0.3, 3)]).name == "low loss"
    assert choose([seed("dead point", 0.1, 2, error=0.01), seed("good", 0.2, 3, error=0.02)]).name == "good"


def test_one_keypoint_in_ten_does_not_decide() -> None:
    """With seventeen, sixteen live ones are as good as seventeen; fifteen are not."""
    seeds = [seed("17", 0.3, 17, 17), seed("16", 0.2, 16, 17), seed("15", 0.1, 15, 17)]
    assert [c.name for c in ranked(seeds)] == ["16", "17", "15"]


def test_without_health_to_tell_them_apart_the_loss_decides() -> None:
    assert choose([seed("a", 0.5, 0), seed("b", 0.4, 0)]).name == "b"


def test_checkpoints_of_a_run_are_compared_only_once_heatmaps_have_shrunk() -> None:
    rows = [
        {"step": 10, "validation_loss": 0.1, "alive": 3},
        {"step": 15, "loss": 0.3},
        {"step": 20, "validation_loss": 0.3, "alive": 3},
        {"step": 30, "validation_loss": 0.2, "alive": 2},
    ]
    found = checkpoints("run", 3, rows, after=10)
    assert [c.step for c in found] == [20, 30]
    assert choose(found).step == 20
    assert [c.step for c in checkpoints("run", 3, rows, after=99)] == [30]  # cut short: the last one is what there is


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(InputError, match="nothing to choose"):
        choose([])
    with pytest.raises(InputError, match="different numbers of keypoints"):
        choose([seed("a", 0.1, 3), seed("b", 0.1, 6, 6)])

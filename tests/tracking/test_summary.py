"""Methods side by side, and how good a choice without labels is: with numbers that one can check by hand."""

import json
from pathlib import Path

import numpy as np
import pytest

from transporter.errors import InputError
from transporter.tracking.metrics import TrackingCurve
from transporter.tracking.results import Evaluation
from transporter.tracking.summary import agreement, by_method, comparable, flat_figures, read_all

RECIPES = Path(__file__).parents[2] / "results" / "recipes"


def write(
    folder: Path, name: str, ratio: float, loss: float, alive: int = 3, keypoints: int = 3, error: float | None = None
) -> Path:
    """A result whose share of the possible is `ratio` at all lengths: 100 windows, as many objects as keypoints."""
    lengths = np.array([1, 20, 200])
    counts = [np.full(3, n) for n in (100, round(100 * keypoints * ratio), 100 * keypoints, 100 * keypoints)]
    found = Evaluation("pong", 1, 300, 1, TrackingCurve(0.2, keypoints, lengths, *counts), 20, (), ())
    figures = {**found.figures, "lowest_ratio": ratio, "mean_ratio": ratio, "validation_loss": loss, "alive": alive}
    figures |= {"steps": 10, "measured_step": 9, "seconds": 5.0, "steps_per_second": 2.0}
    if error is not None:
        figures["reconstruction_error"] = error
    result = {
        "name": name,
        "figures": figures,
        "seeds": {"train": int(name.rpartition("seed")[2])},
        "config": {"train": {"steps": 10, "model": {"keypoints": keypoints, "size": 80, "standardise": True}}},
        "evaluation": found.to_json(),
    }
    path = folder / f"{name}.json"
    path.write_text(json.dumps(result))
    return path


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    return [
        write(tmp_path, "pong-transporter-seed0", ratio=0.9, loss=0.2),
        write(tmp_path, "pong-transporter-seed1", ratio=1.0, loss=0.1),
        write(tmp_path, "pong-transporter-seed2", ratio=0.5, loss=0.05, alive=2),
        write(tmp_path, "pong-jakab-seed0", ratio=0.6, loss=0.3),
        write(tmp_path, "pong-jakab-seed1", ratio=0.4, loss=0.2),
    ]


def test_methods_side_by_side(paths: list[Path]) -> None:
    ours, theirs = by_method(read_all(paths))
    assert (ours.title, theirs.title) == ("Transporter", "Jakab & Gupta")
    assert (ours.chosen.seed, theirs.chosen.seed) == (1, 1)
    figures = flat_figures([ours, theirs])
    assert figures["pong transporter precision_ratio@200 mean"] == pytest.approx(0.8)
    assert figures["pong transporter precision_ratio@200 worst"] == pytest.approx(0.5)
    assert figures["pong transporter precision_ratio@200 chosen"] == 1
    assert figures["pong transporter seeds all alive"] == 2
    assert figures["pong transporter least lead over jakab"] == pytest.approx(0.3)
    assert figures["pong jakab seconds mean"] == 5


def test_agreement_with_the_truth(paths: list[Path]) -> None:
    """Transporter: ranked 1, 0, 2, as the truth has it. Jakab: the wrong way round."""
    found = agreement(read_all(paths))
    assert found.groups == 2
    assert found.rank_correlation == pytest.approx((1 - 1) / 2)
    assert found.chosen == pytest.approx((1.0 + 0.4) / 2)
    assert found.best == pytest.approx((1.0 + 0.6) / 2)
    assert found.random == pytest.approx((0.8 + 0.5) / 2)
    assert found.regret == pytest.approx(0.1)


def test_the_error_in_colours_decides_where_it_was_measured(tmp_path: Path) -> None:
    paths = [
        write(tmp_path, "pong-transporter-seed0", ratio=0.5, loss=0.1, error=0.02),
        write(tmp_path, "pong-transporter-seed1", ratio=1.0, loss=0.2, error=0.01),
    ]
    [group] = by_method(read_all(paths))
    assert group.chosen.seed == 1
    assert agreement(read_all(paths)).regret == 0


def test_alike_results_leave_nothing_to_rank(tmp_path: Path) -> None:
    same = [write(tmp_path, f"pong-transporter-seed{seed}", 0.9991 + 0.0002 * seed, 0.1 * seed) for seed in range(2)]
    found = agreement(read_all(same))
    assert np.isnan(found.rank_correlation)
    assert found.regret == 0
    with pytest.raises(InputError, match="at least two"):
        agreement(read_all(same[:1]))


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"name": "x"}')
    with pytest.raises(InputError, match="not a measured experiment"):
        read_all([tmp_path / "x.json"])


def test_the_choice_on_what_was_measured_so_far() -> None:
    """Eleven recipes of Pong and three of Ms Pac-Man among others: what is taken is as good as the best."""
    found = agreement(read_all(sorted(RECIPES.glob("*.json"))), comparable)
    assert found.groups >= 3
    assert found.regret < 0.01
    assert found.random < found.chosen - 0.05
    assert found.rank_correlation > 0.5


def test_a_recipe_with_numbers_is_read_back_from_its_name(tmp_path: Path) -> None:
    [found] = read_all([write(tmp_path, "pong-wide+learning_rate=1e-4-seed2", ratio=0.5, loss=0.3)])
    assert (found.environment, found.recipe, found.seed) == ("pong", "wide+learning_rate=1e-4", 2)
    assert by_method([found])[0].title == "Transporter, widest view, learning_rate 0.0001"

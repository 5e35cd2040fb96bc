"""What ships is small, says what it is, and still does what its card says, on play that it has not seen."""

import pytest

import transporter
from transporter.envs import make
from transporter.models.zoo import shipped
from transporter.tracking.evaluate import evaluate

FILES = shipped()
# These are measured in every run of the tests; `python benchmarks/ship.py` measures all, with more play.
MEASURED = ("pong", "ms_pacman")
FRESH_SEED, FRAMES = 7_000_001, 2_500  # two or three games; with 7_000_000 one of them is long and has fruit in it


def test_pong_is_shipped() -> None:
    assert "pong" in FILES


@pytest.mark.parametrize("name", FILES)
def test_a_shipped_model_is_small_and_has_a_card(name: str) -> None:
    assert FILES[name].stat().st_size <= 2.5 * 2**20
    detector = transporter.load(name, "cpu")
    assert {"environment", "preset", "pairs", "steps", "seed", "measured", "failures"} <= set(detector.card)
    assert detector.card["measured"]["seed"] != FRESH_SEED
    figures = detector.card["measured"]["figures"]
    assert {f"{kind}@{length}" for kind in ("precision", "recall") for length in (1, 20, 200)} <= set(figures)


@pytest.mark.parametrize("name", [name for name in MEASURED if name in FILES])
def test_a_shipped_model_gives_its_figures_again(name: str) -> None:
    """Shares of the possible: raw precision depends on how often objects are there, in so little play."""
    detector = transporter.load(name, "cpu")
    promised = detector.card["measured"]["figures"]
    found = evaluate(make(name, detector.config.size), detector, frames=FRAMES, seed=FRESH_SEED).figures
    for figure in ("precision_ratio@1", "precision_ratio@20"):
        assert found[figure] == pytest.approx(promised[figure], abs=0.03)

"""What ships is small, says what it is, and still does what its card says, on play that it has not seen."""

import pytest

import transporter
from transporter.envs import make
from transporter.models.zoo import shipped
from transporter.tracking.evaluate import evaluate

FILES = shipped()


def test_pong_is_shipped() -> None:
    assert "pong" in FILES


@pytest.mark.parametrize("name", FILES)
def test_a_shipped_model_is_small_and_has_a_card(name: str) -> None:
    assert FILES[name].stat().st_size <= 2.5 * 2**20
    card = transporter.load(name, "cpu").card
    assert {"environment", "preset", "pairs", "steps", "seed", "measured", "failures"} <= set(card)


@pytest.mark.parametrize("name", FILES)
def test_a_shipped_model_gives_its_figures_again(name: str) -> None:
    detector = transporter.load(name, "cpu")
    promised = detector.card["measured"]["figures"]
    found = evaluate(make(name, detector.config.size), detector, frames=1_500, seed=3_000_000).figures
    for figure in ("precision_ratio@1", "precision_ratio@20"):
        assert found[figure] >= promised[figure] - 0.05

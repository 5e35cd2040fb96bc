import pytest

from transporter.errors import InputError
from transporter.models.blocks import PAPER, SMALL
from transporter.models.factory import build
from transporter.training.config import preset
from transporter.training.recipes import RECIPES, configure, recipe


def made(name: str, **changes):
    return configure(name, **{"keypoints": 3, "size": 80, "steps": 3_000, "seed": 1, **changes})


def test_the_default_is_the_preset() -> None:
    same = preset("fast", keypoints=3, seed=1, steps=3_000, validate_every=150, checkpoint_every=600)
    assert made("transporter") == made("default") == same
    assert same.sigma_steps == 900


def test_zhang_is_its_authors_training_in_three_stages() -> None:
    config = made("zhang")
    assert (config.model.kind, config.model.shape, config.model.standardise) == ("zhang", PAPER, False)
    assert (config.batch, config.learning_rate, config.decay, config.decay_every) == (16, 1e-3, 0.1, 1_000)
    assert (config.model.raise_every, config.sigma_start, config.sigma_steps) == (1_000, None, 0)


def test_jakab_differs_from_the_default_in_its_kind_alone() -> None:
    ours, theirs = made("transporter").to_json(), made("jakab").to_json()
    theirs["model"]["kind"] = "transporter"
    theirs["both_ways"] = True  # which saves encoding for ours, and nothing for theirs
    assert theirs == ours
    assert made("jakab_plain").sigma(0) == 0.1


def test_parts_of_the_shape_change_alone() -> None:
    assert made("instance").model.shape.norm == "instance"
    assert made("instance").model.shape.filters == SMALL.filters
    assert made("large_decoder").model.shape.refine == (128, 64)


def test_keypoints_and_annealing_are_shares() -> None:
    assert made("twice").model.keypoints == 6
    assert made("transporter", anneal=0.5).sigma_steps == 1_500
    assert made("not_annealed", anneal=0.5).sigma_steps == 0


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_makes_a_model(name: str) -> None:
    build(made(name, size=32).model)


def test_an_unknown_recipe_is_named() -> None:
    with pytest.raises(InputError, match="no recipe named 'cake': there are transporter, jakab"):
        recipe("cake")


@pytest.mark.parametrize("changes", [{"carried": 1.5}, {"carried": -0.1}, {"carried": 0.5, "both_ways": False}])
def test_what_is_carried_is_a_share_of_both_ways(changes: dict[str, object]) -> None:
    with pytest.raises(InputError, match="carried is a share"):
        preset("fast", **changes)
    assert preset("fast", kind="jakab", carried=0.5).carried == 0.0  # a baseline has nothing to carry

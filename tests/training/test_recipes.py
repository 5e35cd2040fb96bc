import pytest

from transporter.envs import names, scene
from transporter.errors import InputError
from transporter.models.blocks import NEAR, PAPER, SMALL, WIDE
from transporter.models.factory import build
from transporter.training.config import Preset, preset
from transporter.training.recipes import RECIPES, configure, named, recipe, suited


def made(name: str, **changes):
    return configure(name, **{"keypoints": 3, "size": 80, "steps": 3_000, "seed": 1, **changes})


def test_the_default_is_the_preset() -> None:
    same = preset("fast", keypoints=3, seed=1, steps=3_000)
    assert made("transporter") == made("default") == same
    assert same.sigma_steps == 900
    assert (same.model.shape, same.model.keynet) == (NEAR, SMALL)


def test_zhang_is_its_authors_training_in_three_stages() -> None:
    config = made("zhang")
    assert (config.model.kind, config.model.shape, config.model.standardise) == ("zhang", SMALL, False)
    assert made("paper_zhang").model.shape == PAPER
    assert (config.batch, config.learning_rate, config.decay, config.decay_every) == (16, 1e-3, 0.1, 1_000)
    assert (config.model.raise_every, config.sigma_start, config.sigma_steps) == (1_000, None, 0)


def test_jakab_differs_from_features_that_reach_as_far_in_its_kind_alone() -> None:
    ours, theirs = made("far").to_json(), made("jakab").to_json()
    theirs["model"]["kind"] = "transporter"
    theirs["both_ways"] = True  # which saves encoding for ours, and nothing for theirs
    assert theirs == ours
    assert made("jakab_plain").sigma(0) == 0.1


def test_parts_of_a_shape_change_alone_and_norms_in_both_networks() -> None:
    model = made("instance").model
    assert (model.shape.norm, model.keynet.norm) == ("instance", "instance")
    assert (model.shape.filters, model.keynet.filters) == (NEAR.filters, SMALL.filters)
    assert made("far", norm="layer").model.shape.norm == "layer"
    assert made("far", norm="layer").model.keynet is None


def test_what_is_given_goes_before_what_a_recipe_says() -> None:
    assert made("twice").model.keypoints == 3
    assert made("alike", carried=0.1).carried == 0.1
    assert made("zhang+decay_every=70").decay_every == 70
    assert made("zhang+decay_every=70").model.raise_every == 1_000


def test_an_environments_recipe_gives_way_where_frames_are_of_another_size() -> None:
    assert suited("alike", "fast", 80) == "alike"
    assert suited("alike", "fast", 84) == "transporter"  # a multiple of 4, and WIDE needs one of 8
    assert suited("alike", "tiny", 80) == "transporter"
    assert named("suited+grain=2", "alike", "fast", 80) == "alike+grain=2"
    assert named("wide+grain=2", "alike", "fast", 80) == "wide+grain=2"


def test_numbers_may_follow_a_name() -> None:
    config = made("wide+carried=0.5+sigma=0.07+decay_every=70")
    assert (config.model.keynet, config.carried, config.model.sigma, config.decay_every) == (WIDE, 0.5, 0.07, 70)
    assert recipe("wide+carried=0.5").title == "Transporter, widest view, carried 0.5"
    assert recipe("wide").changes == RECIPES["wide"].changes


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("cake+sigma=1", "no recipe named 'cake': there are transporter"),
        ("wide+cake=1", "cannot change 'cake'"),
        ("wide+seed=1", "cannot change 'seed'"),
        ("wide+transport=eq1", "cannot change 'transport'"),
        ("wide+sigma=x", "'x' is no number that sigma could be"),
        ("wide+batch=1.5", "'1.5' is no number that batch could be"),
        ("wide+", "cannot change ''"),
        ("wide+carried=2", "carried is a share"),
        ("wide+decay_every=0", "cannot be"),
        ("wide+decay=nan", "cannot be"),
        ("wide+learning_rate=-1", "cannot be"),
        ("wide+learning_rate=nan", "cannot be"),
        ("wide+warmup=-1", "cannot be"),
        ("wide+sigma_start=0", "cannot shrink"),
        ("wide+sigma_start=-1", "cannot shrink"),
        ("wide+sigma_steps=-1", "cannot shrink"),
        ("wide+validation_pairs=-1", "at least 0"),
        ("wide+floor=0", "floor must be"),
        ("wide+strangers=2", "strangers is a share"),
        ("wide+carried=0.5+carried=0.6", "gives a field twice"),
        ("wide+batch=99999999999999", "batch 1 to 65,536"),
        ("wide+batch=1_0", "'1_0' is no number"),
        ("wide+carried=٠.٥", "is no number"),
    ],
)
def test_a_recipe_that_cannot_be_is_refused(name: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        made(name)


def test_every_environment_has_a_recipe() -> None:
    for name in names():
        assert scene(name).recipe in RECIPES


@pytest.mark.parametrize("base", ["paper", "fast", "tiny"])
@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_makes_a_model_of_every_preset(name: str, base: Preset) -> None:
    build(made(name, base=base, size=32).model)


def test_an_unknown_recipe_is_named() -> None:
    with pytest.raises(InputError, match="no recipe named 'cake': there are transporter, jakab"):
        recipe("cake")


@pytest.mark.parametrize("changes", [{"carried": 1.5}, {"carried": -0.1}, {"carried": 0.5, "both_ways": False}])
def test_what_is_carried_is_a_share_of_both_ways(changes: dict[str, object]) -> None:
    with pytest.raises(InputError, match="carried is a share"):
        preset("fast", **changes)
    assert preset("fast", kind="jakab", carried=0.5).carried == 0.0  # a baseline has nothing to carry

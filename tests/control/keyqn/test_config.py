"""What an agent's settings mean, and those of earlier versions."""

import json

import pytest

from transporter.control.keyqn.config import BEFORE, DEFAULT, PRESETS, EyesConfig, KeyQNConfig, ProtocolConfig
from transporter.errors import InputError


def test_random_actions_become_rare_and_then_rarer() -> None:
    protocol = ProtocolConfig(interactions=300, epsilon_steps=100, epsilon_end=0.1, epsilon_fade=0.5)
    shares = [protocol.epsilon(step) for step in (0, 50, 100, 200, 300)]
    assert shares == pytest.approx([1, 0.55, 0.1, 0.075, 0.05])
    steady = ProtocolConfig(interactions=300, epsilon_steps=100, epsilon_end=0.1, epsilon_fade=0)
    assert [steady.epsilon(step) for step in (100, 200, 300)] == pytest.approx([0.1] * 3)
    assert ProtocolConfig(interactions=100, epsilon_steps=0, epsilon_fade=1).epsilon(100) == 0


@pytest.mark.parametrize(
    ("ends", "keeps", "forgets"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_memory_begins_anew_where_a_life_ends_an_episode_unless_it_is_kept(
    ends: bool, keeps: bool, forgets: bool
) -> None:
    assert ProtocolConfig(life_loss_ends=ends, life_loss_keeps=keeps).life_loss_forgets is forgets


def test_an_earlier_version_did_without_what_it_did_not_have() -> None:
    told = json.loads(json.dumps(KeyQNConfig().to_json()))
    for part, before in BEFORE.items():
        for name in before:
            del told[part][name]
    found = KeyQNConfig.from_json(told).to_json()
    assert found != KeyQNConfig().to_json()
    assert {part: {name: found[part][name] for name in before} for part, before in BEFORE.items()} == {
        "network": {"forget": 0, "opinions": 1, "speeds": 0, "align": 1, "level_features": False, "ground": 0},
        "learning": {"priority": 0, "trace": 0, "jitter": 0, "cool": 0, "steady": 0},
        "protocol": {"epsilon_fade": 0, "life_loss_keeps": False},
    }
    told["learning"]["hope"] = True
    with pytest.raises(InputError, match="not an agent this version knows: there was a setting hope"):
        KeyQNConfig.from_json(told)


def test_the_library_begins_from_the_settings_of_the_command_line() -> None:
    assert PRESETS[DEFAULT] == KeyQNConfig()


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_eyes_learn_at_a_rate_that_is_one(rate: float) -> None:
    with pytest.raises(InputError, match="the rate of eyes must be above 0, and finite"):
        EyesConfig(rate=rate)

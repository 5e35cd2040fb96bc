"""Options as actions of an environment, and an agent that comes back from its file."""

import dataclasses
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from transporter.control.options import KeypointOptions, OptionsAgent
from transporter.control.options.choice import KEEP, MOST
from transporter.control.options.config import ActingConfig, EyesConfig, NetworkConfig, OptionsConfig
from transporter.control.options.network import OptionsNet
from transporter.errors import InputError
from transporter.models.blocks import TINY
from transporter.models.detector import Detector
from transporter.models.factory import ModelConfig

CONFIG = OptionsConfig(
    NetworkConfig(layers=((4, 4, 2),), hidden=8, memory=6, caution=0),
    acting=ActingConfig(commit=5),
    eyes=EyesConfig(size=16),
)


@pytest.fixture
def agent() -> OptionsAgent:
    """Its Q-functions are what their last layer's biases say: option j of keypoint i likes action (4i + j) mod 3."""
    torch.manual_seed(0)
    network = OptionsNet(CONFIG.network, 16, keypoints=2, actions=3)
    with torch.no_grad():
        network.head.weight.zero_()
        values = torch.zeros(8, 3)
        values[torch.arange(8), torch.arange(8) % 3] = torch.tensor([1.0, 1, 1, 1, 2, 2, 2, 2])  # 1 is controllable
        network.head.bias.copy_(values.flatten())
    detector = Detector(ModelConfig(keypoints=2, size=16, shape=TINY), device="cpu")
    return OptionsAgent(CONFIG, network, detector, {"environment": "count"})


class Count(gymnasium.Env[np.ndarray, int]):
    """Pays 1 for action 2; ends after twelve steps. A frame's brightness is the step."""

    observation_space = gymnasium.spaces.Box(0, 255, (20, 20, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        self.time = 0
        return self._frame(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.time += 1
        return self._frame(), float(action == 2), self.time == 12, False, {"action": action}

    def _frame(self) -> np.ndarray:
        return np.full((20, 20, 3), self.time, np.uint8)


def test_an_option_is_so_many_steps_and_its_reward_their_sum(agent: OptionsAgent) -> None:
    env = KeypointOptions(Count(), agent)
    assert env.action_space.n == 8  # type: ignore[attr-defined]
    env.reset(seed=0)
    frame, reward, over, _, info = env.step(2)  # likes action 2
    assert (frame[0, 0, 0], reward, over) == (5, 5.0, False)
    assert info == {"action": 2, "option_steps": 5, "option_keypoint": 0}
    assert env.step(4)[4]["action"] == 1
    frame, reward, over, _, info = env.step(5)  # the episode ends after two more steps
    assert (frame[0, 0, 0], reward, over, info["option_steps"]) == (12, 2.0, True, 2)


def test_options_of_the_most_controllable_keypoint(agent: OptionsAgent) -> None:
    env = KeypointOptions(Count(), agent, keypoints="controllable", steps=3)
    assert env.action_space.n == 4  # type: ignore[attr-defined]
    env.reset()
    _, _, _, _, info = env.step(1)
    assert info == {"action": (4 + 1) % 3, "option_steps": 3, "option_keypoint": 1}


def test_the_same_after_saving(agent: OptionsAgent, tmp_path: Path) -> None:
    agent.save(tmp_path / "options.safetensors")
    back = OptionsAgent.load(tmp_path / "options.safetensors", device="cpu")
    assert (back.config, back.card) == (agent.config, agent.card)
    frame = np.random.default_rng(0).integers(0, 255, (40, 30, 3), np.uint8)
    first, second = agent.player(), back.player()
    for asked in (MOST, KEEP, 0):
        one, other = first(frame, asked, 3), second(frame, asked, 3)
        assert [part.tolist() for part in one] == [part.tolist() for part in other]
    assert np.array_equal(agent.detector(frame[None]), back.detector(frame[None]))


def test_a_cautious_one_comes_back_as_cautious(agent: OptionsAgent, tmp_path: Path) -> None:
    """Option 1 of keypoint 0 likes action 1, which is deadly, and nothing else: the first that is left is taken."""
    config = dataclasses.replace(CONFIG, network=dataclasses.replace(CONFIG.network, caution=0.25))
    network = OptionsNet(config.network, 16, keypoints=2, actions=3)
    with torch.no_grad():
        network.head.weight.zero_()
        network.head.bias.copy_(torch.cat((agent.network.head.bias, torch.tensor([-0.1, -0.5, -0.2]))))
    OptionsAgent(config, network, agent.detector, {}).save(tmp_path / "careful.safetensors")
    careful = OptionsAgent.load(tmp_path / "careful.safetensors", "cpu")
    frame = np.zeros((20, 20, 3), np.uint8)
    chosen = [[int(of.player()(frame, 0, direction).best[0]) for direction in range(3)] for of in (agent, careful)]
    assert chosen == [[0, 1, 2], [0, 0, 2]]


def test_what_does_not_fit_is_refused(agent: OptionsAgent, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a frame must be \(H, W, 3\) uint8, not \(20, 20\)"):
        agent.player()(np.zeros((20, 20), np.uint8))
    for option in ((2, 0), (-5, 0), (0, 4), (0, -1), (1.5, 0)):
        with pytest.raises(InputError, match="2 keypoints, 4 directions"):
            agent.player()(np.zeros((20, 20, 3), np.uint8), *option)
    with pytest.raises(InputError, match="learnt with 3 actions, the environment has 2"):
        KeypointOptions(Two(), agent)
    for given, line in (
        ({"keypoints": "some"}, "not 'some'"),
        ({"steps": 1.5}, "a whole number"),
        ({"steps": 0}, "not 0"),
    ):
        with pytest.raises(InputError, match=line):
            KeypointOptions(Count(), agent, **given)
    env = KeypointOptions(Count(), agent, keypoints="controllable")
    env.reset()
    for option in (4, -1):
        with pytest.raises(InputError, match=f"no option {option}"):
            env.step(option)
    with pytest.raises(InputError, match="options need RGB frames"):
        KeypointOptions(gymnasium.make("CartPole-v1"), agent)
    with pytest.raises(InputError, match="does not exist"):
        OptionsAgent.load(tmp_path / "nowhere")
    (tmp_path / "bad").write_bytes(b"no")
    with pytest.raises(InputError, match="not an agent of the kind options"):
        OptionsAgent.load(tmp_path / "bad")


class Two(Count):
    action_space = gymnasium.spaces.Discrete(2)

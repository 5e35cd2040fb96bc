"""Options as the actions of any environment: move this keypoint that way, for T steps."""

from typing import Any, SupportsFloat, get_args

import gymnasium
import numpy as np

from transporter.control.options.agent import OptionsAgent
from transporter.control.options.choice import KEEP, MOST, Keypoints
from transporter.control.options.rewards import DIRECTIONS
from transporter.errors import InputError


class KeypointOptions(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The same environment, one step of which is an option: its reward is the sum of T steps' rewards.

    Action 4i + j moves keypoint i in direction j (right, left, down, up). With keypoints "controllable" there are four
    actions, and the most controllable keypoint (Eq. 2) is the one that moves.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        agent: OptionsAgent,
        *,
        keypoints: Keypoints = "all",
        steps: int | None = None,
    ) -> None:
        shape, count = env.observation_space.shape or (), getattr(env.action_space, "n", None)
        if len(shape) != 3 or shape[-1] != 3 or env.observation_space.dtype != np.uint8:
            raise InputError(f"options need RGB frames (height, width, 3) uint8, not {shape}")
        if count != agent.actions:
            raise InputError(f"these options were learnt with {agent.actions} actions, the environment has {count}")
        if keypoints not in get_args(Keypoints):
            raise InputError(f"options are of {' or '.join(get_args(Keypoints))} keypoints, not {keypoints!r}")
        super().__init__(env)
        self.agent, self.keypoints = agent, keypoints
        self.steps = agent.config.acting.commit if steps is None else steps
        if not isinstance(self.steps, int | np.integer) or self.steps < 1:
            raise InputError(f"an option lasts a whole number of steps, at least one, not {self.steps}")
        self.action_space = gymnasium.spaces.Discrete(len(DIRECTIONS) * (agent.keypoints if keypoints == "all" else 1))
        self._player = agent.player()
        self._frame: np.ndarray | None = None
        self._lives = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        self._frame, info = self.env.reset(seed=seed, options=options)
        self._player, self._lives = self.agent.player(), info.get("lives", 0)
        return self._frame, info

    def step(self, action: int) -> tuple[np.ndarray, SupportsFloat, bool, bool, dict[str, Any]]:
        """`steps` steps of the environment, fewer where an episode ends; info says how many, and which keypoint."""
        if self._frame is None:
            raise RuntimeError("step() before reset()")
        if not self.action_space.contains(action):
            raise InputError(f"no option {action}: there are {self.action_space}")
        keypoint, direction = divmod(int(action), len(DIRECTIONS))
        asked = keypoint if self.keypoints == "all" else MOST
        total, made, begins = 0.0, 0, True
        terminated = truncated = False
        info: dict[str, Any] = {}
        while made < self.steps and not (terminated or truncated):
            acted = self._player(self._frame, asked if begins else KEEP, direction)
            self._frame, reward, terminated, truncated, info = self.env.step(int(acted.best[0]))
            total += float(reward)
            made += 1
            lives, self._lives = self._lives, info.get("lives", 0)
            begins = self.agent.config.acting.life_loss_ends and self._lives < lives
            if begins:  # in training a lost life ended an episode: its memory begins anew here, too
                self._player = self.agent.player()
        info = {**info, "option_steps": made, "option_keypoint": int(acted.keypoint[0])}
        return self._frame, total, bool(terminated), bool(truncated), info

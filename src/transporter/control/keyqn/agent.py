"""KeyQN: a trained agent, in one file with its detector, for any environment that shows what it knows.

>>> agent = KeyQN.load("runs/keyqn-pong-keypoints/agents/pong-seed0.safetensors")
>>> agent.play(transporter.envs.make("pong", size=80), episodes=3)
"""

from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from transporter.control.keyqn.actor import Actor
from transporter.control.keyqn.config import KeyQNConfig
from transporter.control.keyqn.network import QNetwork
from transporter.control.keyqn.observe import Kind, observer
from transporter.control.rollout import Moment
from transporter.control.stored import read_agent, write_agent
from transporter.errors import InputError
from transporter.frames import one_frame
from transporter.models.detector import Detector

KIND = "keyqn"  # of agent, as files say


class KeyQN:
    """What one agent has learnt. Call it with frame after frame; `reset` before an episode."""

    def __init__(
        self,
        config: KeyQNConfig,
        kind: Kind,
        weights: Float[Tensor, "p"],
        *,
        actions: int,
        heads: int,
        slots: int = 0,
        depth: int = 0,
        detector: Detector | None = None,
        card: dict[str, Any] | None = None,
        device: str | None = None,
    ) -> None:
        """`actions` of its game among `heads`; agents that learn together share those, `slots` and `depth`."""
        self.config, self.kind, self.detector, self.card = config, kind, detector, card or {}
        self.actions, self.heads, self.slots, self.depth = actions, heads, slots, depth
        if detector is not None:
            self.device = detector.device
        else:
            self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.weights = weights.to(self.device)
        eyes = observer(kind, config.network, [detector] if detector else [], slots, depth)
        legal = torch.arange(heads, device=self.device)[None] < actions
        self._network = QNetwork(config.network, eyes.inputs(config.network), legal)
        self._eyes = eyes
        if self._network.layout.size != self.weights.numel():
            raise InputError(f"{self.weights.numel()} weights do not fit a network of {self._network.layout.size}")
        self.reset()

    def reset(self) -> None:
        """Forget everything: an episode begins."""
        self._actor = Actor(self._network, self._eyes, self.weights[None])
        self._first, self._action = True, 0
        self._shape: tuple[int, ...] = ()

    def __call__(self, view: np.ndarray, reward: float = 0.0) -> int:
        """The best action, given a frame (H, W, 3), or true objects, and the reward that the action before brought."""
        learnt = np.sign(reward) if self.config.learning.clip_rewards else reward
        one = np.ones(1, np.float32)
        seen = self._seen(view)
        moment = Moment([seen[None]], np.array([self._first]), one * float(learnt), one, one > 0, [])
        self._action = int(self._actor(moment, np.array([self._action]), moment.reward)[0])
        self._first = False
        return self._action

    def _seen(self, view: object) -> np.ndarray:
        """What is shown, refused where this agent cannot make anything of it."""
        if self.kind != "objects":
            seen = one_frame(view)
        elif isinstance(view, np.ndarray) and view.ndim == 2 and view.shape[1] == 3 and len(view) <= self.slots:
            seen = view.astype(np.float32)
        else:
            raise InputError(
                f"this agent sees true objects, {self.slots} at most: an array (n, 3) of present, x, y, as an "
                "environment in transporter.control.keyqn.games.TruthObservation shows them"
            )
        if not self._first and seen.shape != self._shape:
            raise InputError(f"an episode was begun with {self._shape}, and now there is {seen.shape}: reset() first")
        self._shape = seen.shape
        return seen

    def play(self, env: Any, episodes: int = 1, seed: int | None = None, epsilon: float = 0.001) -> list[float]:
        """Scores of full episodes. The environment takes care of frame-skip, and shows the frames after it."""
        if getattr(env.action_space, "n", None) != self.actions:
            raise InputError(f"this agent has {self.actions} actions, the environment {env.action_space}")
        if not (0 <= epsilon <= 1 and episodes >= 1):
            raise InputError(f"at least one episode, and epsilon between 0 and 1: not {episodes} and {epsilon}")
        chance = np.random.default_rng(seed)
        scores = []
        for _ in range(episodes):
            self.reset()
            view, info = env.reset(seed=seed)
            seed, score, reward, over = None, 0.0, 0.0, False
            while not over:
                best = self(view, reward)
                if chance.random() < epsilon:
                    best = self.made_to(int(chance.integers(self.actions)))
                lives = info.get("lives", 0)
                view, gained, terminated, truncated, info = env.step(best)
                reward, over = float(gained), bool(terminated or truncated)
                score += reward
                if self.loses_life(lives, info.get("lives", 0)):
                    self.reset()
            scores.append(score)
        return scores

    def made_to(self, action: int) -> int:
        """Another action was taken than the one it chose last: that is what it remembers."""
        self._action = action
        return action

    def loses_life(self, before: int, after: int) -> bool:
        """Whether its memory begins anew here: in training a lost life ended an episode."""
        return self.config.protocol.life_loss_forgets and after < before

    def save(self, path: str | Path) -> None:
        """One .safetensors file that `load` reads, detector included."""
        head = {
            "config": self.config.to_json(),
            "kind": self.kind,
            "shape": {"actions": self.actions, "heads": self.heads, "slots": self.slots, "depth": self.depth},
            "card": self.card,
        }
        write_agent(Path(path), KIND, head, {"weights": self.weights}, self.detector)

    @classmethod
    def load(cls, path: str | Path, device: str | None = None) -> Self:
        head, tensors, detector = read_agent(Path(path), KIND, device)
        try:
            return cls(
                KeyQNConfig.from_json(head["config"]), head["kind"], tensors["weights"],
                **head["shape"], detector=detector, card=head["card"], device=device,
            )  # fmt: skip
        except (KeyError, ValueError, TypeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{path} is not a KeyQN agent: {error}") from error

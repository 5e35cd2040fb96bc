"""Those who play: games side by side, each with an option that it keeps to, and all that happens put into a replay."""

from collections.abc import Callable

import numpy as np
from gymnasium.vector import VectorEnv
from jaxtyping import Int64

from transporter.control.options.actor import Actor
from transporter.control.options.choice import Commitment, epsilon_greedy, log_uniform
from transporter.control.options.config import ActingConfig
from transporter.control.options.network import OptionsNet
from transporter.control.replay import SequenceReplay
from transporter.control.rollout import Arena, Finished

AGAIN = 7_919  # a prime: games that begin again after a break are other games
MakeGames = Callable[[int], VectorEnv]


class Players:
    """Some players among all; which ones, decides their games and their ε."""

    def __init__(
        self,
        config: ActingConfig,
        make_games: MakeGames,
        network: OptionsNet,
        replay: SequenceReplay,
        seed: int,
        part: range,
        capture: bool = False,
    ) -> None:
        self.config, self.network, self.replay, self.seed = config, network, replay, seed
        self.part = part
        self.arena = Arena([make_games(len(self.part))], life_loss_ends=config.life_loss_ends)
        self._capture = capture
        # ε is a player's for good, whoever else plays.
        low, high, drawn = config.epsilon_low, config.epsilon_high, np.random.default_rng((seed, 3))
        self.epsilon = log_uniform(low, high, config.players, drawn)[self.part.start : self.part.stop]

    def begin(self, count: int, row: int = 0) -> None:
        """New games, after `count` steps since the beginning of everything; the replay is filled from this row on."""
        self.chance = np.random.default_rng((self.seed, 0, self.part.start, count))
        self.actor = Actor(self.network, len(self.part), self.replay, self._capture)
        self.actor.step = row
        among = (len(self.part), self.network.keypoints, self.config.commit)
        self.commitment = Commitment(*among, "all", self.chance)
        self.moment = self.arena.reset(self._seeds(count))
        self.taken = np.zeros(len(self.part), np.int64)

    def send(self, *, at_random: bool) -> None:
        """Look, choose and tell the games; they play on in threads of their own."""
        acted = self.actor(self.moment, self.taken, self.commitment.next(self.moment.first))
        epsilon = 1.0 if at_random else self.epsilon
        self.taken = epsilon_greedy(acted.best, epsilon, self.network.actions, self.chance)
        self.arena.send(self.taken)

    def receive(self) -> list[Finished]:
        """What the games show next, and the episodes that ended."""
        self.moment = self.arena.receive()
        return self.moment.finished

    def _seeds(self, count: int) -> Int64[np.ndarray, "n"]:
        start = (self.seed * 1_000_003 + count * AGAIN) % 2**30
        return np.arange(start + self.part.start, start + self.part.stop)

    def close(self) -> None:
        self.arena.close()

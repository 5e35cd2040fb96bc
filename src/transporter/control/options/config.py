"""What decides an exploration; every number has its source. No torch here: the command line reads it for --help."""

import dataclasses
import math
from dataclasses import dataclass, field, replace
from typing import Any

from transporter.errors import InputError
from transporter.typed import unknown


@dataclass(frozen=True)
class NetworkConfig:
    """The Q-functions: one network, K × 4 × actions outputs (§4.2.2)."""

    layers: tuple[tuple[int, int, int], ...] = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
    """Filters, kernel and stride of the convolutions (Mnih et al. 2015)."""
    hidden: int = 512
    """Units of the layer after them (Mnih et al. 2015)."""
    memory: int = 256
    """Units of the LSTM (the paper)."""
    # Without it the quickest way down is a fall, to death or not. Any end of an episode counts as a life lost.
    caution: float = 0.1
    """Options leave out actions likelier to cost the life than the safest by more than this; 0 (the paper): none."""

    def __post_init__(self) -> None:
        if not 0 <= self.caution <= 1:
            raise InputError("caution lies between 0 and 1")
        if not self.layers or min(self.hidden, self.memory, *(n for layer in self.layers for n in layer)) < 1:
            raise InputError("layers, hidden and memory must be at least 1")


@dataclass(frozen=True)
class LearningConfig:
    """How Q is learnt, by n-step Q(λ); the paper names the algorithm and leaves the numbers open."""

    batch: int = 64
    """Sequences in an update (R2D2, Kapturowski et al. 2019)."""
    burn_in: int = 8
    """Rows of each that only bring the memory up to date (R2D2: 40 of 80; options are short)."""
    unroll: int = 20
    """Rows learnt from after those: n, and the T that options last."""
    every: int = 2
    """Steps of all players for each update: with 256 players, each step is learnt from 2.5 times."""
    discount: float = 0.95
    """γ: a horizon of twenty steps, as long as an option."""
    trace: float = 0.7
    """λ."""
    watkins: bool = False
    """Cut traces where the next action was not greedy. What is greedy for one Q is not for 4K - 1 others: few stay."""
    jump: float = 0.2
    """What goes farther in a step of [-1, 1] was put elsewhere: no reward (avatars go 0.14: benchmarks/leaps.py)."""
    foresight: float = 0.99
    """With caution, γ of what is known of lost lives: Seaquest tells of one some 23 steps after it was lost."""
    rate: float = 2e-4
    """Adam's (R2D2: 1e-4)."""
    epsilon: float = 1e-6
    """Adam's; small, for rewards are: a hundredth of the screen."""
    clip: float = 10.0
    """Norm of the gradient."""
    target_rate: float = 0.005
    """Share of the online network that the frozen one takes over at each update."""

    def __post_init__(self) -> None:
        if min(self.batch, self.unroll, self.every) < 1 or self.burn_in < 0:
            raise InputError("batch, unroll and every must be at least 1, burn_in at least 0")
        if not (0 < self.discount < 1 and 0 < self.foresight < 1 and 0 <= self.trace <= 1):
            raise InputError("discount and foresight must lie between 0 and 1, the trace from 0 to 1")
        if not all(0 < number < math.inf for number in (self.rate, self.epsilon, self.clip, self.jump)):
            raise InputError("rate, epsilon, clip and jump must be above 0, and finite")
        if not 0 <= self.target_rate <= 1:
            raise InputError("target_rate lies between 0 and 1")

    @property
    def length(self) -> int:
        """Rows of a sequence: those burnt in, those learnt from, and the one whose value ends the last return."""
        return self.burn_in + self.unroll + 1


@dataclass(frozen=True)
class ActingConfig:
    """How experience is made."""

    players: int = 256
    """Games side by side (the paper: 128 actors)."""
    commit: int = 20
    """T: steps for which an option is kept (the paper)."""
    epsilon_low: float = 1e-4
    """Each player's share of random actions is log-uniform between this … (the paper)"""
    epsilon_high: float = 0.4
    """… and this (the paper)."""
    warm_up: int = 64
    """Steps of each player at random before anything is learnt."""
    replay: int = 1_000_000
    """Steps of all players that are remembered (Ape-X, Horgan et al. 2018: two million)."""
    refill: float = 0.25
    """Share of the replay that is filled again, by what was learnt, before learning goes on after a break."""
    life_loss_ends: bool = True
    """A lost life ends what is learnt as one episode: the avatar is put elsewhere, which no action did."""

    def __post_init__(self) -> None:
        if min(self.players, self.commit, self.warm_up) < 1:
            raise InputError("players, commit and warm_up must be at least 1")
        if not 0 < self.epsilon_low <= self.epsilon_high <= 1:
            raise InputError("epsilon_low and epsilon_high are shares above 0, in this order")
        if not 0 <= self.refill <= 1:
            raise InputError("refill is a share of the replay, from 0 to 1")


@dataclass(frozen=True)
class EyesConfig:
    """The Transporter that learns in the loop."""

    size: int = 80
    """Frames are size × size; the Q-functions see the same."""
    every: int = 1
    """Steps of all players for each of its updates."""
    batch: int = 64
    """Frames rebuilt in an update (the paper)."""
    offset: int = 20
    """A pair is so many steps apart at most (§4 of the paper)."""
    rate: float = 1e-3
    """Adam's, at the start (the paper) …"""
    decay: float = 0.95
    """… multiplied by this (the paper) …"""
    decay_every: int = 1_000
    """… every so many updates (the paper: 100,000): keypoints settle, and policies can rely on them."""
    sigma_steps: int = 3_000
    """Updates over which heatmaps shrink, as in the preset fast."""
    fit_every: int = 250
    """Updates after which pixels are standardised anew, while heatmaps shrink: random play has not been everywhere."""
    tiny: bool = False
    """The networks of the preset tiny, for a CPU; else of the preset fast."""

    def __post_init__(self) -> None:
        if min(self.size, self.every, self.batch, self.offset, self.decay_every, self.fit_every) < 1 or self.batch % 2:
            raise InputError("size, every, batch, offset and their kin must be at least 1, and batch even")
        if not (0 < self.rate < math.inf and 0 < self.decay <= 1 and self.sigma_steps >= 0):
            raise InputError("rate is above 0, and finite; decay a share above 0; sigma_steps at least 0")


@dataclass(frozen=True)
class EvaluationConfig:
    """What is measured while it learns."""

    episodes: int = 32
    """Of each way to play."""
    steps: int = 4_500
    """An episode is cut after so many: five minutes of play."""
    look_every: int = 10
    """Steps after which the truth is asked whether the most controllable keypoint is the avatar; 0: never, no rooms."""

    def __post_init__(self) -> None:
        if min(self.episodes, self.steps) < 1 or self.look_every < 0:
            raise InputError("episodes and steps must be at least 1, look_every at least 0")


@dataclass(frozen=True)
class OptionsConfig:
    """All of an exploration, given its game and seed."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    learning: LearningConfig = field(default_factory=LearningConfig)
    acting: ActingConfig = field(default_factory=ActingConfig)
    eyes: EyesConfig = field(default_factory=EyesConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)

    def __post_init__(self) -> None:
        if self.network.caution and not self.acting.life_loss_ends:
            raise InputError("lives that end no episode (acting.life_loss_ends) are not seen by caution: set it to 0")
        if self.capacity < max(self.learning.length, self.eyes.offset) + 2:
            raise InputError(
                f"a replay of {self.acting.replay:,} steps is too small for {self.acting.players} players: "
                f"sequences are {self.learning.length} long, pairs {self.eyes.offset} apart"
            )

    @property
    def capacity(self) -> int:
        """Rows that are remembered of each player."""
        return self.acting.replay // self.acting.players

    def share(self, learners: int) -> "OptionsConfig":
        """What one of several learners does: its players, its part of the replay and of every batch."""
        parts = {
            "players": self.acting.players, "sequences of a batch": self.learning.batch, "pairs": self.eyes.batch // 2
        }  # fmt: skip
        for name, count in parts.items():
            if count % learners:
                raise InputError(f"{count} {name} cannot be dealt out to {learners} learners alike")
        acting, replay = self.acting, self.acting.replay // learners
        return replace(
            self,
            learning=replace(self.learning, batch=self.learning.batch // learners),
            acting=replace(acting, players=acting.players // learners, replay=replay),
            eyes=replace(self.eyes, batch=self.eyes.batch // learners),
        )

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "OptionsConfig":
        try:
            layers = tuple(tuple(layer) for layer in data["network"]["layers"])
            return cls(
                # What earlier versions did not have, as they did without; and what they had.
                NetworkConfig(**{"caution": 0.0, **data["network"], "layers": layers}),
                LearningConfig(**{"foresight": 0.99, **data["learning"]}),
                ActingConfig(**data["acting"]),
                EyesConfig(**data["eyes"]),
                EvaluationConfig(**{n: v for n, v in data["evaluation"].items() if n != "watched"}),
            )
        except (KeyError, TypeError) as error:
            raise InputError(f"not an exploration this version knows: {unknown(error)}") from error

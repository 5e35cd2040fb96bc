"""What decides a KeyQN agent; every number has its source. No torch here: the command line reads it for --help."""

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, Literal

from transporter.errors import InputError
from transporter.typed import unknown

MOST_OPINIONS = 16
MOST_GROUND = 80  # as many parts as the shipped detectors' frames have pixels
TENTHS = 10  # of a training, of which games are told
LATELY = 5_000  # interactions: a point of a learning curve is the mean of the games that were over in them
MOST_LIMIT = 1e6  # rescaled: 1e12 points


@dataclass(frozen=True)
class NetworkConfig:
    """The Q-network. The paper says recurrent, thermometer code and features, and leaves the sizes open."""

    thermometer: int = 20  # thresholds per axis: four pixels of an 80×80 frame each (the paper gives none)
    motion: bool = True  # also how far each keypoint moved since the last frame (not in the paper)
    speeds: int = 8  # … thermometer-coded, too, by so many thresholds per axis
    level_features: bool = True  # to mean 0 and deviation 1: as they come, of up to 97, they drown places
    ground: int = 0  # beside keypoints, the mean of so many by so many parts of the frame: what changes unmoved; 0: not
    align: int = 8  # a keypoint takes a multiple of so many inputs: a GPU is slow with rows of an odd width
    hidden: int = 128  # units of the layers before and after the memory
    memory: int = 64  # units of the LSTM (the paper's options agent, which sees pixels, has 256: §4.2.2)
    forget: float = 0.0  # added to the forget gates: with 2, nine tenths of a memory are kept at first, with 0 half
    dueling: bool = True  # value and advantages apart (Wang et al. 2016; kept by Rainbow, SPR and BBF)
    bins: int = 51  # Q as a histogram, learnt by classification (Farebrother et al. 2024); 0: a number, by regression
    limit: float = 10.0  # the histogram's range is ±limit, after rescaling: ±117 points (C51's; Rainbow, SPR, BBF)
    opinions: int = 1  # so many last layers that learn alike; the least of what they say is believed (TD3, DrQ: 2)

    def __post_init__(self) -> None:
        counts = (self.thermometer, self.align, self.hidden, self.memory, self.opinions)
        if (
            min(counts) < 1
            or min(self.speeds, self.ground, self.bins) < 0
            or self.bins == 1
            or not 0 < self.limit <= MOST_LIMIT
        ):
            raise InputError(
                "thermometer, align, hidden, memory and opinions must be at least 1, speeds and ground at least 0, "
                f"bins 0 or at least 2, limit above 0 and at most {MOST_LIMIT:,.0f}"
            )
        if not math.isfinite(self.forget):
            raise InputError(f"forget must be a finite number, not {self.forget}")
        if self.opinions > MOST_OPINIONS:
            raise InputError(f"at most {MOST_OPINIONS} opinions, not {self.opinions}")
        if self.ground > MOST_GROUND:
            raise InputError(f"at most {MOST_GROUND} by {MOST_GROUND} parts of the ground, not {self.ground}")


@dataclass(frozen=True)
class LearningConfig:
    """How Q is fitted.

    BBF: Schwarzer et al. 2023; R2D2 and MEME: Kapturowski et al. 2019 and 2022; SR-SPR: D'Oro et al. 2023.
    """

    updates: int = 1  # per interaction (SR-SPR: 2 to 16, BBF: 2 to 8, of 32 transitions each; ours are of 8 × 16 rows)
    batch: int = 8  # sequences in an update (R2D2: 64; SPR and BBF: 32 transitions)
    burn_in: int = 8  # rows that only bring the memory up to date (R2D2: 40 of 80; our episodes are shorter)
    unroll: int = 16  # rows learnt from, after those
    rate: float = 3e-4  # Adam's (BBF and R2D2: 1e-4, for deeper networks)
    epsilon: float = 1.5e-4  # Adam's (Rainbow, SPR, BBF)
    weight_decay: float = 0.01  # decoupled (BBF: 0.1)
    clip: float = 10.0  # norm of an agent's gradient (SPR, BBF)
    target_rate: float = 0.005  # share of the online network that the frozen one takes over at each update (BBF)
    refit_every: int = 0  # instead: a whole copy every so many updates, as in neural fitted Q (Riedmiller 2005)
    trace: float = 0.95  # λ: returns go on while actions were near the best known now (Watkins, MEME); 0: n steps
    tolerance: float = 0.1  # near: less worse than this share of the mean worth of the best (MEME: 0.01, of each)
    steps_start: int = 10  # with trace 0: n after a reset (BBF) …
    steps_end: int = 10  # … and in the end (SPR; BBF: 3)
    gamma_start: float = 0.97  # discount after a reset (BBF) …
    gamma_end: float = 0.99  # … and in the end (SPR; BBF, R2D2: 0.997)
    anneal: int = 10_000  # updates from start to end (BBF)
    reset_every: int = 40_000  # updates between resets of the last layers (SR-SPR: 40,000; BBF: 20,000)
    reset_until: float = 0.5  # no reset after this share of the training: what was reset must learn again
    shrink: float = 0.8  # what the other layers keep at a reset; the rest is fresh (BBF: 0.5, on its encoder)
    clip_rewards: bool = True  # learn from the sign of a score (all of the agents above); never in evaluation
    rescale: bool = True  # learn h(Q), which brings large values closer (R2D2)
    double: bool = True  # the online network chooses, the frozen one values (van Hasselt et al. 2016)
    act_with_target: bool = True  # play with the frozen network's calmer opinion (BBF)
    priority: float = 0.0  # rows far off are drawn more often, by this power of the error (Rainbow, SPR: 0.5); 0: not
    correction: float = 0.5  # how far that is made up for in the loss (Rainbow: 0.4 rising to 1)
    jitter: float = 0.0  # keypoints are shown up to so far off while they are learnt from (cf. DrQ); 0: where they are
    cool: float = 0.0  # share of the training, its last, in which Adam's rate falls to nothing
    steady: float = 5e-4  # a mean of the weights is kept in the end, renewed by this share, more at first; 0: none

    def __post_init__(self) -> None:
        counts = (self.updates, self.batch, self.unroll, self.steps_start, self.steps_end, self.anneal)
        if min(counts) < 1 or self.burn_in < 0 or self.reset_every < 0 or self.refit_every < 0:
            raise InputError("updates, batch, unroll, steps and anneal must be at least 1, other counts at least 0")
        if not (0 < self.gamma_start < 1 and 0 < self.gamma_end < 1):
            raise InputError("discounts must lie between 0 and 1")
        if not all(0 < number < math.inf for number in (self.rate, self.epsilon, self.clip)):
            raise InputError("rate, epsilon and clip must be above 0, and finite")
        if not (0 <= self.weight_decay < math.inf and 0 <= self.target_rate <= 1 and 0 <= self.shrink <= 1):
            raise InputError("target_rate and shrink lie between 0 and 1, weight_decay is at least 0")
        if not (0 <= self.trace <= 1 and 0 <= self.tolerance < math.inf):
            raise InputError("trace lies between 0 and 1, and tolerance is at least 0")
        if not (0 <= self.priority <= 1 and 0 <= self.correction <= 1):
            raise InputError("priority and correction lie between 0 and 1")
        shares = (self.jitter, self.cool, self.steady, self.reset_until)
        if not all(0 <= share <= 1 for share in shares):
            raise InputError("jitter, cool, steady and reset_until lie between 0 and 1")

    @property
    def length(self) -> int:
        """Rows of a window: those burnt in, those learnt from, and the one whose value ends the last return."""
        return self.burn_in + self.unroll + 1

    def steps(self, since: int) -> int:
        """n so many updates after the last reset: geometric, as in BBF."""
        return round(self.steps_start * (self.steps_end / self.steps_start) ** self._share(since))

    def gamma(self, since: int) -> float:
        """γ so many updates after the last reset; the horizon 1 / (1 - γ) grows geometrically, as in BBF."""
        start, end = 1 - self.gamma_start, 1 - self.gamma_end
        return 1 - start * (end / start) ** self._share(since)

    def rate_left(self, done: int, total: int) -> float:
        """Share of the rate with which the next update of so many is made."""
        return min(1.0, (total - done) / (self.cool * total)) if self.cool else 1.0

    def _share(self, since: int) -> float:
        return min(1.0, since / self.anneal)


@dataclass(frozen=True)
class EyesConfig:
    """With --in-loop: how the Transporters go on learning (not in the paper, whose detectors stay as they are)."""

    every: int = 10  # interactions between updates of each agent's own
    first: int = 1_000  # interactions before the first
    renew: int = 5_000  # interactions after which an agent sees with what was learnt, and sees its replay anew
    settle: int = 300  # updates in which only the part that draws learns: detectors are kept without theirs
    batch: int = 32  # frames rebuilt in an update (the paper: 64)
    offset: int = 20  # a pair is so many steps apart at most (§4 of the paper)
    rate: float = 1e-4  # Adam's: a tenth of what it took to learn from nothing

    def __post_init__(self) -> None:
        if min(self.every, self.renew, self.batch, self.offset) < 1 or self.settle < 0 or self.batch % 2:
            raise InputError("every, renew, batch and offset must be at least 1, and batch even")
        if self.renew % self.every or self.first <= self.offset:
            raise InputError("renew must be a multiple of every, and first larger than offset")
        if not 0 < self.rate < math.inf:
            raise InputError(f"the rate of eyes must be above 0, and finite, not {self.rate}")


@dataclass(frozen=True)
class ProtocolConfig:
    """Atari-100k (Kaiser et al. 2020), and how the agent explores within it."""

    interactions: int = 100_000  # agent steps of four frames each
    first_updates: int = 2_000  # interactions before the first update (SPR and BBF)
    epsilon_end: float = 0.03  # share of random actions …
    epsilon_steps: int = 5_000  # … reached after so many interactions, falling linearly from 1 (SPR: 2,001; DrQ: 5,000)
    epsilon_fade: float = 1.0  # … and by the last one less by this share of itself; 1: none are left (SPR, BBF: early)
    sticky: float = 0.0  # probability that the emulator repeats the last action instead
    life_loss_ends: bool = True  # in training a lost life ends the episode; in evaluation only the memory begins anew
    life_loss_keeps: bool = False  # … which then goes on: an igloo, say, stays too
    episodes: int = 100  # of evaluation
    evaluation_epsilon: float = 0.001  # share of random actions in evaluation (SPR, BBF)

    def __post_init__(self) -> None:
        if self.interactions < 1 or self.episodes < 1 or self.first_updates < 0 or self.epsilon_steps < 0:
            raise InputError("interactions and episodes must be at least 1, first_updates and epsilon_steps at least 0")
        shares = (self.epsilon_end, self.epsilon_fade, self.evaluation_epsilon, self.sticky)
        if not all(0 <= share <= 1 for share in shares):
            raise InputError("epsilon, epsilon_fade and sticky are shares between 0 and 1")

    @property
    def life_loss_forgets(self) -> bool:
        """Whether memory begins anew where a life is lost."""
        return self.life_loss_ends and not self.life_loss_keeps

    def tenth(self, step: int) -> int:
        """In which tenth of the training an interaction is, from 0."""
        return min(TENTHS * (step - 1) // self.interactions, TENTHS - 1)

    def epsilon(self, step: int) -> float:
        """Share of random actions at an interaction."""
        done = min(1.0, step / self.epsilon_steps) if self.epsilon_steps else 1.0
        fading = max(0, step - self.epsilon_steps) / max(1, self.interactions - self.epsilon_steps)
        return (1 + (self.epsilon_end - 1) * done) * (1 - self.epsilon_fade * min(1.0, fading))


# What earlier versions did not have, as they did without.
BEFORE: dict[str, dict[str, Any]] = {
    "network": {"forget": 0.0, "opinions": 1, "speeds": 0, "align": 1, "level_features": False, "ground": 0},
    "learning": {"priority": 0.0, "trace": 0.0, "jitter": 0.0, "cool": 0.0, "steady": 0.0},
    "protocol": {"epsilon_fade": 0.0, "life_loss_keeps": False},
}


@dataclass(frozen=True)
class KeyQNConfig:
    """All of an agent, given its game, its seed and what it observes."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    learning: LearningConfig = field(default_factory=LearningConfig)
    protocol: ProtocolConfig = field(default_factory=ProtocolConfig)
    eyes: EyesConfig = field(default_factory=EyesConfig)

    @property
    def warm_up(self) -> int:
        """Interactions before the first update: enough for one window at least."""
        return max(self.protocol.first_updates, self.learning.length + 1)

    @property
    def all_updates(self) -> int:
        """Of the whole training."""
        return max(0, self.protocol.interactions - self.warm_up) * self.learning.updates

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "KeyQNConfig":
        try:
            return cls(
                NetworkConfig(**BEFORE["network"] | data["network"]),
                LearningConfig(**BEFORE["learning"] | data["learning"]),
                ProtocolConfig(**BEFORE["protocol"] | data["protocol"]),
                EyesConfig(**data.get("eyes", {})),  # version 0.1 had none
            )
        except (KeyError, TypeError) as error:
            raise InputError(f"not an agent this version knows: {unknown(error)}") from error


Preset = Literal["light", "full"]
DEFAULT: Preset = "light"
# full: larger networks and batches, which take a GPU; docs/results.md has what agents score with either.
PRESETS: dict[Preset, KeyQNConfig] = {
    "light": KeyQNConfig(),
    "full": KeyQNConfig(
        NetworkConfig(thermometer=40, speeds=20, hidden=256, memory=128),
        LearningConfig(batch=16),
    ),
}

"""What decides a training run, and the named presets."""

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, Literal

from transporter.errors import InputError
from transporter.models.blocks import NEAR, PAPER, SMALL, TINY
from transporter.models.factory import Kind, ModelConfig

BOTH_WAYS: tuple[Kind, ...] = ("transporter", "pixel")  # kinds that can rebuild both frames of a pair at once

LARGEST_BATCH = 65_536  # frames: more would only burst


@dataclass(frozen=True)
class TrainConfig:
    """Everything that decides the weights that come out, given the data set."""

    model: ModelConfig = field(default_factory=ModelConfig)
    steps: int = 1_000_000
    batch: int = 64  # frames rebuilt in a step
    both_ways: bool = False  # each frame of a pair from the other, so half as many pairs: less to encode
    carried: float = 0.0  # share of the frames rebuilt of the other frame's features alone, moved by the keypoints
    strangers: float = 0.0  # share of the pairs whose frames are of different trajectories: what lies still differs
    learning_rate: float = 1e-3
    decay: float = 0.95  # the learning rate is multiplied by this …
    decay_every: int = 100_000  # … every so many steps
    warmup: int = 0  # steps over which the learning rate rises from nothing
    sigma_start: float | None = None  # heatmaps shrink geometrically from this width to the model's σ …
    sigma_steps: int = 0  # … over so many steps
    seed: int = 0
    log_every: int = 100
    validate_every: int = 1_000
    validation_pairs: int = 512
    checkpoint_every: int = 5_000

    def __post_init__(self) -> None:
        if self.steps < 1 or not 1 <= self.batch <= LARGEST_BATCH:
            raise InputError(
                f"steps must be at least 1 and batch 1 to {LARGEST_BATCH:,}, not {self.steps} and {self.batch}"
            )
        if not 0 < self.learning_rate < math.inf or not 0 < self.decay <= 1 or self.decay_every < 1 or self.warmup < 0:
            raise InputError(
                f"a learning rate of {self.learning_rate}, times {self.decay} every {self.decay_every} steps after "
                f"{self.warmup} to warm up, cannot be"
            )
        if self.sigma_steps < 0 or not (self.sigma_start is None or 0 < self.sigma_start < 100):
            raise InputError(f"heatmaps cannot shrink from {self.sigma_start} over {self.sigma_steps} steps")
        if self.validation_pairs < 0:
            raise InputError(f"validation_pairs must be at least 0, not {self.validation_pairs}")
        if self.both_ways and (self.batch % 2 or self.model.kind not in BOTH_WAYS):
            raise InputError("both_ways needs an even batch and a transporter: the baselines gain nothing by it")
        if not 0 <= self.carried <= 1 or (self.carried and not self.both_ways):
            raise InputError(f"carried is a share, of what is rebuilt both ways: not {self.carried}")
        if not 0 <= self.strangers <= 1:
            raise InputError(f"strangers is a share of the pairs, not {self.strangers}")
        if min(self.log_every, self.validate_every, self.checkpoint_every) < 1:
            raise InputError("log_every, validate_every and checkpoint_every must be at least 1")

    @property
    def pairs(self) -> int:
        """Pairs in a step."""
        return self.batch // 2 if self.both_ways else self.batch

    def sigma(self, step: int) -> float:
        """Width of the heatmaps at a step."""
        if self.sigma_start is None or step >= self.sigma_steps:
            return self.model.sigma
        return self.sigma_start * (self.model.sigma / self.sigma_start) ** (step / self.sigma_steps)

    def rate(self, step: int) -> float:
        """Learning rate at a step."""
        rise = min(1.0, (step + 1) / self.warmup) if self.warmup else 1.0
        return rise * self.learning_rate * self.decay ** (step // self.decay_every)

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "TrainConfig":
        try:
            return cls(**{**data, "model": ModelConfig.from_json(data["model"])})
        except (KeyError, TypeError) as error:
            raise InputError(f"not a training this version knows: {error}") from error


COLLECTED_BEFORE = {"moving_camera": False}  # how pairs were collected by versions that knew of nothing else


def of_today(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of a training's run folder, with what its version did not know of as it was then: by default."""
    found = dict(settings)
    if isinstance(config := settings.get("config"), dict):
        found["config"] = TrainConfig.from_json(config).to_json()
    if isinstance(collected := settings.get("collected"), dict):
        found["collected"] = COLLECTED_BEFORE | collected
    return found


Preset = Literal["paper", "fast", "tiny"]

# paper: to the letter. fast: what works best on one GPU. tiny: what two CPU cores train while one waits.
PRESETS: dict[Preset, TrainConfig] = {
    "paper": TrainConfig(model=ModelConfig(shape=PAPER)),
    "fast": TrainConfig(
        model=ModelConfig(size=80, shape=NEAR, keynet=SMALL, standardise=True),
        steps=10_000,
        both_ways=True,
        sigma_start=0.5,
        sigma_steps=3_000,
    ),
    "tiny": TrainConfig(
        model=ModelConfig(size=48, shape=TINY, sigma=0.15, standardise=True),
        steps=900,
        batch=32,
        learning_rate=2e-3,
        sigma_start=0.6,
        sigma_steps=360,
        log_every=20,
        validate_every=100,
        validation_pairs=128,
        checkpoint_every=300,
    ),
}

# Pairs to collect for a preset where no data set is given.
PAIRS: dict[Preset, int] = {"paper": 100_000, "fast": 20_000, "tiny": 2_000}


def preset(name: Preset, **changes: Any) -> TrainConfig:
    """A preset with some fields changed; a field of the model is found by its name too.

    With other steps, heatmaps shrink over the same share of them, unless that is given as well.
    """
    base = PRESETS[name]
    if "steps" in changes and "sigma_steps" not in changes:
        changes["sigma_steps"] = base.sigma_steps * changes["steps"] // base.steps
    if changes.get("carried"):
        changes.setdefault("both_ways", True)
    if changes.get("kind", base.model.kind) not in BOTH_WAYS:
        changes |= {"both_ways": False, "carried": 0.0}
    of_model = {f.name for f in dataclasses.fields(ModelConfig)}
    model = dataclasses.replace(base.model, **{n: v for n, v in changes.items() if n in of_model})
    return dataclasses.replace(base, model=model, **{n: v for n, v in changes.items() if n not in of_model})

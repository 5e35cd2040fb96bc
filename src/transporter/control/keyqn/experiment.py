"""A whole experiment in one run folder: learn, save as it goes, keep the agents."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from transporter.control import stored
from transporter.control.keyqn.agent import KIND, KeyQN
from transporter.control.keyqn.config import KeyQNConfig
from transporter.control.keyqn.games import game
from transporter.control.keyqn.in_loop import own_copies
from transporter.control.keyqn.observe import Kind, Observer, observer
from transporter.control.keyqn.training import Game, Training
from transporter.envs import atari
from transporter.errors import InputError
from transporter.models.detector import Detector
from transporter.runs import Json, Run
from transporter.training.learner import Hardware

LOOKS: tuple[Kind, ...] = ("keypoints", "points", "features")  # kinds that need a detector
FRAME = 80  # side of the frames of agents without a detector


@dataclass(frozen=True)
class Experiment:
    """Games × seeds that learn together from one kind of observation."""

    games: tuple[str, ...]
    seeds: tuple[int, ...]
    kind: Kind
    config: KeyQNConfig
    detectors: dict[str, Detector] = field(default_factory=dict)  # by game, where the kind needs them
    in_loop: bool = False  # each agent's detector goes on learning, from its own frames

    def __post_init__(self) -> None:
        if self.in_loop and self.kind not in LOOKS:
            raise InputError(f"only detectors can go on learning: {self.kind} have no detector to teach")
        if self.config.learning.jitter and self.kind in ("features", "pixels"):
            raise InputError(f"jitter is of places: {self.kind} have none")
        if self.config.protocol.life_loss_keeps and not self.config.protocol.life_loss_ends:
            raise InputError("life_loss_keeps is of lost lives that end an episode: without life_loss_ends none does")
        if self.config.network.ground and self.kind not in LOOKS:
            raise InputError(f"ground is seen beside keypoints: {self.kind} have none")

    @property
    def agents(self) -> list[tuple[str, int]]:
        return [(name, seed) for name in self.games for seed in self.seeds]

    @property
    def slots(self) -> int:
        """Room for the objects of every game, where they are what is observed."""
        return max(len(atari.scene(name).objects) for name in self.games) if self.kind == "objects" else 0

    def make_games(self) -> list[Game]:
        sticky = self.config.protocol.sticky
        groups = [(seed,) for seed in self.seeds] if self.in_loop else [self.seeds]
        return [game(name, seeds, self.kind, self._size(name), sticky) for name in self.games for seeds in groups]

    def observer(self) -> Observer:
        """For an arena with these games."""
        detectors: list[Detector] = []
        if self.in_loop:
            detectors = own_copies([self.detectors[name] for name, _ in self.agents])
        elif self.kind in LOOKS:
            detectors = [self.detectors[name] for name in self.games]
        return observer(self.kind, self.config.network, detectors, self.slots)

    def training(self, hardware: Hardware) -> Training:
        return Training(self.config, self.make_games(), self.observer(), hardware, in_loop=self.in_loop)

    def _size(self, name: str) -> int:
        return self.detectors[name].config.size if name in self.detectors else FRAME


class Notices(NamedTuple):
    """Whom to tell, and whom to ask."""

    step: Callable[[int], None] = lambda step: None  # each
    row: Callable[[Json], None] = lambda row: None  # of metrics.jsonl
    again: Callable[[int], None] = lambda step: None  # games played again after a resume, up to this step
    stopping: Callable[[], bool] = lambda: False


QUIET = Notices()


def learn(
    experiment: Experiment,
    run: Run,
    hardware: Hardware,
    notices: Notices = QUIET,
    log_every: int = 1_000,
    checkpoint_every: int = 25_000,
) -> bool:
    """Train to the end and keep the agents; from the newest checkpoint where there is one. False: stopped early."""
    config = experiment.config
    if learnt(experiment, run):
        return True
    training = experiment.training(hardware)
    last = config.protocol.interactions
    try:
        if (saved := run.latest()) is not None:
            training.restore(saved, notices.again)
        run.rewind(training.count)
        since, since_count, episodes = time.perf_counter(), training.count, []
        for step, finished in training.steps():
            episodes += [[f.player, f.score, f.length] for f in finished]
            notices.step(step)
            stop = notices.stopping()
            saves = stop or (checkpoint_every and step % checkpoint_every == 0 and step < last)
            tenth_ends = config.protocol.tenth(step) < config.protocol.tenth(step + 1)
            if saves or step % log_every == 0 or step == last or tenth_ends:
                now = time.perf_counter()
                row = _row(training, step, episodes, (step - since_count) / (now - since))
                run.log(row)  # before the checkpoint: a row too many is forgotten on resume, one too few stays away
                notices.row(row)
                since, since_count, episodes = now, step, []
            if saves:
                run.save(training.checkpoint())
            if stop and step < last:
                return False
        for index, agent in enumerate(experiment.agents):
            _agent(experiment, training, index).save(agent_file(run, *agent))
    finally:
        training.close()
    return True


def _row(training: Training, step: int, episodes: list[list[float]], rate: float) -> Json:
    learner, eyes = training.learner, training.eyes
    return {
        "step": step,
        "episodes": episodes,  # agent, score, length
        "loss": [round(value, 5) for value in learner.loss.tolist()],
        "value": [round(value, 4) for value in learner.value.tolist()],
        "left_out": learner.bad.tolist(),
        "epsilon": round(training.config.protocol.epsilon(step), 4),
        "steps_per_second": round(rate, 1),
        **({"eyes_loss": [round(value, 5) for value in eyes.losses.tolist()]} if eyes else {}),
    }


def _agent(experiment: Experiment, training: Training, index: int) -> KeyQN:
    name, seed = experiment.agents[index]
    detector = training.eyes.detectors[index] if training.eyes else experiment.detectors.get(name)
    return KeyQN(
        experiment.config,
        experiment.kind,
        training.learner.kept[index].clone(),
        actions=int(training.legal[index]),
        heads=training.network.actions,
        slots=getattr(training.observer, "slots", 0),
        depth=getattr(training.observer, "depth", 0),
        detector=detector,
        card={"environment": name, "seed": seed, "interactions": training.count, "in_loop": experiment.in_loop},
        device=str(training.device),
    )


def agent_file(run: Run, name: str, seed: int) -> Path:
    return run.path / "agents" / f"{name}-seed{seed}.safetensors"


def learnt(experiment: Experiment, run: Run) -> bool:
    """Whether the training is over; InputError where an agent has been damaged since."""
    files = [agent_file(run, *agent) for agent in experiment.agents]
    if not all(file.exists() for file in files):
        return False
    for file in files:
        try:
            stored.read_agent(file, KIND, "cpu")
        except InputError as error:
            raise InputError(f"{error}; delete it, and the same command makes it anew") from None
    return True


def settings(experiment: Experiment) -> dict[str, Any]:
    """What a run folder remembers, and refuses to change."""
    return {
        "keyqn": {
            "games": list(experiment.games),
            "seeds": list(experiment.seeds),
            "observation": experiment.kind,
            "in_loop": experiment.in_loop,
        },
        "config": experiment.config.to_json(),
        "detectors": {name: stored.fingerprint(detector) for name, detector in experiment.detectors.items()},
    }


def of_today(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of a run folder, whichever version wrote them."""
    found = stored.of_today(settings)
    if "keyqn" not in found:
        return found
    return {**found, "config": KeyQNConfig.from_json(found.get("config", {})).to_json()}

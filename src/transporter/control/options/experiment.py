"""An exploration in one run folder: learn, save as it goes, measure on the way, keep what was learnt."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from gymnasium.vector import VectorEnv
from jaxtyping import Int64

from transporter import envs
from transporter.checkpoints import Checkpoint
from transporter.control import stored
from transporter.control.options.agent import KIND, OptionsAgent
from transporter.control.options.config import OptionsConfig
from transporter.control.options.evaluation import WAYS, Witness, play
from transporter.control.options.eyes import Eyes, Frozen, Learning, transporter
from transporter.control.options.study import Study
from transporter.control.options.training import Exploration, Step
from transporter.control.rollout import Arena
from transporter.control.stored import fingerprint
from transporter.errors import InputError
from transporter.models.detector import Detector
from transporter.runs import Json, Run
from transporter.training.distributed import all_of, anyone, check_same, from_first, place
from transporter.training.learner import Hardware

ATARI_REPEAT = 4  # frames of the console for each step


@dataclass(frozen=True)
class Experiment:
    """One game and one seed."""

    game: str
    seed: int
    config: OptionsConfig
    detector: Detector | None = None  # one that stays as it is; None: a Transporter learns in the loop
    keypoints: int | None = None  # K of the latter; None: what the game asks for

    @property
    def repeat(self) -> int:
        """Frames of the game for each step."""
        from transporter.envs import atari

        return ATARI_REPEAT if self.game in atari.rom_names() else 1

    @property
    def frames(self) -> int:
        """Of all players, in one step of each."""
        return self.config.acting.players * self.repeat

    def make_eyes(self, hardware: Hardware) -> Eyes:
        if self.detector is not None:
            return Frozen(self.detector, hardware)
        keypoints = self.keypoints or self.scene.keypoints
        return Learning(transporter(self.config.share(place().world).eyes, keypoints, self.seed), hardware)

    @property
    def actions(self) -> int:
        return len(self.scene.actions)

    @property
    def scene(self) -> envs.Scene:
        return envs.scene(self.game)

    def make_games(self, count: int, *, film: bool) -> VectorEnv:
        """On film where a GPU makes pictures of it, or where the truth is asked."""
        return envs.make_vector(self.game, count, self.config.eyes.size, film=film)

    def make(self, hardware: Hardware) -> Exploration:
        games = partial(self.make_games, film=hardware.resolve().type == "cuda")
        return Exploration(self.config, games, self.actions, self.make_eyes(hardware), hardware, self.seed)


class Exploring(Protocol):
    """What carries an experiment out: `Exploration` on one machine, `cluster.exploration.Spread` on many."""

    study: Study
    count: int

    def steps(self, total: int) -> Iterator[Step]: ...
    def begin_anew(self) -> None: ...
    def checkpoint(self) -> Checkpoint: ...
    def restore(self, saved: Checkpoint) -> None: ...
    def close(self) -> None: ...


Make = Callable[[Experiment, Hardware], Exploring]


class Schedule(NamedTuple):
    """In frames of the game, all players together."""

    total: int = 50_000_000
    evaluate: int = 10_000_000
    log: int = 250_000
    checkpoint: int = 5_000_000

    def steps(self, per_step: int) -> "Schedule":
        """The same in steps of every player, at least one each."""
        return Schedule(*(-(-frames // per_step) for frames in self))


class Notices(NamedTuple):
    """Whom to tell, and whom to ask."""

    row: Callable[[Json], None] = lambda row: None
    stopping: Callable[[], bool] = lambda: False


def options_file(run: Run) -> Path:
    return run.path / "options.safetensors"


def finished(experiment: Experiment, run: Run, schedule: Schedule) -> bool:
    """Whether the last row tells what was seen in the end, and the options of then are kept."""
    rows, due = run.metrics(), schedule.steps(experiment.frames).total
    if not rows or rows[-1]["step"] != due or "returns" not in rows[-1]:
        return False
    try:
        return bool(stored.read_agent(options_file(run), KIND, "cpu").head["card"]["frames"] == rows[-1]["frames"])
    except (InputError, LookupError, TypeError):
        return False


def learn(
    experiment: Experiment,
    run: Run,
    hardware: Hardware,
    schedule: Schedule,
    notices: Notices | None = None,
    make: Make | None = None,
) -> bool:
    """To the end, and keep what was learnt; from the newest checkpoint where there is one. False: stopped early.

    Of several learners the first logs, evaluates and saves.
    """
    notices, writes = notices or Notices(), place().rank == 0
    due = schedule.steps(experiment.frames)
    made: Exploring = make(experiment, hardware) if make else experiment.make(hardware)
    try:
        if (saved := run.latest()) is not None:
            made.restore(saved)
        check_same(made.count, run.path)
        if writes:
            run.rewind(made.count)
            if made.count and [row["step"] for row in run.metrics()[-1:]] != [made.count]:  # it was damaged
                _log(experiment, made, run, notices)
        if _owes(made, run, due) and not _look(experiment, made, run, notices):  # it was stopped before
            return False
        since, since_count, episodes = time.perf_counter(), made.count, []
        for step, finished in made.steps(due.total):
            episodes += [f.score for f in finished]
            stop = anyone(notices.stopping(), made.study.device)
            looks = _looks(step, due)
            saves = stop or looks or step % due.checkpoint == 0
            logs = saves or step % due.log == 0
            if logs:
                episodes = all_of(episodes)
            if logs and writes:  # before the checkpoint: a row too many is forgotten on resume
                rate = (step - since_count) * experiment.frames / (time.perf_counter() - since)
                _log(experiment, made, run, notices, episodes, frames_per_second=round(rate))
            if saves:
                made.begin_anew()
                checkpoint = made.checkpoint()  # all ask: what was not finite ends all of them
                if writes:
                    run.save(checkpoint)
            if stop or (looks and not _look(experiment, made, run, notices)):
                return False
            if logs:
                since, since_count, episodes = time.perf_counter(), step, []
        if writes and (experiment.detector is not None or isinstance(made.study.eyes, Learning)):
            _agent(experiment, made).save(options_file(run))
    finally:
        made.close()
    return True


def _looks(step: int, due: Schedule) -> bool:
    return step == due.total or step % due.evaluate == 0


def _owes(made: Exploring, run: Run, due: Schedule) -> bool:
    """Whether a look was due at this step, and the row of it does not tell what was seen: the first learner knows."""
    looks = made.count > 0 and _looks(made.count, due)
    return from_first(looks and place().rank == 0 and "returns" not in run.metrics()[-1])


def _look(experiment: Experiment, made: Exploring, run: Run, notices: Notices) -> bool:
    """The first learner evaluates, and the newest row tells of it; the others wait. False: stopped before the end."""
    stopped = False
    if place().rank == 0:
        rows = run.metrics()
        first = not any("actions" in row.get("returns", {}) for row in rows)
        found = evaluate(experiment, made, first=first, stopping=notices.stopping)
        if found is not None:
            run.amend(rows[-1] | found)
            notices.row(rows[-1] | found)
        stopped = found is None
    return not anyone(stopped, made.study.device)


def _log(
    experiment: Experiment,
    made: Exploring,
    run: Run,
    notices: Notices,
    episodes: Sequence[float] = (),
    **more: float,
) -> None:
    """A row of metrics.jsonl; nothing in it that cannot be said: a mean of no episodes is None."""
    learner, eyes, change = made.study.learner, made.study.eyes, made.study.drift()
    row: Json = {
        "step": made.count,
        "frames": made.count * experiment.frames,
        "episodes": len(episodes),
        "return": round(float(np.mean(episodes)), 3) if episodes else None,
        "loss": round(float(learner.loss), 6),
        "gaps": [round(gap, 4) for gap in learner.gaps.tolist()],
        "jumps": [round(share, 4) for share in learner.jumps.tolist()],
        "risk": round(float(learner.risk), 4),
        "forbidden": round(float(learner.forbidden), 4),
        "left_out": int(learner.bad),
        "updates": learner.done,
        "eyes_loss": round(float(eyes.loss), 5) if isinstance(eyes, Learning) else None,
        "eyes_moved": round(change.moved, 4),
        "eyes_swapped": round(change.swapped, 4),
        **more,
    }
    run.log(row)
    notices.row(row)


def evaluate(
    experiment: Experiment, made: Exploring, *, first: bool, stopping: Callable[[], bool] = lambda: False
) -> Json | None:
    """Returns of each way to play (random actions do not change: once is enough), and what the truth says.

    None: stopped early.
    """
    c, study = experiment.config, made.study
    ways, each = WAYS if first else WAYS[1:], c.evaluation.episodes
    looks = c.evaluation.look_every
    games = experiment.make_games(len(ways) * each, film=study.device.type == "cuda" or looks > 0)
    witness = Witness(games, WAYS[-1], experiment.scene, study.eyes, looks) if looks else None
    # Returns are of whole games; but what was a new beginning in training is one for memory and option here, too.
    with closing(Arena([games], life_loss_ends=c.acting.life_loss_ends)) as arena:
        steps, commit = c.evaluation.steps, c.acting.commit
        seed = (experiment.seed, made.count)
        found = play(study.network, arena, ways, commit, steps, seed, study.capture, witness, stopping)
    if found is None:
        return None
    returns = {way: [round(float(score), 3) for score in played.returns] for way, played in found.items()}
    names = [str(action) for action in experiment.scene.actions]
    taken = {way: _shares(names, played.taken) for way, played in found.items()}
    rooms = witness.rooms if witness else {}
    told = {"avatar": witness.avatar if witness else None, "rooms": rooms.get(WAYS[-1])}
    return {"returns": returns, "taken": taken, **told, "rooms_by_way": rooms}


def _shares(names: Sequence[str], counts: Int64[np.ndarray, "a"]) -> dict[str, float]:
    """Of all that was done, by name."""
    return dict(zip(names, (counts / counts.sum()).round(4).tolist(), strict=True))


def _agent(experiment: Experiment, made: Exploring) -> OptionsAgent:
    eyes = made.study.eyes
    detector = eyes.detector() if isinstance(eyes, Learning) else experiment.detector
    assert detector is not None
    card = {"environment": experiment.game, "seed": experiment.seed, "frames": made.count * experiment.frames}
    return OptionsAgent(experiment.config, made.study.network, detector, card)


def settings(experiment: Experiment) -> dict[str, Any]:
    """What a run folder remembers, and refuses to change; how long it lasts, and when it is measured, may change."""
    of = {"game": experiment.game, "seed": experiment.seed, "keypoints": experiment.keypoints}
    detector = fingerprint(experiment.detector) if experiment.detector else None
    return of_today({"explore": of, "config": experiment.config.to_json(), "detector": detector})


def of_today(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of a run folder, whichever version wrote them; how often it is looked at binds nobody."""
    found = stored.of_today(settings)
    if "explore" not in found:
        return found
    config = OptionsConfig.from_json(found.get("config", {})).to_json()
    del config["evaluation"]["look_every"]
    return {**found, "config": config}

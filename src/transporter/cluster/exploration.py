"""The learner among workers: asks for chunks, keeps each exactly once, learns as often as one machine would.

Of several learners (torchrun) each has its own workers, and keeps what they send: its part of the replay.

A worker that dies is replaced at once by one that stands by, with new games, and is made anew by Ray to stand by in
turn. What it was asked for and did not deliver is counted as lost and asked for again; what it delivered is kept.
Where a new life begins, the replay is told that an episode was cut short.
"""

import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import ray
import torch

from transporter.checkpoints import Checkpoint
from transporter.cluster.processes import Watch
from transporter.cluster.worker import Chunk, Published, Role, Worker
from transporter.control.options.experiment import Experiment
from transporter.control.options.study import Study
from transporter.control.options.training import Step
from transporter.control.rollout import Finished
from transporter.errors import InputError
from transporter.training.distributed import everyone, place
from transporter.training.learner import Hardware

IN_FLIGHT = 2  # chunks that a worker has been asked for: it plays one while the other is on its way
PUBLISH_EVERY = 10  # updates between new weights
PATIENCE, PAUSE = 120.0, 0.2  # seconds that a worker may fail for, without a chunk, and between two tries
LOOK = 0.1  # seconds between looks whether a worker's process has ended
MOMENT = 1.0  # seconds for the one that stands by to answer
STORE = 256 * 2**20  # bytes of shared memory, where we start Ray ourselves: chunks on their way, nothing more


class Counts(NamedTuple):
    """Chunks; asked = taken + lost + those still on their way."""

    asked: int
    taken: int
    lost: int


class LostWorkerError(RuntimeError):
    """A worker that cannot be brought back."""


class Spread:
    """An exploration whose players are elsewhere; the rest is as on one machine."""

    def __init__(
        self, experiment: Experiment, hardware: Hardware, workers: int, address: str = "local", rows: int = 20
    ) -> None:
        self.rank, learners = place()
        players = experiment.config.acting.players
        if workers < 1 or players % workers:
            raise InputError(f"{players} players cannot be dealt out to {workers} workers alike")
        if workers % learners:
            raise InputError(f"{workers} workers cannot be dealt out to {learners} learners alike")
        if rows >= experiment.config.capacity:
            raise InputError(f"a replay of {experiment.config.capacity} rows has no room for chunks of {rows}")
        eyes, share = experiment.make_eyes(hardware), experiment.config.share(learners)
        self.study = Study(share, experiment.actions, eyes, hardware, experiment.seed)
        self.count, self.rows, self._all_ready = 0, rows, False
        workers //= learners  # this learner's own
        self._begun = not ray.is_initialized()
        if self._begun:
            _begin(address, workers)
        each = share.acting.players // workers
        self.parts = [range(i * each, (i + 1) * each) for i in range(workers)]  # of this learner's players
        of = (experiment.game, experiment.config, eyes.keypoints, experiment.seed, rows)
        first = self.rank * share.acting.players
        among_all = [range(first + part.start, first + part.stop) for part in self.parts]
        self.roles = [Role(i, part, *of) for i, part in enumerate(among_all)]
        remote = ray.remote(Worker)
        lasting = {"max_restarts": -1, "max_task_retries": 0}
        self._here = self._begun and address == "local"  # elsewhere the number of a process says nothing
        learner = os.getpid() if self._here else None
        self.workers: list[Any] = [remote.options(**lasting, num_cpus=1).remote(learner) for _ in self.roles]
        self.spare: Any = remote.options(**lasting, num_cpus=0).remote(learner)  # stands by: it needs no core for that
        self.asked, self.taken, self.lost = 0, 0, 0
        self._due: list[deque[Any]] = [deque() for _ in self.workers]
        self._last: list[tuple[str, int]] = [("", -1)] * workers  # life and serial of the chunk taken last
        self.processes = [0] * workers  # and the process that it came from
        self._watches: list[Watch | None] = [None] * workers
        self._heard = [time.monotonic()] * workers
        self._published: tuple[int, Any] | None = None
        self._played = 0  # rows of all players since this process began

    @property
    def counts(self) -> Counts:
        return Counts(self.asked, self.taken, self.lost)

    def steps(self, total: int) -> Iterator[Step]:
        """From here until all players together have made `total` steps each; learning is spread over them evenly."""
        finished: list[Finished] = []
        base, players = self.count, self.study.config.acting.players
        while self.count < total:
            finished += self._receive()
            while self.count < min(total, base + self._played // players):
                self._keep_busy()  # learning takes its time: whoever takes over plays meanwhile
                # Learners begin together, and from then on learn at the same steps: none is ever ahead of another.
                self._all_ready = self._all_ready or everyone(self.study.ready, self.study.device)
                if self._all_ready:
                    self.study.learn(self.count)
                self.count += 1
                yield Step(self.count, finished)
                finished = []

    def _receive(self) -> list[Finished]:
        """The next chunk, from whichever worker has one; workers have enough to do."""
        since = time.monotonic()
        ready: list[Any] = []
        while not ready:
            if time.monotonic() - since > PATIENCE:
                raise LostWorkerError(f"no worker has answered for {PATIENCE:.0f} seconds")
            self._keep_busy()
            # Of one worker, in the order of asking. Ray names the first that is ready: who has waited longest is first.
            longest = sorted(range(len(self.workers)), key=lambda index: self._heard[index])
            heads = {self._due[index][0]: index for index in longest}
            ready, _ = ray.wait(list(heads), num_returns=1, timeout=LOOK)
        index = heads[ready[0]]
        try:
            chunk: Chunk = ray.get(ready[0])
        except ray.exceptions.RayActorError as error:  # it died, or is not back yet
            if time.monotonic() - self._heard[index] > PATIENCE:
                raise LostWorkerError(f"worker {index} does not come back: {str(error).splitlines()[0]}") from error
            self._hand_on(index)
            return []
        except ray.exceptions.RayTaskError as error:  # it lives, but cannot do what it was asked: nor could another
            raise LostWorkerError(f"worker {index} cannot play: {str(error).strip().splitlines()[-1]}") from error
        self._due[index].popleft()
        self._heard[index] = time.monotonic()
        return self._take(chunk)

    def _keep_busy(self) -> None:
        """Every worker is asked for some chunks, and the role of one whose process has ended goes to another."""
        for index, (watch, due) in enumerate(zip(self._watches, self._due, strict=True)):
            # What it delivered before it ended is ready, and is taken first.
            if watch is not None and watch.ended() and not (due and ray.wait([due[0]], timeout=0)[0]):
                self._hand_on(index)
            while len(due) < IN_FLIGHT:
                self._ask(index)

    def _hand_on(self, index: int) -> None:
        """The role of a worker that died goes to the one that stands by; without one, to whom Ray makes anew."""
        self.lost += len(self._due[index])
        self._due[index].clear()
        self._watch(index, None)
        self.roles[index] = self.roles[index]._replace(term=self.roles[index].term + 1)
        if self._stands_by():
            self.workers[index], self.spare = self.spare, self.workers[index]
        else:
            time.sleep(PAUSE)

    def _stands_by(self) -> bool:
        try:
            ready, _ = ray.wait([self.spare.here.remote()], timeout=MOMENT)
            ray.get(ready)
            return len(ready) == 1
        except ray.exceptions.RayActorError:  # it is being made anew itself
            return False

    def _ask(self, index: int) -> None:
        at_random = self.study.knows_nothing
        request = self.workers[index].play.remote(self.roles[index], self._weights(), self.count, at_random)
        self._due[index].append(request)
        self.asked += 1

    def _weights(self) -> Any:
        """A reference to the newest weights: put into the object store once, fetched by each machine once."""
        done = self.study.learner.done
        if self._published is None or done >= self._published[0] + PUBLISH_EVERY:
            weights = [p.detach().cpu().numpy().copy() for p in self.study.network.parameters()]
            self._published = done, ray.put(Published(done, weights))
        return self._published[1]

    def _take(self, chunk: Chunk) -> list[Finished]:
        """Into the replay, copied out of the object store, exactly once and in order."""
        part, (life, serial) = self.parts[chunk.worker], self._last[chunk.worker]
        goes_on = chunk.life == life
        if chunk.serial != (serial + 1 if goes_on else 0):
            raise LostWorkerError(f"worker {chunk.worker} sent chunk {chunk.serial} after {serial}")
        players, at = slice(part.start, part.stop), int(self.study.rows[part.start])
        if not goes_on and at:  # nothing follows the last row of the life before
            self.study.replay.real[players, (at - 1) % self.study.replay.capacity] = False
        self.study.replay.put(players, at, {name: torch.tensor(t) for name, t in chunk.tensors.items()})
        self.study.rows[players] += self.rows
        if not goes_on and self._here:
            self._watch(chunk.worker, Watch(chunk.process))
        self._last[chunk.worker], self.processes[chunk.worker] = (chunk.life, chunk.serial), chunk.process
        self._played += self.rows * len(part)
        self.taken += 1
        return [f._replace(player=f.player + part.start) for f in chunk.finished]

    def _watch(self, index: int, watch: Watch | None) -> None:
        if (before := self._watches[index]) is not None:
            before.close()
        self._watches[index] = watch

    def begin_anew(self) -> None:
        """Games go on: without a kept replay, what comes back after a break begins otherwise in any case."""

    def checkpoint(self) -> Checkpoint:
        """The same as one machine's: either goes on from the other's."""
        return self.study.checkpoint(self.count)

    def restore(self, saved: Checkpoint) -> None:
        self.study.restore(saved)
        self.count, self._published, self._all_ready = saved.step, None, False

    def close(self) -> None:
        for index in range(len(self._watches)):
            self._watch(index, None)
        for worker in (*self.workers, self.spare):
            ray.kill(worker)
        if self._begun:
            ray.shutdown()


def _begin(address: str, workers: int) -> None:
    handler = signal.getsignal(signal.SIGTERM)
    try:
        if address != "local":
            _join(address)
            return
        # Workers may be more than cores: what they may use is theirs to share.
        ray.init(
            address="local", num_cpus=workers, object_store_memory=STORE, include_dashboard=False, log_to_driver=False
        )
    finally:
        if threading.current_thread() is threading.main_thread():  # Ray takes SIGTERM, which would end all unsaved
            signal.signal(signal.SIGTERM, handler)


def _join(address: str) -> None:
    try:
        ray.init(address, log_to_driver=False)
    except (ConnectionError, ValueError) as error:
        raise InputError(f"no Ray at {address}: {str(error).splitlines()[0]}") from error

"""Exploration without reward on one machine: players and learners in one process, one after the other in one loop.

A step: look and act (GPU), send the actions, learn while the emulators work in their threads, receive. The GPU's work
is queued, never waited for, until the next actions are needed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from transporter.checkpoints import Checkpoint
from transporter.control.options.config import OptionsConfig
from transporter.control.options.eyes import Eyes
from transporter.control.options.players import MakeGames, Players
from transporter.control.options.study import Study
from transporter.control.rollout import Finished
from transporter.training.distributed import place
from transporter.training.learner import Hardware


class Step(NamedTuple):
    """One step of every player."""

    number: int  # counts from 1
    finished: list[Finished]


class Exploration:
    """Everything that changes while it learns, and one way forward: `for step in exploration.steps(…)`."""

    def __init__(
        self,
        config: OptionsConfig,
        make_games: MakeGames,
        actions: int,
        eyes: Eyes,
        hardware: Hardware,
        seed: int = 0,
    ) -> None:
        rank, world = place()
        share = config.share(world)
        self.study = Study(share, actions, eyes, hardware, seed)
        each = share.acting.players
        of = (self.study.network, self.study.replay, seed, range(rank * each, (rank + 1) * each))
        self.players = Players(config.acting, make_games, *of, self.study.capture)
        self.count = 0  # steps of each player, since the beginning
        self.players.begin(self.count)

    def steps(self, total: int) -> Iterator[Step]:
        """From here until every player has made `total` steps."""
        study, players = self.study, self.players
        while self.count < total:
            # Whether to learn is asked before the row is there: the first update comes after warm_up whole steps.
            learns = study.ready
            players.send(at_random=study.knows_nothing)
            study.rows[:] = players.actor.step
            if learns:
                study.learn(self.count)  # while the games move
            finished = players.receive()
            self.count += 1
            yield Step(self.count, finished)

    def begin_anew(self) -> None:
        """Before a checkpoint with the replay: all games begin anew, as they do after a break, for they cannot be kept.

        What goes on and what comes back then do the same, to the bit.
        """
        if self.study.keeps:
            self.players.begin(self.count, int(self.study.rows[0]))

    def checkpoint(self) -> Checkpoint:
        """What was learnt; where the replay is kept, all that decides what comes next once games have begun anew."""
        return self.study.checkpoint(self.count, replay=self.study.keeps)

    def restore(self, saved: Checkpoint) -> None:
        """Go on from what was learnt, with new games."""
        self.study.restore(saved)
        self.count = saved.step
        self.players.begin(self.count, int(self.study.rows[0]))

    def close(self) -> None:
        self.players.close()


@contextmanager
def exploration(
    config: OptionsConfig,
    make_games: MakeGames,
    actions: int,
    eyes: Eyes,
    hardware: Hardware | None = None,
    seed: int = 0,
) -> Iterator[Exploration]:
    """An Exploration whose games are closed in the end."""
    made = Exploration(config, make_games, actions, eyes, hardware or Hardware(), seed)
    try:
        yield made
    finally:
        made.close()

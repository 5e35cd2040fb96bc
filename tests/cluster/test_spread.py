"""Players in processes of their own, some of which are killed: nothing is lost that arrived, nothing comes twice."""

import dataclasses
import os
import signal
import time

import numpy as np
import pytest

pytest.importorskip("ray")

from transporter.cluster.exploration import LostWorkerError, Spread, _begin
from transporter.cluster.worker import Chunk
from transporter.control.options.experiment import Experiment
from transporter.errors import InputError
from transporter.training.learner import Hardware

from .conftest import SMALL

CPU = Hardware("cpu")


@pytest.mark.timeout(280)
def test_a_worker_that_is_killed_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    made = Spread(Experiment("sprites_control", 0, SMALL), CPU, workers=2, rows=10)
    try:
        lives: list[str] = []  # of the second worker; each of the first three ends by force
        learning_since = 0
        for step, _ in made.steps(100_000):
            if made.study.learner.done and not learning_since:
                learning_since = step
            life = made._last[1][0]
            if life and life not in lives and made.study.ready:
                lives.append(life)
                if len(lives) == 4:
                    break
                os.kill(made.processes[1], signal.SIGKILL)
            if life in lives:
                time.sleep(0.05)  # leave the cores to the one that is being made anew
        counts = made.counts
        assert counts.lost >= 3
        assert counts.asked == counts.taken + counts.lost + sum(len(due) for due in made._due)
        assert int(made.study.rows.sum()) == counts.taken * 10 * 4  # every chunk that arrived is kept, once
        assert made.study.learner.done == made.count - learning_since + 1  # one update a step, through all of it
        # Where a life ended, an episode was cut short: a first row follows a row that leads nowhere.
        replay, rows = made.study.replay, made.study.rows
        for player in range(8):
            ring = np.arange(max(1, rows[player] - replay.capacity + 1), rows[player]) % replay.capacity
            begins = ring[replay.first[player, ring].numpy()]
            before = (begins - 1) % replay.capacity
            assert not (replay.real[player, before] & (replay.discount[player, before] > 0)).any()
        saved = made.checkpoint()
    finally:
        made.close()
    again = Experiment("sprites_control", 0, SMALL).make(CPU)  # one machine goes on from there
    again.restore(saved)
    assert (again.count, again.study.learner.done) == (made.count, made.study.learner.done)
    again.close()


def test_what_comes_twice_or_out_of_order_is_refused() -> None:
    made = object.__new__(Spread)
    made.parts, made._last = [range(4)], [("a", 4)]
    for life, serial in (("a", 4), ("a", 6), ("b", 1)):
        with pytest.raises(RuntimeError, match="worker 0 sent chunk"):
            made._take(Chunk(0, 1, life, serial, 0, {}, []))


def test_what_cannot_be_dealt_out_is_refused() -> None:
    with pytest.raises(InputError, match="8 players cannot be dealt out to 3 workers"):
        Spread(Experiment("sprites_control", 0, SMALL), CPU, workers=3)
    small = dataclasses.replace(SMALL, acting=dataclasses.replace(SMALL.acting, replay=8 * 15))
    with pytest.raises(InputError, match="no room for chunks of 20"):
        Spread(Experiment("sprites_control", 0, small), CPU, workers=2)


@pytest.mark.timeout(120)
def test_a_worker_that_cannot_make_its_games_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    made = Spread(Experiment("sprites_control", 0, SMALL), CPU, workers=1)
    made.roles[0] = made.roles[0]._replace(game="no_such_game")
    try:
        with pytest.raises(LostWorkerError, match=r"^worker 0 cannot play: .*no_such_game") as found:
            next(made.steps(10))
    finally:
        made.close()
    assert len(str(found.value).splitlines()) == 1


def test_only_a_cluster_elsewhere_can_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ValueError("too little memory\nand more")

    monkeypatch.setattr("ray.init", refuse)
    with pytest.raises(InputError, match=r"^no Ray at 10\.0\.0\.1:6379: too little memory$"):
        _begin("10.0.0.1:6379", 1)
    with pytest.raises(ValueError, match=r"^too little memory"):
        _begin("local", 1)

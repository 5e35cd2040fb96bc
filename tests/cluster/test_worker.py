"""A worker's chunks, without Ray: what they hold is what one process would have kept."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from transporter.cluster.worker import Published, Role, Worker
from transporter.control.options.players import Players
from transporter.control.replay import SequenceReplay
from transporter.envs import make_vector
from transporter.errors import InputError

from .conftest import SMALL


def role(rows: int) -> Role:
    return Role(1, range(4, 8), "sprites_control", SMALL, 3, 0, rows)


def test_chunks_one_after_another_are_what_one_process_would_have_kept() -> None:
    worker = Worker()
    worker.become(role(rows=7))
    weights = Published(3, [np.full(tuple(p.shape), 0.01, np.float32) for p in worker.network.parameters()])
    chunks = [worker.play(role(rows=7), weights, step=0, at_random=False) for _ in range(3)]
    assert [(c.worker, c.serial, c.version) for c in chunks] == [(1, 0, 3), (1, 1, 3), (1, 2, 3)]
    assert len({c.life for c in chunks}) == 1
    whole = SequenceReplay(4, 30, (16, 16, 3), torch.uint8, 6, torch.device("cpu"))
    alone = Players(
        SMALL.acting, lambda n: make_vector("sprites_control", n, 16), worker.network, whole, 0, range(4, 8)
    )
    alone.begin(0)
    for _ in range(22):  # what became of row 20 is told with row 21
        alone.send(at_random=False)
        alone.receive()
    kept = SequenceReplay(4, 30, (16, 16, 3), torch.uint8, 6, torch.device("cpu"))
    for index, chunk in enumerate(chunks):
        kept.put(slice(0, 4), 7 * index, {name: torch.tensor(t) for name, t in chunk.tensors.items()})
    for name, tensor in kept.tensors(21).items():
        assert torch.equal(tensor, whole.tensors(21)[name]), name


def test_a_role_that_cannot_be_taken_is_refused_each_time_and_the_one_before_begins_anew() -> None:
    worker = Worker()
    worker.become(role(rows=2))
    weights = Published(0, [p.numpy().copy() for p in worker.network.parameters()])
    life = worker.play(role(rows=2), weights, step=0, at_random=True).life
    for _ in range(2):
        with pytest.raises(InputError, match="no_such_game"):
            worker.play(role(rows=2)._replace(game="no_such_game"), weights, step=0, at_random=True)
    again = worker.play(role(rows=2), weights, step=0, at_random=True)
    assert again.life != life
    assert again.serial == 0


@pytest.mark.parametrize("told", [True, False], ids=["told by the system", "looking itself"])
def test_a_worker_ends_with_its_learner(told: bool) -> None:
    """Which need not be its parent: between them is Ray, which may live on for a while."""
    learner = subprocess.Popen(["sleep", "100"])
    code = f"""import os
from transporter.cluster.worker import Worker
if not {told} and hasattr(os, "pidfd_open"):
    del os.pidfd_open
Worker(learner={learner.pid})
print("here", flush=True)
os.read(0, 1)"""
    worker = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert worker.stdout
    try:
        assert worker.stdout.readline() == "here\n"
        assert worker.poll() is None
        learner.kill()
        learner.wait()
        assert worker.wait(10.0) == 1
    finally:
        for process in (learner, worker):
            process.kill()
        worker.communicate()

"""Environments in processes: what is told to all of a group is heard by whoever started them, and by nobody else."""

import os
import signal
from functools import partial

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from transporter.envs import make
from transporter.envs.processes import DEAF_TO, Processes, WorkerDiedError


def started(count: int, context: str = "fork") -> Processes:
    builders = [partial(make, "sprites", 16)] * count
    return Processes(builders, context=context, autoreset_mode=AutoresetMode.NEXT_STEP)


@pytest.mark.parametrize("context", ["spawn", "fork"])
def test_they_leave_the_end_to_the_one_who_started_them(context: str) -> None:
    env = started(2, context)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) & DEAF_TO == set()
    env.reset(seed=0)
    for process in env.processes:
        for name in DEAF_TO:
            os.kill(process.pid, name)
    for _ in range(3):
        env.step(np.zeros(2, np.int64))
    env.close()
    assert not any(process.is_alive() for process in env.processes)


@pytest.mark.timeout(60)
def test_all_of_them_end_where_one_is_gone_or_someone_will_not_wait() -> None:
    env = started(2)
    env.reset(seed=0)
    os.kill(env.processes[1].pid, signal.SIGKILL)
    with pytest.raises(WorkerDiedError, match="ended with code -9"):
        env.step(np.zeros(2, np.int64))
    assert not any(process.is_alive() for process in env.processes)
    other = started(1)
    other.close(terminate=True)
    assert not other.processes[0].is_alive()

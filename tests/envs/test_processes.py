"""Environments in processes: a stop is for whoever started them, and they end with the one who did."""

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from transporter.envs import make
from transporter.envs.processes import Processes, WorkerDiedError


def started(count: int = 2, context: str = "fork") -> Processes:
    builders = [partial(make, "sprites", 16)] * count
    return Processes(builders, context=context, autoreset_mode=AutoresetMode.NEXT_STEP)


@pytest.mark.parametrize("context", ["spawn", "fork"])
def test_what_is_told_to_a_group_is_not_told_to_them(context: str) -> None:
    env = started(context=context)
    env.reset(seed=0)
    assert not {os.getpgid(process.pid) for process in env.processes} & {os.getpgid(0)}
    env.step(np.zeros(2, np.int64))
    env.close()
    assert not any(process.is_alive() for process in env.processes)


TOLD_WHILE_STARTING = """
import os, signal
from functools import partial
from transporter.envs import make
from transporter.envs.processes import Processes

STOPS = signal.SIGINT, signal.SIGTERM

def told():
    for stop in STOPS:
        os.killpg(0, stop)
    return partial(make, "sprites", 16)

class Told:
    "Whoever is given it tells its group to stop: a process before it begins."
    def __call__(self):
        return make("sprites", 16)
    def __reduce__(self):
        return told, ()

if __name__ == "__main__":
    heard = set()
    for stop in STOPS:
        signal.signal(stop, lambda number, frame: heard.add(number))
    env = Processes([Told()] * 2, context="spawn")
    env.reset(seed=0)
    env.close()
    print(heard == set(STOPS))
"""


def test_what_is_told_to_a_group_while_they_start_is_told_to_who_starts_them(tmp_path: Path) -> None:
    script = tmp_path / "plays.py"
    script.write_text(TOLD_WHILE_STARTING)
    command = [sys.executable, str(script)]
    ended = subprocess.run(command, start_new_session=True, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout) == (0, "True\n"), ended.stderr


def test_all_of_them_end_where_one_is_gone() -> None:
    env = started()
    env.reset(seed=0)
    os.kill(env.processes[1].pid, signal.SIGKILL)
    with pytest.raises(WorkerDiedError, match="ended with code -9"):
        env.step(np.zeros(2, np.int64))
    env.close()
    assert not any(process.is_alive() for process in env.processes)


@pytest.mark.timeout(60)
def test_a_stop_within_a_step_ends_them() -> None:
    env = started()
    env.reset(seed=0)
    os.kill(env.processes[1].pid, signal.SIGSTOP)  # the other answers
    env.step_async(np.zeros(2, np.int64))
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(KeyboardInterrupt):
            env.step_wait()
    finally:
        signal.signal(signal.SIGALRM, before)
    env.close()
    assert not any(process.is_alive() for process in env.processes)


class Broken(gymnasium.Env):
    """Fails as soon as it is to begin."""

    observation_space, action_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(2)

    def reset(self, **given: object) -> tuple[int, dict]:
        raise ValueError("it cannot begin")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_went_wrong_in_one_of_them_is_said() -> None:
    env = Processes([Broken] * 2, context="fork", autoreset_mode=AutoresetMode.NEXT_STEP)
    with pytest.raises(ValueError, match="it cannot begin"):
        env.reset()
    for process in env.processes:
        process.join(5)
    assert not any(process.is_alive() for process in env.processes)
    env.close()


def test_a_program_that_does_not_close_them_ends(tmp_path: Path) -> None:
    script = tmp_path / "plays.py"
    script.write_text(
        "from functools import partial\n"
        "from transporter.envs import make\n"
        "from transporter.envs.processes import Processes\n"
        "env = Processes([partial(make, 'sprites', 16)], context='fork')\n"
        "env.reset(seed=0)\n"
        "raise ValueError('oh')\n"
    )
    ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == "ValueError: oh"

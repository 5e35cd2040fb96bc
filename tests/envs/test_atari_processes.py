import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest
import torch

from transporter import envs
from transporter.control.gpu import Delivery
from transporter.control.rollout import Arena
from transporter.envs import atari
from transporter.envs.atari import AtariEnv
from transporter.envs.atari_processes import AtariProcesses
from transporter.envs.base import Truth
from transporter.envs.film import COLOURS, Film, develop
from transporter.envs.processes import DEAF_TO, WorkerDiedError
from transporter.errors import InputError


@pytest.fixture
def vector() -> Iterator[AtariProcesses]:
    made = AtariProcesses("breakout", 3, workers=2)
    yield made
    made.close()


def same_truth(found: Truth, each: list[Truth]) -> None:
    np.testing.assert_array_equal(found.present, [one.present for one in each])
    np.testing.assert_array_equal(found.centres, [one.centres for one in each])


@pytest.mark.parametrize("name", atari.SCENES)
def test_the_games_we_know_have_the_usual_colours(name: str) -> None:
    env = AtariEnv(name, 1)
    rng = np.random.default_rng(0)
    for step in range(300):
        env.play(int(rng.integers(env.action_space.n)))
        if step % 10 == 0:
            np.testing.assert_array_equal(COLOURS[env.film[1]], env.ale.getScreenRGB())
        if any(env.ended()):
            env.begin()


def test_games_of_unknown_colours_are_not_filmed() -> None:
    env = AtariEnv("air_raid", 16)  # its numbers are odd, too
    env.reset(seed=0)
    np.testing.assert_array_equal(env.screens[1], env.ale.getScreenRGB())
    assert isinstance(envs.make_vector("air_raid", 1, 16, film=True), atari.AtariVector)


def test_film_shows_what_the_game_shows_through_the_end_of_episodes(vector: AtariProcesses) -> None:
    alone = [AtariEnv("breakout", 40) for _ in range(3)]
    film, info = vector.reset(seed=7)
    for number, env in enumerate(alone):
        env.reset(seed=7 + number)
    over, ends = np.zeros(3, bool), 0
    rng = np.random.default_rng(0)
    for step in range(400):
        assert isinstance(film, Film)
        if step % 8 == 0:
            pictures = develop(torch.from_numpy(film)).numpy()
            np.testing.assert_array_equal(pictures, [env.render() for env in alone])
        assert info["lives"].tolist() == [env.ale.lives() for env in alone]
        np.testing.assert_array_equal(vector.ram, [env.ale.getRAM() for env in alone])
        if step % 8 == 0:
            same_truth(vector.truth(), [env.truth() for env in alone])
            same_truth(vector.truth(slice(1, 3)), [env.truth() for env in alone[1:]])
        actions = rng.integers(4, size=3)
        film, reward, terminated, truncated, info = vector.step(actions)
        expected = [0.0] * 3
        for i, env in enumerate(alone):
            if over[i]:
                env.begin()
            else:
                expected[i] = env.play(int(actions[i]))
        assert reward.tolist() == expected
        assert not truncated.any()
        over = terminated
        ends += int(over.sum())
    assert ends > 2


def test_pictures_are_those_of_the_game_and_a_reset_of_some_leaves_the_rest() -> None:
    """Frostbite's last life may freeze to death: here and there alike."""
    vector = AtariProcesses("frostbite", 2, show="pictures", size=24, workers=1)
    alone = [AtariEnv("frostbite", 24) for _ in range(2)]
    shown, _ = vector.reset(seed=7)
    np.testing.assert_array_equal(shown, [env.reset(seed=7 + i)[0] for i, env in enumerate(alone)])
    for _ in range(40):
        shown, _, _, _, info = vector.step(np.array([5, 2]))
        pictures = [env.step(action)[0] for env, action in zip(alone, (5, 2), strict=True)]
        np.testing.assert_array_equal(shown, pictures)
    shown, info = vector.reset(seed=[1, 2], options={"reset_mask": np.array([False, True])})
    np.testing.assert_array_equal(shown, [pictures[0], alone[1].reset(seed=2)[0]])
    assert info["lives"].tolist() == [env.ale.lives() for env in alone]
    with pytest.raises(InputError, match="truth is told of film"):
        vector.truth()
    vector.close()


def test_seeds_are_each_games_own_and_a_reset_without_goes_on_from_there(vector: AtariProcesses) -> None:
    seeds = np.array([5, 9, 5])
    first = np.array(vector.reset(seed=seeds)[0])
    np.testing.assert_array_equal(first[0], first[2])
    then = np.array(vector.reset()[0])
    alone = AtariEnv("breakout", 1)
    for number, seed in enumerate(seeds):
        alone.begin(int(seed))
        np.testing.assert_array_equal(first[number], alone.film)
        alone.begin()
        np.testing.assert_array_equal(then[number], alone.film)


def test_sticky_actions_stick_as_they_do_to_one_game() -> None:
    made = AtariProcesses("seaquest", 2, sticky=0.25, workers=1)
    alone = [AtariEnv("seaquest", 1, sticky=0.25) for _ in range(2)]
    film, _ = made.reset(seed=3)
    for number, env in enumerate(alone):
        env.begin(3 + number)
    rng = np.random.default_rng(0)
    for _ in range(100):
        actions = rng.integers(18, size=2)
        film, *_ = made.step(actions)
        for number, env in enumerate(alone):
            env.play(int(actions[number]))
            np.testing.assert_array_equal(film[number], env.film)
    made.close()


@pytest.mark.parametrize(("actions", "says"), [([0, 1], "not an action"), ([0, 1, 4], "not an action")])
def test_what_is_no_action_is_refused_and_play_goes_on(vector: AtariProcesses, actions: list[int], says: str) -> None:
    vector.reset(seed=0)
    with pytest.raises(InputError, match=says):
        vector.step(np.array(actions))
    with pytest.raises(InputError, match="seeds are at least 0"):
        vector.reset(seed=-1)
    vector.step(np.zeros(3, np.int64))


def test_steps_come_one_after_the_other(vector: AtariProcesses) -> None:
    vector.reset(seed=0)
    with pytest.raises(RuntimeError, match="without step_async"):
        vector.step_wait()
    vector.step_async(np.ones(3, np.int64))
    with pytest.raises(RuntimeError, match="twice"):
        vector.step_async(np.ones(3, np.int64))
    again = np.array(vector.reset(seed=0)[0])  # what was begun is let go
    np.testing.assert_array_equal(again, vector.reset(seed=0)[0])


def test_deliveries_are_developed_and_follow_the_film(vector: AtariProcesses) -> None:
    delivery = Delivery(torch.device("cpu"))
    film, _ = vector.reset(seed=0)
    told = np.arange(3.0)
    there = delivery((film, told))
    assert [t.dtype for t in there] == [torch.uint8, torch.float32]
    before = delivery.pictures()[0].clone()
    for _ in range(20):
        film, *_ = vector.step(np.array([1, 2, 3]))
    assert delivery((film, told + 1)) is there
    assert (delivery.pictures()[0] != before).any()
    with pytest.raises(ValueError, match="another film"):
        delivery((film.copy(), told))
    assert there[1].tolist() == [1, 2, 3]
    np.testing.assert_array_equal(delivery.pictures()[0].numpy(), COLOURS[film].max(1))


def test_an_arena_plays_on_film_as_it_plays_in_threads() -> None:
    """The same game from the same starting frame, which no-ops of different generators would not give."""
    seen = []
    for film in (True, False):
        games = atari.make_vector("pong", 2, 40, noops=0, film=film, workers=1)
        arena = Arena([games], life_loss_ends=True)
        arena.reset(np.arange(2))
        rng = np.random.default_rng(3)
        scores = []
        for _ in range(1200):
            moment = arena.step(rng.integers(6, size=2))
            scores += [(f.player, f.score, f.length) for f in moment.finished]
        arena.close()
        seen.append(scores)
    assert seen[0] == seen[1] != []


def family(host: int) -> list[int]:
    """A process and those that it has forked."""
    return [host, *map(int, Path(f"/proc/{host}/task/{host}/children").read_text().split())]


def gone(pid: int) -> bool:
    """Also where it is dead, and nobody has asked how it died."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def all_gone(pids: list[int], seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end and not all(map(gone, pids)):
        time.sleep(0.05)
    return all(map(gone, pids))


def test_a_process_that_dies_ends_all_of_them(vector: AtariProcesses) -> None:
    vector.reset(seed=0)
    everyone = family(vector._host.pid)
    assert len(everyone) == 3
    os.kill(everyone[1], signal.SIGKILL)
    other = AtariProcesses("pong", 1, workers=9)
    with pytest.raises(WorkerDiedError, match="ended with code 137"):
        vector.step(np.zeros(3, np.int64))
    assert all_gone(everyone)
    with pytest.raises(RuntimeError, match="have been closed"):
        vector.reset(seed=0)
    other.reset(seed=0)
    other.step(np.zeros(1, np.int64))
    other.close()


def test_who_is_interrupted_while_it_waits_has_no_games_left(
    vector: AtariProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some have answered: to ask again would be to wait for ever."""
    vector.reset(seed=0)
    everyone = family(vector._host.pid)

    def interrupt(self: Connection, maxlength: int | None = None) -> bytes:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Connection, "recv_bytes", interrupt)
        with pytest.raises(KeyboardInterrupt):
            vector.step(np.zeros(3, np.int64))
    assert all_gone(everyone)
    with pytest.raises(RuntimeError, match="have been closed"):
        vector.reset(seed=0)


def test_closing_ends_them_also_where_a_forked_child_holds_their_pipes(vector: AtariProcesses) -> None:
    vector.reset(seed=0)
    everyone = family(vector._host.pid)
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    vector.close()
    assert all_gone(everyone)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_a_start_that_fails_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(FileNotFoundError):
        AtariProcesses("pong", 2, workers=2)
    gc.collect()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


def test_what_lies_in_the_current_folder_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, tmp_path / "ignored"])  # not a string
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "x")
    made = AtariProcesses("pong", 1)
    made.reset(seed=0)
    made.close()


def test_who_plays_leaves_the_end_to_the_one_who_asked() -> None:
    """Who ends a command often signals all of its processes; the first of them still has a state to save."""
    made = AtariProcesses("pong", 2, workers=2)
    os.kill(made._host.pid, signal.SIGINT)  # while it starts
    made.reset(seed=0)
    for pid in family(made._host.pid):
        for name in DEAF_TO:
            os.kill(pid, name)
    for _ in range(3):
        made.step(np.zeros(2, np.int64))
    assert not any(map(gone, family(made._host.pid)))
    made.close()
    with pytest.raises(RuntimeError, match="have been closed"):
        made.step(np.zeros(2, np.int64))


@pytest.mark.parametrize("end", ["raise ValueError('oh')", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_nobody_plays_on_after_the_end_of_a_program_that_did_not_close_its_games(end: str, tmp_path: Path) -> None:
    """No guard of __main__ either: games are a program of their own."""
    script = tmp_path / "plays.py"
    script.write_text(
        "import os, signal, sys, numpy as np\n"
        "from transporter.envs.atari_processes import AtariProcesses\n"
        "made = AtariProcesses('pong', 2, workers=2)\n"
        "made.reset(seed=0)\n"
        "print(made._host.pid, open(f'/proc/{made._host.pid}/task/{made._host.pid}/children').read(), flush=True)\n"
        "made.step_async(np.zeros(2, np.int64))\n" + end
    )
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert ended.returncode in (1, -9), ended.stderr
    pids = [int(pid) for pid in ended.stdout.split()]
    assert len(pids) == 3
    assert all_gone(pids)

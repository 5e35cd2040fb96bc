"""SIGKILL at any moment, then the same command again: it goes on by itself, and ends as if nothing had happened."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

LIVES = 8  # of one run, at most: then it is left alone to end
LONGEST = 120  # seconds that a moment may keep one waiting


class Survivor:
    """A command that is killed again and again, folder after folder, until it has been killed often enough."""

    def __init__(self, start, command: list[str], cwd: Path, seconds: float) -> None:
        self.start, self.command, self.cwd, self.seconds = start, command, cwd, seconds
        self.rng = np.random.default_rng(0)
        self.folders: list[Path] = []
        self.kills = self.inside = 0

    def live(self, kills: int, moment: Callable[[Path], bool] | None = None) -> None:
        """Until there are so many more kills: at `moment`, if it is given, or at any. Every run comes to its end."""
        wanted = self.kills + kills
        while self.kills < wanted:
            folder = self.cwd / str(len(self.folders))
            self.folders.append(folder)
            self._one(folder, min(LIVES, wanted - self.kills), moment)

    def _one(self, folder: Path, kills: int, moment: Callable[[Path], bool] | None) -> None:
        for _ in range(kills):
            life = self.start(*self.command, folder.name, cwd=self.cwd)
            if not self._wait(life, folder, moment):
                return  # it came to its end before its moment
            killed = life.kill()
            if killed.code == 0:
                return  # or between its moment and the kill
            assert killed.code == -9, killed.err
            self.kills += 1
            self.inside += bool(list(folder.glob("*/.step-*.part")))
        ended = self.start(*self.command, folder.name, cwd=self.cwd).end()
        assert ended.code == 0, ended.err
        assert "damaged" not in ended.err

    def _wait(self, life, folder: Path, moment: Callable[[Path], bool] | None) -> bool:
        """False: it ended before."""
        if moment is None:
            time.sleep(self.rng.uniform(0.02, 0.4 * self.seconds))
            return not life.poll()
        deadline = time.monotonic() + LONGEST
        for looks in range(10**9):
            if moment(folder):
                return True
            if looks % 200 == 0 and life.poll():
                return False
            assert time.monotonic() < deadline
            time.sleep(0.0003)
        return False


def in_a_save(rng: np.random.Generator) -> Callable[[Path], bool]:
    """When a checkpoint is being written, some way into it."""

    def moment(folder: Path) -> bool:
        if not list(folder.glob("checkpoints/.step-*.part")):
            return False
        time.sleep(rng.uniform(0, 0.002))
        return True

    return moment


@pytest.mark.timeout(1800)
def test_training(start, trained, beside_data, same_files, scale, record) -> None:
    survivor = Survivor(start, trained.command, beside_data, trained.seconds)
    survivor.live(scale.train_kills - scale.save_kills)
    survivor.live(scale.save_kills, in_a_save(survivor.rng))
    for folder in survivor.folders:
        same_files(folder, trained.path)
    assert survivor.inside >= (10 if scale.whole else 1)  # the others came just after it
    record("1-killed", train_kills=survivor.kills, train_kills_inside_a_save=survivor.inside,
           trainings_equal_to_the_bit=len(survivor.folders))  # fmt: skip


@pytest.mark.timeout(600)
def test_collecting(start, data, tmp_path, same_files, scale, record) -> None:
    survivor = Survivor(start, data.command, tmp_path, data.seconds)
    survivor.live(scale.collect_kills)
    for folder in survivor.folders:
        same_files(folder, data.path)
    record("1-killed", collect_kills=survivor.kills, collections_equal_to_the_bit=len(survivor.folders))


# True objects need no detector; players at random come to their end soon.
KEYQN = ["keyqn", "ms_pacman", "--observation", "objects", "--seeds", "1", "--device", "cpu", "--log-every", "25",
         "--checkpoint-every", "25", "--video", "0", "--network.hidden", "8", "--network.memory", "8",
         "--network.thermometer", "4", "--network.bins", "5", "--learning.batch", "2", "--learning.burn-in", "2",
         "--learning.unroll", "3", "--protocol.interactions", "190", "--protocol.first-updates", "20",
         "--protocol.episodes", "1", "--protocol.evaluation-epsilon", "1", "--out"]  # fmt: skip


@pytest.mark.timeout(1200)
def test_keyqn(start, tmp_path, same_files, scale, record) -> None:
    since = time.monotonic()
    ended = start(*KEYQN, "whole", cwd=tmp_path).end()
    assert ended.code == 0, ended.err
    survivor = Survivor(start, KEYQN, tmp_path, time.monotonic() - since)
    survivor.live(scale.keyqn_kills)
    for folder in survivor.folders:
        # Weights, all that was logged, and in the last checkpoint replay, optimiser, chance and the games' own state.
        same_files(folder, tmp_path / "whole", ("agents", "checkpoints", "metrics.jsonl"))
    record("1-killed", keyqn_kills=survivor.kills, agents_equal_to_the_bit=len(survivor.folders))


EXPLORE = ["explore", "sprites_control", "--frames", "800", "--video", "0", "--network.hidden", "16",
           "--network.memory", "8", "--network.layers", "8", "8", "4", "--learning.batch", "2",
           "--learning.unroll", "4", "--learning.burn-in", "2",
           "--acting.players", "4", "--acting.warm-up", "8", "--acting.replay", "400",
           "--eyes.size", "32", "--eyes.batch", "4", "--eyes.offset", "5", "--eyes.tiny", "--evaluation.episodes", "1",
           "--evaluation.steps", "20", "--evaluation.look-every", "5", "--evaluate-every", "400", "--log-every", "100",
           "--checkpoint-every", "100", "--device", "cpu", "--out"]  # fmt: skip


@pytest.mark.timeout(1200)
def test_exploring(start, tmp_path, same_files, scale, record) -> None:
    if not scale.explore_kills:
        pytest.skip("takes a minute: in the whole suite")
    since = time.monotonic()
    ended = start(*EXPLORE, "whole", cwd=tmp_path).end()
    assert ended.code == 0, ended.err
    survivor = Survivor(start, EXPLORE, tmp_path, time.monotonic() - since)
    survivor.live(scale.explore_kills)
    for folder in survivor.folders:
        assert (folder / "exploration.json").exists()
        # Options, all that was logged, and in the last checkpoint both learners, their replay and chance.
        same_files(folder, tmp_path / "whole", ("options.safetensors", "checkpoints", "metrics.jsonl"))
    record("1-killed", explore_kills=survivor.kills, explorations_equal_to_the_bit=len(survivor.folders))

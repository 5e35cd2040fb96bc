"""From play and from video to pairs: worked out on an environment that shows its own clock."""

import signal
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from hypothesis import given
from hypothesis import strategies as st

from transporter.data.clips import collect_video, cut
from transporter.data.collect import Progress, collect
from transporter.data.manifest import Manifest
from transporter.data.pairs import CollectSettings, PairSet
from transporter.data.play import Draws, halves, offers, offset, random_play, trajectories
from transporter.envs import atari
from transporter.envs.registry import make_vector
from transporter.errors import InputError

SETTINGS = CollectSettings(
    environment="sprites", size=32, pairs=512, sampler="offset", per_trajectory=8, length=10, budget=4 * 640
)


class Clock(VectorEnv):
    """Copy e ends its episodes after episode_lengths[e] frames; a frame shows (copy, episode, time in it)."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, *episode_lengths: int) -> None:
        self.num_envs, self.lengths = len(episode_lengths), np.array(episode_lengths)
        self.single_action_space = gymnasium.spaces.Discrete(3)
        self.actions: list[np.ndarray] = []

    def reset(self, *, seed=None, options=None):
        self.episode, self.time = np.zeros(self.num_envs, int), np.zeros(self.num_envs, int)
        return self._frames(), {}

    def step(self, actions):
        self.actions.append(actions)
        over = self.time == self.lengths - 1
        self.episode, self.time = self.episode + over, np.where(over, 0, self.time + 1)
        ended = self.time == self.lengths - 1
        return self._frames(), np.full(self.num_envs, np.nan), ended, np.zeros_like(ended), {}

    def _frames(self):
        shown = np.stack([np.arange(self.num_envs), self.episode, self.time], 1).astype(np.uint8)
        return np.broadcast_to(shown[:, None, None], (self.num_envs, 8, 8, 3))


def ends(lengths: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The first frame and the last."""
    return np.stack((0 * lengths, lengths - 1), 1)


def test_trajectories_end_with_their_episode_or_at_full_length() -> None:
    seen: dict[int, list] = {0: [], 1: []}
    for trajectory in trajectories(Clock(7, 5), np.random.default_rng(0), ends, length=4, steps=15):
        frames = np.stack(list(trajectory.frames.values()))  # every one may be the last
        copies, episodes, times = frames[:, 0, 0].T
        seen[copies[0]].append((set(episodes.tolist()), times.tolist(), trajectory.pairs))
    long, short = [(0, 3)], [(0, 2)]
    assert seen[0] == [
        ({0}, [0, 1, 2, 3], long),
        ({0}, [4, 5, 6], short),
        ({1}, [0, 1, 2, 3], long),
        ({1}, [4, 5, 6], short),
    ]
    # 5 = 4 + 1: the last frame of the episode stands alone.
    assert seen[1] == [(({e}, [0, 1, 2, 3], long), ({e}, [4], []))[part] for e in range(3) for part in range(2)]


@pytest.mark.parametrize("sample", [halves, offset])
def test_of_a_trajectory_few_frames_are_kept(sample) -> None:
    side, copies = 64, 8

    class Large(Clock):
        def _frames(self):
            return np.repeat(np.repeat(super()._frames(), side // 8, 1), side // 8, 2)

    tracemalloc.start()
    for _ in trajectories(Large(*[250] * copies), np.random.default_rng(0), sample, steps=250):
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    frame = side * side * 3
    # 14 of 100 on average; and those of the last two steps, all copies.
    assert peak < (25 + 4) * copies * frame


def test_the_policy_is_uniform_and_follows_its_seed() -> None:
    def actions(seed: int) -> np.ndarray:
        env = Clock(50, 60, 70)
        list(trajectories(env, np.random.default_rng(seed), halves, steps=1000))
        return np.stack(env.actions)

    shares = np.bincount(actions(0).ravel()) / actions(0).size
    assert len(shares) == 3
    assert abs(shares - 1 / 3).max() < 0.03
    np.testing.assert_array_equal(actions(0), actions(0))
    assert (actions(0) != actions(1)).any()


def test_pong_played_again_from_its_seed_is_the_same(pong: VectorEnv) -> None:
    # What resuming stands on: a reset with a seed wipes out all that was played before.
    def play(seed: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        return np.stack([o.frames for o in offers(trajectories(pong, rng, ends, length=30, steps=30), ends, rng)])

    first = play(0)
    assert (play(1) != first).any()
    np.testing.assert_array_equal(play(0), first)


def test_a_game_left_in_the_middle_of_a_step_can_be_played_again(pong: VectorEnv) -> None:
    def first(seed: int) -> np.ndarray:
        play = random_play(pong, np.random.default_rng(seed))
        frames = [next(play).frames for _ in range(20)]
        play.close()
        return np.stack(frames)

    kept = first(0)
    copy = kept.copy()
    assert (first(1) != kept).any()
    np.testing.assert_array_equal(first(0), kept)
    np.testing.assert_array_equal(kept, copy)


def test_the_next_step_is_played_while_the_last_is_used() -> None:
    class Emulators(Clock):
        playing = False

        def step_async(self, actions):
            assert not self.playing
            self.playing, self.sent = True, actions

        def step_wait(self):
            assert self.playing
            self.playing = False
            return self.step(self.sent)

    env = Emulators(7, 5)
    play = random_play(env, np.random.default_rng(0), steps=10)
    assert [env.playing for _ in play] == [True] * 9 + [False]  # after the last there is none to come

    def played(env: VectorEnv) -> list:
        found = trajectories(env, np.random.default_rng(0), halves, length=4, steps=30)
        return [(t.steps, t.pairs, {time: frame.tolist() for time, frame in t.frames.items()}) for t in found]

    assert played(env) == played(Clock(7, 5))

    class Wrapped(VectorWrapper):
        def step(self, actions):
            return (np.full((2, 8, 8, 3), 99, np.uint8), *self.env.step(actions)[1:])

    shown = [s.frames[0, 0, 0, 0] for s in random_play(Wrapped(Emulators(7, 5)), np.random.default_rng(0), steps=3)]
    assert shown == [0, 99, 99]  # a wrapper's own step is not gone round


def test_offers_keep_the_order_of_time_and_skip_single_frames() -> None:
    rng = np.random.default_rng(0)
    found = list(offers(trajectories(Clock(5), rng, halves, length=4, steps=50), halves, rng))
    assert len(found) == 10
    for offer in found:
        (_, episode_s, source), (_, episode_t, target) = np.stack(offer.frames)[:, 0, 0].tolist()
        assert episode_s == episode_t
        assert source in (0, 1)
        assert target in (2, 3)


def test_several_pairs_of_a_trajectory_differ() -> None:
    rng = np.random.default_rng(0)
    found = list(offers(trajectories(Clock(4), rng, halves, length=4, steps=4, pairs=100), halves, rng))
    times = [tuple(frame[0, 0, 2].item() for frame in o.frames) for o in found]
    assert times == [(0, 2), (0, 3), (1, 2), (1, 3)]


def test_halves_is_uniform_on_each_half() -> None:
    rng = np.random.default_rng(0)
    counts = np.zeros((5, 5))
    for _ in range(6000):
        counts[tuple(halves(np.arange(2, 8), rng)[3])] += 1  # a length of 5 among those that were possible
    expected = np.zeros((5, 5))
    expected[:2, 2:] = 1000
    assert abs(counts - expected).max() < 130  # four standard deviations


@given(longest=st.integers(2, 100), pairs=st.integers(1, 3), seed=st.integers(0, 2**32))
def test_samplers_stay_inside_and_never_repeat_a_frame(longest: int, pairs: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for sample in (halves, offset):
        draws = Draws(sample, pairs, longest, rng)
        assert draws.at(1) == []
        for length in range(2, longest + 1):
            assert 1 <= len(draws.at(length)) <= pairs
            for i, j in draws.at(length):
                assert 0 <= i < j < length
                assert sample is halves or 1 <= j - i <= 20
                assert {i, j} <= draws.wanted


def test_offset_reaches_every_gap_equally() -> None:
    rng = np.random.default_rng(0)
    gaps = [j - i for _ in range(8000) for i, j in offset(np.array([100]), rng)]
    counts = np.bincount(gaps, minlength=21)
    assert counts[0] == 0
    assert len(counts) == 21
    assert abs(counts[1:] - 400).max() < 80


def test_a_set_is_a_function_of_its_settings(tmp_path: Path) -> None:
    first, second = (collect(SETTINGS, tmp_path / name) for name in "ab")
    other = collect(replace(SETTINGS, seed=1), tmp_path / "c")
    np.testing.assert_array_equal(first.load_all(), second.load_all())
    assert (first.load_all() != other.load_all()).any()
    assert len(first) == 512
    assert first.manifest.steps == SETTINGS.budget
    assert first.manifest.segments == 4
    assert len(first.manifest.chunk_bytes) > 512 // 32  # some pairs were overwritten


def test_reward_is_never_looked_at(tmp_path: Path) -> None:
    class NoReward(VectorWrapper):
        def step(self, actions):
            frames, rewards, *rest = self.env.step(actions)
            return (frames, np.full_like(rewards, np.nan, dtype=float), *rest)

    plain = collect(SETTINGS, tmp_path / "plain")
    blind = collect(SETTINGS, tmp_path / "blind", make_env=lambda *args: NoReward(make_vector(*args)))
    np.testing.assert_array_equal(plain.load_all(), blind.load_all())


def test_collected_frames_are_those_of_the_single_game_to_the_bit(tmp_path: Path) -> None:
    class Watched(VectorWrapper):
        def step(self, actions):
            acted.append(int(actions[0]))
            return self.env.step(actions)

    acted: list[int] = []
    settings = CollectSettings(environment="pong", size=40, pairs=8, length=15, diverse=False, envs=1)
    pairs = collect(
        settings, tmp_path / "set", make_env=lambda *args: Watched(atari.make_vector(*args, noops=0, resized=False))
    )
    game = atari.AtariEnv("pong", 40, noops=0)
    shown = [game.reset(seed=0)[0], *(game.step(action)[0] for action in acted)]
    for k, (source, target) in enumerate(pairs.load_all()):
        trajectory = shown[15 * k :][:15]
        assert any((frame == source).all() for frame in trajectory[:7])
        assert any((frame == target).all() for frame in trajectory[7:])


def test_pong_interrupted_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    settings = CollectSettings(environment="pong", size=32, pairs=64, length=4, budget=3 * 2 * 32 * 4)

    def stop(progress: Progress) -> None:
        if progress.steps > 300:  # in the second segment, of 256 steps each
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collect(settings, tmp_path / "stopped", progress=stop)
    assert Manifest.read(tmp_path / "stopped").segments == 1
    resumed, whole = collect(settings, tmp_path / "stopped"), collect(settings, tmp_path / "whole")
    np.testing.assert_array_equal(resumed.load_all(), whole.load_all())
    assert (tmp_path / "stopped/manifest.json").read_bytes() == (tmp_path / "whole/manifest.json").read_bytes()


def test_without_diverse_it_stops_when_full(tmp_path: Path) -> None:
    told: list[Progress] = []
    settings = CollectSettings(environment="sprites", size=32, pairs=70, length=10, diverse=False)
    pairs = collect(settings, tmp_path / "set", progress=told.append)
    assert len(pairs) == 70
    assert pairs.manifest.steps < 3 * 640
    assert [t.steps for t in told] == sorted(t.steps for t in told)
    assert collect(settings, tmp_path / "set", make_env=None).settings == settings  # type: ignore[arg-type]  # done: plays no more


def test_an_unknown_environment_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        collect(CollectSettings(environment="no such game"), tmp_path / "set")
    assert not (tmp_path / "set").exists()


KILLED = f"""
import os, signal, sys
from transporter.data.collect import collect
from transporter.data.pairs import CollectSettings

def die(progress):
    if progress.steps > int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)

collect({SETTINGS!r}, sys.argv[1], progress=die)
"""


@pytest.mark.parametrize("at_step", [500, 1900])  # in the first segment; in the third, of 640 steps each
def test_killed_and_run_again_gives_the_same_to_the_bit(tmp_path: Path, at_step: int) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "killed"), str(at_step)])
    assert killed.returncode == -signal.SIGKILL
    with pytest.raises(InputError, match="not finished"):
        PairSet.open(tmp_path / "killed")
    manifest = Manifest.read(tmp_path / "killed")
    assert manifest.segments == at_step // 640
    assert len(list((tmp_path / "killed/pairs").glob("*.0.0.0.0"))) > len(manifest.chunk_bytes)  # work to be dropped
    resumed, whole = collect(SETTINGS, tmp_path / "killed"), collect(SETTINGS, tmp_path / "whole")
    names = sorted(p.relative_to(whole.path) for p in whole.path.rglob("*") if p.is_file())
    assert names == sorted(p.relative_to(resumed.path) for p in resumed.path.rglob("*") if p.is_file())
    for name in names:
        assert (resumed.path / name).read_bytes() == (whole.path / name).read_bytes(), name


def write_clip(path: Path, frames: int, rate: int = 30) -> Path:
    """A lossless clip, 90×60, in which every pixel of frame i is i."""
    import av

    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=rate)
        stream.width, stream.height, stream.pix_fmt = 90, 60, "bgr0"
        for i in range(frames):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.full((60, 90, 3), i % 256, np.uint8))))
        container.mux(stream.encode())
    return path


@pytest.mark.parametrize("sampler", ["halves", "offset"])
def test_a_clip_of_three_seconds_is_enough(tmp_path: Path, sampler) -> None:
    clip = write_clip(tmp_path / "clip.mkv", 90)
    settings = CollectSettings(size=32, pairs=100, sampler=sampler, validation=0.2)
    pairs = collect_video(settings, [clip], tmp_path / "set")
    assert len(pairs) == 100
    assert pairs.settings.environment == "video"
    times = pairs.load_all()[:, :, 16, 16, 0].astype(int)
    assert (times % 2 == 0).all()  # 15 of 30 frames a second
    gaps = (times[:, 1] - times[:, 0]) // 2
    assert (gaps >= 1).all()
    assert (gaps <= 22).all()  # 45 frames, in two trajectories
    train, held_out = times[pairs.train_rows], times[pairs.validation_rows]
    assert (len(train), len(held_out)) == (80, 20)  # two trajectories are too few to hold one out whole
    assert len(np.unique(times)) > 30  # nearly every frame is used


def test_more_footage_than_pairs_is_used_evenly(tmp_path: Path) -> None:
    clips = [write_clip(tmp_path / f"{i}.mkv", 200, rate=10) for i in range(2)]
    settings = CollectSettings(size=8, pairs=10, length=5, diverse=False)
    pairs = collect_video(settings, clips, tmp_path / "set")
    assert len(pairs) == 10
    assert (np.diff(np.sort(pairs.manifest.trajectory)) == 8).all()  # 80 trajectories


def test_a_video_collection_resumes_exactly(tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.mkv", 250, rate=15)
    settings = CollectSettings(size=32, pairs=64, length=5)

    def stop(progress: Progress) -> None:
        if progress.steps > 200:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collect_video(settings, [clip], tmp_path / "stopped", progress=stop)
    resumed = collect_video(settings, [clip], tmp_path / "stopped")
    whole = collect_video(settings, [clip], tmp_path / "whole")
    assert whole.manifest.segments == 2
    assert whole.manifest.steps == 250
    np.testing.assert_array_equal(resumed.load_all(), whole.load_all())
    assert (tmp_path / "stopped/manifest.json").read_bytes() == (tmp_path / "whole/manifest.json").read_bytes()


def test_videos_without_a_pair(tmp_path: Path) -> None:
    one = write_clip(tmp_path / "one.mkv", 1)
    (tmp_path / "note.txt").write_text("not a video")
    for bad in (one, tmp_path / "note.txt", tmp_path / "missing.mp4"):
        with pytest.raises(InputError, match=bad.name):
            collect_video(CollectSettings(), [bad], tmp_path / "set")
        assert not (tmp_path / "set").exists()


def test_cut() -> None:
    assert cut(45, 100) == [23, 22]
    assert cut(1000, 100) == [100] * 10
    assert cut(1001, 100) == [91] * 11
    assert cut(3, 100) == [3]

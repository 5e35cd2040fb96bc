import itertools

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from transporter import coords, frames
from transporter.envs import atari, atari_truth
from transporter.envs.atari import AtariEnv
from transporter.errors import InputError


def rollout(env: AtariEnv, steps: int, seed: int = 0) -> np.ndarray:
    """Frames under random actions; a new game where one ends."""
    rng = np.random.default_rng(seed)
    shown = []
    for _ in range(steps):
        frame, _, terminated, truncated, _ = env.step(int(rng.integers(env.action_space.n)))
        shown.append(env.reset()[0] if terminated or truncated else frame)
    return np.array(shown)


@pytest.mark.parametrize("name", atari.SCENES)
def test_scene_names_the_actions_that_the_emulator_has(name: str) -> None:
    env = AtariEnv(name, 32)
    assert tuple(action.name for action in env.actions) == env.scene.actions
    frame, info = env.reset(seed=0)
    assert env.observation_space.contains(frame)
    assert info["lives"] == env.ale.lives()
    truth = env.truth()
    assert truth.centres.shape == (len(env.scene.objects), 2)
    assert truth.present.shape == (len(env.scene.objects),)


@pytest.mark.parametrize("name", ["pong", "frostbite"])  # frostbite's own reset depends on what was played before
def test_a_seed_decides_everything(name: str) -> None:
    env = AtariEnv(name, 32)
    first, _ = env.reset(seed=3)
    run = rollout(env, 150)
    env.reset(seed=4)
    rollout(env, 130)
    again, _ = env.reset(seed=3)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(run, rollout(env, 150))


def test_sticky_actions_follow_the_seed_and_are_off_by_default() -> None:
    runs = []
    for sticky, seed in ((0.0, 1), (0.25, 1), (0.25, 1), (0.25, 2)):
        env = AtariEnv("pong", 32, sticky=sticky, noops=0)
        env.reset(seed=seed)
        runs.append(rollout(env, 120))
    plain, sticky, same, other = runs
    np.testing.assert_array_equal(sticky, same)
    assert (plain != sticky).any()
    assert (other != sticky).any()


def test_no_op_starts_differ_between_seeds() -> None:
    env = AtariEnv("ms_pacman", 32)
    starts = []
    for seed in range(20):
        env.reset(seed=seed)
        starts.append(env.ale.getEpisodeFrameNumber())
    assert 0 <= min(starts) < 10
    assert 20 < max(starts) <= atari.NOOPS


def test_restore_continues_exactly_through_the_end_of_a_game() -> None:
    env = AtariEnv("breakout", 32, sticky=0.25)
    env.reset(seed=0)
    rollout(env, 40)
    state = env.clone_state()
    shown, present = env.render(), env.truth()
    ahead = rollout(env, 400, seed=9)  # several games
    other = AtariEnv("breakout", 32, sticky=0.25)
    other.reset(seed=5)
    frame = other.restore_state(state)
    np.testing.assert_array_equal(frame, frames.resize(shown, 32, 32))
    np.testing.assert_array_equal(other.truth().centres, present.centres)
    np.testing.assert_array_equal(rollout(other, 400, seed=9), ahead)


def test_a_step_is_four_frames_and_shows_the_maximum_of_the_last_two() -> None:
    env = AtariEnv("ms_pacman", 210, noops=0)
    env.reset(seed=0)
    for _ in range(70):
        frame, *_ = env.step(2)
    state, before = env.clone_state(), env.ale.getEpisodeFrameNumber()
    frame, *_ = env.step(2)
    assert env.ale.getEpisodeFrameNumber() == before + 4
    env.restore_state(state)
    screens = []
    for _ in range(4):
        env.ale.act(env.actions[2])
        screens.append(env.ale.getScreenRGB())
    assert (screens[2] != screens[3]).any()
    np.testing.assert_array_equal(frame, frames.resize(np.maximum(screens[2], screens[3]), 210, 210))


def test_a_game_ends_when_the_lives_do_and_rewards_are_scores() -> None:
    env = AtariEnv("breakout", 16)
    _, info = env.reset(seed=1)
    lives, total = [info["lives"]], 0.0
    rng = np.random.default_rng(0)
    for _ in range(2000):
        _, reward, terminated, truncated, info = env.step(int(rng.integers(4)))
        lives.append(info["lives"])
        total += reward
        if terminated:
            break
    assert terminated
    assert not truncated
    assert [key for key, _ in itertools.groupby(lives)] == [5, 4, 3, 2, 1, 0]
    assert total >= 1


def test_a_game_of_frostbite_is_over_where_its_last_life_has_frozen_to_death() -> None:
    """The emulator does not notice; some five hundred steps later the console would play by itself, for ever."""
    env = AtariEnv("frostbite", 16)
    _, info = env.reset(seed=0)
    steps, lives, over = 0, [info["lives"]], False
    while not over:
        _, _, over, cut, info = env.step(0)
        steps += 1
        lives += [info["lives"]] * (info["lives"] != lives[-1])
        assert not cut
        assert steps < 3_200
    assert lives == [4, 3, 2, 1]
    assert not env.ale.game_over()
    for _ in range(4 * 600):
        env.ale.act(0)
    assert (env.ale.lives(), env.ale.game_over()) == (4, False)  # what would have gone on
    _, info = env.reset()
    assert (info["lives"], env.ended()) == (4, (False, False))


@pytest.mark.parametrize("name", ["pong", "seaquest"])
def test_the_vector_shows_the_same_frames_but_for_rounding(name: str) -> None:
    single = AtariEnv(name, 84, noops=0)
    vector = atari.make_vector(name, 2, 84, seed=0, noops=0)
    assert vector.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert vector.single_action_space == single.action_space
    expected, _ = single.reset(seed=0)
    shown, _ = vector.reset()
    assert vector.observation_space.contains(shown)
    np.testing.assert_allclose(shown[0], expected, atol=1)
    rng = np.random.default_rng(0)
    for _ in range(150):
        action = int(rng.integers(single.action_space.n))
        expected, reward, *_ = single.step(action)
        shown, rewards, terminated, *_ = vector.step(np.array([action, action]))
        difference = np.abs(shown.astype(int) - expected)
        assert difference.max() <= 1
        assert difference.mean() < 0.01
        assert rewards.tolist() == [reward, reward]
        assert not terminated.any()
    vector.close()


@pytest.mark.parametrize("name", ["pong", "seaquest", "carnival"])  # carnival's screen is four lines higher
def test_the_vector_s_screens_give_the_same_frames_to_the_bit(name: str) -> None:
    single = AtariEnv(name, 84, noops=0)
    vector = atari.make_vector(name, 2, 84, noops=0, resized=False)
    expected, _ = single.reset(seed=0)
    shown, _ = vector.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(80):
        np.testing.assert_array_equal(shown[0], single.render())
        np.testing.assert_array_equal(frames.resize(shown, 84, 84)[1], expected)
        action = int(rng.integers(single.action_space.n))
        expected, *_ = single.step(action)
        shown, *_ = vector.step(np.array([action, action]))
    vector.close()


def test_the_vector_s_seed_is_that_of_its_first_reset() -> None:
    def start(seed: int, given: int | None) -> np.ndarray:
        vector = atari.make_vector("ms_pacman", 4, 32, seed=seed)
        vector.reset(seed=given)
        shown = [vector.step(np.full(4, 3))[0] for _ in range(70)]
        vector.close()
        return np.array(shown)

    np.testing.assert_array_equal(start(7, None), start(0, 7))
    assert (start(7, None) != start(8, None)).any()


def test_the_vector_restarts_at_the_next_step() -> None:
    vector = atari.make_vector("breakout", 2, 16, seed=0)
    _, info = vector.reset()
    rng = np.random.default_rng(0)
    for _ in range(2000):
        _, _, terminated, _, info = vector.step(rng.integers(4, size=2))
        if terminated[0]:
            break
    assert terminated[0]
    assert info["lives"][0] == 0
    _, rewards, terminated, _, info = vector.step(np.array([1, 1]))
    assert (info["lives"][0], rewards[0], terminated[0]) == (5, 0.0, False)
    vector.close()


def test_radius_is_the_average_extent() -> None:
    """The diagonal of the visible box, averaged over frames, then over kinds; to 0.05."""
    for name in ("breakout", "seaquest", "montezuma_revenge"):
        env = AtariEnv(name, 8)
        extents: dict[str, list[float]] = {}
        rng = np.random.default_rng(0)
        env.reset(seed=0)
        for _ in range(400):
            _, _, over, _, _ = env.step(int(rng.integers(env.action_space.n)))
            if over:
                env.reset()
            for thing, box in zip(env.scene.objects, atari_truth.boxes(name, env.ale.getRAM()), strict=True):
                if box:
                    corners = np.array([[box.x, box.y], [box.x + box.width, box.y + box.height]], float)
                    extent = float(np.linalg.norm(np.diff(coords.from_pixels(corners, 160, 210), axis=0)))
                    extents.setdefault(thing.split("_")[0], []).append(extent)
        average = np.mean([np.mean(values) for values in extents.values()])
        assert abs(average - env.scene.radius) <= 0.025, (name, average)


def test_other_games_have_no_truth_and_unknown_ones_are_named() -> None:
    env = atari.make("space_invaders", 32)
    env.reset(seed=0)
    with pytest.raises(NotImplementedError, match="no ground truth for space_invaders"):
        env.truth()
    with pytest.raises(InputError, match="no Atari game named 'pongg'"):
        atari.make("pongg")

import os
import subprocess
import sys

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from transporter import coords
from transporter.envs import stacker
from transporter.envs.stacker import ARM, TORQUES, StackerEnv
from transporter.errors import InputError

pytest.importorskip("dm_control")
try:
    StackerEnv("stack_2", 16).close()
except InputError as missing:  # no EGL: the line says what to install
    pytest.skip(str(missing), allow_module_level=True)
GEOM = 5  # MuJoCo's number for this type of object in a segmentation


@pytest.fixture(scope="module")
def env() -> StackerEnv:
    return StackerEnv("stack_4", 192)


def silhouette(env: StackerEnv, segmentation: np.ndarray, name: str) -> np.ndarray:
    """(n, 2) points in [-1, 1]: centres of the pixels on which the object is drawn."""
    ids = [env._env.physics.model.name2id(geom, "geom") for geom in ARM.get(name, (name,))]
    rows, columns = np.nonzero(np.isin(segmentation[..., 0], ids) & (segmentation[..., 1] == GEOM))
    return coords.from_pixels(np.stack([columns, rows], 1) + 0.5, env.size, env.size)


def test_projected_centres_lie_on_the_drawn_silhouettes(env: StackerEnv) -> None:
    rng = np.random.default_rng(0)
    errors: dict[str, list[np.ndarray]] = {name: [] for name in env.scene.objects}
    hidden = frames = 0
    for episode in range(4):
        env.reset(seed=episode)
        for _ in range(30):
            torques = TORQUES[rng.integers(len(TORQUES))]
            for _ in range(stacker.REPEAT):
                env._env.step(torques)
            frames += 1
            truth = env.truth()
            drawn = env._env.physics.render(env.size, env.size, camera_id="fixed", segmentation=True)
            for name, centre, present in zip(env.scene.objects, *truth, strict=True):
                points = silhouette(env, drawn, name)
                hidden += len(points) == 0
                whole = len(points) and np.abs(points).max() < 0.97  # the arm may swing beyond the edges
                assert present or not whole
                if whole:
                    errors[name].append(points.mean(0) - centre)
    assert frames >= 100
    assert hidden <= 0.1 * frames
    for name, error in errors.items():
        assert len(error) >= 60, name
        worst = np.percentile(np.abs(error), 98)
        # A box is 0.08 wide. Links of the arm lie over each other's ends, which moves the visible middle.
        assert worst < (0.05 if name in ARM else 0.01), (name, worst)
        assert np.abs(np.mean(error, 0)).max() < (0.03 if name in ARM else 0.005), name


def test_what_swings_out_of_the_frame_is_absent(env: StackerEnv) -> None:
    env.reset(seed=0)
    physics = env._env.physics
    with physics.reset_context():
        physics.named.data.qpos[["box0_x", "box0_z"]] = 0.6, 0.4  # half the picture is 0.56 m
        physics.named.data.qpos[["box1_x", "box1_z"]] = 0.5, 0.4
    truth = env.truth()
    assert truth.present[:2].tolist() == [False, True]
    half = 16 * np.tan(np.radians(2))  # the camera stands 16 m away, opens 4 degrees and looks at a height of 0.4 m
    np.testing.assert_allclose(truth.centres[1], [0.5 / half, 0], atol=0.01)


def test_things_move_between_steps(env: StackerEnv) -> None:
    rng = np.random.default_rng(0)
    first, _ = env.reset(seed=0)
    centres = [env.truth().centres]
    for _ in range(25):
        frame, reward, terminated, truncated, _ = env.step(int(rng.integers(env.action_space.n)))
        centres.append(env.truth().centres)
        assert (terminated, truncated) == (False, False)
        assert reward >= 0
    steps = np.linalg.norm(np.diff(centres, axis=0), axis=-1) * 64  # pixels at 128
    hand = env.scene.objects.index("hand")
    assert 0.5 < np.median(steps[:, hand]) < 8
    assert (steps[:, :4].max(0) > 1).all()  # the boxes fall
    assert env.observation_space.contains(frame)
    assert np.abs(frame.astype(int) - first).mean() > 0.1


def test_a_seed_decides_the_episode() -> None:
    env = StackerEnv("stack_2", 64)
    assert env.scene.keypoints == 8
    runs = []
    for seed in (1, 2, 1):
        env.reset(seed=seed)
        for action in (3, 20, 30):
            frame, *_ = env.step(action)
        runs.append(frame)
    np.testing.assert_array_equal(runs[0], runs[2])
    assert (runs[0] != runs[1]).any()


def test_an_episode_is_cut_when_its_time_is_over() -> None:
    assert stacker.EPISODE == 10  # 250 steps of 40 ms
    env = StackerEnv("stack_2", 16, seconds=0.6)
    env.reset(seed=0)
    cut = [env.step(0)[3] for _ in range(15)]
    assert cut == [False] * 14 + [True]


def test_actions_are_a_fixed_table() -> None:
    assert TORQUES.shape == (len(stacker.ACTIONS), 5) == (43, 5)
    assert not TORQUES[0].any()
    assert (stacker.ACTIONS[1], TORQUES[1].tolist()) == ("root+", [1, 0, 0, 0, 0])
    assert (stacker.ACTIONS[10], TORQUES[10].tolist()) == ("grasp-", [0, 0, 0, 0, -1])
    assert np.abs(TORQUES).max() <= 1
    assert np.abs(TORQUES[11:].mean(0)).max() < 0.35  # 32 uniform draws: one standard error is 0.1


def test_more_processes_than_there_is_memory_for_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacker, "free_memory", lambda: 2 * stacker.PROCESS)
    with pytest.raises(InputError, match="3 stackers are as many processes, and there is memory for 2"):
        stacker.make_vector("stack_2", 3)


def test_vector_runs_in_processes_and_restarts_at_the_next_step() -> None:
    vector = stacker.make_vector("stack_2", 2, 24, seed=5, seconds=0.4)
    try:
        assert vector.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
        shown, _ = vector.reset()
        assert shown.shape == (2, 24, 24, 3)
        single = StackerEnv("stack_2", 24, seed=6)
        np.testing.assert_array_equal(shown[1], single.reset()[0])
        for _ in range(10):
            _, _, terminated, truncated, _ = vector.step(np.zeros(2, int))
        assert truncated.all()
        assert not terminated.any()
        _, rewards, _, truncated, _ = vector.step(np.zeros(2, int))
        assert not truncated.any()
        assert not rewards.any()
    finally:
        vector.close()


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        ("sys.modules['dm_control'] = None", "pip install 'transporter[dmc]'"),
        ("os.environ['MUJOCO_GL'] = 'nonsense'", "install libegl1 (Debian)"),
    ],
)
def test_what_is_missing_is_said_in_one_line(prepare: str, message: str) -> None:
    code = (
        f"import os, sys; {prepare}\nfrom transporter import envs, errors\n"
        "try: envs.make('stack_4').reset()\nexcept errors.InputError as e: print(e)"
    )
    environment = {key: value for key, value in os.environ.items() if key != "MUJOCO_GL"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert message in done.stdout
    assert len(done.stdout.splitlines()) == 1


def test_bad_names_and_sizes() -> None:
    with pytest.raises(InputError, match="no stacker named 'stack_3'"):
        stacker.make("stack_3")
    with pytest.raises(InputError, match="1 to 480 pixels, not 512"):
        stacker.make("stack_4", 512)

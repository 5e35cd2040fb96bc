import subprocess
import sys

import pytest

from transporter import envs
from transporter.errors import InputError


def test_names_of_every_kind() -> None:
    names = envs.names()
    assert {"pong", "ms_pacman", "montezuma_revenge", "stack_4", "stack_2", "sprites"} <= set(names)
    assert len(names) == len(set(names))
    for name in names:
        scene = envs.scene(name)
        assert scene.name == name
        assert scene.has_truth
        assert scene.keypoints >= 1
        assert 0 < scene.radius < 1
        assert len(set(scene.actions)) == len(scene.actions)


def test_any_other_rom_has_no_truth() -> None:
    scene = envs.scene("space_invaders")
    assert (scene.objects, scene.has_truth, scene.keypoints) == ((), False, 5)
    assert "FIRE" in scene.actions


@pytest.mark.parametrize(("wrong", "right"), [("pnog", "pong"), ("MsPacman", "ms_pacman"), ("stack4", "stack_4")])
def test_unknown_names_get_a_hint(wrong: str, right: str) -> None:
    for use in (envs.scene, envs.make, lambda name: envs.make_vector(name, 1)):
        with pytest.raises(InputError, match=f"no environment named '{wrong}': did you mean .*{right}"):
            use(wrong)


def test_a_hint_names_each_once() -> None:
    with pytest.raises(InputError, match=r"did you mean pong\?$"):
        envs.scene("pongg")


def test_hopeless_names_get_the_list() -> None:
    with pytest.raises(InputError, match=r"there are .*pong.*, and every Atari game"):
        envs.scene("qqqqqqqq")


def test_sizes_and_counts_are_positive() -> None:
    with pytest.raises(InputError, match="size must be at least 1, not 0"):
        envs.make("pong", 0)
    with pytest.raises(InputError, match="count must be at least 1, not 0"):
        envs.make_vector("pong", 0)


def test_importing_envs_and_naming_a_scene_loads_nothing_heavy() -> None:
    code = (
        "import sys, transporter.envs as e; assert 'ale_py' not in sys.modules;"
        "e.scene('stack_4'); e.make_vector('sprites', 1, 8, resized=False);"
        "assert not {'ale_py', 'dm_control', 'av'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", ["pong", "sprites"])
def test_made_by_name(name: str) -> None:
    env = envs.make(name, 48)
    frame, _ = env.reset(seed=0)
    assert frame.shape == (48, 48, 3)
    assert env.truth().centres.shape == (len(envs.scene(name).objects), 2)
    own = (210, 160) if name == "pong" else (48, 48)
    for resized, shape in ((True, (48, 48)), (False, own)):
        vector = envs.make_vector(name, 2, 48, seed=0, resized=resized)
        frames, _ = vector.reset()
        assert frames.shape == (2, *shape, 3)
        assert vector.observation_space.contains(frames)
        vector.close()

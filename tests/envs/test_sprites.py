"""The sprite world says where things are: check it against the pixels, and check each knob."""

from dataclasses import replace

import numpy as np
import pytest

from transporter.coords import cell_centres
from transporter.envs.sprite_worlds import WORLDS
from transporter.envs.sprites import EPISODE, SCENES, Ground, Sprite, SpriteVector, World, make, make_vector
from transporter.errors import InputError

BLACK = (0, 0, 0)


def light_centroid(frame: np.ndarray) -> np.ndarray:
    """Centre of the light of one shape on black, in [-1, 1]."""
    light, at = frame.astype(float).sum(-1), cell_centres(frame.shape[0]).numpy()
    return np.array([light.sum(0) @ at, light.sum(1) @ at]) / light.sum()


def play(env: SpriteVector, steps: int, action: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Frames (t, n, h, w, 3), centres (t, n, k, 2) and presence (t, n, k) of reset and steps."""
    shots = [(env.reset()[0], *env.truth())]
    for _ in range(steps):
        shots.append((env.step(np.full(env.num_envs, action))[0], *env.truth()))
    frames, centres, present = (np.stack(column) for column in zip(*shots, strict=True))
    return frames, centres, present


@pytest.mark.parametrize("size", [48, 64])
@pytest.mark.parametrize("form", ["disk", "ring", "square", "triangle", "cross"])
def test_truth_is_the_centre_of_the_light(form: str, size: int) -> None:
    world = World((Sprite("only", form, (250, 250, 250)),), background=BLACK)
    frames, centres, _ = play(SpriteVector(world, "one", 4, size), 40)
    seen = np.array([light_centroid(frame) for frame in frames.reshape(-1, size, size, 3)])
    tenth_of_a_pixel = 0.1 * 2 / size
    np.testing.assert_allclose(seen, centres.reshape(-1, 2), atol=tenth_of_a_pixel)


def test_a_ball_below_one_pixel_keeps_its_light_wherever_it_is() -> None:
    ball = Sprite("ball", "square", (200, 200, 200), half=(0.4 / 32, 0.4 / 32))  # 0.8 of a pixel wide at 64
    frames, _, _ = play(SpriteVector(World((ball,), background=BLACK), "ball", 8, 64), 20)
    light = frames.astype(float).sum((2, 3, 4)) / (3 * 200)
    np.testing.assert_allclose(light, 0.8**2, atol=0.1)


@pytest.mark.parametrize("name", SCENES)
def test_the_same_seed_gives_the_same_episode_and_another_seed_another(name: str) -> None:
    one, again, other = (play(make_vector(name, 2, 48, seed), 30)[0] for seed in (7, 7, 9))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()


@pytest.mark.parametrize("name", SCENES)
def test_a_row_of_the_vector_is_the_single_environment(name: str) -> None:
    vector, single = make_vector(name, 3, 48, seed=5), make(name, 48)
    actions = np.random.default_rng(0).integers(0, len(SCENES[name].actions), (EPISODE + 20, 3))
    rows, frame = vector.reset()[0], single.reset(seed=6)[0]
    for t in range(EPISODE + 20):
        np.testing.assert_array_equal(rows[1], frame)
        np.testing.assert_array_equal(vector.truth().centres[1], single.truth().centres)
        np.testing.assert_array_equal(vector.truth().present[1], single.truth().present)
        rows, _, terminated, truncated, _ = vector.step(actions[t])
        assert not terminated.any()
        if t == EPISODE:  # the vector starts anew one step after the end, and ignores that step's action
            frame = single.reset()[0]
        else:
            frame, _, _, over, _ = single.step(int(actions[t, 1]))
            assert over == truncated[1] == (t == EPISODE - 1)


@pytest.mark.parametrize("name", SCENES)
def test_shapes_stay_inside_and_bounce(name: str) -> None:
    _, centres, _ = play(make_vector(name, 8, 16), EPISODE)
    limits = np.array([np.subtract(sprite.reach, sprite.half) for sprite in WORLDS[name].sprites])
    for k, sprite in enumerate(WORLDS[name].sprites):
        bound = np.array([abs(sprite.column), 1]) if sprite.column is not None else limits[k]
        assert (abs(centres[:, :, k]) <= bound + 1e-6).all()
        if sprite.motion == "bounce":
            step = np.diff(centres[:, :, k], axis=0)
            speed = np.linalg.norm(step, axis=-1)
            assert (np.sign(step[:-1]) != np.sign(step[1:])).any(), "never turned"
            assert speed.max() <= 1.3 * sprite.speed + 1e-6
            # Away from walls the motion is even: half of all steps, or more, have the episode's own speed.
            np.testing.assert_allclose(np.median(speed, 0), speed.max(0), rtol=1e-3)


@pytest.mark.parametrize(
    ("action", "expected"), [("noop", (0, 0)), ("left", (-1, 0)), ("right", (1, 0)), ("up", (0, -1)), ("down", (0, 1))]
)
def test_the_controllable_shape_moves_as_told(action: str, expected: tuple[int, int]) -> None:
    scene, sprite = SCENES["sprites_control"], WORLDS["sprites_control"].sprites[0]
    _, centres, _ = play(make_vector("sprites_control", 8, 48), 40, scene.actions.index(action))
    limit = 1 - sprite.half[0]
    wanted = np.clip(centres[0, :, 0] + np.array(expected) * sprite.speed, -limit, limit)
    np.testing.assert_allclose(centres[1, :, 0], wanted, atol=1e-6)
    if action != "noop":  # forty steps of 0.08 cross the picture: it stands at the wall that it was sent to
        axis = int(expected[1] != 0)
        np.testing.assert_allclose(centres[-1, :, 0, axis], expected[axis] * limit, atol=1e-6)


@pytest.mark.parametrize("name", ["sprites_vanish", "sprites_flicker", "sprites_pong"])
def test_absent_means_not_drawn(name: str) -> None:
    env = make_vector(name, 8, 64)
    frames, _, present = play(env, 100)
    for k, sprite in enumerate(WORLDS[name].sprites):
        others = [s.colour for s in WORLDS[name].sprites if s is not sprite] + [s.colour for s in WORLDS[name].scores]
        assert sprite.colour not in others
        # A full pixel of a shape has exactly its colour; other shapes may cover it, so look only at large shapes.
        shown = (frames == np.array(sprite.colour)).all(-1).any((-1, -2))
        assert not (shown & ~present[..., k]).any()
        if min(sprite.half) > 0.1:
            assert (shown | ~present[..., k]).mean() > 0.99


def test_shares_of_absence() -> None:
    _, _, vanish = play(make_vector("sprites_vanish", 32, 8), EPISODE)
    np.testing.assert_allclose(vanish.mean((0, 1)), [1, 0.7, 0.7], atol=0.05)
    _, _, pong = play(make_vector("sprites_pong", 32, 8), EPISODE)
    np.testing.assert_allclose(pong.mean((0, 1)), [0.8, 1, 1], atol=0.05)
    _, _, flicker = play(make_vector("sprites_flicker", 32, 8), EPISODE)
    np.testing.assert_allclose(flicker.mean((0, 1)), [1, 0.5, 0.5], atol=0.05)
    assert (flicker[::2, :, 1]).all()
    assert not (flicker[1::2, :, 1]).any()


@pytest.mark.parametrize("name", SCENES)
def test_the_background_moves_in_its_own_scene_only(name: str) -> None:
    world = replace(WORLDS[name], sprites=(), scores=())
    frames, _, _ = play(SpriteVector(world, name, 2, 48), 5)
    moved = (frames[1:] != frames[:-1]).any((1, 2, 3, 4))
    assert moved.all() if name in ("sprites_moving", "sprites_panning") else not moved.any()


def test_the_background_scrolls_by_whole_pixels_when_told_to() -> None:
    world = World((), background=(100, 100, 100), ground=Ground((2 * 2 / 64, 1 * 2 / 64)))  # two right, one down
    frames, _, _ = play(SpriteVector(world, "scroll", 1, 64), 1)
    np.testing.assert_allclose(frames[1, 0, 1:, 2:].astype(int), frames[0, 0, :-1, :-2].astype(int), atol=1)
    assert frames.std() > 5


def test_a_score_changes_its_look_in_place() -> None:
    world = replace(WORLDS["sprites_score"], sprites=())
    frames, _, _ = play(SpriteVector(world, "score", 4, 64), EPISODE)
    changed = (frames[1:] != frames[:-1]).any(-1)
    rate = changed.any((-1, -2)).mean()
    np.testing.assert_allclose(rate, 1 - (1 - 0.05) * (1 - 0.2), atol=0.05)
    rows, columns = np.nonzero(changed.any((0, 1)))
    assert rows.max() < 14
    assert columns.max() < 20  # the corner where the two digits stand


def test_later_shapes_cover_earlier_ones() -> None:
    red, blue = (250, 0, 0), (0, 0, 250)
    still = [Sprite(n, "square", c, motion="control", column=0.0) for n, c in (("under", red), ("over", blue))]
    env = SpriteVector(World(tuple(still), background=BLACK, actions=("noop", "up")), "two", 1, 32)
    frames, centres, present = play(env, 60, action=1)  # both end at the upper wall, one on the other
    np.testing.assert_allclose(centres[-1, 0, 0], centres[-1, 0, 1])
    assert present[-1].all()
    assert frames[-1, 0, ..., 2].max() == 250
    assert not (frames[-1, 0] == red).all(-1).any()


def test_bad_input_is_one_clear_line() -> None:
    with pytest.raises(InputError, match=r"no sprite scene 'nope'; there are sprites, .*"):
        make("nope", 64)
    with pytest.raises(InputError, match="at least 8 pixels"):
        make("sprites", 4)
    with pytest.raises(InputError, match="does not fit"):
        World((Sprite("wide", "disk", BLACK, half=(1.2, 0.1)),))
    with pytest.raises(InputError, match=r"share of 0 to 0\.89"):
        World((Sprite("gone", "disk", BLACK, absent=0.95),))


def test_gymnasium_finds_nothing_to_say_about_the_single_environment() -> None:
    from gymnasium.utils.env_checker import check_env

    check_env(make("sprites_control", 48), skip_render_check=True)

"""An oracle gets everything, a detector that is off gets nothing, and the table names who follows whom."""

import json
from typing import Any

import numpy as np
import pytest

from transporter.coords import from_pixels, to_pixels
from transporter.envs.base import PixelEnv, Scene, Truth
from transporter.envs.sprites import make
from transporter.errors import InputError
from transporter.tracking.evaluate import Evaluation, evaluate, play

SIZE = 16
SCENE = Scene("two_dots", keypoints=2, radius=0.2, actions=("left", "right"), objects=("walker", "clock"))


class TwoDots(PixelEnv):
    """A red pixel that walks as it is told, and a green one that moves down the right edge and ends the episode."""

    def __init__(self, scene: Scene = SCENE, steps: int = 12) -> None:
        super().__init__(scene, SIZE)
        self.steps = steps

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.x, self.now = int(self.np_random.integers(2, SIZE - 6)), 0
        return self.render(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.x = int(np.clip(self.x + (-1, 1)[action], 0, SIZE - 5))
        self.now += 1
        return self.render(), 0.0, self.now == self.steps - 1, False, {}

    def truth(self) -> Truth:
        """The clock is gone in every fourth step."""
        pixels = np.array([[self.x + 0.5, 4.5], [SIZE - 0.5, self.now + 0.5]], np.float32)
        return Truth(from_pixels(pixels, SIZE, SIZE), np.array([True, self.now % 4 != 3]))

    def render(self) -> np.ndarray:
        frame = np.zeros((SIZE, SIZE, 3), np.uint8)
        for i in np.flatnonzero(self.truth().present):
            x, y = to_pixels(self.truth().centres[i], SIZE, SIZE).astype(int)
            frame[y, x, i] = 255
        return frame


def oracle(frames: np.ndarray) -> np.ndarray:
    """The brightest red and the brightest green pixel, as a detector that sees frames alone would give them."""
    peaks = frames[..., :2].reshape(len(frames), -1, 2).argmax(axis=1)
    pixels = np.stack([peaks % SIZE, peaks // SIZE], axis=-1) + 0.5
    return from_pixels(pixels.astype(np.float32), SIZE, SIZE)


def test_a_perfect_detector_reaches_the_ceiling() -> None:
    result = evaluate(TwoDots(), oracle, frames=None, episodes=5, lengths=range(1, 13), following_length=4)
    assert (result.frames, result.episodes) == (60, 5)
    assert (result.curve.ratio == 1).all()
    assert result.curve.at(1).precision == pytest.approx(1 - 1 / 8)  # every fourth step one of the two is gone
    assert result.curve.at(1).recall == result.curve.at(12).precision == 1
    assert [(row.follows, row.share) for row in result.keypoints] == [("walker", 1), ("clock", 1)]
    assert [(row.name, row.recall, row.error, row.keypoint) for row in result.objects] == [
        ("walker", 1, 0, 0),
        ("clock", 1, 0, 1),
    ]


def test_a_shifted_detector_gets_nothing() -> None:
    result = evaluate(TwoDots(), lambda frames: oracle(frames) + 3, frames=40, lengths=[1, 5])
    assert not result.curve.matches.any()
    assert result.figures["precision_ratio@1"] == result.figures["recall@1"] == 0
    assert [row.follows for row in result.keypoints] == [None, None]
    assert np.isnan(result.objects[0].error)


def test_frames_reach_the_detector_in_batches_and_in_order() -> None:
    sizes: list[int] = []
    done: list[int] = []

    def watched(frames: np.ndarray) -> np.ndarray:
        sizes.append(len(frames))
        return oracle(frames)

    result = evaluate(TwoDots(), watched, frames=30, batch=8, lengths=[12], progress=done.append)
    assert sizes == [8, 8, 8, 6]
    assert done == [8, 16, 24, 30]
    assert (result.episodes, result.curve.at(12).windows) == (3, 3)  # 12 + 12 + 6 steps
    assert result.curve.at(12).ratio == 1


def test_play_ends_where_it_is_told() -> None:
    firsts = [sight.first for sight in play(TwoDots(), frames=None, episodes=2, max_steps_per_episode=3)]
    assert firsts == [True, False, False] * 2
    assert len(list(play(TwoDots(), frames=25, episodes=100))) == 25
    assert len(list(play(TwoDots(), frames=1000, episodes=2))) == 24


def test_the_seed_decides_the_play() -> None:
    def frames(seed: int) -> list[bytes]:
        return [sight.frame.tobytes() for sight in play(TwoDots(), frames=30, seed=seed)]

    assert frames(3) == frames(3)
    assert frames(3) != frames(4)


def test_json_is_plain_and_comes_back() -> None:
    for shift in (0, 3):
        result = evaluate(TwoDots(), lambda frames, by=shift: oracle(frames) - by, frames=24, lengths=[1, 20])
        text = json.dumps(result.to_json(), allow_nan=False)
        assert json.loads(text)["figures"]["precision@20"] == 1 - bool(shift)
        again = Evaluation.from_json(json.loads(text))
        assert json.dumps(again.to_json()) == text
    with pytest.raises(InputError, match="not an evaluation"):
        Evaluation.from_json({"scene": "two_dots"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"frames": None}, "frames or of episodes"),
        ({"frames": 0}, "frames must be at least 1"),
        ({"max_steps_per_episode": 0}, "max_steps_per_episode must be"),
    ],
)
def test_bad_limits_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        evaluate(TwoDots(), oracle, **options)


def test_no_truth_and_bad_detectors_are_refused() -> None:
    blind = Scene("blind", keypoints=2, radius=0.2, actions=("left", "right"))
    with pytest.raises(InputError, match="blind has no ground truth"):
        evaluate(TwoDots(blind), oracle, frames=10)
    with pytest.raises(InputError, match=r"must give \(10, K, 2\)"):
        evaluate(TwoDots(), lambda frames: oracle(frames)[:-1], frames=10)
    with pytest.raises(InputError, match="finite"):
        evaluate(TwoDots(), lambda frames: oracle(frames) * np.nan, frames=10)


def find_colours(frames: np.ndarray, colours: list[tuple[int, int, int]]) -> np.ndarray:
    """The centre of the pixels that have each colour, to within the blur of its edge."""
    size = frames.shape[1]
    grid = np.stack(np.meshgrid(np.arange(size), np.arange(size)), axis=-1) + 0.5
    points = []
    for colour in colours:
        near = np.abs(frames.astype(int) - colour).max(axis=-1) < 40
        weights = near / np.maximum(near.sum(axis=(1, 2), keepdims=True), 1)
        points.append(np.einsum("thw,hwc->tc", weights, grid))
    return from_pixels(np.stack(points, axis=1).astype(np.float32), size, size)


def test_colours_find_the_sprites() -> None:
    """In a real world: two of three shapes are looked for, by the colour seen at the truth of the first frame."""
    env = make("sprites", 64)
    frame, _ = env.reset(seed=5)
    cells = to_pixels(env.truth().centres, 64, 64).astype(int)
    colours = [tuple(frame[y, x].tolist()) for x, y in cells[:2]]
    result = evaluate(env, lambda frames: find_colours(frames, colours), frames=600, lengths=[1, 20, 200])
    assert result.curve.at(20).recall_ceiling == pytest.approx(2 / 3)
    assert result.curve.at(200).ratio > 0.95
    assert [row.follows for row in result.keypoints] == list(env.scene.objects[:2])
    assert result.objects[2].recall == 0
    assert max(row.error for row in result.objects[:2]) < env.scene.radius / 2

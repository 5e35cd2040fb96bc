"""Measure a detector against the truth of an environment under random play."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, UInt8

from transporter.envs.base import Frame, PixelEnv, Scene, Truth
from transporter.errors import InputError
from transporter.tracking.match import Episode
from transporter.tracking.metrics import LENGTHS, following, tracking_curve
from transporter.tracking.results import Evaluation, keypoint_rows, object_rows

Detect = Callable[[UInt8[np.ndarray, "t h w 3"]], Float32[np.ndarray, "t k 2"]]

FOLLOWING_LENGTH = 20  # long enough that passing over an object is not following it


class Sight(NamedTuple):
    """One step of play."""

    frame: Frame
    truth: Truth | None  # None where the environment has none
    first: bool  # of its episode


def evaluate(
    env: PixelEnv,
    detector: Detect,
    *,
    frames: int | None = 10_000,
    episodes: int | None = None,
    seed: int = 0,
    max_steps_per_episode: int | None = None,
    lengths: Iterable[int] = LENGTHS,
    following_length: int = FOLLOWING_LENGTH,
    batch: int = 64,
    progress: Callable[[int], None] | None = None,
) -> Evaluation:
    """Play at random until there are enough frames or episodes, detect, and compare with the truth."""
    limits = {"frames": frames, "episodes": episodes, "max_steps_per_episode": max_steps_per_episode}
    (played,) = witness(env, [detector], **limits, seed=seed, batch=batch, progress=progress)
    return judge(played, env.scene, seed, lengths, following_length)


def witness(
    env: PixelEnv,
    detectors: Sequence[Detect],
    *,
    frames: int | None,
    episodes: int | None = None,
    seed: int = 0,
    max_steps_per_episode: int | None = None,
    batch: int = 64,
    progress: Callable[[int], None] | None = None,
) -> list[list[Episode]]:
    """One random play as each of the detectors sees it.

    Frames are handed to the detectors as they come and are not kept. `progress` hears how many frames are done.
    """
    if not env.scene.has_truth:
        raise InputError(f"{env.scene.name} has no ground truth to evaluate against")
    detected: list[list[np.ndarray]] = [[] for _ in detectors]
    truths: list[Truth] = []
    firsts: list[int] = []  # where each episode begins
    pending: list[Frame] = []

    def detect_pending() -> None:
        shown = np.stack(pending)
        for detector, found in zip(detectors, detected, strict=True):
            found.append(_detect(detector, shown))
        pending.clear()
        if progress:
            progress(len(truths))

    for sight in play(env, frames=frames, episodes=episodes, seed=seed, max_steps_per_episode=max_steps_per_episode):
        if sight.first:
            firsts.append(len(truths))
        pending.append(sight.frame)
        assert sight.truth is not None
        truths.append(sight.truth)
        if len(pending) == batch:
            detect_pending()
    if pending:
        detect_pending()

    centres, present = (np.stack(parts) for parts in zip(*truths, strict=True))
    spans = list(zip(firsts, [*firsts[1:], len(truths)], strict=True))
    seen = [np.concatenate(found) for found in detected]
    return [[Episode(points[a:b], centres[a:b], present[a:b]) for a, b in spans] for points in seen]


def judge(
    played: Sequence[Episode],
    scene: Scene,
    seed: int,
    lengths: Iterable[int] = LENGTHS,
    following_length: int = FOLLOWING_LENGTH,
) -> Evaluation:
    """What the episodes of a play tell of the detector that saw them."""
    followed = following(played, scene.radius, following_length)
    return Evaluation(
        scene=scene.name,
        seed=seed,
        frames=sum(len(episode.points) for episode in played),
        episodes=len(played),
        curve=tracking_curve(played, scene.radius, lengths),
        following_length=following_length,
        keypoints=keypoint_rows(followed, scene.objects),
        objects=object_rows(followed, scene.objects),
    )


def play(
    env: PixelEnv,
    *,
    frames: int | None,
    episodes: int | None = None,
    seed: int = 0,
    max_steps_per_episode: int | None = None,
) -> Iterator[Sight]:
    """Uniform random play, with its truth if there is one, until there are `frames` frames or `episodes` episodes."""
    limits = {"frames": frames, "episodes": episodes, "max_steps_per_episode": max_steps_per_episode}
    for name, limit in limits.items():
        if limit is not None and limit < 1:
            raise InputError(f"{name} must be at least 1, not {limit}")
    if frames is None and episodes is None:
        raise InputError("give a number of frames or of episodes to play")
    random = np.random.default_rng(seed)
    shown = episode = 0
    while episode != episodes:
        # Each episode is seeded, so that a play does not depend on how the environment carries its randomness over.
        frame, _ = env.reset(seed=int(random.integers(2**31)))
        over, step = False, 0
        while True:
            yield Sight(frame, env.truth() if env.scene.has_truth else None, first=step == 0)
            shown, step = shown + 1, step + 1
            if shown == frames:
                return
            if over or step == max_steps_per_episode:
                break
            frame, _, terminated, truncated, _ = env.step(int(random.integers(len(env.scene.actions))))
            over = terminated or truncated
        episode += 1


def _detect(detector: Detect, frames: UInt8[np.ndarray, "t h w 3"]) -> Float32[np.ndarray, "t k 2"]:
    points = np.asarray(detector(frames), np.float32)
    if points.ndim != 3 or points.shape[::2] != (len(frames), 2):
        raise InputError(
            f"the detector must give ({len(frames)}, K, 2) points for {len(frames)} frames, not {points.shape}"
        )
    return points

"""What options are worth: returns beside those of random actions, whether Eq. 2 finds the avatar, how far it goes."""

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float32, Float64, UInt8

from transporter.control.options.actor import Actor
from transporter.control.options.choice import Commitment, epsilon_greedy
from transporter.control.options.eyes import Eyes
from transporter.control.options.network import OptionsNet
from transporter.control.rollout import Arena, Moment
from transporter.envs.base import PixelEnv, Truth

Way = Literal["actions", "options", "controllable"]  # random actions; options of all keypoints; of the one by Eq. 2
WAYS: tuple[Way, ...] = ("actions", "options", "controllable")
TITLES: dict[Way, str] = {
    "actions": "random actions",
    "options": "options of all keypoints",
    "controllable": "options of the most controllable keypoint",
}
AVATAR = 0  # the row of the truth that is the player's, in every scene
ROOM = 3  # the byte of RAM that holds Montezuma's room
ONE = np.ones(1, np.float32)


def play(
    network: OptionsNet,
    arena: Arena,
    way: Way,
    commit: int,
    steps: int,
    seed: int,
    capture: bool = False,
    progress: Callable[[int], None] = lambda finished: None,
) -> Float64[np.ndarray, "n"]:
    """Return of one episode of each player, cut after so many steps; options are followed greedily."""
    n = arena.players
    chance = np.random.default_rng((seed, 1))
    actor = Actor(network, n, capture=capture)
    commitment = Commitment(n, network.keypoints, commit, "all" if way == "options" else "controllable", chance)
    returns, over, taken = np.zeros(n), np.zeros(n, bool), np.zeros(n, np.int64)
    moment = arena.reset(np.arange(n) + (seed + 1) * 1_000_003 % 2**30)
    for _ in range(steps):
        if way == "actions":
            taken = chance.integers(network.actions, size=n)
        else:
            taken = actor(moment, taken, commitment.next(moment.first)).best
        moment = arena.step(taken)
        returns += np.where(over, 0, moment.reward)
        over[[finished.player for finished in moment.finished]] = True
        progress(int(over.sum()))
        if over.all():
            break
    return returns


class Shown(NamedTuple):
    """One step of play with options of the most controllable keypoint."""

    screen: UInt8[np.ndarray, "h w 3"]
    points: Float32[np.ndarray, "k 2"]
    keypoint: int  # the most controllable one here
    truth: Truth | None
    room: int | None  # Montezuma's
    score: float


def watch(
    network: OptionsNet,
    eyes: Eyes,
    env: PixelEnv,
    commit: int,
    seed: int,
    steps: int,
    capture: bool = False,
    life_loss_ends: bool = True,
) -> Iterator[Shown]:
    """One environment, episode after episode, for so many steps: a vector of them does not know the truth."""
    actor = Actor(network, 1, capture=capture)
    chance = np.random.default_rng((seed, 2))
    commitment = Commitment(1, network.keypoints, commit, "controllable", chance)
    device = network.recall.device
    view, info = env.reset(seed=seed)
    taken, first, score = np.zeros(1, np.int64), True, 0.0
    for _ in range(steps):
        moment = Moment([view[None]], np.array([first]), ONE, ONE, ONE > 0, [])
        acted = actor(moment, taken, commitment.next(moment.first))
        points = eyes(torch.from_numpy(view[None]).to(device))[0].cpu().numpy()
        truth = env.truth() if env.scene.has_truth else None
        yield Shown(env.render(), points, int(acted.most[0]), truth, _room(env), score)
        taken = acted.best
        lives = info.get("lives", 0)
        view, reward, terminated, truncated, info = env.step(int(taken[0]))
        over = terminated or truncated
        first = over or (life_loss_ends and info.get("lives", 0) < lives)
        score = 0.0 if over else score + float(reward)
        if over:
            view, info = env.reset()


def _room(env: PixelEnv) -> int | None:
    if env.scene.name != "montezuma_revenge":
        return None
    return int(env.ale.getRAM()[ROOM])  # type: ignore[attr-defined]


class Watched(NamedTuple):
    """What the truth says of some steps of play."""

    avatar: float | None  # share of frames in which the most controllable keypoint is on the avatar; None: no truth
    rooms: int | None  # of Montezuma's Revenge that were entered
    steps: int


def judge(shown: Iterator[Shown], radius: float) -> Watched:
    """Frames in which the avatar is not there do not count."""
    hits: list[bool] = []
    rooms: set[int] = set()
    steps = 0
    for step in shown:
        steps += 1
        if step.room is not None:
            rooms.add(step.room)
        if step.truth is not None and step.truth.present[AVATAR]:
            apart = step.points[step.keypoint] - step.truth.centres[AVATAR]
            hits.append(bool(np.linalg.norm(apart) <= radius))
    return Watched(float(np.mean(hits)) if hits else None, len(rooms) or None, steps)


class Control(NamedTuple):
    """How well a world's avatar is found and moved."""

    chosen: float  # share of states in which the keypoint of Eq. 2 is on the avatar
    reach: float  # how far an option moves the avatar in its direction in T steps, mean
    random_reach: float  # how far random actions move it along a direction drawn as well, either way, mean
    distance: float  # how far from where it was an option leaves it, mean
    random_distance: float  # how far random actions do

    @property
    def farther(self) -> float:
        """How many times as far options go as random actions, by the less kind of the two measures."""
        return min(self.reach / self.random_reach, self.distance / self.random_distance)


def measure_control(
    network: OptionsNet, eyes: Eyes, arena: Arena, truth: Callable[[], Truth], radius: float, commit: int, rounds: int
) -> Control:
    """From so many beginnings of each player, T steps of an option and T steps at random."""
    n = arena.players
    chance = np.random.default_rng(1)
    device = network.recall.device
    ways = np.array([(1, 0), (-1, 0), (0, 1), (0, -1)], np.float32)  # DIRECTIONS
    on_avatar: list[Bool[np.ndarray, "n"]] = []
    went: dict[bool, list[Float64[np.ndarray, "2 n"]]] = {True: [], False: []}  # in its direction, and in all
    for turn in range(2 * rounds):
        options = turn % 2 == 0
        moment = arena.reset(np.arange(n) + n * turn)
        actor = Actor(network, n)
        commitment = Commitment(n, network.keypoints, commit, "controllable", chance)
        start, taken = truth().centres[:, AVATAR].copy(), np.zeros(n, np.int64)
        direction = chance.integers(len(ways), size=n)
        for _ in range(commit):
            if options:
                acted = actor(moment, taken, commitment.next(moment.first))
                points = eyes(torch.from_numpy(moment.views[0]).to(device)).cpu().numpy()
                apart = points[np.arange(n), acted.most] - truth().centres[:, AVATAR]
                on_avatar.append(np.linalg.norm(apart, axis=-1) <= radius)
                taken, direction = acted.best, acted.direction
            else:
                taken = epsilon_greedy(taken, 1.0, network.actions, chance)
            moment = arena.step(taken)
        moved = truth().centres[:, AVATAR] - start
        along = (moved * ways[direction]).sum(-1)
        went[options].append(np.stack((along if options else np.abs(along), np.linalg.norm(moved, axis=-1))))
    (reach, distance), (random_reach, random_distance) = (np.mean(went[who], (0, 2)).tolist() for who in (True, False))
    return Control(float(np.mean(on_avatar)), reach, random_reach, distance, random_distance)

"""What options are worth: returns beside those of random actions, whether Eq. 2 finds the avatar, how far it goes."""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from jaxtyping import Bool, Float32, Float64, Int64, UInt8
from torch import Tensor

from transporter.control.options.actor import Actor
from transporter.control.options.choice import Commitment, Drawn, Keypoints, epsilon_greedy
from transporter.control.options.eyes import Eyes
from transporter.control.options.network import OptionsNet
from transporter.control.rollout import Arena, Moment
from transporter.envs.base import PixelEnv, Scene, Truth

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
SEEDS_APART, LOOKS_APART = 1_000_003, 7_919  # primes: another seed, or another look, plays other games


class Played(NamedTuple):
    """One way to play."""

    returns: Float64[np.ndarray, "n"]  # of one episode of each player
    taken: Int64[np.ndarray, "a"]  # how often each action was, while they played


def play(
    network: OptionsNet,
    arena: Arena,
    ways: Sequence[Way],
    commit: int,
    steps: int,
    seed: tuple[int, int],
    capture: bool = False,
    witness: "Witness | None" = None,
    stopping: Callable[[], bool] = lambda: False,
) -> dict[Way, Played] | None:
    """One episode of each player, cut after so many steps; options are followed greedily. None: stopped early.

    The arena has equally many players of each way, way after way, all at once; their games begin alike. `seed`: of
    the exploration, and the step at which it is looked at: other games and other options each time.
    """
    n, parts = arena.players, shares(ways, arena.players)
    each = n // len(ways)
    chances = [np.random.default_rng((*seed, 1)) for _ in ways]
    # Random actions have options, too, which nobody follows: so all are told alike.
    among: list[Keypoints] = ["all" if way == "options" else "controllable" for way in ways]
    drawn_by = [Commitment(each, network.keypoints, commit, *told) for told in zip(among, chances, strict=True)]
    actor = Actor(network, n, capture=capture)
    returns, over, taken = np.zeros(n), np.zeros(n, bool), np.zeros(n, np.int64)
    counts = np.zeros((n, network.actions), np.int64)
    moment = arena.reset(
        np.tile(np.arange(each) + ((seed[0] + 1) * SEEDS_APART + seed[1] * LOOKS_APART) % 2**30, len(ways))
    )
    for step in range(steps):
        if stopping():
            return None
        drawn = [draw.next(moment.first[parts[way]]) for draw, way in zip(drawn_by, ways, strict=True)]
        acted = actor(moment, taken, Drawn(*(np.concatenate(part) for part in zip(*drawn, strict=True))))
        taken = acted.best.copy()
        if "actions" in parts:
            taken[parts["actions"]] = chances[ways.index("actions")].integers(network.actions, size=each)
        if witness is not None:
            witness.look(step, parts, actor.pictures, acted.most, ~over)
        counts[np.arange(n), taken] += ~over
        moment = arena.step(taken)
        returns += np.where(over, 0, moment.reward)
        over[[finished.player for finished in moment.finished]] = True
        if over.all():
            break
    return {way: Played(returns[part], counts[part].sum(0)) for way, part in parts.items()}


def shares(ways: Sequence[Way], players: int) -> dict[Way, slice]:
    """Which players play which way."""
    each = players // len(ways)
    return {way: slice(index * each, (index + 1) * each) for index, way in enumerate(ways)}


class Witness:
    """Of one of the ways to play: whether the most controllable keypoint is the avatar. Of all: the rooms entered.

    What games do not tell nobody says: not all know their truth, and only Montezuma's Revenge has rooms.
    """

    def __init__(self, games: VectorEnv, way: Way, scene: Scene, eyes: Eyes, every: int) -> None:
        self.games, self.way, self.scene, self.eyes, self.every = games, way, scene, eyes, every
        self._entered: dict[Way, set[int]] = {}
        self._hits: list[Bool[np.ndarray, "n"]] = []

    def look(
        self,
        step: int,
        parts: dict[Way, slice],
        pictures: Callable[[], Tensor],
        most: Int64[np.ndarray, "n"],
        playing: Bool[np.ndarray, "n"],
    ) -> None:
        """At those who play; frames in which the avatar is not there do not count."""
        ram, truth = (getattr(self.games, told, None) for told in ("ram", "truth"))
        if ram is not None and self.scene.name == "montezuma_revenge":
            for way, players in parts.items():
                self._entered.setdefault(way, set()).update(ram[players, ROOM][playing[players]].tolist())
        part = parts[self.way]
        if truth is None or step % self.every:
            return
        centres, present = (found[:, AVATAR] for found in truth(part))
        points = self.eyes(pictures()[part]).cpu().numpy()
        apart = points[np.arange(len(points)), most[part]] - centres
        self._hits.append((np.linalg.norm(apart, axis=-1) <= self.scene.radius)[playing[part] & present])

    @property
    def avatar(self) -> float | None:
        """Share of frames in which the most controllable keypoint is on the avatar."""
        hits = np.concatenate(self._hits) if self._hits else np.zeros(0)
        return float(hits.mean()) if len(hits) else None

    @property
    def rooms(self) -> dict[Way, int]:
        """How many were entered by those who play each way."""
        return {way: len(entered) for way, entered in self._entered.items()}


class Shown(NamedTuple):
    """One step of play with options of the most controllable keypoint."""

    screen: UInt8[np.ndarray, "h w 3"]
    points: Float32[np.ndarray, "k 2"]
    keypoint: int  # the most controllable one here


def watch(network: OptionsNet, eyes: Eyes, env: PixelEnv, commit: int, seed: int, steps: int) -> Iterator[Shown]:
    """One environment, episode after episode, for so many steps, to be shown."""
    actor = Actor(network, 1)
    commitment = Commitment(1, network.keypoints, commit, "controllable", np.random.default_rng((seed, 2)))
    device = network.recall.device
    view, info = env.reset(seed=seed)
    taken, first = np.zeros(1, np.int64), True
    for _ in range(steps):
        moment = Moment([view[None]], np.array([first]), ONE, ONE, ONE > 0, [])
        acted = actor(moment, taken, commitment.next(moment.first))
        points = eyes(torch.from_numpy(view[None]).to(device))[0].cpu().numpy()
        yield Shown(env.render(), points, int(acted.most[0]))
        taken, lives = acted.best, info.get("lives", 0)
        view, _, terminated, truncated, info = env.step(int(taken[0]))
        first = terminated or truncated or info.get("lives", 0) < lives  # as in training, unless it was told otherwise
        if terminated or truncated:
            view, info = env.reset()


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

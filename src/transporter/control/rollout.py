"""Games played side by side, one step of all of them at a time.

Each game is a gymnasium vector environment that restarts an episode at the step after its end (autoreset NEXT_STEP).
Atari games take their actions at once and are waited for later (ale-py's threads, or processes), so a
learner can use the time between.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from jaxtyping import Bool, Float32, Int64

from transporter.errors import InputError

PLACE = ("_over", "_lives", "_score", "_length", "_restarts", "_since")  # of an Arena: where its players are


class Finished(NamedTuple):
    """An episode from start to end, however many lives it took."""

    player: int
    score: float  # sum of rewards, as the game gave them
    length: int  # steps


class Moment(NamedTuple):
    """What n players see now, and what the step before has brought them."""

    views: list[np.ndarray]  # one array per game, its players first; good until the next actions are sent
    first: Bool[np.ndarray, "n"]  # an episode begins with this view
    reward: Float32[np.ndarray, "n"]
    discount: Float32[np.ndarray, "n"]  # 0: the episode ended with that step
    real: Bool[np.ndarray, "n"]  # False where there was no step: the game began anew
    finished: list[Finished]


class Arena:
    """Several games with several players each; players are counted through all games."""

    def __init__(
        self, games: Sequence[VectorEnv], *, life_loss_ends: bool, life_loss_forgets: bool | None = None
    ) -> None:
        """`life_loss_forgets`: whether what is remembered begins anew there, too; by default where an episode ends."""
        for game in games:
            if game.metadata.get("autoreset_mode") != AutoresetMode.NEXT_STEP:
                raise InputError("an arena needs games that restart at the next step (autoreset NEXT_STEP)")
        self.games, self.life_loss_ends = list(games), life_loss_ends
        self.life_loss_forgets = life_loss_ends if life_loss_forgets is None else life_loss_forgets
        ends = np.cumsum([game.num_envs for game in games])
        self.players = int(ends[-1])
        self.slices = [slice(int(end) - game.num_envs, int(end)) for game, end in zip(games, ends, strict=True)]
        self.resting: set[int] = set()  # games that are not played on: their last view stays
        self._views: list[np.ndarray] = []
        self._actions: np.ndarray | None = None
        self._over = np.zeros(self.players, bool)
        self._lives = np.zeros(self.players, np.int64)
        self._score, self._length = np.zeros(self.players), np.zeros(self.players, np.int64)
        self._restarts, self._since = np.zeros((2, self.players), np.int64)  # beginnings after the first, steps since

    def reset(self, seeds: Int64[np.ndarray, "n"]) -> Moment:
        """All games from their start; a player's seed decides all that will happen to it."""
        views, lives = [], []
        for game, part in zip(self.games, self.slices, strict=True):
            view, info = game.reset(seed=[int(seed) for seed in seeds[part]])  # type: ignore[arg-type]
            views.append(view)
            lives.append(_lives(info, game.num_envs))
        self.resting = set()
        self._lives, self._over = np.concatenate(lives), np.zeros(self.players, bool)
        self._score[:], self._length[:] = 0, 0
        self._restarts[:], self._since[:] = 0, 0
        self._views = views
        n = self.players
        return Moment(views, np.ones(n, bool), np.zeros(n, np.float32), np.ones(n, np.float32), np.zeros(n, bool), [])

    def send(self, actions: Int64[np.ndarray, "n"]) -> None:
        """Everyone's next action."""
        self._actions = actions
        for index, (game, part) in enumerate(zip(self.games, self.slices, strict=True)):
            if index in self.resting:
                continue
            if _plays_beside(game):
                game.step_async(actions[part])  # type: ignore[attr-defined]

    def receive(self) -> Moment:
        """What came of the actions that were sent."""
        if self._actions is None:
            raise RuntimeError("receive() without send()")
        views, rewards, ended, cut, lives = [], [], [], [], []
        for index, part in enumerate(self.slices):
            view, reward, terminated, truncated, info = self._result(index, self._actions[part])
            views.append(view)
            rewards.append(reward)
            ended.append(terminated)
            cut.append(truncated)
            lives.append(_lives(info, part.stop - part.start))
        self._actions, self._views = None, views
        return self._moment(views, *(np.concatenate(parts) for parts in (rewards, ended, cut, lives)))

    def step(self, actions: Int64[np.ndarray, "n"]) -> Moment:
        self.send(actions)
        return self.receive()

    def again(self, seeds: Int64[np.ndarray, "n"], actions: Int64[np.ndarray, "n t"]) -> Iterator[Moment]:
        """Everything once more, from the start: games are deterministic, so this is how to get back to where one was.

        It needs nothing of a game but its seed, and takes as long as the emulators do.
        """
        yield self.reset(seeds)
        for t in range(actions.shape[1]):
            yield self.step(actions[:, t])

    def place(self, moment: Moment) -> dict[str, list[Any]]:
        """What `come_back` needs to know of a moment that was received last, as plain data."""
        kept = {name: getattr(self, name) for name in PLACE}
        told = {name: part for name, part in moment._asdict().items() if name not in ("views", "finished")}
        return {name.lstrip("_"): part.tolist() for name, part in {**kept, **told}.items()}

    def come_back(
        self, seeds: Int64[np.ndarray, "n"], actions: Int64[np.ndarray, "n t"], place: dict[str, list[Any]]
    ) -> Moment | None:
        """The moment of which that was said, after these actions; only the episodes that go on are played again.

        None: some game does not know how, or has no short way there. Whoever comes back should compare what is seen.
        """
        if not all(hasattr(game, "come_back") for game in self.games):
            return None
        for name in PLACE:
            getattr(self, name)[:] = place[name.lstrip("_")]
        played = [own[len(own) - since :] for own, since in zip(actions, self._since, strict=True)]

        def back(index: int) -> np.ndarray | None:
            part = self.slices[index]
            return self.games[index].come_back(seeds[part], self._restarts[part], played[part])  # type: ignore[attr-defined]

        with ThreadPoolExecutor(len(self.games)) as pool:
            views = [view for view in pool.map(back, range(len(self.games))) if view is not None]
        if len(views) < len(self.games):
            return None
        self._views, self.resting = views, set()
        first, real = (np.array(place[name], bool) for name in ("first", "real"))
        reward, discount = (np.array(place[name], np.float32) for name in ("reward", "discount"))
        return Moment(self._views, first, reward, discount, real, [])

    def close(self) -> None:
        for game in self.games:
            game.close()

    def _result(self, index: int, actions: np.ndarray) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        game = self.games[index]
        if index in self.resting:
            nothing = np.zeros(len(actions), bool)
            return self._views[index], nothing.astype(np.float32), nothing, nothing, {}
        return game.step_wait() if _plays_beside(game) else game.step(actions)  # type: ignore[attr-defined]

    def _moment(
        self, views: list[np.ndarray], reward: np.ndarray, ended: np.ndarray, cut: np.ndarray, lives: np.ndarray
    ) -> Moment:
        real = ~self._over  # where an episode was over, this step only began the next
        reward = np.where(real, reward, 0).astype(np.float32)
        over = (ended | cut) & real
        died = (lives < self._lives) & real & ~over
        self._score += reward
        self._length += real
        finished = [Finished(int(i), float(self._score[i]), int(self._length[i])) for i in np.flatnonzero(over)]
        self._score[over], self._length[over] = 0, 0
        discount = np.where((ended & real) | (died & self.life_loss_ends), 0, 1).astype(np.float32)
        first = ~real | (died & self.life_loss_forgets)
        self._over, self._lives = over, lives
        self._restarts += ~real
        self._since = np.where(real, self._since + 1, 0)
        return Moment(views, first, reward, discount, real, finished)


def _plays_beside(game: VectorEnv) -> bool:
    """Whether it plays on while others do something else."""
    return hasattr(type(game), "step_async")


def _lives(info: dict[str, Any], count: int) -> Int64[np.ndarray, "n"]:
    """Lives left; games without lives never lose one."""
    return np.asarray(info.get("lives", np.zeros(count)), np.int64)

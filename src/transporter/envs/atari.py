"""Atari 2600 games: one at a time with truth and exact resume, or many at once in ale-py's C++ threads.

Both show the same frames: every action lasts four emulator frames, the last two are joined by their maximum (sprites
flicker), and the screen, of most games 160 × 210, is averaged by area to size × size. ale-py's own average differs by
one grey level in a few pixels.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import ale_py
import gymnasium
import numpy as np
from ale_py import ALEInterface, ALEState, LoggerMode, roms
from ale_py.vector_env import AtariVectorEnv
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from jaxtyping import Int64, UInt8

from transporter import frames
from transporter.envs import atari_truth
from transporter.envs.base import Frame, PixelEnv, Scene, Truth
from transporter.envs.film import COLOURS
from transporter.errors import InputError

REPEAT = 4  # emulator frames for each action (the paper's action repeat)
NOOPS = 30  # idle emulator frames at most before an episode begins, as usual for Atari
RESIZES = True  # screens have a size of their own, which make_vector can leave them
Screens = UInt8[np.ndarray, "2 h w 3"]
Shown = UInt8[np.ndarray, "2 h w"] | Screens  # by numbers of colours, where the game's colours are the usual ones
EPISODE_FRAMES = 108_000  # half an hour of play: 27,000 steps, the usual cap

_MOVES = ("UP", "RIGHT", "LEFT", "DOWN", "UPRIGHT", "UPLEFT", "DOWNRIGHT", "DOWNLEFT")
_ALL = ("NOOP", "FIRE", *_MOVES, *(f"{move}FIRE" for move in _MOVES))


def _scene(name: str, keypoints: int, radius: float, actions: tuple[str, ...], recipe: str = "transporter") -> Scene:
    return Scene(name, keypoints, radius, actions, atari_truth.objects(name), recipe)


# Keypoints: the most objects on screen at once in random play, and one to spare in Montezuma's Revenge, whose other
# rooms have moving belts and gates too. Radius: the paper's for pong, ms_pacman and frostbite; for the others what the
# paper says it is, the average extent: the diagonal of the visible box in [-1, 1] units, averaged over the frames for
# each kind of object, then over kinds (0.11, 0.14, 0.18; it gives 0.16 and 0.20 for ms_pacman and frostbite). Recipe:
# Breakout's paddle is told from bricks by what lies around it, Frostbite's floes from one another.
SCENES: dict[str, Scene] = {
    scene.name: scene
    for scene in (
        _scene("pong", 3, 0.20, ("NOOP", "FIRE", "RIGHT", "LEFT", "RIGHTFIRE", "LEFTFIRE")),
        _scene("breakout", 2, 0.10, ("NOOP", "FIRE", "RIGHT", "LEFT"), recipe="wider"),
        _scene("ms_pacman", 5, 0.15, ("NOOP", *_MOVES)),
        _scene("frostbite", 17, 0.20, _ALL, recipe="alike"),
        _scene("seaquest", 9, 0.15, _ALL),
        _scene("montezuma_revenge", 4, 0.20, _ALL),
    )
}
OTHER_KEYPOINTS, OTHER_RADIUS = 5, 0.15  # for games of which we know nothing


def scene(name: str) -> Scene:
    """One of the six games, or any other ROM by its snake_case name, without truth."""
    if name in SCENES:
        return SCENES[name]
    actions = tuple(action.name for action in _load(name).getMinimalActionSet())
    return Scene(name, OTHER_KEYPOINTS, OTHER_RADIUS, actions)


def rom_names() -> list[str]:
    """Every game that make() knows."""
    return sorted(roms.get_all_rom_ids())


def make(name: str, size: int = 128) -> "AtariEnv":
    """One game."""
    return AtariEnv(name, size)


def make_vector(
    name: str,
    count: int,
    size: int = 128,
    seed: int = 0,
    *,
    noops: int = NOOPS,
    sticky: float = 0.0,
    resized: bool = True,
    film: bool = False,
    workers: int | None = None,
) -> VectorEnv:
    """count games in C++ threads, (count, size, size, 3) frames; a game that ended restarts at the next step.

    With resized=False, the frames are as large as the screen. With film=True games of SCENES are played by `workers`
    processes (None: one for each core), which also know the truth, and observations are Film, to be developed.
    """
    if film and name in SCENES and hasattr(os, "fork"):
        from transporter.envs.atari_processes import AtariProcesses

        return AtariProcesses(name, count, seed, noops=noops, sticky=sticky, workers=workers)
    height, width = (size, size) if resized else _load(name).getScreenDims()
    env = AtariVectorEnv(
        _known(name),
        count,
        img_height=height,
        img_width=width,
        grayscale=False,
        stack_num=1,
        frameskip=REPEAT,
        maxpool=True,
        noop_max=noops,
        use_fire_reset=False,
        reward_clipping=False,
        repeat_action_probability=sticky,
        max_num_frames_per_episode=EPISODE_FRAMES,
        autoreset_mode=AutoresetMode.NEXT_STEP,
    )
    return AtariVector(env, seed, sticky)


class AtariState(NamedTuple):
    """All that an AtariEnv's future depends on, as plain data."""

    emulator: bytes
    film: Shown
    generator: Mapping[str, Any]  # of the no-op starts to come


class AtariEnv(PixelEnv):
    """One game on the emulator itself: frames, truth from RAM, exact clone and restore."""

    def __init__(self, name: str, size: int = 128, *, sticky: float = 0.0, noops: int = NOOPS) -> None:
        super().__init__(scene(name), size)
        self.size, self.noops, self.sticky = size, noops, sticky
        self._switch_on(seed=0)
        self.film = self._start_film.copy()  # the last two emulator frames
        self.actions = self.ale.getMinimalActionSet()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Frame, dict[str, Any]]:
        """A new game after a random number of idle frames; the seed decides all of it."""
        self.begin(seed)
        return self.picture(), self._info()

    def begin(self, seed: int | None = None) -> None:
        """reset() for those who look at the film themselves."""
        super().reset(seed=seed)
        if seed is not None and self.sticky:
            self._switch_on(seed)  # the emulator takes its seed when the ROM is loaded, and needs it for nothing else
        self.ale.restoreState(self._start)
        self.film[:] = self._start_film
        for _ in range(int(self.np_random.integers(self.noops + 1))):
            self.ale.act(ale_py.Action.NOOP)
            self._remember()

    def step(self, action: int) -> tuple[Frame, float, bool, bool, dict[str, Any]]:
        """The action for four emulator frames; the reward is the score gained, not clipped."""
        reward = self.play(action)
        return self.picture(), reward, *self.ended(), self._info()

    def play(self, action: int) -> float:
        """step() for those who look at the film themselves: the reward."""
        reward = 0
        for _ in range(REPEAT):
            reward += self.ale.act(self.actions[int(action)])
            self._remember()
            if self.ale.game_over() or self._over_unnoticed():
                break
        return float(reward)

    def ended(self) -> tuple[bool, bool]:
        """Whether the game is over, and whether it was cut short."""
        return self.ale.game_over(with_truncation=False) or self._over_unnoticed(), self.ale.game_truncated()

    def _over_unnoticed(self) -> bool:
        rule = atari_truth.UNNOTICED.get(self.scene.name)
        return rule is not None and rule(self.ale.getRAM())

    @property
    def screens(self) -> Screens:
        """The last two emulator frames."""
        return COLOURS.take(self.film, axis=0) if self.film.ndim == 3 else self.film.copy()

    def truth(self) -> Truth:
        """Objects of the frame shown last, by the RAM behind its newer half."""
        if not self.scene.has_truth:
            return super().truth()
        return atari_truth.truth(self.scene.name, self.ale.getRAM(), self.screens)

    def render(self) -> UInt8[np.ndarray, "h w 3"]:
        """The frame shown last at the screen's own size."""
        return self.screens.max(0)

    def picture(self) -> Frame:
        """The same as step() shows it."""
        return frames.resize(self.render(), self.size, self.size)

    def clone_state(self) -> AtariState:
        """A snapshot from which restore_state() continues exactly, also in another process."""
        emulator = self.ale.cloneState(include_rng=True).serialize()
        return AtariState(emulator, self.film.copy(), self.np_random.bit_generator.state)

    def restore_state(self, state: AtariState) -> Frame:
        """Back to a snapshot; returns the frame that was shown then."""
        self.ale.restoreState(ALEState(state.emulator))
        self.film[:] = state.film
        self.np_random.bit_generator.state = state.generator
        return self.picture()

    def _switch_on(self, seed: int) -> None:
        """Load the game and keep its first moment: reset_game() itself depends on what was played before."""
        self.ale = _load(self.scene.name, self.sticky, seed)
        self.ale.reset_game()
        self._start = self.ale.cloneState()  # without the emulator's random state, so that stickiness goes on
        # Games of which we know nothing may be of another television norm, with other colours.
        self._take = self.ale.getScreen if self.scene.name in SCENES else self.ale.getScreenRGB
        self._start_film: Shown = np.stack([self._take()] * 2)

    def _remember(self) -> None:
        self.film[0] = self.film[1]
        self._take(self.film[1])

    def _info(self) -> dict[str, Any]:
        return {"lives": self.ale.lives()}


class AtariVector(VectorWrapper):
    """ale-py's vector environment without its stack axis; its first reset without a seed uses the one given here."""

    def __init__(self, env: AtariVectorEnv, seed: int, sticky: float = 0.0) -> None:
        super().__init__(env)
        self._emulators, self._sticky = env, sticky
        self._seed: int | None = seed
        shape = env.single_observation_space.shape[1:]
        self.single_observation_space = gymnasium.spaces.Box(0, 255, shape, np.uint8)
        self.observation_space = gymnasium.spaces.Box(0, 255, (env.num_envs, *shape), np.uint8)

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict]:
        """(n, h, w, 3) frames; game i gets seed + i, or the i-th seed."""
        given = self._seed if seed is None else seed
        chosen = given if given is None or isinstance(given, int) else np.asarray(given)
        if isinstance(chosen, np.ndarray) and options and "reset_mask" in options:
            chosen = chosen[options["reset_mask"]]  # of those that begin, as ale-py wants them
        self._seed = None
        observations, info = self.env.reset(seed=chosen, options=options)  # type: ignore[arg-type]
        return observations[:, 0], info

    def come_back(
        self, seeds: Int64[np.ndarray, "n"], restarts: Int64[np.ndarray, "n"], played: Sequence[Int64[np.ndarray, "t"]]
    ) -> np.ndarray | None:
        """See come_back(): None where it does not know how."""
        return None if self._sticky and restarts.any() else come_back(self, seeds, restarts, played)

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict]:
        """As gymnasium says; the rewards are scores gained, not clipped."""
        self.step_async(actions)
        return self.step_wait()

    def step_async(self, actions: np.ndarray) -> None:
        """Begin a step: the games play it in their threads until step_wait() asks for the outcome."""
        self._emulators.send(actions)

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict]:
        """What step() returns; the frames are the caller's to keep."""
        observations, rewards, terminated, truncated, info = self._emulators.recv()
        return observations[:, 0], rewards.astype(np.float64), terminated, truncated, info


def come_back(
    games: VectorEnv,
    seeds: Int64[np.ndarray, "n"],
    restarts: Int64[np.ndarray, "n"],
    played: Sequence[Int64[np.ndarray, "t"]],
) -> np.ndarray:
    """To where games were that had begun anew so often, and had then played these actions; what they show there.

    How an episode begins depends on its seed and on how many there were before it, not on what was played in them; but
    with sticky actions, whose chance is drawn from the same source, it does, and there is no short way.
    """
    longest = max(map(len, played))
    waits = np.array([longest - len(own) for own in played])
    view, _ = games.reset(seed=seeds.tolist())  # all of them, before some of them can
    for t in range(longest + 1):
        # Games of one vector move together, so who has less to play idles before it begins.
        for turn in range(1 + max(restarts[waits == t], default=-1)):
            beginning = (waits == t) & (restarts >= turn)
            view, _ = games.reset(seed=None if turn else seeds.tolist(), options={"reset_mask": beginning})
        if t < longest:
            actions = [own[t - wait] if t >= wait else 0 for own, wait in zip(played, waits, strict=True)]
            view = games.step(np.array(actions, np.int64))[0]
    return view


def _known(name: str) -> str:
    if name not in roms.get_all_rom_ids():
        raise InputError(f"no Atari game named {name!r}: names are snake_case, as in ms_pacman")
    return name


def _load(name: str, sticky: float = 0.0, seed: int = 0) -> ALEInterface:
    ALEInterface.setLoggerMode(LoggerMode.Error)  # no banner
    ale = ALEInterface()
    ale.setFloat("repeat_action_probability", sticky)
    ale.setInt("random_seed", seed % 2**31)
    ale.setInt("max_num_frames_per_episode", EPISODE_FRAMES)
    ale.loadROM(roms.get_rom_path(_known(name)))
    return ale

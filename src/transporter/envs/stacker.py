"""The manipulator of the DeepMind control suite with two or four boxes, seen by its fixed camera.

The suite takes five torques in [-1, 1]; here an action is an index into a fixed table of torque vectors: none, each
joint alone in both directions, and a bank of uniformly random vectors drawn once with a fixed seed, so that a policy
that picks actions at random is close to a uniform continuous one. Four control steps an action move the hand by two to
three pixels of 128 in the median, boxes by up to ten while they fall or are pushed.
"""

import os
from functools import partial
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from jaxtyping import Float, Float64

from transporter import coords
from transporter.envs.base import Frame, PixelEnv, Scene, Truth
from transporter.envs.processes import Processes
from transporter.errors import InputError
from transporter.frames import resize
from transporter.workers import free_memory

REPEAT = 4  # control steps of 10 ms for each action (the paper's action repeat)
EPISODE = 10.0  # seconds, the suite's own limit
LARGEST = 480  # pixels: the model's off-screen buffer
PROCESS = 200 * 2**20  # bytes that each takes, about
JOINTS = ("root", "shoulder", "elbow", "wrist", "grasp")
BANK = 32

# What moves, and the geoms it is made of: its centre is the mean of theirs.
ARM = {
    "upper_arm": ("upper_arm",),
    "middle_arm": ("middle_arm",),
    "lower_arm": ("lower_arm",),
    "hand": ("hand", "palm1", "palm2"),
    "thumb": ("thumb1", "thumb2", "thumbtip1", "thumbtip2"),
    "finger": ("finger1", "finger2", "fingertip1", "fingertip2"),
}


def _table() -> Float64[np.ndarray, "n 5"]:
    one = np.eye(len(JOINTS))
    bank = np.random.default_rng(0).uniform(-1, 1, (BANK, len(JOINTS)))
    return np.concatenate([np.zeros_like(one[:1]), one, -one, bank])


TORQUES = _table()
ACTIONS = ("none", *(f"{j}+" for j in JOINTS), *(f"{j}-" for j in JOINTS), *(f"random_{i:02d}" for i in range(BANK)))


def _scene(boxes: int) -> Scene:
    objects = (*(f"box{i}" for i in range(boxes)), *ARM)
    return Scene(f"stack_{boxes}", len(objects), 0.15, ACTIONS, objects)  # radius: the paper's for stack_4


SCENES: dict[str, Scene] = {scene.name: scene for scene in (_scene(4), _scene(2))}


def make(name: str, size: int = 128, seed: int | None = None, *, seconds: float = EPISODE) -> "StackerEnv":
    """One stacker; the seed, if any, decides its episodes until reset() is given another."""
    return StackerEnv(name, size, seed, seconds=seconds)


def make_vector(name: str, count: int, size: int = 128, seed: int = 0, *, seconds: float = EPISODE) -> VectorEnv:
    """count stackers in processes that end with this one; an episode that ended restarts at the next step."""
    if count > (most := max(1, free_memory() // PROCESS)):
        raise InputError(f"{count} stackers are as many processes, and there is memory for {most} at most")
    builders = [partial(make, name, size, seed + i, seconds=seconds) for i in range(count)]
    # Spawned, not forked: OpenGL contexts and threads of this process must not be inherited.
    return Processes(builders, context="spawn", autoreset_mode=AutoresetMode.NEXT_STEP)


class StackerEnv(PixelEnv):
    """stack_2 or stack_4; in the suite's ten seconds an episode has 250 steps."""

    def __init__(self, name: str, size: int = 128, seed: int | None = None, *, seconds: float = EPISODE) -> None:
        if name not in SCENES:
            raise InputError(f"no stacker named {name!r}: {', '.join(SCENES)}")
        if not 1 <= size <= LARGEST:
            raise InputError(f"{name} is drawn at 1 to {LARGEST} pixels, not {size}")
        super().__init__(SCENES[name], size)
        self.size = size
        self._env = _suite().load("stacker", name, task_kwargs={"random": seed, "time_limit": seconds})
        # Renderers smooth edges in ways of their own, and a model trained on one kind's frames is lost on another's. So
        # they draw without, at twice the size where they can, and averaging smooths.
        self._env.physics.model.vis.quality.offsamples = 0
        self._drawn = 2 * size if 2 * size <= LARGEST else size
        boxes = {name: (name,) for name in self.scene.objects if name not in ARM}
        self._parts = [list((boxes | ARM)[name]) for name in self.scene.objects]
        self._camera: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Frame, dict[str, Any]]:
        """Arm, boxes and target at random places; the seed decides them."""
        super().reset(seed=seed)
        if seed is not None:
            self._env.task.random.seed(seed % 2**32)
        self._env.reset()
        return self.render(), {}

    def step(self, action: int) -> tuple[Frame, float, bool, bool, dict[str, Any]]:
        """The action's torques for four control steps; an episode is only ever cut, never over."""
        reward = 0.0
        for _ in range(REPEAT):
            step = self._env.step(TORQUES[int(action)])
            reward += float(step.reward or 0.0)
            if step.last():
                break
        return self.render(), reward, False, bool(step.last()), {}

    def truth(self) -> Truth:
        """Centres through the camera, absent outside the frame; all move in one plane, so none hides another."""
        positions = self._env.physics.named.data.geom_xpos
        centres = project(self._matrix(), np.array([positions[part].mean(0) for part in self._parts]))
        points = coords.from_pixels(centres, self.size, self.size).astype(np.float32)
        return Truth(points, np.abs(points).max(1) <= 1)

    def render(self) -> Frame:
        """The fixed camera's picture."""
        drawn = self._env.physics.render(self._drawn, self._drawn, camera_id="fixed")
        return resize(drawn, self.size, self.size).copy()

    def close(self) -> None:
        """Free the renderer."""
        self._env.close()

    def _matrix(self) -> Float64[np.ndarray, "3 4"]:
        if self._camera is None:
            from dm_control.mujoco import Camera

            self._camera = Camera(self._env.physics, self.size, self.size, camera_id="fixed")
        return np.asarray(self._camera.matrix)


def project(matrix: Float[np.ndarray, "3 4"], positions: Float[np.ndarray, "n 3"]) -> Float[np.ndarray, "n 2"]:
    """World positions to pixel coordinates in which the centre of the first pixel is (0.5, 0.5)."""
    x, y, depth = matrix @ np.concatenate([positions, np.ones((len(positions), 1))], 1).T
    # MuJoCo counts from the first pixel's centre.
    return np.stack([x / depth, y / depth], 1) + 0.5


def _suite() -> Any:
    """dm_control's suite, set to draw without a screen."""
    os.environ.setdefault("MUJOCO_GL", "egl")
    try:
        from dm_control import suite
    except ModuleNotFoundError as error:
        raise InputError(f"stack_2 and stack_4 need {error.name}: pip install 'transporter[dmc]'") from error
    except (ImportError, AttributeError, OSError, RuntimeError) as error:  # PyOpenGL's ways to miss libEGL
        backend = os.environ["MUJOCO_GL"]
        raise InputError(
            f"MuJoCo cannot draw with MUJOCO_GL={backend}: install libegl1 (Debian) and set MUJOCO_GL=egl ({error})"
        ) from error
    return suite

"""What the studio needs of rooms that a report may not enter (models, environments): the command line hands it in."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from jaxtyping import Float32, UInt8

Frames = UInt8[np.ndarray, "t h w 3"]
Picture = UInt8[np.ndarray, "h w 3"]


class Scene(Protocol):
    """envs.base.Scene is one."""

    @property
    def name(self) -> str: ...
    @property
    def radius(self) -> float: ...
    @property
    def actions(self) -> tuple[str, ...]: ...
    @property
    def objects(self) -> tuple[str, ...]: ...


class Game(Protocol):
    """One environment that shows frames (envs.base.PixelEnv is one)."""

    @property
    def scene(self) -> Scene: ...
    def reset(self, *, seed: int | None = None) -> tuple[Picture, dict[str, Any]]: ...
    def step(self, action: int) -> tuple[Picture, Any, bool, bool, dict[str, Any]]: ...
    def render(self) -> Picture: ...
    def truth(self) -> Any: ...
    def close(self) -> None: ...


class Loaded(NamedTuple):
    """A model, ready to look at frames."""

    points: Callable[[Frames], Float32[np.ndarray, "t k 2"]]
    keypoints: int
    size: int  # frames are shown to it at size × size
    sigma: float  # width of its heatmaps, exp(-d²/σ²), in [-1, 1] units
    environment: str | None
    step: int | None
    features: Callable[[Frames], Float32[np.ndarray, "t k d"]] | None
    reconstruct: Callable[[Picture, Picture], Picture] | None  # from source and target; None where weights are not kept


class ModelName(NamedTuple):
    """A model that can be chosen."""

    id: str
    label: str
    environment: str | None
    source: str | Path  # what `load` takes
    chosen: bool = False  # of several seeds that were trained together


@dataclass(frozen=True)
class Parts:
    """Everything that comes from outside."""

    shipped: Callable[[], Sequence[ModelName]]
    load: Callable[[str | Path], Loaded]
    make: Callable[[str, int], Game]
    games: Callable[[], Sequence[str]]
    marks: Callable[[str], Mapping[str, float]]  # what others score in a game
    tracker: tuple[str, ...]  # a command that follows keypoints through one video; see clips.py for what it says

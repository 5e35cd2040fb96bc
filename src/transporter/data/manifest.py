"""How a set of pairs was made and how much of it is safely on disk: the file manifest.json in its folder."""

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Int

from transporter.errors import InputError
from transporter.files import parse_json, sealed, unsealed, write_text
from transporter.typed import checked

FORMAT = 2  # raise it whenever an older reader would misread the folder
PLAIN = 1  # of pairs as they were taken: those, version 0.1 reads as well
NAME = "manifest.json"
LONGEST = 2_000  # steps in a trajectory: which frames to keep is drawn for every length, in a square of them
LARGEST = 2048  # pixels: a frame's side


@dataclass(frozen=True)
class CollectSettings:
    """Everything that decides what a data set contains; the same settings give the same pairs to the bit."""

    environment: str = "pong"
    """The environment that plays; "video" where the frames come from files."""
    size: int = 128
    """Height and width of the stored frames, in pixels."""
    pairs: int = 100_000
    """How many pairs the finished set holds (Appendix B: 100k)."""
    sampler: Literal["halves", "offset"] = "halves"
    """halves: one frame from each half of a trajectory (Appendix B); offset: two frames 1..max_offset apart (§4)."""
    max_offset: int = 20
    """The largest distance in time that the offset sampler draws, in steps."""
    length: int = 100
    """Steps in a trajectory; it is shorter only where an episode ends."""
    per_trajectory: int = 1
    """Pairs offered from each trajectory; videos set it themselves."""
    diverse: bool = True
    """Once the set is full, go on and let unusual pairs overwrite usual ones (Appendix B)."""
    budget: int = 10_000_000
    """Environment steps after which collection ends (with diverse off, it ends as soon as the set is full). Each
    `length` steps offer one pair, so 100k diverse pairs have something to choose from only well above 10M."""
    envs: int = 64
    """Copies of the environment that play at once (fewer where the set is small)."""
    rate: float = 15.0
    """Frames taken from each second of a video; Atari with action repeat 4 shows 15."""
    moving_camera: bool = False
    """The camera moves: the first frame of each pair is stored as it would have been seen from where the second was
    taken (the same to the bit on one machine; another's processor may round a colour the other way)."""
    validation: float = 0.05
    """Share of the pairs held out for validation, by whole trajectories."""
    seed: int = 0
    """Decides every random choice."""
    sources: tuple[str, ...] = ()
    """Names and sizes of the videos, filled in by the collector."""

    def __post_init__(self) -> None:
        for name, least in (("size", 8), ("pairs", 1), ("max_offset", 1), ("length", 2), ("per_trajectory", 1),
                            ("budget", 1), ("envs", 1), ("seed", 0)):  # fmt: skip
            if getattr(self, name) < least:
                raise InputError(f"{name} must be at least {least}, not {getattr(self, name)}")
        if self.length > LONGEST:
            raise InputError(f"length must be at most {LONGEST}, not {self.length}")
        if self.size > LARGEST:
            raise InputError(f"size must be at most {LARGEST}, not {self.size}")
        if self.sampler not in ("halves", "offset"):
            raise InputError(f"sampler must be halves or offset, not {self.sampler!r}")
        if self.budget < self.length:
            raise InputError(f"budget must cover one trajectory, {self.length} steps, not {self.budget}")
        if not 0 <= self.validation < 1:
            raise InputError(f"validation must be a share of at least 0 and under 1, not {self.validation}")
        if not self.rate > 0:
            raise InputError(f"rate must be above 0 frames a second, not {self.rate}")


def quick_settings(
    environment: str, size: int, pairs: int, seed: int = 0, moving_camera: bool = False
) -> CollectSettings:
    """A set in a fraction of the play that Appendix B asks for: four pairs of each trajectory, up to 20 steps apart."""
    return CollectSettings(
        environment=environment,
        size=size,
        pairs=pairs,
        sampler="offset",
        per_trajectory=4,
        diverse=False,
        budget=1000 * pairs,  # never reached: the set is full long before
        envs=16,
        seed=seed,
        moving_camera=moving_camera,
    )


def _no_rows() -> Int[np.ndarray, "0"]:
    return np.empty(0, np.int64)


@dataclass
class Manifest:
    """The state of a data set as of its last commit."""

    settings: CollectSettings
    live: Int[np.ndarray, "n"] = field(default_factory=_no_rows)  # row on disk of each pair of the set
    trajectory: Int[np.ndarray, "n"] = field(default_factory=_no_rows)  # number of the trajectory it comes from
    chunk_bytes: list[int] = field(default_factory=list)  # size of each committed chunk file
    segments: int = 0  # pieces of work committed: where the next run takes up
    steps: int = 0  # environment steps (or video frames) behind them
    trajectories: int = 0  # trajectories seen, kept or not
    complete: bool = False

    def write(self, folder: Path) -> None:
        """All or nothing: a reader sees the old manifest or the new one, also after a power cut."""
        record = dataclasses.asdict(self) | {"live": self.live.tolist(), "trajectory": self.trajectory.tolist()}
        if not self.settings.moving_camera:
            del record["settings"]["moving_camera"]
        version = FORMAT if self.settings.moving_camera else PLAIN
        write_text(folder / NAME, json.dumps(sealed({"format": version, **record})))

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """Or an InputError that says what to do."""
        if not folder.exists():
            raise InputError(f"there is no data set at {folder}: make one with `transporter collect`")
        if not (folder / NAME).is_file():
            raise InputError(f"{folder} is not a data set: it has no {NAME}")
        try:
            whole = parse_json((folder / NAME).read_bytes())
            version = int(whole["format"])
        except (ValueError, KeyError, TypeError, OverflowError):
            raise InputError(_damaged(folder, f"{NAME} cannot be read")) from None
        if version > FORMAT:
            raise InputError(f"{folder} was written by a newer transporter (format {version}, not {FORMAT}): upgrade")
        try:
            record: dict[str, Any] = unsealed(whole)
        except ValueError as error:
            raise InputError(_damaged(folder, f"{NAME}: {error}")) from None
        del record["format"]
        try:
            settings = record.pop("settings")
            settings = CollectSettings(**settings | {"sources": tuple(settings["sources"])})
            live, trajectory = (_whole(record.pop(name)) for name in ("live", "trajectory"))
            manifest = cls(settings, live, trajectory, **record)
            checked(settings)
            _whole(manifest.chunk_bytes)
            if min(checked(manifest).segments, manifest.steps, manifest.trajectories) < 0:
                raise ValueError("counts below 0")
        except (KeyError, TypeError, ValueError):  # an InputError about a setting is a ValueError as well
            raise InputError(_damaged(folder, f"{NAME} lacks fields or has wrong ones")) from None
        if live.ndim != 1 or live.shape != trajectory.shape or len(np.unique(live)) != len(live):
            raise InputError(_damaged(folder, f"{NAME} lists rows twice or without their trajectories"))
        return manifest


def _whole(numbers: Any) -> Int[np.ndarray, "n"]:
    found = np.asarray(numbers)
    if found.ndim != 1 or (found.size and found.dtype.kind != "i"):  # neither fractions nor beyond 63 bits
        raise ValueError("not a list of whole numbers")
    return found.astype(np.int64)


def _damaged(folder: Path, what: str) -> str:
    return f"{folder} is damaged ({what}): delete the folder and collect it again"


def damaged(folder: Path, what: str) -> InputError:
    """The one way in which every reader of a data set says so; and of one that is not there any more, that."""
    return InputError(_damaged(folder, what) if folder.is_dir() else f"{folder} was taken away while it was in use")

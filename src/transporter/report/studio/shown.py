"""What is sent of runs, episodes, games and clips: from files and arrays to JSON and bytes."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32

from transporter.report.draw import COLOURS
from transporter.report.formats import FORMATS
from transporter.report.studio import control
from transporter.report.studio.answers import Refused
from transporter.report.studio.folders import Headline, read_evaluation
from transporter.report.studio.inside import figures_in, file_in
from transporter.report.studio.parts import Loaded, Picture
from transporter.report.studio.pictures import png
from transporter.report.studio.watching import Episode, Session, Truths, View
from transporter.report.tables import read_tracks, write_tracks
from transporter.runs import Run

Packed = tuple[dict[str, Any], list[bytes]]


def run(line: Headline, folder: Path) -> dict[str, Any]:
    """All that a run's own page needs, but for its curves."""
    settings = Run.open(folder).settings if line.state != "damaged" else {}
    evaluation = tracking(folder)
    return {
        "headline": line,
        "settings": _groups(settings) if isinstance(settings, dict) else [],
        "evaluation": evaluation,
        "unreadable": evaluation is None and file_in(folder, "evaluation.json") is not None,
        "figures": _figures(folder),
        "videos": videos(folder),
        "colours": COLOURS,
        "names": control.names(settings) if isinstance(settings, dict) else None,
    }


def tracking(folder: Path) -> dict[str, Any] | None:
    """Precision and recall against length, and who follows whom; None where it was not measured."""
    found = read_evaluation(file_in(folder, "evaluation.json"))
    if found is None:
        return None
    curve = found.curve
    names = ("lengths", "precision", "recall", "precision_ceiling", "recall_ceiling", "ratio")
    return {
        "scene": found.scene,
        "frames": found.frames,
        "episodes": found.episodes,
        "radius": curve.radius,
        "following_length": found.following_length,
        "curve": {name: getattr(curve, name) for name in names},
        "keypoints": found.keypoints,
        "objects": found.objects,
    }


def videos(folder: Path) -> list[str]:
    """Clips that lie in a run folder, whoever wrote them: reports, replays of policies."""
    return sorted(path.name for path in folder.glob("*.mp4") if file_in(folder, path.name))[:50]


def _figures(folder: Path) -> dict[str, dict[str, float]]:
    """The flat figures of every results file in the folder, whoever wrote it."""
    names = sorted(path.name for path in folder.glob("*.json"))[:50]
    found = {Path(name).stem: figures_in(folder, name) for name in names if name not in ("run.json", "evaluation.json")}
    return {name: figures for name, figures in found.items() if figures}


def _groups(settings: Mapping[str, Any], name: str = "") -> list[dict[str, Any]]:
    """Settings as tables: the plain ones first, then one table per nested part."""
    rows = [(key, value) for key, value in settings.items() if not isinstance(value, Mapping)]
    groups: list[dict[str, Any]] = [{"name": name, "rows": rows}] if rows else []
    for key, value in settings.items():
        if isinstance(value, Mapping):
            groups += _groups(value, f"{name} · {key}" if name else str(key))
    return groups


# Episodes and games


def episode(loaded: Loaded, shown: Episode) -> Packed:
    """Points (t k 2) as float32, then truth where there is one, then a PNG per frame."""
    head: dict[str, Any] = {
        "scene": shown.scene,
        "width": shown.width,
        "height": shown.height,
        "frames": len(shown.pictures),
        "keypoints": loaded.keypoints,
        "sigma": loaded.sigma,
        "step": loaded.step,
        "firsts": shown.firsts,
        "paints": loaded.reconstruct is not None,
        "describes": loaded.features is not None,
        "colours": COLOURS,
        "truth": None,
    }
    arrays = [shown.points.astype("<f4").tobytes()]
    if (truth := shown.truths) is not None:
        head["truth"] = {"objects": truth.objects, "radius": truth.radius}
        arrays += [np.nan_to_num(truth.centres).astype("<f4").tobytes(), truth.present.astype("u1").tobytes()]
        arrays += [_followed(truth).astype("i1").tobytes()]
    return head, [*arrays, *shown.pictures]


def _followed(truth: Truths) -> np.ndarray:
    """(t, k): the object that a keypoint is on, -1 where it is on none."""
    return np.where(truth.matched.any(2), truth.matched.argmax(2), -1)


def features(found: Float32[np.ndarray, "t k d"]) -> Packed:
    """Each channel between its least and its most over the episode, 0 to 255."""
    low, high = found.min((0, 1)), found.max((0, 1))
    scaled = np.rint(255 * (found - low) / np.maximum(high - low, 1e-9)).astype("u1")
    return {"channels": found.shape[2]}, [scaled.tobytes()]


def reconstruction(paint: Callable[[Picture, Picture], Picture], source: Picture, target: Picture) -> Packed:
    """Source, target, and the target as painted from the source."""
    return {}, [png(source), png(target), png(paint(source, target))]


def scene(session: Session) -> dict[str, Any]:
    """What stays the same while a game is played."""
    of = session.game.scene
    return {
        "scene": of.name,
        "actions": of.actions,
        "objects": of.objects,
        "radius": of.radius,
        "keypoints": session.loaded.keypoints,
        "sigma": session.loaded.sigma,
        "colours": COLOURS,
    }


def game(view: View, head: dict[str, Any]) -> Packed:
    truth = view.truth
    known = {} if truth is None else {"centres": np.nan_to_num(truth.centres[0]), "present": truth.present[0]}
    followed = {} if truth is None else {"followed": _followed(truth)[0]}
    names = ("points", "score", "lives", "over", "step")
    state = {name: getattr(view, name) for name in names}
    return {**head, **state, **known, **followed}, [view.picture]


# Clips


def tracks(path: Path) -> Packed:
    """Times since the first frame (t) as float64, then points (t k 2) as float32."""
    found = read_tracks(path)
    times = found.times - found.times[:1]
    head = {"frames": len(times), "keypoints": found.keypoints, "colours": COLOURS}
    return head, [times.astype("<f8").tobytes(), found.points.astype("<f4").tobytes()]


def table(tracked: Path, card: Mapping[str, Any], kind: str) -> Path:
    """The clip's table in another format, made when it is first asked for."""
    if kind not in FORMATS:
        raise Refused(404, f"a table comes as {', '.join(FORMATS)}")
    path = tracked.with_name(f"tracks{FORMATS[kind].ending}")
    if not path.exists():
        write_tracks(path, read_tracks(tracked), int(card["width"]), int(card["height"]), str(card["name"]))
    return path

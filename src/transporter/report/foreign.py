"""Files that other tools read: DeepLabCut, SLEAP and COCO.

Our pixel coordinates count from the image's edge: the centre of the first pixel is 0.5. These tools count pixels, so
that it is 0; they get half a pixel less. They also want a confidence. A keypoint has none: it is always somewhere,
and they are told 1 (COCO: visible).
"""

import csv
import json
from contextlib import ExitStack
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Any

import numpy as np
from jaxtyping import Float32

from transporter.coords import from_pixels
from transporter.errors import InputError
from transporter.report.tracked import Format, Head, Tracks, Write

SCORER = "transporter"
HALF = 0.5  # a pixel, from its edge to its centre


def names(keypoints: int) -> list[str]:
    """What other tools call the keypoints."""
    return [f"keypoint{k}" for k in range(keypoints)]


# DeepLabCut: one row per frame; three heads (scorer, bodyparts, coords) and x, y, likelihood of each keypoint.


def _open_deeplabcut(path: Path, stack: ExitStack, head: Head) -> Write:
    writer = csv.writer(stack.enter_context(path.open("w", newline="", encoding="utf-8")), lineterminator="\n")
    begun = False

    def write(part: Tracks) -> None:
        nonlocal begun
        if not begun:
            parts = [name for name in names(part.keypoints) for _ in range(3)]
            writer.writerow(["scorer", *[SCORER] * len(parts)])
            writer.writerow(["bodyparts", *parts])
            writer.writerow(["coords", *["x", "y", "likelihood"] * part.keypoints])
            begun = True
        sure = np.ones((*part.pixels.shape[:2], 1), np.float32)
        values = np.concatenate([part.pixels - HALF, sure], axis=2).reshape(len(part.frames), -1)
        writer.writerows([frame, *row] for frame, row in zip(part.frames.tolist(), values.tolist(), strict=True))

    return write


def _read_deeplabcut(path: Path) -> Tracks:
    with path.open(newline="", encoding="utf-8") as file:
        scorer, bodyparts, coords, *rows = csv.reader(file)
    if (scorer[0], bodyparts[0], coords[0]) != ("scorer", "bodyparts", "coords"):
        raise ValueError("other heads")
    table = np.array([[float(value) for value in row] for row in rows]).reshape(-1, len(coords))
    return _from_pixels(table[:, 0], table[:, 1:].reshape(len(rows), -1, 3)[..., :2])


# SLEAP's analysis file: one track whose nodes are the keypoints. Arrays lie as MATLAB wants them, frames last.


def _open_sleap(path: Path, stack: ExitStack, head: Head) -> Write:
    h5py = _h5py()
    file = stack.enter_context(h5py.File(path, "w"))
    text = h5py.string_dtype()
    file.create_dataset("track_names", data=np.array([b"track_0"]))
    file.create_dataset("edge_names", shape=(0, 2), dtype="S1")
    file.create_dataset("edge_inds", shape=(0, 2), dtype="int64")
    for name, value in {"labels_path": "", "video_path": head.clip, "provenance": json.dumps({"by": SCORER})}.items():
        file.create_dataset(name, data=value, dtype=text)
    file.create_dataset("video_ind", data=0)

    def write(part: Tracks) -> None:
        count, k = part.pixels.shape[:2]
        one = np.ones
        grown: dict[str, np.ndarray] = {
            "tracks": (part.pixels - HALF).astype(np.float64).T[None],  # (1, 2, k, t)
            "point_scores": one((1, k, count)),
            "instance_scores": one((1, count)),
            "tracking_scores": one((1, count)),
            "track_occupancy": one((1, count), np.uint8),
        }
        if "node_names" not in file:
            file.create_dataset("node_names", data=np.array([name.encode() for name in names(k)]))
        for name, values in grown.items():
            _append(file, name, values)

    # Frames last, but for who is there: SLEAP stores that one the other way round.
    stack.callback(lambda: _turn(file, "track_occupancy"))
    return write


def _append(file: Any, name: str, values: np.ndarray) -> None:
    """Lengthen a data set along its last axis."""
    if name not in file:
        room = (*values.shape[:-1], None)
        chunks = (*values.shape[:-1], 1024)
        file.create_dataset(name, data=values, maxshape=room, chunks=chunks, compression="gzip")
        return
    there = file[name]
    there.resize(there.shape[-1] + values.shape[-1], axis=there.ndim - 1)
    there[..., -values.shape[-1] :] = values


def _turn(file: Any, name: str) -> None:
    if file and name in file:
        values = file[name][()].T
        del file[name]
        file.create_dataset(name, data=values, compression="gzip")


def _read_sleap(path: Path) -> Tracks:
    with _h5py().File(path) as file:
        pixels = file["tracks"][0].T if "tracks" in file else np.zeros((0, 0, 2))
    return _from_pixels(np.arange(len(pixels)), pixels)


def _h5py() -> Any:
    try:
        import h5py
    except ImportError:
        raise InputError("SLEAP's files need the extra `sleap`: pip install 'transporter[sleap]'") from None
    return h5py


# COCO keypoints: one image per frame and one annotation in it.


def _open_coco(path: Path, stack: ExitStack, head: Head) -> Write:
    file = stack.enter_context(path.open("w", encoding="utf-8"))
    images = stack.enter_context(SpooledTemporaryFile(1 << 20, "w+", encoding="utf-8"))  # noqa: SIM115
    file.write('{"info": {"description": "keypoints by transporter"}, "licenses": [], "annotations": [')
    keypoints = 0

    def write(part: Tracks) -> None:
        nonlocal keypoints
        keypoints = part.keypoints
        for frame, time, pixels in zip(part.frames.tolist(), part.times.tolist(), part.pixels - HALF, strict=True):
            comma = ",\n" if images.tell() else "\n"
            file.write(comma + json.dumps(_annotation(frame, pixels)))
            name = f"{Path(head.clip).stem}_{frame:06d}.png"
            size = {"width": head.width, "height": head.height}
            images.write(comma + json.dumps({"id": frame, "file_name": name, **size, "frame": frame, "time": time}))

    def finish() -> None:
        file.write('\n], "images": [')
        images.seek(0)
        for line in images:
            file.write(line)
        kind = {"id": 1, "name": "scene", "supercategory": "scene", "keypoints": names(keypoints), "skeleton": []}
        file.write(f'\n], "categories": {json.dumps([kind])}}}\n')

    stack.callback(finish)
    return write


def _annotation(frame: int, pixels: Float32[np.ndarray, "k 2"]) -> dict[str, Any]:
    (left, top), (right, bottom) = pixels.min(0).tolist(), pixels.max(0).tolist()
    seen = np.concatenate([pixels, np.full((len(pixels), 1), 2)], axis=1)
    return {
        "id": frame + 1,  # COCO counts annotations from 1
        "image_id": frame,
        "category_id": 1,
        "keypoints": np.round(seen, 3).flatten().tolist(),
        "num_keypoints": len(pixels),
        "bbox": [left, top, right - left, bottom - top],
        "area": (right - left) * (bottom - top),
        "iscrowd": 0,
    }


def _read_coco(path: Path) -> Tracks:
    data = json.loads(path.read_text(encoding="utf-8"))
    seen = {row["image_id"]: np.reshape(row["keypoints"], (-1, 3))[:, :2] for row in data["annotations"]}
    images = data["images"]
    frames = np.array([image["frame"] for image in images], np.int64)
    times = np.array([image["time"] for image in images], np.float64)
    keypoints = len(data["categories"][0]["keypoints"])
    pixels = np.array([seen[image["id"]] for image in images], np.float32).reshape(-1, keypoints, 2) + HALF
    size = (images[0]["width"], images[0]["height"]) if images else (1, 1)
    return Tracks(frames, times, from_pixels(pixels, *size), pixels)


def _from_pixels(frames: np.ndarray, pixels: np.ndarray) -> Tracks:
    """Of a file that knows neither times nor the size of the picture: both stay undefined."""
    pixels = (pixels + HALF).astype(np.float32)
    times = np.full(len(frames), np.nan)
    return Tracks(frames.astype(np.int64), times, np.full_like(pixels, np.nan), pixels)


DEEPLABCUT = Format(".dlc.csv", "as DeepLabCut writes it", _open_deeplabcut, _read_deeplabcut)
SLEAP = Format(".analysis.h5", "SLEAP's analysis file", _open_sleap, _read_sleap)
COCO = Format(".coco.json", "COCO keypoints", _open_coco, _read_coco)

"""What was learnt, in one file with the detector that it sees through: for every kind of agent."""

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from transporter.errors import InputError
from transporter.files import parse_json
from transporter.models.detector import Detector
from transporter.models.factory import ModelConfig
from transporter.tensors import read_tensors, write_tensors

FORMAT = 1
SEEN = "detector."  # begins the names of the detector's tensors
CARD = "detector card"


class StoredAgent(NamedTuple):
    """What a file holds."""

    head: dict[str, Any]
    tensors: dict[str, Tensor]
    detector: Detector | None


def fingerprint(detector: Detector) -> dict[str, Any]:
    """Its configuration, and a digest of its weights: a run that was begun with one does not go on with another."""
    digest = hashlib.sha256()
    for name, tensor in sorted(detector.net.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return {**detector.config.to_json(), "weights": digest.hexdigest()[:12]}


def of_today(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of an agent's run folder; what its version did not know of a detector is as it was then: by default."""
    found = {**settings}
    if isinstance(one := found.get("detector"), dict):
        found["detector"] = _described(one)
    if isinstance(several := found.get("detectors"), dict):
        found["detectors"] = {name: _described(each) for name, each in several.items()}
    return found


def _described(print_: dict[str, Any]) -> dict[str, Any]:
    config = {name: value for name, value in print_.items() if name != "weights"}
    return {**ModelConfig.from_json(config).to_json(), "weights": print_.get("weights")}


def write_agent(
    path: Path, kind: str, head: dict[str, Any], tensors: dict[str, Tensor], detector: Detector | None
) -> None:
    seen = {f"{SEEN}{name}": tensor for name, tensor in detector.net.state_dict().items()} if detector else {}
    head = {
        **head,
        "detector": detector.config.to_json() if detector else None,
        CARD: detector.card if detector else {},
    }
    write_tensors(path, {**tensors, **seen}, {"format": f"{kind} {FORMAT}", "agent": json.dumps(head)})


def read_agent(path: Path, kind: str, device: str | None = None) -> StoredAgent:
    """Or an InputError that says what the file is not."""
    words, tensors = read_tensors(path, f"an agent of the kind {kind}")
    try:
        found, _, version = words["format"].rpartition(" ")
        if found != kind:
            raise ValueError(f"it is of the kind {found}" if found else "it holds something else")
        if int(version) > FORMAT:
            raise InputError(f"{path} was written by a newer version of transporter")
        head, detector = parse_json(words["agent"]), None
        if head["detector"]:
            seen = {name.removeprefix(SEEN): t for name, t in tensors.items() if name.startswith(SEEN)}
            card = head.get(CARD, {})  # version 0.1 kept none
            if not isinstance(card, dict):
                raise ValueError("its detector's card is no card")
            detector = Detector.from_tensors(ModelConfig.from_json(head["detector"]), seen, card, device)
    except (KeyError, ValueError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is not an agent of the kind {kind}: {error}") from error
    return StoredAgent(head, {n: t for n, t in tensors.items() if not n.startswith(SEEN)}, detector)

"""How the studio answers: JSON without NaN, a head with bytes behind it, and errors that are one clear line."""

import json
import math
import struct
from collections.abc import Sequence
from typing import Any

from starlette.responses import Response

from transporter.errors import InputError


class Refused(InputError):
    """A request that is not served, and why."""

    def __init__(self, status: int, line: str) -> None:
        super().__init__(line)
        self.status = status


def not_found(line: str) -> Refused:
    return Refused(404, line)


def plain(value: Any) -> Any:
    """As JSON knows it: what is not finite becomes null, tuples with names become objects."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(name): plain(part) for name, part in value.items()}
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return value


class Json(Response):
    """JSON that every browser reads."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return json.dumps(plain(content), allow_nan=False, separators=(",", ":")).encode()


def failed(status: int, line: str) -> Json:
    return Json({"error": " ".join(line.split())}, status)


def packed(head: dict[str, Any], parts: Sequence[bytes] = ()) -> Response:
    """A head in JSON, then binary parts: length of the head (uint32), the head with each part's length, the parts."""
    text = json.dumps(plain({**head, "parts": [len(part) for part in parts]}), allow_nan=False).encode()
    return Response(struct.pack("<I", len(text)) + text + b"".join(parts), media_type="application/octet-stream")

"""Settings that came from a file: each field is of the type that its class says, or it is bad input."""

import dataclasses
import re
import types
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from transporter.errors import InputError

Settings = TypeVar("Settings")


def checked(settings: Settings) -> Settings:
    """The same dataclass, dataclasses inside it included; InputError where JSON brought something else."""
    for field in dataclasses.fields(settings):  # type: ignore[arg-type]
        value = getattr(settings, field.name)
        if not _fits(value, field.type):
            raise InputError(f"{field.name} cannot be {_short(value)}")
        if dataclasses.is_dataclass(value):
            checked(value)
    return settings


def unknown(error: Exception) -> str:
    """What settings from a file lack or have too much of, in words; Python's own of a dataclass speak of calls."""
    found = re.search(r"unexpected keyword argument '(\w+)'", str(error))
    if isinstance(error, KeyError):
        return f"there is no {error.args[0]}"
    return f"there was a setting {found[1]}" if found else str(error)


def _fits(value: Any, kind: Any) -> bool:
    origin, inside = get_origin(kind), get_args(kind)
    if origin is Literal:
        return isinstance(value, str | int) and value in inside
    if origin in (Union, types.UnionType):
        return any(_fits(value, one) for one in inside)
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(one, inside[0]) for one in value)
    if origin is list:
        return isinstance(value, list) and all(_fits(one, inside[0]) for one in value)
    if kind is float:  # JSON's own are neither NaN nor without end, Python's are
        return type(value) in (int, float) and abs(value) < 1e300
    if kind is int:
        return type(value) is int and abs(value) < 2**63
    return isinstance(value, kind) if isinstance(kind, type) else True


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."

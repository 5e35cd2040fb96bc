"""Settings from files: what a class says is what there is."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import pytest

from transporter.errors import InputError
from transporter.typed import checked


@dataclass(frozen=True)
class Inner:
    sizes: tuple[int, ...] = (1, 2)


@dataclass(frozen=True)
class Outer:
    count: int = 1
    share: float = 0.5
    flag: bool = False
    kind: Literal["a", "b"] = "a"
    inner: Inner = Inner()
    other: Inner | None = None


@pytest.mark.parametrize("good", [{}, {"share": 1}, {"other": Inner(())}, {"kind": "b"}])
def test_what_fits(good: dict[str, Any]) -> None:
    assert checked(replace(Outer(), **good)) == replace(Outer(), **good)


@pytest.mark.parametrize(
    "bad",
    [
        {"count": "1"}, {"count": 1.0}, {"count": True}, {"count": 2**70}, {"share": "x"}, {"share": float("nan")},
        {"flag": 1}, {"kind": "c"}, {"kind": []}, {"inner": None}, {"inner": Inner((1, "2"))}, {"other": 3},  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_what_does_not(bad: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="cannot be"):
        checked(replace(Outer(), **bad))

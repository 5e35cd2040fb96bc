"""One line, whatever is in it."""

import pytest

from transporter.errors import InputError


@pytest.mark.parametrize("strange", ["\r", "\n", "\x1e", "\u2028", "\x85", "\x1b[2J", "\0"])
def test_what_would_break_the_line_is_written_out(strange: str) -> None:
    said = str(InputError(f"no such key: '{strange}'"))
    assert len(said.splitlines()) == 1
    assert said.isprintable()
    assert said.startswith("no such key: '\\")


def test_letters_of_any_language_stay() -> None:
    assert str(InputError("no such game: 'Straße ×2 乒乓'")) == "no such game: 'Straße ×2 乒乓'"

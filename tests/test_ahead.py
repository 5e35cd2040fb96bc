import itertools
import threading
from collections.abc import Iterator

import pytest

from transporter.ahead import ahead


def test_items_come_in_order_and_an_error_after_those_before_it() -> None:
    def broken() -> Iterator[int]:
        yield from (1, 2)
        raise ValueError("no third")

    with ahead(broken(), depth=4) as items:
        assert [next(items), next(items)] == [1, 2]
        with pytest.raises(ValueError, match="no third"):
            next(items)


def test_none_is_an_item_like_any_other() -> None:
    with ahead([None, 1, None], depth=2) as items:
        assert list(items) == [None, 1, None]


def test_leaving_early_ends_the_thread_which_never_ran_far_ahead() -> None:
    made = itertools.count()
    before = threading.active_count()
    with ahead(made, depth=4) as items:
        assert [next(items) for _ in range(3)] == [0, 1, 2]
    assert threading.active_count() == before
    assert next(made) <= 3 + 4 + 3


def test_leaving_early_closes_the_generator() -> None:
    closed = []

    def numbers() -> Iterator[int]:
        try:
            yield from itertools.count()
        finally:
            closed.append(threading.current_thread().name)

    source = numbers()  # still held here: nobody else would close it
    with ahead(source, depth=2) as items:
        next(items)
    assert closed == ["ahead"]

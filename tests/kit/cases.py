"""Tables whose cases share one test: a test of its own costs more than most cases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["case"]


@contextmanager
def case(*what: object) -> Iterator[None]:
    """A failure inside names the case."""
    try:
        yield
    except Exception as error:
        error.add_note(f"case: {', '.join(repr(each)[:200] for each in what)}")
        raise

"""Where something is in an answer: `web.results`, `data.0.hits`, `items.*.page`, `snippet|description`.

A path that leads nowhere finds nothing.

Steps are separated by dots. A step is a key, or a number for a place in a list (from the end if negative), or `*` for all of
them. Paths separated by `|` are tried in turn, and the first that finds something is it. An empty path is the whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clicket.errors import UsageError

__all__ = ["Path"]

_MAX_FOUND = 1_000
NOTHING: Any = object()


class Path:
    """A path as it was written, read once."""

    __slots__ = ("_ways", "written")

    def __init__(self, written: str) -> None:
        if not isinstance(written, str):
            raise UsageError(f"a path into an answer is text like 'web.results', not {written!r}.")
        self.written = written
        self._ways = tuple(_steps(written, way) for way in written.split("|"))

    def __repr__(self) -> str:
        return f"Path({self.written!r})"

    def find(self, value: Any) -> Any:
        """What is there, or None."""
        for steps in self._ways:
            found = _walk(value, steps)
            if found is not NOTHING and found is not None and found != "":
                return found
        return None


def _steps(written: str, way: str) -> tuple[str, ...]:
    steps = tuple(step.strip() for step in way.split(".")) if way.strip() else ()
    if "" in steps:
        raise UsageError(f"the path {written!r} has an empty step; write it like 'web.results'.")
    return steps


def _walk(value: Any, steps: tuple[str, ...]) -> Any:
    for number, step in enumerate(steps):
        if step == "*":
            if not isinstance(value, list):
                return NOTHING
            inner = [_walk(item, steps[number + 1 :]) for item in value[:_MAX_FOUND]]
            flat: list[Any] = []
            for item in inner:
                if isinstance(item, list):
                    flat.extend(item)
                elif item is not NOTHING:
                    flat.append(item)
            return flat[:_MAX_FOUND]
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.lstrip("-").isdecimal() and -len(value) <= int(step) < len(value):
            value = value[int(step)]
        else:
            return NOTHING
    return value

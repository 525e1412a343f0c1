"""Paths into JSON: `web.results`, `data.0.hits`, `items.*.page`, `snippet|description`.

Steps are separated by dots. A step is a key, an index of a list (from the end if negative), or `*` for all items. Paths separated
by `|` are tried in turn until one finds something. An empty path is the whole value. A path that does not match finds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clicket.errors import UsageError

__all__ = ["JsonPath"]

_MAX_FOUND = 1_000
_NOTHING: Any = object()


class JsonPath:
    """A parsed path. `written` is its text."""

    __slots__ = ("_alternatives", "written")

    def __init__(self, written: str) -> None:
        if not isinstance(written, str):
            raise UsageError(f"a path into JSON is text like 'web.results', not {written!r}.")
        self.written = written
        self._alternatives = tuple(_steps(written, each) for each in written.split("|"))

    def __repr__(self) -> str:
        return f"JsonPath({self.written!r})"

    def find(self, value: Any) -> Any:
        """The value at this path, or None."""
        for steps in self._alternatives:
            found = _walk(value, steps)
            if found is not _NOTHING and found is not None and found != "":
                return found
        return None


def _steps(written: str, path: str) -> tuple[str, ...]:
    steps = tuple(step.strip() for step in path.split(".")) if path.strip() else ()
    if "" in steps:
        raise UsageError(f"the path {written!r} has an empty step; write it like 'web.results'.")
    return steps


def _walk(value: Any, steps: tuple[str, ...]) -> Any:
    for number, step in enumerate(steps):
        if step == "*":
            if not isinstance(value, list):
                return _NOTHING
            inner = [_walk(item, steps[number + 1 :]) for item in value[:_MAX_FOUND]]
            flat: list[Any] = []
            for item in inner:
                if isinstance(item, list):
                    flat.extend(item)
                elif item is not _NOTHING:
                    flat.append(item)
            return flat[:_MAX_FOUND]
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.lstrip("-").isdecimal() and -len(value) <= int(step) < len(value):
            value = value[int(step)]
        else:
            return _NOTHING
    return value

"""The tools that must have completed in a thread before a tool may be called there. All groups must be met; cycles are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, cast, get_args

import msgspec

from clicket.errors import UsageError, did_you_mean

__all__ = ["Group", "find_cycle", "make_groups", "names_of"]

Kind = Literal["any", "all", "sequence"]
_KINDS = get_args(Kind)


class Group(msgspec.Struct, frozen=True):
    """`any`: one of the names; `all`: each; `sequence`: each, after the one before it."""

    kind: Kind
    names: tuple[str, ...]

    def __str__(self) -> str:
        return {"any": " or ", "all": " and ", "sequence": ", then "}[self.kind].join(self.names)


def make_groups(where: str, given: Any) -> tuple[Group, ...]:
    """`"a"`, `["a", "b"]`, or `{"any" | "all" | "sequence": [...]}`; `where` names the tool in error messages."""
    if given is None:
        return ()
    if isinstance(given, Mapping):
        for kind in given:
            if kind not in _KINDS:
                near = did_you_mean(str(kind), _KINDS)
                raise UsageError(f"{where}: depends_on has no group {kind!r}.{near} Known: {', '.join(_KINDS)}.")
        groups = [Group(cast("Kind", kind), _names(where, names)) for kind, names in given.items()]
    else:
        groups = [Group("all", _names(where, given))]
    return tuple(groups)


def _names(where: str, given: Any) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else given
    if not isinstance(names, list | tuple) or not names or not all(isinstance(n, str) and n for n in names):
        raise UsageError(f"{where}: depends_on takes a tool's name or a list of names, not {given!r}.")
    if len(set(names)) < len(names):
        raise UsageError(f"{where}: depends_on names a tool twice: {', '.join(names)}.")
    return tuple(names)


def names_of(groups: Iterable[Group]) -> list[str]:
    """Every tool that is named, once."""
    return list(dict.fromkeys(name for group in groups for name in group.names))


def find_cycle(start: str, edges: Callable[[str], Iterable[str]]) -> list[str] | None:
    """A way from a tool back to itself, or None. `edges` names what a tool needs; it is asked once for each tool on the way."""
    way = [start]
    came_from = {start: start}
    while way:
        name = way.pop()
        for needed in edges(name):
            if needed == start:
                return [*_way_to(name, came_from), start]
            if needed not in came_from:
                came_from[needed] = name
                way.append(needed)
    return None


def _way_to(name: str, came_from: Mapping[str, str]) -> list[str]:
    way = [name]
    while came_from[way[-1]] != way[-1]:
        way.append(came_from[way[-1]])
    return way[::-1]

"""The entries of a turn up to the results of a step: pure. What is left of the turn is a turn that goes on after that step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from clicket.agents.entries import Entry, Held, Reply, Result, Results, Summary, Tried, entry_of
from clicket.model.chat import Usage

__all__ = ["cut", "unspent"]

_NO_USAGE: dict[str, Any] = msgspec.to_builtins(Usage())


def cut(entries: Sequence[dict[str, Any]], step: int) -> list[dict[str, Any]] | None:
    """None: the step is not on record with its results, or it is the last one of the turn. Each tool call that is left has its result."""
    found = [entry_of(raw) for raw in entries]
    end = _end_of(found, step)
    if end is None:
        return None
    left = _without_open_branches(found[:end])
    return [raw for place, raw in enumerate(entries[:end]) if place in left]


def _end_of(found: Sequence[Entry], step: int) -> int | None:
    """How many entries there are up to the results of a step."""
    missing: set[str] = set()
    end = 0
    """After the step's reply, which has no calls; 0: it has some, or has not come yet."""
    for place, entry in enumerate(found, start=1):
        if entry.branch:
            continue
        match entry:
            case Reply() if entry.step == step:
                missing = {use.id for use in entry.uses}
                end = 0 if missing else place
            case Results() if entry.step == step and missing:
                missing -= {item.id for item in entry.items}
                if not missing:
                    return place
            case Reply() if entry.step > step and end:
                return end
    return None


def _without_open_branches(found: Sequence[Entry]) -> set[int]:
    """The places of the entries without those of branches from their first reply on that has no result for one of its calls."""
    missing: dict[str, set[str]] = {}
    begins: dict[str, int] = {}
    for place, entry in enumerate(found):
        match entry:
            case Reply() if entry.branch and not missing.get(entry.branch):
                missing[entry.branch] = {use.id for use in entry.uses}
                begins[entry.branch] = place
            case Results() if entry.branch:
                missing.get(entry.branch, set()).difference_update(item.id for item in entry.items)
    open_from = {branch: begins[branch] for branch, left in missing.items() if left}
    return {place for place, entry in enumerate(found) if place < open_from.get(entry.branch, len(found))}


def unspent(entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The entries without what they have cost, and without the id that the caller gave the turn."""
    return [_unspent(raw) for raw in entries if not isinstance(entry_of(raw), Summary | Held)]


def _unspent(raw: Mapping[str, Any]) -> dict[str, Any]:
    match entry_of(raw):
        case Reply():
            return {**_without(raw, "spend"), "usage": _NO_USAGE, "total": _NO_USAGE}
        case Tried():
            return _without(raw, "spend", "usage")
        case Results(items=items):
            return {**raw, "items": [msgspec.to_builtins(_free(item)) for item in items]}
    return _without(raw, "id") if raw.get("e") == "begun" else dict(raw)


def _free(item: Result) -> Result:
    return msgspec.structs.replace(item, usage=None)


def _without(raw: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in raw.items() if name not in names}

"""Some of the tools for a request, and `find_tools`, when there are more than fit.

What a thread found or used last is read from the journal: from its calls on record, in this process or another. So nothing else is stored,
and a program that continues after a crash offers the same tools.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from clicket.adapters.runtime_access import Offer, offers
from clicket.model.ports import Caller
from clicket.tools.search import FIND_OFFER, FIND_TOOLS, RecentTools, chosen_limit

__all__ = ["Choice", "chosen_offers"]

_CALLS = 200
"""Calls of the thread that are looked at, the last ones."""
_FOR_MESSAGE = 5
_indexes: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""The index of each runtime or client. Only tools that have changed are read again."""


class Choice:
    """`shown`: what the model is told of. `rest`: the other tools that the thread may use now."""

    __slots__ = ("rest", "shown")

    def __init__(self, shown: list[Offer], rest: list[Offer]) -> None:
        self.shown = shown
        self.rest = rest


async def chosen_offers(
    rt: Caller, thread: str, *, max_offered: int | None, message: str = "", found: list[Offer] | None = None
) -> Choice:
    """All tools that the thread may use now, if there are no more than `max_offered`, or that is None; else those that it found or used
    last, those that suit `message`, and `find_tools`."""
    limit = chosen_limit(False, max_offered)
    found = await offers(rt, thread) if found is None else found
    if limit is None or len(found) <= limit:
        return Choice(found, [])
    names = [offer.name for offer in found]
    recent = await _recent(rt, thread, limit)
    suited = _suited(rt, message, found, min(_FOR_MESSAGE, limit)) if message else []
    chosen = set(list(dict.fromkeys([*recent.among(names), *suited]))[:limit])
    shown = [offer for offer in found if offer.name in chosen]
    return Choice([*shown, Offer(FIND_OFFER, FIND_OFFER.name)], [offer for offer in found if offer.name not in chosen])


async def _recent(rt: Caller, thread: str, limit: int) -> RecentTools:
    recent = RecentTools(limit)
    page = await rt.history(thread=thread, limit=_CALLS)
    for record in reversed(page.items):
        if record.tool != FIND_TOOLS:
            recent.used(record.tool)
        elif isinstance(record.output, Mapping):
            names = record.output.get("found")
            for name in reversed(names if isinstance(names, Sequence) and not isinstance(names, str) else ()):
                recent.used(str(name))
    return recent


def _suited(rt: Caller, message: str, found: list[Offer], limit: int) -> list[str]:
    from clicket.tools.search.index import ToolIndex  # loaded with the first search

    index = _indexes.get(rt)
    if index is None:
        index = _indexes[rt] = ToolIndex()
    index.sync(found)
    names: list[str] = index.search(message, limit=limit)
    return names

"""New events of several calls, for stores that answer from this machine: one question for each call costs them little."""

from __future__ import annotations

from collections.abc import Mapping

from clicket.model import Event
from clicket.model.ports import Store

__all__ = ["news_by_call"]


async def news_by_call(self: Store, known: Mapping[int, tuple[str, int]]) -> dict[int, list[Event]]:
    """`Store.news`, from the events of each call. From the last known event on: if not even that is there, the call is gone."""
    found: dict[int, list[Event]] = {}
    for key, (id, last) in known.items():
        events = await self.events(key, id, max(last - 1, 0))
        fresh = [event for event in events if event.seq > last]
        if fresh or not events:
            found[key] = fresh
    return found

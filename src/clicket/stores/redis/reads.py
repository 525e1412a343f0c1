"""Calls and their events, read by key. A call that another process runs is watched from the first read of its events on: what is
written from then on is announced to all."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from clicket.errors import ClicketError, StoreUnavailable
from clicket.model import Event, load_events
from clicket.model.ports import Query, ScanEnd, Stored, Unstorable, picked
from clicket.stores.redis.rows import stored
from clicket.stores.redis.script_client import ScriptClient

__all__ = ["Reads", "given"]

_STEP = 100
_BUDGET = 1_000
_NEWEST = 2**53


class Reads:
    def __init__(self, client: ScriptClient) -> None:
        self._client = client

    async def load(self, id: str, thread: str | None, caller: str | None) -> list[Stored]:
        arguments = given({"id": id, "thread": thread, "caller": caller})
        try:
            return [stored(row) for row in await self._client.read("load", arguments)]
        except Unstorable:  # text that cannot be written was never stored
            return []

    async def events(self, key: int, call_id: str, after: int) -> list[Event]:
        arguments = {"key": key, "id": call_id, "after": after, "me": self._client.me}
        unmarked, bodies = await self._client.read("events", arguments)
        if unmarked:
            await self._client.write("watch", {"keys": [key]})
            _, bodies = await self._client.read("events", arguments)  # what came before the mark was not announced
        return self._read(call_id, bodies, after)

    async def news(self, known: Mapping[int, tuple[str, int]]) -> dict[int, list[Event]]:
        found = await self._news(known)
        unmarked = [key for key, is_unmarked, _ in found if is_unmarked]
        if unmarked:
            await self._client.write("watch", {"keys": unmarked})
            found = await self._news(known)
        return {key: self._read(*_named(known[key], bodies)) for key, _, bodies in found if bodies is not None}

    async def history(self, query: Query) -> list[Stored]:
        if query.by_content:
            return await picked(query, self.history)
        client = self._client
        arguments = _asked(query)
        found: list[Stored] = []
        before = _NEWEST if query.before is None else query.before
        after = query.after or 0
        while len(found) < query.limit:
            arguments |= {
                "before": before,
                "after": after,
                "limit": min(_STEP, query.limit - len(found)),
                "budget": _BUDGET,
            }
            try:
                rows, gone, walk, place = await client.read("history", arguments)
            except Unstorable:
                return []
            found += [stored(row) for row in rows]
            if gone:
                with contextlib.suppress(ClicketError):  # a courtesy: the sweep does it, too
                    await client.write("forget", {"keys": gone, "walk": walk.decode(errors="replace")})
            if not place:
                break
            before, after = (before, place) if query.ascending else (place, after)
        return found

    async def scan_end(self, query: Query, calls: int) -> ScanEnd | None:
        """See `LimitsScans`. Calls under way are few."""
        state = query.outcome or query.state
        if query.active or query.waiting_for is not None or (state is not None and not state.is_terminal):
            return None
        lists = sum(bool(each) for each in (query.thread, query.tool, query.caller, state))
        others = (query.until, query.id_prefix, query.id_contains, "" if query.caller == "" else None)
        if lists < 2 and not query.by_content and all(each is None for each in others):
            return None  # one list has just the calls that fit
        arguments = _asked(query if state is None else msgspec.structs.replace(query, state=state))
        before = _NEWEST if query.before is None else query.before
        after = query.after or 0
        try:
            found = await self._client.read(
                "scan_end", {**arguments, "before": before, "after": after, "budget": calls}
            )
        except Unstorable:
            return None
        return ScanEnd(key=found[0], created_at=float(found[1])) if found else None

    async def _news(self, known: Mapping[int, tuple[str, int]]) -> list[tuple[int, int, Any]]:
        calls = [(key, id, last) for key, (id, last) in known.items()]
        return [tuple(row) for row in await self._client.read("news", {"calls": calls, "me": self._client.me})]

    def _read(self, call_id: str, bodies: Sequence[bytes], after: int) -> list[Event]:
        try:
            events = [event for body in bodies for event in load_events(call_id, body)]
        except (ValueError, RecursionError, TypeError) as error:  # msgspec's errors are ValueErrors
            url = self._client.url
            raise StoreUnavailable(
                f"{url}: the events of call {call_id} are not what clicket wrote ({error}). Nothing was changed.",
                url=url,
            ) from error
        return [event for event in events if event.seq > after]


def _asked(query: Query) -> dict[str, Any]:
    """The arguments of scripts that search."""
    arguments = given({"thread": query.thread, "tool": query.tool, "caller": query.caller, "prefix": query.id_prefix})
    arguments |= given({"waiting": query.waiting_for})
    if query.state is not None:
        arguments["state"] = query.state.value
    if query.since is not None:
        arguments["since"] = repr(query.since)
    if query.until is not None:
        arguments["made_before"] = repr(query.until)
    if query.ascending:
        arguments["ascending"] = True
    arguments |= given({"contains": query.id_contains})
    if query.active or (query.state is not None and not query.state.is_terminal):
        arguments["active"] = True
    return arguments


def given(wanted: dict[str, Any]) -> dict[str, Any]:
    """What is not None."""
    return {name: value for name, value in wanted.items() if value is not None}


def _named(known: tuple[str, int], bodies: Sequence[bytes]) -> tuple[str, Sequence[bytes], int]:
    return known[0], bodies, known[1]

"""Outcomes outlive events: a call that retention removed leaves its id, a hash of its arguments and its outcome for a longer time.

So a call that is repeated under its id gets the recorded outcome and does not run again, long after its events are gone. Only ids
that callers gave are kept: a caller cannot repeat an id that clicket made. An outcome is one small document of the store. It is written
before its call is removed, and the store creates no call while the document of its identity is there (`Append.unless`): at each moment
one of the two holds the id.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b, sha256
from typing import Any

from clicket.kernel import State
from clicket.model import Event, EventType, load_call
from clicket.model.codec import canonical, encode
from clicket.model.ports import Clock, Records, Stored, StoredDocument
from clicket.model.unit import dump_unit, rows_of

__all__ = ["KEPT", "KeptOutcomes", "place_of"]

KEPT = -1
"""The key of a call of which only its outcome is left."""
_KIND = "outcome"
_MAX_OUTPUT = 2_000
"""Bytes of an output that is kept with its outcome."""
_MAX_ATTEMPTS = 10
_STEP = 500
_SWEPT_AT_ONCE = 5_000
_FIRST = ("tool", "thread", "caller", "tool_version", "refused", "request_id")
_LAST = ("from", "to", "duration", "error", "cached", "metadata")


class KeptOutcomes:
    """`retention`: seconds from the end of a call for which its outcome is kept."""

    def __init__(self, store: Records, clock: Clock, *, retention: float) -> None:
        self._store = store
        self._clock = clock
        self._retention = retention
        self._swept_to = ""

    async def keep(self, calls: Sequence[Stored]) -> None:
        """Keep the outcomes of calls that are about to be removed."""
        oldest = self._clock.now() - self._retention
        for stored in calls:
            events = stored.events
            if stored.damaged is not None or not events or not _is_named_by_caller(stored):
                continue
            end = next((event for event in events if event.is_terminal), None)
            if end is not None and end.at >= oldest:
                data = events[0].data
                kind, key = place_of(stored.id, data["thread"], data.get("caller", ""))
                await self._store.put_document(kind, key, dump_unit(rows_of(_summary(events, end))), None)

    async def find(self, id: str, thread: str, caller: str) -> Stored | None:
        """A removed call, with the few events that are left of it. What was kept for its time is removed now: from then on the id is
        free."""
        kind, key = place_of(id, thread, caller)
        now = self._store.document_now(kind, key)
        document = await self._store.document(kind, key) if now is None else now[0]
        if document is None:
            return None
        events = _events(id, document)
        if not events or events[-1].at < self._clock.now() - self._retention:
            await self._store.delete_document(kind, key)
            return None
        return Stored(key=KEPT, fence=0, claims=0, owner=None, events=events, id=id)

    async def sweep(self) -> None:
        """Remove outcomes that are too old, some thousand at a time."""
        oldest = self._clock.now() - self._retention
        for _ in range(_SWEPT_AT_ONCE // _STEP):
            page = await self._store.documents(_KIND, after=self._swept_to, limit=_STEP)
            for document in page:
                events = _events("", document)
                if not events or events[-1].at < oldest:
                    await self._store.delete_document(_KIND, document.key)
            self._swept_to = page[-1].key if len(page) == _STEP else ""
            if not self._swept_to:
                return

    async def forget(self, caller: str) -> None:
        """Remove all outcomes of a caller."""
        after = ""
        while True:
            page = await self._store.documents(_KIND, after=after, limit=_STEP)
            for document in page:
                events = _events("", document)
                if events and events[0].data.get("caller", "") == caller:
                    await self._store.delete_document(_KIND, document.key)
            if len(page) < _STEP:
                return
            after = page[-1].key


def _is_named_by_caller(stored: Stored) -> bool:
    """A call without an id of its own has its idempotency key for one. Turns of agents are found by their threads."""
    data = stored.events[0].data
    return data.get("idempotency_key") != stored.id and not str(data.get("tool", "")).startswith("agent:")


def place_of(id: str, thread: str, caller: str) -> tuple[str, str]:
    """Kind and key of the document that has the outcome of a call."""
    return _KIND, blake2b(canonical([caller, thread, id]), digest_size=16).hexdigest()


def _events(id: str, document: StoredDocument) -> list[Event]:
    return load_call(id, [document.body])[0]


def _summary(events: Sequence[Event], end: Event) -> list[Event]:
    """The beginning, the attempts and the end of a call, numbered anew, without what takes space."""
    first = events[0]
    created = {name: first.data[name] for name in _FIRST if name in first.data}
    if "arguments_hash" in first.data:  # they are masked: only a keyed hash can compare them
        created |= {"arguments": first.data["arguments"], "arguments_hash": first.data["arguments_hash"]}
    elif "arguments" in first.data:
        created["arguments_sha256"] = sha256(canonical(first.data["arguments"])).hexdigest()
    started = [event for event in events if event.type == "attempt_started"][-_MAX_ATTEMPTS:]
    rows: list[tuple[float, EventType, State, dict[str, Any]]] = [(first.at, first.type, first.state, created)]
    if started:  # the states of a record follow the table
        rows.append((started[0].at, "state_changed", State.INITIALIZING, {"from": "pending", "to": "initializing"}))
        rows += [(event.at, event.type, event.state, dict(event.data)) for event in started]
    rows.append((end.at, end.type, end.state, _outcome(end.data)))
    return [Event(first.call_id, number, *row) for number, row in enumerate(rows, start=1)]


def _outcome(data: dict[str, Any]) -> dict[str, Any]:
    kept = {name: data[name] for name in _LAST if name in data}
    if data.get("error") is None:
        if "output" in data and len(encode(data["output"])) <= _MAX_OUTPUT:
            kept["output"] = data["output"]
        else:
            kept["metadata"] = {**(data.get("metadata") or {}), "output_removed": True}
    return kept

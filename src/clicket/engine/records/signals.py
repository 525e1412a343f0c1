"""Signals to calls that other processes own: a cancel, a decision, a late result, a resolution, a result from outside.

Each is an event of the call.
"""

from __future__ import annotations

from typing import Any

from clicket.engine.call.foreign import AFTER_THE_END, may_write
from clicket.engine.journal import Entry, Journal
from clicket.errors import StoreUnavailable
from clicket.model import Event, EventType, rows_of
from clicket.model.output import plain_output
from clicket.model.ports import Append, CallRow, Calls, Stored

__all__ = ["Signals"]


class Signals:
    def __init__(self, store: Calls, journal: Journal) -> None:
        self._store = store
        self._journal = journal

    async def write(self, stored: Stored, kind: EventType, data: dict[str, Any], *, question: str = "") -> bool:
        """Write into a call, also while another process owns it. False: it has ended, or does not wait for this any more.

        `may_write` has the rules.
        """
        data = plain_output(data)[0]
        while may_write(stored.events, kind, question):
            newer = await self.append(stored, kind, data)
            if newer is None:
                return True
            if not newer.events:
                return False
            stored = newer
        return False

    async def append(self, stored: Stored, kind: EventType, data: dict[str, Any]) -> Stored | None:
        """Append one event to a call as it was read. None: it is written. Else another process wrote first, and this is the call as it
        is now; without events, if it is not there any more."""
        last, first = stored.events[-1], stored.events[0]
        thread = first.data["thread"]
        caller = first.data.get("caller", "")
        now = self._journal.clock.now()
        event = Event(stored.id, last.seq + 1, max(now, last.at), kind, last.state, data)
        row = CallRow(stored.id, thread, caller, first.data["tool"], first.at)
        change = Append(
            row, last.seq, -1, rows_of([event]), last.state, key=stored.key, signal=kind not in AFTER_THE_END
        )
        error = await self._journal.append(change)
        if error is None:
            return None
        if error.code != "stale":
            raise error
        found = await self._store.load(stored.id, thread, caller)
        if not found or found[0].damaged is not None:
            return Stored(key=stored.key, fence=0, claims=0, owner=None, events=[], id=stored.id)
        if found[0].events[-1].seq == last.seq:
            raise StoreUnavailable(f"call {stored.id} cannot be written to: its row and its events disagree.")
        return found[0]

    async def write_own(self, entry: Entry, kind: EventType, data: dict[str, Any]) -> None:
        """As `write`, into a live call that is on record, and take in what other processes wrote: of signals that exclude each other the
        first one counts."""
        await self._journal.flush(entry)
        found = await self._store.load(entry.id, entry.thread, entry.caller)
        if found and found[0].damaged is None:
            await self.write(found[0], kind, data)
        await self.append_empty(entry)

    async def append_empty(self, entry: Entry) -> None:
        """Append nothing to a live call, to learn what other processes wrote into it: the store then refuses the append as stale, and
        the journal takes their events in. A call that is not stored has none, even if another one has its id."""
        if entry.inflight is None and entry.durable:
            await self._journal.flush(entry)

"""Words into calls that other processes hold: a cancel, an approval, a late result. All of them are events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clicket.errors import StoreUnavailable
from clicket.model import Event, read, rows_of
from clicket.model.output import plain_output
from clicket.ports import Append, CallRow, Stored

if TYPE_CHECKING:
    from clicket.engine.local import LocalEngine

__all__ = ["request"]


async def request(engine: LocalEngine, stored: Stored, kind: Any, data: dict[str, Any]) -> bool:
    """Write into a call that somebody else holds. False: it has ended, or no longer waits for this word.

    A late result is kept even after the end.
    """
    data = plain_output(data)[0]
    while True:
        last, first = stored.events[-1], stored.events[0]
        if last.state.is_terminal and kind != "late_result":
            return False
        if kind == "approval_given" and read(stored.id, stored.events).waiting_for != "approval":
            return False
        thread, caller = first.data["thread"], first.data.get("caller", "")
        event = Event(stored.id, last.seq + 1, max(engine.clock.now(), last.at), kind, last.state, data)
        row = CallRow(stored.id, thread, caller, first.data["tool"], first.at)
        change = Append(row, last.seq, -1, rows_of([event]), last.state, request=kind != "late_result", key=stored.key)
        error = await engine.journal.append(change)
        if error is None:
            return True
        if error.code != "stale":
            raise error
        found = await engine.store.load(stored.id, thread, caller)
        if not found or found[0].damaged is not None:
            return False
        if found[0].events[-1].seq == last.seq:
            raise StoreUnavailable(f"call {stored.id} cannot be written to: its row and its events disagree.")
        stored = found[0]

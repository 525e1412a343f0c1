"""Settles unknown outcomes: a person says whether the effect of a call happened.

The resolution is an event behind the end of the call. The outcome on record stays as it is, and the first resolution is the only one.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from clicket.engine.core import Core
from clicket.engine.journal import Entry, Fenced
from clicket.errors import Conflict, NotFound, ResultUnserializable, UsageError
from clicket.model import Record, is_in_doubt, read
from clicket.model.codec import clean
from clicket.model.output import plain_output
from clicket.model.ports import Stored
from clicket.safety.vault import hide, hide_text

__all__ = ["Resolutions", "refuse_settled"]

_MAX_NAME = 200
_MAX_NOTE = 2_000


class Resolutions:
    def __init__(self, core: Core) -> None:
        self._store = core.store
        self._journal = core.journal
        self._live = core.live
        self._signals = core.signals
        self._arguments = core.arguments
        self._audit = core.audit
        self._max_size = core.limits.max_arguments_size

    async def resolve(
        self,
        stored: Stored,
        *,
        happened: bool,
        output: Any = None,
        by: str = "",
        note: str = "",
        rerun_as: str | None = None,
    ) -> Record:
        """Write the resolution into a call whose outcome is unknown, and return its record.

        `Conflict`: the outcome is known, or the call is settled already. Of two resolutions at the same time the first one counts.
        """
        before = read(stored.id, stored.events)
        refuse_settled(before)
        call = self._live.find(before.id, before.thread, before.caller)
        secrets = self._arguments.secrets_of(stored.id, stored.events, call)
        resolution = {
            "happened": happened,
            "output": hide(self._plain(output), secrets),
            "by": hide_text(_bounded("by", by, _MAX_NAME), secrets),
            "note": hide_text(_bounded("note", note, _MAX_NOTE), secrets),
        }
        if rerun_as is not None:
            resolution["rerun_as"] = rerun_as
        written = await self._signals.write(stored, "resolved", resolution)
        after = await self._stored(before)
        record = read(after.id, after.events)
        if not written:
            refuse_settled(record)
            raise Conflict(f"call {stored.id!r} was not settled: its outcome is known.")
        await self._audit.kept(
            resolution["by"],
            "call.resolved",
            call=record.id,
            tool=record.tool,
            thread=record.thread,
            caller=record.caller,
            happened=happened,
            note=resolution["note"],
            rerun_as=rerun_as or "",
        )
        await self._publish(after, record)
        return record

    def _plain(self, output: Any) -> Any:
        try:
            plain, text = plain_output(output)
        except ResultUnserializable as error:
            raise UsageError(f"the output cannot be recorded: {error.message}") from None
        if len(text) > self._max_size:
            raise UsageError(
                f"the output has {len(text):,} bytes as JSON, and a resolution takes {self._max_size:,} (max_arguments_size). Store it "
                "with put_artifact, and give its name as the output."
            )
        return plain

    async def _stored(self, record: Record) -> Stored:
        found = await self._store.load(record.id, record.thread, record.caller)
        if not found or found[0].damaged is not None:
            raise NotFound(f"there is no call {record.id!r} any more. It was swept meanwhile.")
        return found[0]

    async def _publish(self, stored: Stored, record: Record) -> None:
        """To the readers of this process. A call that is still held here takes the event in with its next commit."""
        call = self._live.find(record.id, record.thread, record.caller)
        if call is not None:
            with suppress(Fenced):
                await self._signals.append_empty(call.entry)
            return
        entry = Entry(record.id, record.thread, record.caller, record.tool, record.created_at)
        self._journal.adopt(
            stored, entry, attempts=len(record.attempts), started_at=record.started_at, state=record.state
        )
        resolved = next(event for event in stored.events if event.type == "resolved")
        self._journal.observers.publish(entry, [resolved])


def refuse_settled(record: Record) -> None:
    """Raise `Conflict` unless the outcome of the call is unknown and not settled."""
    if is_in_doubt(record):
        return
    resolution = record.resolution
    if resolution is None:
        state = f"is {record.state}" if record.state.is_terminal else f"has not ended: it is {record.state}"
        code = "" if record.error is None else f" with {record.error.code}"
        raise Conflict(f"call {record.id!r} {state}{code}, so there is no unknown outcome to settle.")
    settled = "happened" if resolution["happened"] else "did not happen"
    name = resolution["by"] or "someone"
    raise Conflict(f"call {record.id!r} was settled by {name!r} already: it {settled}. Nothing was changed.")


def _bounded(field: str, text: str, limit: int) -> str:
    if not isinstance(text, str):
        raise UsageError(f"{field} must be a text, not {type(text).__name__}.")
    if len(text) > limit:
        raise UsageError(f"{field} has {len(text):,} characters; at most {limit:,} are kept. Shorten it.")
    return clean(text)

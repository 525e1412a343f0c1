"""`Runtime.unknown` and `Runtime.resolve`: calls whose outcome is unknown, and settling one.

After a crash clicket does not guess whether a tool that may not be repeated had its effect: the call fails as `outcome_unknown`. A
person looks, and says what happened.
"""

from __future__ import annotations

from typing import Any, Protocol, TypedDict, Unpack

import msgspec

from clicket.engine import CallHandle, Engine
from clicket.engine.actions.resolutions import refuse_settled
from clicket.engine.live_call import Origin
from clicket.errors import UsageError
from clicket.model import Page, Record, ToolCall, is_unresolved, read, waits_in_doubt
from clicket.model.ports import Calls, ScanEnd, Store, Stored, scan_end_in
from clicket.runtime.calls.again import again_request, submit_again
from clicket.runtime.calls.approvals import Approver, approve_as, deny_as, respond_as
from clicket.runtime.calls.dead_letters import requeued_id
from clicket.runtime.calls.history import MAX_SCANNED, bounded, history_query, page_of
from clicket.tools import Registry

__all__ = ["UNKNOWN", "UnknownOptions", "check_resolution", "resolve", "resolve_as", "unknown"]

UNKNOWN = "outcome_unknown"
"""The error code of a call whose effect may or may not have happened."""
_STEP = 200


class UnknownOptions(TypedDict, total=False):
    """Which calls `unknown` lists."""

    tool: str | None
    thread: str | None
    since: float | None
    """Made at or after this time, in seconds since the epoch."""
    until: float | None
    """Made before this time."""


class _Runtime(Protocol):
    _caller: str | None
    _origin: Origin

    @property
    def _opened(self) -> Engine: ...
    @property
    def store(self) -> Store: ...
    @property
    def registry(self) -> Registry: ...
    async def get(self, id: str, *, thread: str | None = None) -> Record: ...
    async def _submit(self, request: ToolCall) -> CallHandle: ...
    def acting_for(self, caller: str, scopes: Any = (), requesters: Any = ()) -> Any: ...


async def unknown(
    runtime: _Runtime, *, limit: int = 100, cursor: str | None = None, **which: Unpack[UnknownOptions]
) -> Page:
    """Calls whose outcome is unknown and not settled, the oldest first, in pages of up to 1,000; `cursor` of one page fetches the
    next. `resolve` settles one. A page that looked at 10,000 calls before it was full says in `searched_to` how far it got."""
    query = history_query(runtime._caller, limit, cursor, order="asc", code=UNKNOWN, **which)
    end = await scan_end_in(runtime.store, query, MAX_SCANNED)
    query = msgspec.structs.replace(bounded(query, end), limit=_STEP)
    found: list[Stored] = []
    looked = 0
    while True:
        some = await runtime.store.history(query)
        found += [stored for stored in some if is_unresolved(read(stored.id, stored.events))]
        looked += len(some)
        if len(some) < query.limit or len(found) > limit:
            return page_of(found, limit, end)
        if looked >= MAX_SCANNED:
            return page_of(found, limit, ScanEnd(key=some[-1].key, created_at=some[-1].events[0].at))
        query = msgspec.structs.replace(query, after=some[-1].key)


async def resolve(
    runtime: _Runtime,
    id: str,
    *,
    happened: bool,
    output: Any = None,
    by: str = "",
    note: str = "",
    thread: str | None = None,
    rerun: bool = False,
) -> Record:
    """Settle a call whose outcome is unknown: a person says whether its effect happened, and with what `output`.

    The settlement is an event of the call and `record.resolution`; the outcome on record stays as it is. `rerun`: it did not happen, so
    run it again, as a new call whose `metadata["again_of"]` is the id of the old one and whose id is `resolution["rerun_as"]`.

    A call that waits for a person to decide (`recovery="ask"`) has no outcome yet: the settlement is the decision, under the rules of
    `approve`. It happened: the call completes with `output`. It did not: the call runs again with `rerun`, and else is denied. The agent's
    turn that waits for it goes on.

    `Conflict`: the outcome is known, or a person settled it already. If the process ended between the settlement and the new call, the
    same request of the same person makes that call. Returns the record.
    """
    settlement: dict[str, Any] = {"happened": happened, "output": output, "note": note, "rerun": rerun}
    return await resolve_as(runtime, id, Approver(by or runtime._caller or ""), thread=thread, **settlement)


async def resolve_as(
    runtime: _Runtime,
    id: str,
    approver: Approver,
    *,
    happened: bool,
    output: Any = None,
    note: str = "",
    thread: str | None = None,
    rerun: bool = False,
) -> Record:
    """`resolve` as a person with several names. The runtime's caller says only whose call it is."""
    engine = runtime._opened
    by = approver.name or runtime._caller or ""
    stored = await engine.stored_calls.find_named(id, thread, runtime._caller)
    record = read(stored.id, stored.events)
    if waits_in_doubt(record):
        check_resolution(happened, output, rerun)
        if await _decide(runtime, record, approver, happened=happened, output=output, note=note, rerun=rerun):
            return await runtime.get(record.id, thread=record.thread)
        stored = await engine.stored_calls.find_named(record.id, record.thread, record.caller)
        record = read(stored.id, stored.events)
    if not (rerun and record.resolution is not None and record.resolution["rerun_as"]):
        refuse_settled(record)
    check_resolution(happened, output, rerun)
    new = _new_call(runtime, record) if rerun else None
    if new is None or not await _lacks_its_rerun(runtime.store, record, new, by):
        planned = None if new is None else new.id
        record = await engine.resolutions.resolve(
            stored, happened=happened, output=output, by=by, note=note, rerun_as=planned
        )
    if new is not None:
        await submit_again(runtime, record, new)
    return record


async def _decide(
    runtime: _Runtime, record: Record, approver: Approver, *, happened: bool, output: Any, note: str, rerun: bool
) -> bool:
    """Decide the question of a call that waits in doubt. False: it does not wait any more."""
    place: dict[str, Any] = {"thread": record.thread, "seen": (record.approval or {})["hash"]}
    if happened:
        return await respond_as(runtime, record.id, output, approver, reason=note, settles=True, **place)
    if rerun:
        return await approve_as(runtime, record.id, approver, reason=note, **place)
    why = note or "its effect did not happen, and it is not to run again"
    return await deny_as(runtime, record.id, approver, reason=why, **place)


def check_resolution(happened: bool, output: Any, rerun: bool) -> None:
    """Raise `UsageError` if these do not go together."""
    if type(happened) is not bool:
        raise UsageError(f"happened must be True or False, not {happened!r}.")
    if output is not None and not happened:
        raise UsageError("a call that did not happen has no output. Leave output out, or say happened=True.")
    if rerun and happened:
        raise UsageError("a call that happened is not run again by a settlement. `again` runs any call again.")


def _new_call(runtime: _Runtime, record: Record) -> ToolCall:
    """The request that runs the call again. Its id is always the same, so it is run again once, also if `requeue` did it."""
    if runtime.registry.get(record.tool) is None:
        raise UsageError(
            f"the tool {record.tool!r} of call {record.id!r} is not registered here, so the call cannot be run again from here. "
            "Settle it without rerun, or from a program that has the tool."
        )
    return again_request(runtime._opened, record, None, requeued_id(record.id, record.thread, record.caller))


async def _lacks_its_rerun(store: Calls, record: Record, new: ToolCall, by: str) -> bool:
    """Did this person settle the call to be run again, in a process that ended before it made the new call?"""
    settled = record.resolution
    if settled is None or settled["by"] != by or settled["rerun_as"] is None or settled["rerun_as"] != new.id:
        return False
    return not await store.load(settled["rerun_as"], record.thread, record.caller)

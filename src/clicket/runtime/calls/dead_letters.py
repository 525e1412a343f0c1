"""`Runtime.dead` and `Runtime.requeue`: calls that clicket gave up, and running one again.

A dead call ended because its tool failed for good, ran out of time, or because its outcome is unknown; or it cannot be read. Calls that
were refused, denied or cancelled are not dead: running them again would change nothing.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Protocol

import msgspec

from clicket.engine import CallHandle
from clicket.errors import Conflict
from clicket.kernel import State
from clicket.model import Record, ToolError
from clicket.model.ports import Calls, Query, Store, Stored
from clicket.runtime.calls.again import again
from clicket.runtime.calls.history import history_query, page_of

__all__ = ["DEAD_CODES", "DeadCall", "DeadPage", "dead", "requeue", "requeued_id"]

DEAD_CODES = frozenset({"tool_error", "timeout", "outcome_unknown", "arguments_lost", "result_unserializable"})
"""Error codes of dead calls."""
_STATES = (State.FAILED, State.TIMEOUT)
_STEP = 200
_MAX_ACTIVE = 1_000
"""Active calls that are looked at for damage, the newest first."""
_MAX_ID = 100


class DeadCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that was given up. Times are seconds since the epoch."""

    id: str
    tool: str
    thread: str
    caller: str
    state: State
    error: ToolError
    attempts: int
    worker: str
    """The worker of the last attempt."""
    created_at: float
    ended_at: float | None
    requeued_as: str | None = None
    """The id of the call that runs it again."""


class DeadPage(msgspec.Struct, frozen=True, kw_only=True):
    """Dead calls, the newest first. `cursor` fetches the next page; None on the last."""

    items: list[DeadCall]
    cursor: str | None = None


class _Runtime(Protocol):
    _caller: str | None

    @property
    def store(self) -> Store: ...
    async def get(self, id: str, *, thread: str | None = None) -> Record: ...


async def dead(
    runtime: _Runtime,
    *,
    tool: str | None = None,
    thread: str | None = None,
    limit: int = 100,
    cursor: str | None = None,
    requeued: bool = False,
) -> DeadPage:
    """Calls that were given up, newest first: failed for good, out of time, of unknown outcome, or damaged. `requeued`: also those that
    run again already. `cursor` of one page fetches the next."""
    query = history_query(runtime._caller, limit, cursor, tool=tool, thread=thread)
    found: list[tuple[int, DeadCall]] = []
    for state in _STATES:
        found += await _dead_in(
            runtime.store, msgspec.structs.replace(query, state=state, limit=_STEP), limit, requeued
        )
    if cursor is None:
        found += await _damaged(runtime.store, runtime._caller)
    found.sort(key=lambda each: each[0], reverse=True)
    more = len(found) > limit
    return DeadPage(items=[call for _, call in found[:limit]], cursor=str(found[limit - 1][0]) if more else None)


async def requeue(runtime: Any, id: str, *, thread: str | None = None) -> CallHandle:
    """Run a dead call again, as a new call whose `metadata["again_of"]` is the id of the old one. A second request for the same call
    makes no second one. Raises `Conflict` if the call is not dead."""
    record: Record = await runtime.get(id, thread=thread)
    if not is_dead(record):
        state = "has not ended" if not record.state.is_terminal else f"is {record.state}"
        if record.error is not None:
            state += f" with {record.error.code}"
        raise Conflict(f"call {id!r} {state}, so it is not dead. `again` runs any call again.")
    return await again(
        runtime, record.id, thread=record.thread, new_id=requeued_id(record.id, record.thread, record.caller)
    )


def is_dead(record: Record) -> bool:
    """Was the call given up?"""
    if record.state not in _STATES or record.error is None or record.tool.startswith("agent:"):
        return False
    if record.resolution is not None and record.resolution["happened"]:  # a person found its effect
        return False
    return record.error.code in DEAD_CODES and record.metadata.get("phase") != "approval"


def requeued_id(id: str, thread: str, caller: str) -> str:
    """The id of the call that runs a dead one again; always the same, so that a dead call is requeued once."""
    whole = f"{caller}\x00{thread}\x00{id}"
    return f"{id[:_MAX_ID]}~{sha256(whole.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


async def _dead_in(store: Calls, query: Query, limit: int, requeued: bool) -> list[tuple[int, DeadCall]]:
    """One more than `limit` dead calls of one state, if there are that many."""
    found: list[tuple[int, DeadCall]] = []
    while True:
        some = await store.history(query)
        for stored in some:
            call = await _dead_call(store, stored)
            if call is not None and (requeued or call.requeued_as is None):
                found.append((stored.key, call))
            if len(found) > limit:
                return found
        if len(some) < query.limit:
            return found
        query = msgspec.structs.replace(query, before=some[-1].key)


async def _dead_call(store: Calls, stored: Stored) -> DeadCall | None:
    (record,) = page_of([stored], 1).items
    if record.error is None or not (stored.damaged is not None or is_dead(record)):
        return None
    again_as = requeued_id(record.id, record.thread, record.caller)
    return DeadCall(
        id=record.id,
        tool=record.tool,
        thread=record.thread,
        caller=record.caller,
        state=record.state,
        error=record.error,
        attempts=len(record.attempts),
        worker=record.attempts[-1].worker if record.attempts else "",
        created_at=record.created_at,
        ended_at=record.ended_at,
        requeued_as=again_as if await store.load(again_as, record.thread, record.caller) else None,
    )


async def _damaged(store: Calls, caller: str | None) -> list[tuple[int, DeadCall]]:
    """Active calls that cannot be read: a process that claims one sets it aside, and it never ends."""
    active = await store.history(Query(active=True, caller=caller, limit=_MAX_ACTIVE))
    calls = [(stored.key, await _dead_call(store, stored)) for stored in active if stored.damaged is not None]
    return [(key, call) for key, call in calls if call is not None]

"""`Runtime.again`: makes a new call of the tool, thread and arguments of an old one. The old call stays as it is."""

from __future__ import annotations

from typing import Any, Protocol

from clicket.engine import CallHandle, Engine
from clicket.engine.live_call import Origin
from clicket.errors import UsageError
from clicket.model import Arguments, Record, ToolCall
from clicket.model.undo import UNDO
from clicket.safety.vault import still_masked

__all__ = ["AGAIN_OF", "again", "again_request", "submit_again"]

AGAIN_OF = "again_of"
"""The key of the new call's metadata under which the id of the old call is."""


class _Runtime(Protocol):
    _caller: str | None
    _origin: Origin

    @property
    def _opened(self) -> Engine: ...
    async def get(self, id: str, *, thread: str | None = None) -> Record: ...
    async def _submit(self, request: ToolCall) -> CallHandle: ...
    def acting_for(self, caller: str, scopes: Any = (), requesters: Any = ()) -> Any: ...


async def again(
    runtime: _Runtime, id: str, arguments: Arguments = None, *, thread: str | None = None, new_id: str | None = None
) -> CallHandle:
    """Run a call again: a new call of the same tool, thread, caller, time limits and metadata, with the old arguments or with these.
    Its `metadata["again_of"]` is the id of the old one. Returns as soon as it is durable.

    All rules of `submit` apply to it. `new_id`: its id; the same id with the same arguments makes no second call. A mask in
    `arguments` stands for the value that it hides in the old call. `UsageError`: the old arguments are not known; pass new ones.
    """
    record = await runtime.get(id, thread=thread)
    return await submit_again(runtime, record, again_request(runtime._opened, record, arguments, new_id))


async def submit_again(runtime: _Runtime, record: Record, request: ToolCall) -> CallHandle:
    """Submit what `again_request` made, in the name of the caller of the old call."""
    scopes = runtime._origin.scopes
    view = runtime if record.caller == runtime._origin.caller else runtime.acting_for(record.caller, scopes)
    handle: CallHandle = await view._submit(request)
    return handle


def again_request(engine: Engine, record: Record, arguments: Arguments = None, new_id: str | None = None) -> ToolCall:
    """The request of `again`."""
    if record.tool.startswith("agent:"):
        raise UsageError(f"call {record.id!r} is a turn of an agent and cannot be run again. Send the message again.")
    if record.tool.startswith(UNDO):
        raise UsageError(
            f"call {record.id!r} is an undo, and is not run again like this: undo(…, retry=True) runs one again that failed."
        )
    live = engine.live.find(record.id, record.thread, record.caller)
    real, metadata, lost = engine.arguments.in_force(record.id, record.events, live)
    edited = None if arguments is None else engine.arguments.unmasked(record, live, arguments)
    if edited is None and (lost or record.arguments is None):
        why = (
            "were refused, and only their size is on record"
            if record.refused
            else "hold a secret that is not known here"
        )
        raise UsageError(f"the arguments of call {record.id!r} {why}. Pass the arguments to run it with.")
    kept = metadata if isinstance(metadata, dict) and not still_masked(metadata) else {}
    return ToolCall(
        record.tool,
        real if edited is None else edited,
        id=new_id,
        thread=record.thread,
        timeout=record.timeout,
        deadline=record.deadline,
        priority=record.priority,
        request_id=record.request_id,
        metadata={**kept, AGAIN_OF: record.id},
    )

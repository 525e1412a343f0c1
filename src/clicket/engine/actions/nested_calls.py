"""Calls that a running call makes. Each is a call as any other, of the same caller and thread; its id is made of the running call's id
and a number, so that a later attempt of the running call finds it again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec

from clicket.engine.actions.handles import CallHandle, Handles
from clicket.engine.actions.repeated_calls import MOST_TRIES, RepeatedCalls
from clicket.engine.core import Core
from clicket.engine.executors import stop
from clicket.engine.journal import Fenced
from clicket.engine.lifecycle.admission import Admission
from clicket.engine.lifecycle.ending import Ending
from clicket.engine.lifecycle.runner import Runner
from clicket.engine.live_call import Call
from clicket.errors import ClicketError, NotFound
from clicket.model import ToolCall, ToolResult, read
from clicket.model.ids import use_id
from clicket.model.ports import Duplicate
from clicket.model.request import checked
from clicket.model.waits import PEOPLE, waits_after

__all__ = ["NestedCallMaker"]

_STOPPED = "the call that made it was stopped"
_CLOSED = "the runtime was closed"


class NestedCallMaker:
    def __init__(
        self,
        core: Core,
        admission: Admission,
        ending: Ending,
        handles: Handles,
        repeated: RepeatedCalls,
        runner: Runner,
    ) -> None:
        self._admission = admission
        self._ending = ending
        self._handles = handles
        self._repeated = repeated
        self._runner = runner
        self._phase = core.phase
        self._waits: dict[Call, int] = {}
        """Running calls, and how many of their own calls wait for a person."""

    def of(self, parent: Call) -> _NestedCalls:
        return _NestedCalls(self, parent)

    async def run(self, parent: Call, number: int, tool: str, arguments: bytes, denied: str = "") -> ToolResult:
        request = checked(
            ToolCall(
                tool,
                arguments,
                id=use_id(parent.id, number),
                thread=parent.thread,
                priority=parent.request.priority,
                request_id=parent.request.request_id,
                metadata={"parent": parent.id, "use": number},
            )
        )
        try:
            handle = await self._submit(parent, request, denied)
            result = await self._outcome(parent, handle)
        except ClicketError:
            if self._phase.closing:
                await self._hand_back(parent)
            raise
        if self._phase.closing and not result.success:
            await self._hand_back(parent)
        return result

    async def _submit(self, parent: Call, request: ToolCall, denied: str, tries: int = MOST_TRIES) -> CallHandle:
        """A new call, or the one that an earlier attempt made. Raises `Conflict` if that one was another."""
        may_repeat = parent.entry.attempts > 1
        if may_repeat:
            known = await self._repeated.running(request, parent.caller)
            if known is not None:
                return known
        admission = self._admission
        call = None
        origin = msgspec.structs.replace(parent.origin, within=parent.entry.tool, maker=None)
        if denied:
            call = admission.take(request, origin, denied=denied, may_repeat=may_repeat)
        else:
            call = admission.accept_now(request, origin, may_repeat=may_repeat) or await admission.accept(
                request, origin, may_repeat=may_repeat
            )
        try:
            await self._ending.created(call)
        except (Duplicate, Fenced) as refused:
            try:
                return await self._repeated.taken(request, parent.caller)
            except NotFound:
                if isinstance(refused, Fenced) or not tries:
                    raise
            return await self._submit(parent, request, denied, tries - 1)
        except asyncio.CancelledError:
            self._leave(parent, self._handles.of(call))
            raise
        return self._handles.of(call)

    async def _outcome(self, parent: Call, handle: CallHandle) -> ToolResult:
        waits = False
        try:
            async for now in _waits_for_person(handle):
                if now is not waits:
                    waits = now
                    (self._begin_wait if waits else self._end_wait)(parent)
            return await handle.result()
        except asyncio.CancelledError:
            self._leave(parent, handle)
            raise
        finally:
            if waits:
                self._end_wait(parent)

    def _leave(self, parent: Call, handle: CallHandle) -> None:
        """A call whose program is gone is cancelled; one that another process may continue is not."""
        if parent.stopping != "shutdown" and not self._phase.closing:
            handle.leave(_STOPPED)

    async def _hand_back(self, parent: Call) -> None:
        """The runtime takes no more calls: the next one over this store runs the program again, and finds what had finished."""
        stop(parent, "shutdown", _CLOSED)
        await asyncio.get_running_loop().create_future()  # until the running call's body is cancelled

    def _begin_wait(self, parent: Call) -> None:
        self._waits[parent] = self._waits.get(parent, 0) + 1
        if self._waits[parent] == 1:
            self._runner.hold_clock(parent)

    def _end_wait(self, parent: Call) -> None:
        self._waits[parent] -= 1
        if not self._waits[parent]:
            del self._waits[parent]
            self._runner.release_clock(parent)


class _NestedCalls:
    """Implements `tools.NestedCalls`."""

    __slots__ = ("_maker", "_parent")

    def __init__(self, maker: NestedCallMaker, parent: Call) -> None:
        self._maker = maker
        self._parent = parent

    async def call(self, number: int, tool: str, arguments: bytes) -> ToolResult:
        return await self._maker.run(self._parent, number, tool, arguments)

    async def refuse(self, number: int, tool: str, arguments: bytes, why: str) -> ToolResult:
        return await self._maker.run(self._parent, number, tool, arguments, denied=why)


async def _waits_for_person(handle: CallHandle) -> AsyncIterator[bool]:
    """Does the call wait for a person? Now, and after each of its events, wherever it runs, until it ends."""
    call = handle.call
    if isinstance(call, Call):
        is_over = call.ended
        waiting = call.entry.waiting_for
        seen = call.entry.durable
    else:
        record = read(handle.id, call.events)
        is_over = record.state.is_terminal
        waiting = record.waiting_for
        seen = len(call.events)
    if is_over:
        return
    waits = waiting in PEOPLE
    yield waits
    async for event in handle.events(seen):
        waits = waits_after(event, waits)
        yield waits

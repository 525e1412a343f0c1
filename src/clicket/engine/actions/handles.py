"""Handles of calls: follow, await or cancel a call; from memory if it is live here, from the store if another process runs it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress

from clicket.engine.actions.decisions import Decisions
from clicket.engine.cache.kept_outcomes import KEPT, KeptOutcomes
from clicket.engine.core import Core
from clicket.engine.journal import Fenced
from clicket.engine.lifecycle.ending import Ending
from clicket.engine.live_call import Call
from clicket.engine.records.stored_calls import closed_while_waiting
from clicket.errors import ClicketError, NotFound, StoreUnavailable
from clicket.model import Event, ToolCall, ToolResult, read, result_of
from clicket.model.ports import Stored, sleep
from clicket.system.bridge import within

__all__ = ["MOST_TRIES", "CallHandle", "Handles"]

MOST_TRIES = 3
"""How often a call is made anew whose id was refused, and then was free: the kept outcome was too old."""
_YOUNG = 60.0
"""Seconds after which a call has been written to, or has been erased."""
_AGAIN = 1.0
"""Seconds until a store is asked again that did not answer."""


class Handles:
    """Creates handles, and implements their methods."""

    def __init__(self, core: Core, ending: Ending, decisions: Decisions, kept: KeptOutcomes) -> None:
        self._journal = core.journal
        self._live = core.live
        self._arguments = core.arguments
        self._stored_calls = core.stored_calls
        self._phase = core.phase
        self._spawn = core.spawn
        self._signals = core.signals
        self._kept = kept
        self._ending = ending
        self._decisions = decisions

    def of(self, call: Call) -> CallHandle:
        return CallHandle(self, call, id=call.id, thread=call.thread, caller=call.caller)

    def of_stored(self, stored: Stored, id: str) -> CallHandle:
        first = stored.events[0].data
        return CallHandle(self, stored, id=id, thread=first["thread"], caller=first.get("caller", ""))

    async def repeated(self, request: ToolCall, caller: str) -> CallHandle | None:
        """The handle of a call that runs here under the request's id; else None: the store refuses an id that it has, or whose
        outcome it keeps."""
        assert request.id is not None
        live = self._live.find(request.id, request.thread, caller)
        if live is not None:
            if not live.entry.durable:  # its first commit is under way: its arguments are not on record yet
                with suppress(ClicketError):
                    await self._journal.flush(live.entry)
            if live.entry.durable:
                self._arguments.same_or_conflict(request, live.entry.events[0])
                return self.of(live)
        return None

    async def taken(self, request: ToolCall, caller: str) -> CallHandle:
        """The handle of the call that has the request's id, or has left only its outcome. Raises `Conflict` if it is another call,
        `NotFound` if there is none any more: the id is free."""
        assert request.id is not None
        try:
            stored = await self._stored_calls.find(request.id, request.thread, caller)
        except NotFound:  # its outcome is kept before it is removed
            kept = await self._kept.find(request.id, request.thread, caller)
            if kept is None:
                raise
            stored = kept
        self._arguments.same_or_conflict(request, stored.events[0])
        if stored.key != KEPT and not stored.events[-1].state.is_terminal:
            await self._keep(stored)
        return self.of_stored(stored, request.id)

    async def _keep(self, stored: Stored) -> None:
        """A process that made a call and got no answer tells its caller that the call was not made, and erases it later, if it is there
        and nobody has written to it. So a young call that another process made gets an event before its id is acknowledged here."""
        if self._journal.clock.now() - stored.events[0].at < _YOUNG:
            try:
                newer = await self._signals.append(
                    stored, "note", {"text": "Its id was sent again, to another process."}
                )
            except StoreUnavailable:
                if self._phase.closing:
                    raise closed_while_waiting(stored.id) from None
                raise
            if newer is not None and not newer.events:
                raise NotFound(f"call {stored.id!r} was not made after all. Send it again.")

    async def find(self, id: str, thread: str | None, caller: str | None) -> CallHandle:
        """A handle of a call that was submitted earlier, here or in another process."""
        live = await self._decisions.find_live(id, thread, caller)
        if live is not None:
            return self.of(live)
        stored = await self._stored_calls.find_named(id, thread, caller)
        return self.of_stored(stored, stored.id)

    async def follow(self, call: Call | Stored, id: str, after: int) -> AsyncIterator[Event]:
        """Events after a number, replayed and then live, up to the terminal one."""
        at = after
        if isinstance(call, Stored) and call.key == KEPT:
            for event in call.events[after:]:
                yield event
            return
        if isinstance(call, Call):
            try:
                async for event in self._follow_live(call, after):
                    at = event.seq
                    yield event
            except Fenced:  # another process has the call now: continue from the store
                call = await self._stored(call)
            else:
                return
        async for event in self._stored_calls.follow(call.key, id, at):
            yield event

    async def _follow_live(self, call: Call, after: int) -> AsyncIterator[Event]:
        at = after
        entry = call.entry
        while True:
            events = entry.events
            while at < len(events):
                event = events[at]
                at += 1
                yield event
                if event.is_terminal:
                    return
            if len(entry.events) > at:
                continue
            if call.ended:
                return
            if call.failure is not None:
                raise call.failure
            await self._journal.watch(entry)

    async def result(self, handle: CallHandle) -> ToolResult:
        call = handle.call
        if isinstance(call, Call):
            if call.result is not None or not isinstance(call.failure, Fenced):
                with suppress(Fenced):
                    return await self._ending.outcome(call)
            call = handle.call = await self._stored(call)  # another process has the call now: wait for its outcome
        if call.key == KEPT:
            return result_of(read(handle.id, call.events))
        return await self._stored_calls.result(call, handle.id)

    async def _stored(self, call: Call) -> Stored:
        """A call that another process has. One that was given away here is known as it was then, and need not be read."""
        entry = call.entry
        if entry.owned or entry.fenced or not entry.durable:
            return await self._stored_calls.find(call.id, call.thread, call.caller)
        return Stored(
            key=entry.key, fence=entry.fence, claims=1, owner=None, events=entry.events[: entry.durable], id=call.id
        )

    async def cancel(self, handle: CallHandle, reason: str) -> bool:
        if handle.is_removed:
            return False
        return await self._decisions.cancel(handle.id, handle.thread, handle.caller, reason)

    def leave(self, handle: CallHandle, reason: str) -> None:
        self._spawn(self._leave(handle, reason))

    async def _leave(self, handle: CallHandle, reason: str) -> None:
        while not self._phase.closing:
            try:
                await self.cancel(handle, reason)
            except StoreUnavailable:
                await sleep(self._journal.clock, _AGAIN)
            except ClicketError:  # it is not there any more
                return
            else:
                return


class CallHandle:
    """A call that was accepted: durable, and running, waiting or ended somewhere."""

    __slots__ = ("_handles", "call", "caller", "id", "thread")

    def __init__(self, handles: Handles, call: Call | Stored, *, id: str, thread: str, caller: str) -> None:
        self._handles = handles
        self.call = call
        self.id: str = id
        self.thread: str = thread
        self.caller: str = caller

    def events(self, after: int = 0) -> AsyncIterator[Event]:
        """Every event after number `after`, then live ones, ending with the terminal one."""
        return self._handles.follow(self.call, self.id, after)

    @property
    def call_id(self) -> str:
        """The call's id, as `event.call_id` and `result.call_id`."""
        return self.id

    @property
    def is_removed(self) -> bool:
        """Retention has removed the call, and only its outcome is left."""
        return isinstance(self.call, Stored) and self.call.key == KEPT

    async def result(self, timeout: float | None = None) -> ToolResult:
        """Wait for the outcome; after `timeout` seconds `TimeoutError` is raised, and the call goes on."""
        return await within(timeout, self.id, self._handles.result(self))

    async def cancel(self, reason: str = "") -> bool:
        """Ask the call to end. True: it took effect or is on record; False: it had ended already."""
        return await self._handles.cancel(self, reason)

    def leave(self, reason: str) -> None:
        """Cancel the call, whose caller has gone, in the background. If the store does not answer, it is tried until it does."""
        self._handles.leave(self, reason)

    def __repr__(self) -> str:
        return f"<call {self.id}>"

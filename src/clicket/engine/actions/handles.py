"""Handles of calls: follow, await or cancel a call; from memory if it is live here, from the store if another process runs it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress

from clicket.engine.actions.cancels import Cancels
from clicket.engine.cache.kept_outcomes import KEPT
from clicket.engine.core import Core
from clicket.engine.journal import Fenced
from clicket.engine.lifecycle.ending import Ending
from clicket.engine.live_call import Call
from clicket.errors import ClicketError, StoreUnavailable
from clicket.model import Event, ToolResult, read, result_of
from clicket.model.ports import Stored, sleep
from clicket.system.bridge import within

__all__ = ["CallHandle", "Handles"]

_AGAIN = 1.0
"""Seconds until a store is asked again that did not answer."""


class Handles:
    """Creates handles, and implements their methods."""

    def __init__(self, core: Core, ending: Ending, cancels: Cancels) -> None:
        self._journal = core.journal
        self._stored_calls = core.stored_calls
        self._phase = core.phase
        self._spawn = core.spawn
        self._ending = ending
        self._cancels = cancels

    def of(self, call: Call) -> CallHandle:
        return CallHandle(self, call, id=call.id, thread=call.thread, caller=call.caller)

    def of_stored(self, stored: Stored, id: str) -> CallHandle:
        first = stored.events[0].data
        return CallHandle(self, stored, id=id, thread=first["thread"], caller=first.get("caller", ""))

    async def find(self, id: str, thread: str | None, caller: str | None) -> CallHandle:
        """A handle of a call that was submitted earlier, here or in another process."""
        live = await self._cancels.find_live(id, thread, caller)
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
        return await self._cancels.cancel(handle.id, handle.thread, handle.caller, reason)

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

"""Following a call: live from memory, or from the store when another process runs it or it ended long ago."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from clicket.engine.handover import Closed, take
from clicket.engine.local import LocalEngine
from clicket.engine.outside import request
from clicket.engine.unsealing import secrets_of
from clicket.errors import ClicketError, NotFound, StoreUnavailable, UsageError
from clicket.journal import Fenced, LiveCall
from clicket.model import Event, Record, ToolResult, read, result_of
from clicket.model.codec import clean, decode
from clicket.ports import Stored
from clicket.vault import hide_text

__all__ = ["CallHandle", "find_live", "find_stored", "follow", "result_of_stored"]

POLL_FIRST = 0.02
POLL_MOST = 0.25
_MAX_OUTPUT = 16 * 1024 * 1024


async def find_stored(engine: LocalEngine, id: str, thread: str | None, caller: str | None) -> Stored:
    """The one stored call of that id, or an error that says how to name it."""
    found = await engine.store.load(id, thread, caller)
    if not found:
        where = f" in thread {thread!r}" if thread is not None else ""
        raise NotFound(f"there is no call {id!r}{where}. It may have been swept; the history lists what is there.")
    if len(found) > 1:
        first = [stored.events[0].data for stored in found if stored.damaged is None]
        threads, callers = {data["thread"] for data in first}, {data.get("caller", "") for data in first}
        how = "pass thread= to say which" if len(threads) > 1 else "say whose: `runtime.acting_for(caller)`"
        where = f"threads {', '.join(map(repr, sorted(threads)))}"
        if len(callers) > 1:
            where += f", callers {', '.join(map(repr, sorted(callers)))}"
        raise UsageError(f"{len(found)} calls have the id {id!r} ({where}); {how}.")
    if found[0].damaged is not None:
        raise StoreUnavailable(
            f"call {id!r} cannot be read: {found[0].damaged}. Somebody else wrote into {engine.store.url}, or it is damaged: "
            "restore it from a backup."
        )
    return found[0]


async def find_live(engine: LocalEngine, id: str, thread: str | None, caller: str | None = None) -> LiveCall | None:
    """The call if it is live here. A name that the caller chose may be in use in several threads: the store knows."""
    call = engine.find_live(id, thread, caller)
    if call is None or not call.events:
        return None
    if thread is None and call.request.id is not None:
        await find_stored(engine, id, None, caller)
    return call


async def follow(engine: LocalEngine, call: LiveCall | Stored, id: str, after: int) -> AsyncIterator[Event]:
    """Events after a number, replayed and then live, up to the terminal one."""
    at = after
    if isinstance(call, LiveCall):
        try:
            async for event in _follow_live(call, after):
                at = event.seq
                yield event
        except Fenced:  # another owner has the call now: the store tells how it goes on
            call = await find_stored(engine, call.id, call.thread, call.caller)
        else:
            return
    async for event in _follow_stored(engine, call.key, id, at):
        yield event


async def _follow_stored(engine: LocalEngine, key: int, id: str, at: int) -> AsyncIterator[Event]:
    """Events that another process writes: looked for when the store tells of news, and now and then in any case."""
    news, delay = asyncio.Event(), POLL_FIRST
    engine.followers.setdefault(key, []).append(news)
    try:
        while True:
            news.clear()
            events = await engine.store.events(key, id, at)
            for event in events:
                at = event.seq
                yield event
            if any(event.is_terminal for event in events):
                return
            if events:
                delay = POLL_FIRST
                continue
            known = await engine.store.events(key, id, max(at - 1, 0)) or await engine.store.events(key, id, 0)
            if not known:
                raise NotFound(f"call {id!r} was swept while it was being read; nothing of it is left.")
            if known[-1].seq > at:
                continue  # it came between the two looks
            if known[-1].state.is_terminal:
                return
            timer = engine.clock.call_later(delay, news.set)
            try:
                await news.wait()
            finally:
                timer.cancel()
            delay = min(delay * 2, POLL_MOST)
    except StoreUnavailable:
        if engine.closing:
            raise Closed(f"the runtime was closed; call {id} goes on without it.") from None
        raise
    finally:
        engine.followers[key].remove(news)
        if not engine.followers[key]:
            del engine.followers[key]


async def _follow_live(call: LiveCall, after: int) -> AsyncIterator[Event]:
    at = after
    while True:
        events = call.events
        while at < len(events):
            event = events[at]
            at += 1
            yield event
            if event.is_terminal:
                return
        if call.settled and at >= len(events):
            return
        if call.gone is not None:
            raise call.gone
        watcher: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        call.watchers.append(watcher)
        await watcher


async def result_of_stored(engine: LocalEngine, stored: Stored, id: str) -> ToolResult:
    """Wait for the outcome of a call that somebody else runs, or read the one it has."""
    return await with_output(engine, read(id, [event async for event in follow(engine, stored, id, 0)]))


async def with_output(engine: LocalEngine, record: Record) -> ToolResult:
    """A result whose output was too big for the journal gets it back from the artifact, if memory can take it."""
    if record.truncated and type(record.artifact) is str:
        data = await engine.store.read_artifact(record.artifact, 0, _MAX_OUTPUT + 1)
        if len(data) <= _MAX_OUTPUT:
            text = data.decode(errors="replace")
            record.output = decode(data) if record.metadata.get("artifact_type") == "json" else text
    return result_of(record)


class CallHandle:
    """A call that was accepted: durable, and running, waiting or ended somewhere."""

    __slots__ = ("_call", "_engine", "caller", "id", "thread")

    def __init__(self, engine: LocalEngine, call: LiveCall | Stored, *, id: str, thread: str, caller: str) -> None:
        self._engine = engine
        self._call = call
        self.id: str = id
        self.thread: str = thread
        self.caller: str = caller

    def events(self, after: int = 0) -> AsyncIterator[Event]:
        """Every event after number `after`, then live ones, ending with the terminal one."""
        return follow(self._engine, self._call, self.id, after)

    async def result(self) -> ToolResult:
        """Wait for the outcome."""
        if isinstance(self._call, LiveCall):
            try:
                return await self._engine.outcome(self._call)
            except Fenced:  # another owner has the call now: its outcome is the outcome
                self._call = await find_stored(self._engine, self.id, self.thread, self.caller)
        return await result_of_stored(self._engine, self._call, self.id)

    async def cancel(self, reason: str = "") -> bool:
        """Ask the call to end. True: it took effect or is on record; False: it had ended already."""
        return await cancel(self._engine, self.id, self.thread, self.caller, reason)

    async def leave(self, reason: str) -> None:
        """Cancel the call on behalf of somebody who is gone, and need not hear how it went."""
        with suppress(ClicketError):
            await self.cancel(reason)

    def __repr__(self) -> str:
        return f"<call {self.id}>"


async def cancel(engine: LocalEngine, id: str, thread: str | None, caller: str | None, reason: str) -> bool:
    """Stop a call wherever it is. A live one has ended, or was abandoned, when this returns."""
    call = await find_live(engine, id, thread, caller)
    if call is None:
        stored = await find_stored(engine, id, thread, caller)
        shown = hide_text(clean(reason), secrets_of(engine, stored.id, stored.events, None))
        if not await request(engine, stored, "cancel_requested", {"reason": shown}):
            return False
        await take(engine, stored.key)  # if it is nobody's, nobody else would end it
        return True
    asked = engine.cancel(call, reason)
    try:
        result = await engine.outcome(call)
    except Fenced:  # another owner has the call now, and is asked
        return await cancel(engine, id, call.thread, call.caller, reason)
    return asked or result.state.value == "cancelled"

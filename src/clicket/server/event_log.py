"""The recent events of all calls, for `GET /events`. They are numbered, so that a client that reconnects misses none.

Events are kept while there are readers, and for five minutes after. Meanwhile the store is polled once a second for events of other
processes: these come late, but each once. A reader that asks for events that are no longer kept gets `event: gap`.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from clicket.errors import ClicketError
from clicket.journal import Entry, Observers
from clicket.model import Event
from clicket.model.codec import encode
from clicket.ports import Query, Store, Stored
from clicket.server.event_stream import MAX_CHUNK, Notifier, Reader, frame
from clicket.server.shutdown import Shutdown, end_task

__all__ = ["EventLog", "LoggedEvent"]

logger = logging.getLogger("clicket.server")
_POLL_EVERY = 1.0
_KEEP_AFTER_READERS = 300.0
"""Seconds for which events are still kept after the last reader left."""
_MAX_CLOCK_SKEW = 120.0
"""Seconds by which the clock of another process may be behind."""
_MAX_POLLED = 1_000
_GAP = b'event: gap\ndata: {"detail":"events before this point are not kept here; load the list of calls again"}\n\n'


class LoggedEvent(msgspec.Struct, frozen=True, gc=False):
    number: int
    caller: str
    thread: str
    tool: str
    call_id: str
    type: str
    frame: bytes


_Call = tuple[str, str, str, float]
"""Caller, thread, id and time of creation: an id may be used again once its call is swept."""


class _Mark(msgspec.Struct):
    """How far a call's events are in the log."""

    seq: int = 0
    ended: bool = False


class EventLog:
    """A listener of the journal. `epoch` distinguishes the numbers of this process from those of its predecessor.

    `store` and `is_shared` are called while the runtime is open; `is_held(id, thread, caller)`: does this process run the call?
    """

    def __init__(
        self,
        observers: Observers,
        store: Callable[[], Store],
        *,
        is_shared: Callable[[], bool],
        is_held: Callable[[str, str, str], bool],
        shutdown: Shutdown,
        max_events: int = 10_000,
        max_bytes: int = 16 * 1024 * 1024,
    ) -> None:
        self.notifier = Notifier()
        self.epoch = secrets.token_hex(4)
        self._observers = observers
        self._store = store
        self._is_shared = is_shared
        self._is_held = is_held
        self._shutdown = shutdown
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._kept: deque[LoggedEvent] = deque()
        self.size = 0
        self._number = 0
        self._readers = 0
        self._keep_until = 0.0
        self._marks: dict[_Call, _Mark] = {}
        self._joined_at = 0.0
        self._has_polled = False
        self.poller: asyncio.Task[None] | None = None
        self._remove: Callable[[], None] | None = None

    def start(self) -> None:
        self._remove = self._observers.add(self)

    async def stop(self) -> None:
        if self._remove is not None:
            self._remove()
        await self._stop_polling()

    # Reading.

    def join(self, last_id: str | None) -> int:
        """Add a reader. Returns the number after which it reads; -1: it has missed events, and gets `event: gap` first."""
        self._readers += 1
        if self._readers == 1 and self.poller is None and self._is_shared():
            self._joined_at, self._has_polled = time.time(), False
            self.poller = asyncio.get_running_loop().create_task(self._poll())
        if last_id is None:
            return self._number
        epoch, _, number = last_id.partition("-")
        if epoch != self.epoch or not number.isdecimal() or len(number) > 15 or int(number) > self._number:
            return -1
        return int(number)

    def leave(self) -> None:
        self._readers -= 1
        if self._readers == 0:
            self._keep_until = time.monotonic() + _KEEP_AFTER_READERS

    def take(self, reader: Reader) -> tuple[bytes, bool]:
        first = self._kept[0].number if self._kept else self._number + 1
        parts: list[bytes] = []
        size = 0
        if reader.position < first - 1:
            parts.append(_GAP)
            reader.position = first - 1
        for index in range(reader.position - first + 1, len(self._kept)):
            kept = self._kept[index]
            reader.position = kept.number
            if reader.sees is None or reader.sees(kept):
                parts.append(kept.frame)
                size += len(kept.frame)
                if size >= MAX_CHUNK:
                    break
        return b"".join(parts), False

    # Adding.

    def __call__(self, entry: Entry, events: Sequence[Event]) -> None:
        """Durable events of a call that runs here."""
        if self._readers == 0 and time.monotonic() > self._keep_until:
            if self._kept:
                self._forget()
            return
        if self.poller is not None and events:
            self._mark((entry.caller, entry.thread, entry.id, entry.events[0].at), events)
        self._keep(entry.caller, entry.thread, entry.tool, events)

    def _mark(self, call: _Call, events: Sequence[Event]) -> None:
        mark = self._marks.setdefault(call, _Mark())
        mark.seq = max(mark.seq, events[-1].seq)
        mark.ended = mark.ended or any(event.is_terminal for event in events)

    def _keep(self, caller: str, thread: str, tool: str, events: Sequence[Event]) -> None:
        head = b'{"thread":' + encode(thread) + b',"caller":' + encode(caller) + b',"tool":' + encode(tool) + b","
        for event in events:
            self._number += 1
            made = frame(f"{self.epoch}-{self._number}", event.type, head + encode(event)[1:])
            self._kept.append(LoggedEvent(self._number, caller, thread, tool, event.call_id, event.type, made))
            self.size += len(made)
        while self._kept and (len(self._kept) > self._max_events or self.size > self._max_bytes):
            self.size -= len(self._kept.popleft().frame)
        self.notifier.notify()

    def _forget(self) -> None:
        """Drop all events after a long time without readers. A reader that reconnects gets a gap."""
        self._kept.clear()
        self.size = 0
        self._number += 1

    # Calls of other processes.

    async def _stop_polling(self) -> None:
        poller, self.poller = self.poller, None
        await end_task(poller)

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(_POLL_EVERY)
            is_over = self._readers == 0 and time.monotonic() > self._keep_until
            if is_over or self._shutdown.begun:  # then every stream has ended
                self.poller = None
                return
            try:
                await self._poll_store()
            except ClicketError as error:
                if not self._shutdown.begun:  # the shutdown may have begun while the store was read
                    logger.warning("events of other processes could not be read: %s", error)

    async def _poll_store(self) -> None:
        store, started = self._store(), time.time()
        found = {stored.key: stored for stored in await store.history(Query(active=True, limit=_MAX_POLLED))}
        recent = Query(since=started - _MAX_CLOCK_SKEW, limit=_MAX_POLLED)
        found.update({stored.key: stored for stored in await store.history(recent)})
        seen = {self._add_stored(stored) for _, stored in sorted(found.items())}
        self._has_polled = True
        for call, mark in [(call, mark) for call, mark in self._marks.items() if call not in seen]:
            caller, thread, id, _ = call
            if not mark.ended and not self._is_held(id, thread, caller):
                for stored in await store.load(id, thread, caller):
                    if _call_of(stored) == call:
                        self._keep(
                            caller, thread, _tool_of(stored), [event for event in stored.events if event.seq > mark.seq]
                        )
            self._marks.pop(call, None)

    def _add_stored(self, stored: Stored) -> _Call | None:
        """Keep the new events of a call that another process runs. The first poll takes only events since the first reader joined."""
        call = _call_of(stored)
        if call is None:
            return None
        caller, thread, id, _ = call
        if self._is_held(id, thread, caller):
            return call
        mark = self._marks.get(call)
        if mark is not None:
            new = [event for event in stored.events if event.seq > mark.seq]
        elif self._has_polled:
            new = stored.events
        else:
            new = [event for event in stored.events if event.at >= self._joined_at]
        self._mark(call, stored.events)
        if new:
            self._keep(caller, thread, _tool_of(stored), new)
        return call


def _call_of(stored: Stored) -> _Call | None:
    """None: the call is damaged."""
    if stored.damaged is not None or not stored.events:
        return None
    first = stored.events[0]
    return first.data.get("caller", ""), first.data["thread"], stored.id, first.at


def _tool_of(stored: Stored) -> str:
    return str(stored.events[0].data.get("tool", ""))

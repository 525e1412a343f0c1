"""The recent events of all calls, for `GET /events`. They are numbered, so that a client that reconnects misses none.

Events are kept while there are readers, and for five minutes after. Meanwhile the store is polled once a second for events of other
processes: these come late, but each once. A reader that asks for events that are no longer kept gets `event: gap`, and so do all readers
when other processes made more events than a poll reads.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from clicket import system
from clicket.engine.journal import Entry, Observers
from clicket.errors import ClicketError
from clicket.model import Event
from clicket.model.codec import encode
from clicket.model.ports import Query, Store, Stored
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
_MAX_PAGES = 10
"""Pages of calls that one poll reads."""
_GAP = b"event: gap\nid: %s\ndata: %s\n\n"
_NOT_KEPT = b'{"detail":"events before this point are not kept here; load the list of calls again"}'
_TOO_MANY = b'{"detail":"other processes made more events than are read at once; load the list of calls again"}'


class LoggedEvent(msgspec.Struct, frozen=True, gc=False):
    number: int
    caller: str
    thread: str
    tool: str
    call_id: str
    type: str
    state: str
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
        self.epoch = system.random_hex(4)
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
            self._joined_at, self._has_polled = system.now(), False
            self.poller = asyncio.get_running_loop().create_task(self._poll())
        if last_id is None:
            return self._number
        epoch, _, number = last_id.partition("-")
        if epoch != self.epoch or not number.isdecimal() or len(number) > 15 or int(number) > self._number:
            return -1
        return int(number)

    def cursor(self, number: int) -> str:
        """What a client sends to go on after the event with this number."""
        return f"{self.epoch}-{max(number, 0)}"

    def leave(self) -> None:
        self._readers -= 1
        if self._readers == 0:
            self._keep_until = system.monotonic() + _KEEP_AFTER_READERS

    def take(self, reader: Reader) -> tuple[bytes, bool]:
        first = self._kept[0].number if self._kept else self._number + 1
        parts: list[bytes] = []
        size = 0
        if reader.position < first - 1:
            parts.append(_GAP % (self.cursor(first - 1).encode(), _NOT_KEPT))
            reader.position = first - 1
        for index in range(reader.position - first + 1, len(self._kept)):
            kept = self._kept[index]
            reader.position = kept.number
            if kept.type == "gap" or reader.sees is None or reader.sees(kept):
                parts.append(kept.frame)
                size += len(kept.frame)
                if size >= MAX_CHUNK:
                    break
        return b"".join(parts), False

    # Adding.

    def __call__(self, entry: Entry, events: Sequence[Event]) -> None:
        """Durable events of a call that runs here."""
        if self._readers == 0 and system.monotonic() > self._keep_until:
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
            made = frame(self.cursor(self._number), event.type, head + encode(event)[1:])
            self._add(LoggedEvent(self._number, caller, thread, tool, event.call_id, event.type, event.state, made))
        while self._kept and (len(self._kept) > self._max_events or self.size > self._max_bytes):
            self.size -= len(self._kept.popleft().frame)
        self.notifier.notify()

    def _add(self, event: LoggedEvent) -> None:
        self._kept.append(event)
        self.size += len(event.frame)

    def _add_gap(self) -> None:
        """All readers miss events from here on."""
        self._number += 1
        made = _GAP % (self.cursor(self._number).encode(), _TOO_MANY)
        self._add(LoggedEvent(self._number, "", "", "", "", "gap", "", made))
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
            is_over = self._readers == 0 and system.monotonic() > self._keep_until
            if is_over or self._shutdown.begun:  # then every stream has ended
                self.poller = None
                return
            try:
                await self.poll_store()
            except ClicketError as error:
                if not self._shutdown.begun:  # the shutdown may have begun while the store was read
                    logger.warning("events of other processes could not be read: %s", error)

    async def poll_store(self) -> None:
        """Take in the events of other processes."""
        started = system.now()
        oldest = started - _MAX_CLOCK_SKEW
        found, left = await self._read(Query(active=True, limit=_MAX_POLLED))
        recent, recent_left = await self._read(Query(since=oldest, limit=_MAX_POLLED), until_known=True)
        found.update(recent)
        seen = {self._add_stored(stored) for _, stored in sorted(found.items())}
        self._has_polled = True
        for call, mark in [(call, mark) for call, mark in self._marks.items() if call not in seen]:
            caller, thread, id, made_at = call
            if not mark.ended and not self._is_held(id, thread, caller):
                for stored in await self._store().load(id, thread, caller):
                    if _call_of(stored) == call:
                        new = [event for event in stored.events if event.seq > mark.seq]
                        self._keep(caller, thread, _tool_of(stored), new)
                        self._mark(call, stored.events)
            if made_at < oldest or not mark.ended:  # else the next poll may find it again
                self._marks.pop(call, None)
        if left or recent_left:
            self._add_gap()

    async def _read(self, query: Query, *, until_known: bool = False) -> tuple[dict[int, Stored], bool]:
        """The calls that fit, and whether there are more than are read. `until_known`: up to a page on which every call is known."""
        found: dict[int, Stored] = {}
        for _ in range(_MAX_PAGES):
            page = await self._store().history(query)
            found.update({stored.key: stored for stored in page})
            known = until_known and all(_call_of(stored) in self._marks for stored in page)
            if len(page) < query.limit or known or (until_known and not self._has_polled):
                return found, False
            query = msgspec.structs.replace(query, before=page[-1].key)
        return found, True

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

"""The events of all calls, for `GET /events`. The last ones are kept, numbered, so that a reader who comes back misses none.

Nothing is kept before somebody reads. Calls of other processes over the same store are looked for once a second while there
are readers; their events come late, but each once. A reader who asks for more than is kept is told so: `event: gap`.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from clicket.errors import ClicketError
from clicket.journal import Entry
from clicket.model import Event
from clicket.model.codec import encode
from clicket.ports import Query, Stored
from clicket.server.readers import Bell, Reader, frame

if TYPE_CHECKING:
    from clicket.server.context import Context

__all__ = ["Ring"]

logger = logging.getLogger("clicket.server")
_LOOK_EVERY = 1.0
_LINGER = 300.0
"""Seconds that events are still kept after the last reader left."""
_SLACK = 120.0
"""Seconds by which another process's clock may be behind when it dates its calls."""
_MOST_LOOKED_AT = 1_000
_MOST_AT_ONCE = 64 * 1024
_GAP = b'event: gap\ndata: {"detail":"events before this point are not kept here; load the list of calls again"}\n\n'


class _Kept(msgspec.Struct, frozen=True, gc=False):
    number: int
    caller: str
    type: str
    frame: bytes


class _Mark(msgspec.Struct):
    """How far a call has been told."""

    id: str
    caller: str
    thread: str
    seq: int
    ended: bool = False


class Ring:
    """A listener of the journal. `epoch` tells this process's numbers from those of the one before."""

    def __init__(self, context: Context) -> None:
        self.bell = Bell()
        self.epoch = secrets.token_hex(4)
        self._context = context
        self._kept: deque[_Kept] = deque()
        self._bytes = 0
        self._number = 0
        self._readers = 0
        self._keep_until = 0.0
        self._seen: dict[int, _Mark] = {}
        self._joined_at = 0.0
        self._known = False
        self._looker: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._context.runtime.engine.journal.listeners.append(self)

    async def stop(self) -> None:
        with suppress(ClicketError, ValueError):
            self._context.runtime.engine.journal.listeners.remove(self)
        await self._stop_looking()

    # Reading.

    def join(self, last_id: str | None) -> int:
        """A reader comes; the number after which it reads. -1: it must be told of a gap."""
        self._readers += 1
        if self._readers == 1 and self._looker is None and self._context.runtime.engine.shares:
            self._joined_at, self._known = time.time(), False
            self._looker = asyncio.get_running_loop().create_task(self._look_around())
        if last_id is None:
            return self._number
        epoch, _, number = last_id.partition("-")
        if epoch != self.epoch or not number.isdecimal() or len(number) > 15 or int(number) > self._number:
            return -1
        return int(number)

    def leave(self) -> None:
        self._readers -= 1
        if self._readers == 0:
            self._keep_until = time.monotonic() + _LINGER

    def take(self, reader: Reader) -> tuple[bytes, bool]:
        first = self._kept[0].number if self._kept else self._number + 1
        parts: list[bytes] = []
        size = 0
        if reader.place < first - 1:
            parts.append(_GAP)
            reader.place = first - 1
        for index in range(reader.place - first + 1, len(self._kept)):
            kept = self._kept[index]
            reader.place = kept.number
            if reader.sees is None or reader.sees(kept.caller, kept.type):
                parts.append(kept.frame)
                size += len(kept.frame)
                if size >= _MOST_AT_ONCE:
                    break
        return b"".join(parts), False

    # Keeping.

    def __call__(self, call: Entry, events: Sequence[Event]) -> None:
        """Durable events of a call that runs here."""
        if self._readers == 0 and time.monotonic() > self._keep_until:
            if self._kept:
                self._forget()
            return
        if self._looker is not None and call.key and events:
            self._mark(call.key, call.id, call.caller, call.thread, events)
        self._keep(call.caller, call.thread, events)

    def _mark(self, key: int, id: str, caller: str, thread: str, events: Sequence[Event]) -> None:
        mark = self._seen.get(key)
        if mark is None:
            mark = self._seen[key] = _Mark(id, caller, thread, 0)
        mark.seq = max(mark.seq, events[-1].seq)
        mark.ended = mark.ended or any(event.is_terminal for event in events)

    def _keep(self, caller: str, thread: str, events: Sequence[Event]) -> None:
        options = self._context.options
        for event in events:
            self._number += 1
            data = b'{"thread":' + encode(thread) + b',"caller":' + encode(caller) + b"," + encode(event)[1:]
            made = frame(f"{self.epoch}-{self._number}", event.type, data)
            self._kept.append(_Kept(self._number, caller, event.type, made))
            self._bytes += len(made)
        while self._kept and (len(self._kept) > options.ring_events or self._bytes > options.ring_bytes):
            self._bytes -= len(self._kept.popleft().frame)
        self.bell.ring()

    def _forget(self) -> None:
        """Nobody read for long: whoever comes back is told of a gap."""
        self._kept.clear()
        self._bytes = 0
        self._number += 1

    # Calls of other processes.

    async def _stop_looking(self) -> None:
        looker, self._looker = self._looker, None
        if looker is not None:
            looker.cancel()
            with suppress(asyncio.CancelledError):
                await looker

    async def _look_around(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_EVERY)
            is_over = self._readers == 0 and time.monotonic() > self._keep_until
            if is_over or self._context.draining:  # then every stream has said goodbye
                self._looker = None
                return
            try:
                await self._look()
            except ClicketError as error:
                if not self._context.draining:  # it began to leave in the middle of the look
                    logger.warning("events of other processes could not be looked for: %s", error)

    async def _look(self) -> None:
        store, started = self._context.store, time.time()
        found = {stored.key: stored for stored in await store.history(Query(active=True, limit=_MOST_LOOKED_AT))}
        recent = Query(since=started - _SLACK, limit=_MOST_LOOKED_AT)
        found.update({stored.key: stored for stored in await store.history(recent)})
        for stored in sorted(found.values(), key=lambda each: each.key):
            self._meet(stored)
        self._known = True
        for key, mark in [(key, mark) for key, mark in self._seen.items() if key not in found]:
            if not mark.ended and not self._is_live(mark.id, mark.thread, mark.caller):
                self._keep(mark.caller, mark.thread, await store.events(key, mark.id, mark.seq))
            self._seen.pop(key, None)

    def _meet(self, stored: Stored) -> None:
        """Take in what is new of a call that another process wrote to. Of a call that was there before, what is older than
        the first reader is not news."""
        if stored.damaged is not None or not stored.events:
            return
        first = stored.events[0].data
        caller, thread = first.get("caller", ""), first["thread"]
        if self._is_live(stored.id, thread, caller):
            return
        mark = self._seen.get(stored.key)
        if mark is not None:
            news = [event for event in stored.events if event.seq > mark.seq]
        elif self._known:
            news = stored.events
        else:
            news = [event for event in stored.events if event.at >= self._joined_at]
        self._mark(stored.key, stored.id, caller, thread, stored.events)
        if news:
            self._keep(caller, thread, news)

    def _is_live(self, id: str, thread: str, caller: str) -> bool:
        return self._context.runtime.engine.find_live(id, thread, caller) is not None

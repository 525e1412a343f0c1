"""Reads the journal after the processes that write it, and records facts that none of them recorded: a process may die between an
event and its notice, or have no webhooks in its settings.

What was read is on record, in one document: the highest key of a call, and of each call that has not ended the number of its last
event. It is written after the notices, so a process that dies in between reads the same events again, and makes the same notices.
Two followers at the same time do the same work; the second one's progress is not written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from clicket.errors import StoreUnavailable
from clicket.model.codec import encode
from clicket.model.ports import Store, Stored
from clicket.model.ports.query import Query
from clicket.telemetry.webhooks.facts import facts_of, has_fact
from clicket.telemetry.webhooks.outbox import Outbox

__all__ = ["Follower"]

_KIND, _KEY = "notice.follower", "progress"
_PAGE = 200
_PAGES = 25
"""Pages of one pass."""
_GAP_FOR = 60.0
"""Seconds for which a missing key may still appear: PostgreSQL gives keys before their transactions commit."""
_MAX_GAPS = 1_000


class Progress(msgspec.Struct, kw_only=True):
    """`high`: every call with a key up to this was read. `open`: key -> id and last number of calls that may go on. `gaps`: keys below
    `high` that were not there, and since when."""

    high: int = 0
    open: dict[int, tuple[str, int]] = {}
    gaps: dict[int, float] = {}
    at: float = 0.0


class Follower:
    """`every`: seconds between passes of all processes together."""

    def __init__(self, store: Store, outbox: Outbox, now: Callable[[], float], *, every: float = 15.0) -> None:
        self._store = store
        self._outbox = outbox
        self._now = now
        self._every = every

    async def begin(self) -> None:
        """The first follower of a store begins at its end: what happened before there were webhooks is not news."""
        if await self._store.document(_KIND, _KEY) is not None:
            return
        newest = await self._store.history(Query(limit=1))
        progress = Progress(high=newest[0].key if newest else 0, at=0.0)
        query = Query(active=True, ascending=True, limit=_PAGE)
        while True:
            page = await self._store.history(query)
            for stored in page:
                if stored.events and stored.key <= progress.high:
                    progress.open[stored.key] = (stored.id, stored.events[-1].seq)
            if len(page) < _PAGE:
                break
            query = msgspec.structs.replace(query, after=page[-1].key)
        await self._store.put_document(_KIND, _KEY, encode(progress), 0)

    async def follow(self, *, always: bool = True) -> None:
        """Read what is new. `always`: also if another process did so just now."""
        document = await self._store.document(_KIND, _KEY)
        progress = None if document is None else _read(document.body)
        if document is None or progress is None:
            if document is not None:  # damaged
                await self._store.delete_document(_KIND, _KEY)
            await self.begin()
            return
        now = self._now()
        if not always and 0 <= now - progress.at < self._every / 2:
            return
        before = encode(progress)
        await self._read_open(progress)
        await self._read_gaps(progress, now)
        await self._read_new(progress, now)
        if encode(progress) != before or not always:
            progress.at = now
            await self._store.put_document(_KIND, _KEY, encode(progress), document.version)

    async def on_remove(self, calls: Sequence[Stored]) -> None:
        """Retention is about to remove these: record their facts first, if that was not done yet."""
        if not calls:
            return
        document = await self._store.document(_KIND, _KEY)
        progress = None if document is None else _read(document.body)
        if progress is None:
            return
        for stored in calls:
            known = progress.open.get(stored.key)
            if stored.key > progress.high or known is not None or stored.key in progress.gaps:
                await self._record(stored, 0 if known is None else known[1])

    async def _read_open(self, progress: Progress) -> None:
        """Calls that had not ended: only their new events are read, unless there is a fact in them."""
        keys = list(progress.open)
        for start in range(0, len(keys), _PAGE):
            some = {key: progress.open[key] for key in keys[start : start + _PAGE]}
            try:
                await self._read_some(progress, some)
            except StoreUnavailable:  # one of them may be damaged: that one is left out, and blocks no other
                for key, known in some.items():
                    try:
                        await self._read_some(progress, {key: known})
                    except StoreUnavailable:
                        if not await self._is_damaged(key, known[0]):
                            raise
                        progress.open.pop(key, None)

    async def _read_some(self, progress: Progress, some: dict[int, tuple[str, int]]) -> None:
        for key, events in (await self._store.news(some)).items():
            id, last = some[key]
            if events and has_fact(events, self._outbox.wanted):
                whole = await self._store.events(key, id, 0)
                for fact in facts_of(whole, self._outbox.wanted, last):
                    await self._outbox.record(fact, late=True)
            if not events or events[-1].state.is_terminal:  # it was removed, or has ended
                progress.open.pop(key, None)
            else:
                progress.open[key] = (id, events[-1].seq)

    async def _is_damaged(self, key: int, id: str) -> bool:
        return any(stored.key == key and stored.damaged is not None for stored in await self._store.load(id))

    async def _read_gaps(self, progress: Progress, now: float) -> None:
        for key, since in sorted(progress.gaps.items()):
            found = await self._store.history(Query(after=key - 1, ascending=True, limit=1))
            if found and found[0].key == key:
                await self._enter(progress, found[0])
            if (found and found[0].key == key) or not 0 <= now - since < _GAP_FOR:
                progress.gaps.pop(key, None)

    async def _read_new(self, progress: Progress, now: float) -> None:
        for _ in range(_PAGES):
            page = await self._store.history(Query(after=progress.high, ascending=True, limit=_PAGE))
            for stored in page:
                missing = range(progress.high + 1, stored.key)
                for key in missing[-_MAX_GAPS:] if progress.high else ():
                    if len(progress.gaps) < _MAX_GAPS:
                        progress.gaps[key] = now
                await self._enter(progress, stored)
                progress.high = stored.key
            if len(page) < _PAGE:
                return

    async def _enter(self, progress: Progress, stored: Stored) -> None:
        if stored.damaged is not None or not stored.events:
            return
        await self._record(stored, 0)
        if not stored.events[-1].state.is_terminal:
            progress.open[stored.key] = (stored.id, stored.events[-1].seq)

    async def _record(self, stored: Stored, after: int) -> None:
        if stored.damaged is None and has_fact(stored.events, self._outbox.wanted):
            for fact in facts_of(stored.events, self._outbox.wanted, after):
                await self._outbox.record(fact, late=True)


def _read(body: bytes) -> Progress | None:
    try:
        return msgspec.json.decode(body, type=Progress)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None

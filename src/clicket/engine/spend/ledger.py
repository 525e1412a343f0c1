"""The ledger: one entry for each reply of a model, and for each call whose tool reported a cost.

An entry has an id that is the same whenever it is written again, so it counts once. The entries of a run on one day are one small
document of the store, changed only over the version that was read. An entry is written within a second, and before its run or its call
ends; one that budgets count is written with their accounts, in one commit (`accounts.py`). What was assumed after a crash is replaced when
the real amount is known, and never the other way round.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Literal

import msgspec

from clicket.errors import ClicketError, StoreUnavailable
from clicket.model.codec import canonical
from clicket.model.ports import Clock, Records
from clicket.model.spend import Run, Spender

__all__ = ["KIND", "Ledger", "LedgerEntry", "LedgerPage", "day_of", "page_key", "read_page"]

logger = logging.getLogger("clicket.spend")
KIND = "spend"
"""The kind of the documents. Their keys begin with the day, so a report of some days reads only those."""
_STEPS = 100
"""Steps of a run whose entries share a document."""
_PAGE = 500
_TRIES = 200
_DAY = 86_400.0
_WRITE_WITHIN = 1.0
_RETRY_AFTER = 2.0


class LedgerEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """`nano` is money in billionths of a dollar; None: the model has no price. `at`: seconds since the epoch."""

    at: float
    kind: Literal["model", "tool"]
    name: str
    input: int = 0
    output: int = 0
    cached: int = 0
    cache_write: int = 0
    tokens: int = 0
    """What a tool reported."""
    nano: int | None = None
    assumed: bool = False
    """The amount that was reserved for a request of which nothing is known."""
    seq: int = 0
    """The event in which a tool reported it last."""

    @property
    def all_tokens(self) -> int:
        return self.input + self.output + self.tokens

    def replaces(self, known: LedgerEntry | None) -> bool:
        """Is this newer than what is known under the same id? What was assumed never replaces what is known, and an older report of a
        tool never a later one."""
        return known is None or (self.seq >= known.seq and (known.assumed or not self.assumed))


class LedgerPage(msgspec.Struct, kw_only=True):
    """A document: entries of one run on one day."""

    caller: str
    runs: tuple[Run, ...]
    entries: dict[str, LedgerEntry]


_page = msgspec.json.Decoder(LedgerPage)


def day_of(at: float) -> str:
    """The day in UTC, `2026-11-16`. A time that no calendar has counts as the first day."""
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d")
    except (ValueError, OverflowError, OSError):
        return "1970-01-01"


def page_key(spender: Spender, step: int, at: float) -> str:
    return _key(spender.caller, spender.runs[-1], step // _STEPS, at // _DAY)


@lru_cache(maxsize=1_024)  # the steps of a run share a page
def _key(caller: str, run: Run, page: int, day: float) -> str:
    who = [caller, run.thread, run.agent, run.turn, run.call, page]
    return f"{_day(day)}/{blake2b(canonical(who), digest_size=16).hexdigest()}"


@lru_cache(maxsize=32)
def _day(number: float) -> str:
    return day_of(number * _DAY)


class Ledger:
    """`spawn` runs a write in the background. `add` collects entries; `flush` writes those of a spender now."""

    def __init__(self, records: Records, clock: Clock, spawn: Callable[[Coroutine[Any, Any, None]], object]) -> None:
        self._records = records
        self._clock = clock
        self._spawn = spawn
        self._pending: dict[str, tuple[Spender, dict[str, LedgerEntry]]] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._timer: Any = None
        self.closed = False

    def add(self, spender: Spender, step: int, id: str, entry: LedgerEntry) -> str:
        """Count an entry soon; returns the key of its page, for `flush`."""
        key = page_key(spender, step, entry.at)
        page = self._pending.get(key)
        if page is None:
            page = self._pending[key] = (spender, {})
        _merge(page[1], id, entry)
        if self._timer is None and not self.closed:
            self._timer = self._clock.call_later(_WRITE_WITHIN, self._write_soon)
        return key

    def _write_soon(self) -> None:
        self._timer = None
        if self._pending and not self.closed:
            self._spawn(self._write_all())

    async def write_pending(self) -> None:
        """Write all entries that were added so far."""
        if self._pending:
            await self._write_all()

    async def _write_all(self) -> None:
        for key in list(self._pending):
            try:
                await self.flush(key)
            except ClicketError as error:
                logger.warning("the ledger could not be written yet: %s", error)
        if self._pending and self._timer is None and not self.closed:
            self._timer = self._clock.call_later(_RETRY_AFTER, self._write_soon)

    async def close(self) -> None:
        """Write what is pending."""
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        await self._write_all()

    def pending_of(self, spender: Spender) -> list[str]:
        """The pages of a spender that have pending entries."""
        return [key for key, (whose, _) in self._pending.items() if whose == spender]

    async def flush(self, key: str) -> None:
        """Write a page's pending entries. Raises `ClicketError`, and keeps them, if the store cannot be reached."""
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            taken = self._pending.pop(key, None)
            if taken is None:
                return
            spender, entries = taken
            try:
                await self._put(key, spender, entries)
            except BaseException:
                _, newer = self._pending.setdefault(key, (spender, {}))
                for id, entry in entries.items():
                    newer.setdefault(id, entry)
                raise
        if key not in self._pending and not lock.locked():
            self._locks.pop(key, None)

    async def _put(self, key: str, spender: Spender, entries: dict[str, LedgerEntry]) -> None:
        for _ in range(_TRIES):
            found = await self._records.document(KIND, key)
            page = None if found is None else read_page(found.body)
            if page is None:
                page = LedgerPage(caller=spender.caller, runs=spender.runs, entries={})
            changed = False
            for id, entry in entries.items():
                changed = _merge(page.entries, id, entry) or changed
            if not changed:
                return
            version = 0 if found is None else found.version
            if await self._records.put_document(KIND, key, msgspec.json.encode(page), version):
                return
        raise StoreUnavailable(
            "an entry of the ledger could not be written: its page changed all the time.", transient=True
        )

    async def has(self, key: str, id: str, entry: LedgerEntry) -> bool:
        """True if a page has this entry, or a newer one under its id."""
        found = await self._records.document(KIND, key)
        page = None if found is None else read_page(found.body)
        known = None if page is None else page.entries.get(id)
        return known == entry or not entry.replaces(known)

    async def pages(self, since: float | None = None, until: float | None = None) -> AsyncIterator[LedgerPage]:
        """The pages of the days from `since` up to `until`. Their entries may still lie outside."""
        after = "" if since is None else f"{day_of(since)}/"
        last = None if until is None else f"{day_of(until)}/~"
        while True:
            found = await self._records.documents(KIND, after=after, limit=_PAGE)
            for document in found:
                if last is not None and document.key > last:
                    return
                page = read_page(document.body)
                if page is not None:
                    yield page
            if len(found) < _PAGE:
                return
            after = found[-1].key

    async def sweep(self, before: float) -> int:
        """Remove the pages of days before a time; returns how many there were."""
        removed = 0
        last = f"{day_of(before)}/"
        while True:
            found = await self._records.documents(KIND, limit=_PAGE)
            old = [document.key for document in found if document.key < last]
            for key in old:
                removed += await self._records.delete_document(KIND, key)
            if len(old) < _PAGE:
                return removed


def _merge(entries: dict[str, LedgerEntry], id: str, entry: LedgerEntry) -> bool:
    known = entries.get(id)
    if known is not None and (known == entry or not entry.replaces(known)):
        return False
    entries[id] = entry
    return True


def read_page(body: bytes) -> LedgerPage | None:
    """None: another program wrote it, or it is damaged."""
    try:
        return _page.decode(body)
    except (msgspec.MsgspecError, ValueError):
        logger.warning("a page of the ledger cannot be read, and is left out")
        return None

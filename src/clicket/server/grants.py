"""Who may read which artifact: callers that uploaded it, or that made a call which names it. On record in the store, so every
server over it knows. What is on record of artifacts that are gone is swept, a page at a time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from clicket.errors import ClicketError, NotFound
from clicket.execution import GRANT, grant, granted, unknown
from clicket.journal import Entry
from clicket.model import Event, Record, ToolResult
from clicket.ports import StoredDocument

if TYPE_CHECKING:
    from clicket.server.auth import Principal
    from clicket.server.context import Context

__all__ = ["KIND", "Grants", "unknown"]

logger = logging.getLogger("clicket.server")
KIND = GRANT
_MOST_REMEMBERED = 10_000
_TRUSTED = 600.0
"""Seconds that a grant is remembered without a look at the store. Must be well below `_SETTLED`."""
_SETTLED = 3_600.0
"""Seconds before a grant may be swept: no server remembers it any more, so each would write it anew."""
_SWEEP_EVERY = 60.0
_SWEPT_AT_ONCE = 200


class Grants:
    """A listener of the journal."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._given: dict[tuple[str, str], float] = {}
        self._swept_to = ""
        self._sweeper: asyncio.Task[None] | None = None

    def __call__(self, call: Entry, events: Sequence[Event]) -> None:
        """Also who calls by other ways than `POST /calls` may read what came of it."""
        data = events[-1].data if events else {}
        if call.caller and "artifact" in data and isinstance(data["artifact"], str):
            self._context.runtime.engine.spawn(self._grant_later(call.caller, data["artifact"]))

    async def _grant_later(self, caller: str, name: str) -> None:
        with suppress(ClicketError):  # whoever is told of the artifact is granted it then
            await self.grant(caller, name)

    async def give(self, caller: str, told: ToolResult | Record) -> None:
        """A caller is told of artifacts of its call: from now on it may read them."""
        names = (told.artifact, told.metadata.get("stream_artifact"))
        for name in names:
            if isinstance(name, str) and caller:
                await self.grant(caller, name)

    async def grant(self, caller: str, name: str) -> None:
        if self._is_remembered(caller, name):
            return
        await grant(self._context.store, caller, name)
        if len(self._given) >= _MOST_REMEMBERED:
            self._given.clear()
        self._given[caller, name] = time.monotonic()

    async def check(self, who: Principal, name: str) -> None:
        if who.is_admin or self._is_remembered(who.id, name):
            return
        if not who.id or not await granted(self._context.store, who.id, name):
            raise unknown(name)

    def _is_remembered(self, caller: str, name: str) -> bool:
        at = self._given.get((caller, name))
        return at is not None and time.monotonic() - at < _TRUSTED

    # Sweeping.

    def start(self) -> None:
        self._context.runtime.engine.journal.listeners.append(self)
        self._sweeper = asyncio.get_running_loop().create_task(self._sweep_on())

    async def stop(self) -> None:
        with suppress(ClicketError, ValueError):
            self._context.runtime.engine.journal.listeners.remove(self)
        sweeper, self._sweeper = self._sweeper, None
        if sweeper is not None:
            sweeper.cancel()
            with suppress(asyncio.CancelledError):
                await sweeper

    async def _sweep_on(self) -> None:
        while not self._context.draining:
            await asyncio.sleep(_SWEEP_EVERY)
            try:
                await self.sweep()
            except ClicketError as error:
                if not self._context.draining:
                    logger.warning("who may read artifacts that are gone could not be swept: %s", error)
            except Exception:
                logger.exception("who may read artifacts that are gone could not be swept")

    async def sweep(self) -> int:
        """One page of grants; the next time goes on behind it. How many were removed."""
        page = await self._context.store.documents(KIND, after=self._swept_to, limit=_SWEPT_AT_ONCE)
        self._swept_to = page[-1].key if len(page) == _SWEPT_AT_ONCE else ""
        before, removed = time.time() - _SETTLED, 0
        for document in page:
            if document.updated_at < before and not await self._is_kept(document):
                removed += await self._remove(document)
        return removed

    async def _remove(self, document: StoredDocument) -> bool:
        done = await self._context.store.delete_document(KIND, document.key)
        if await self._is_kept(document):  # it came back, and was granted, in between
            caller, _, name = document.key.rpartition("/")
            await grant(self._context.store, caller, name)
            return False
        return done

    async def _is_kept(self, document: StoredDocument) -> bool:
        try:
            await self._context.store.read_artifact(document.key.rpartition("/")[2], 0, 0)
        except NotFound:
            return False
        return True

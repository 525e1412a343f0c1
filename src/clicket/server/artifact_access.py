"""Which callers may read which artifact: those that uploaded it, and those whose calls stored it.

Each right is a document in the store, so every server over it knows them. The runtime writes one when it stores an artifact; this
module removes those of artifacts that no longer exist.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from clicket import system
from clicket.engine.executors import ARTIFACT_ACCESS, allow_reading, may_read, unknown
from clicket.errors import ClicketError, NotFound
from clicket.model.ports import Store, StoredDocument
from clicket.server.authentication import Principal
from clicket.server.shutdown import Shutdown, end_task

__all__ = ["KIND", "ArtifactAccess", "unknown"]

logger = logging.getLogger("clicket.server")
KIND = ARTIFACT_ACCESS
_MAX_CACHED = 10_000
_CACHED_FOR = 600.0
"""Seconds for which a right is cached. Must be well below `_MIN_AGE`."""
_MIN_AGE = 3_600.0
"""Seconds before a right may be removed: by then no server has it cached, so each would write it again."""
_SWEEP_EVERY = 60.0
_SWEEP_PAGE = 200


class ArtifactAccess:
    def __init__(self, store: Callable[[], Store], shutdown: Shutdown) -> None:
        self._store = store
        self._shutdown = shutdown
        self._given: dict[tuple[str, str], float] = {}
        self._swept_to = ""
        self._sweeper: asyncio.Task[None] | None = None

    async def allow_reading(self, caller: str, name: str) -> None:
        if self._is_cached(caller, name):
            return
        await allow_reading(self._store(), caller, name)
        if len(self._given) >= _MAX_CACHED:
            self._given.clear()
        self._given[caller, name] = system.monotonic()

    async def check(self, principal: Principal, name: str) -> None:
        """Raise `NotFound` if the principal may not read the artifact."""
        if principal.is_admin or self._is_cached(principal.id, name):
            return
        if not principal.id or not await may_read(self._store(), principal.id, name):
            raise unknown(name)

    def _is_cached(self, caller: str, name: str) -> bool:
        at = self._given.get((caller, name))
        return at is not None and system.monotonic() - at < _CACHED_FOR

    # Sweeping.

    def start(self) -> None:
        self._sweeper = asyncio.get_running_loop().create_task(self._sweep_forever())

    async def stop(self) -> None:
        sweeper, self._sweeper = self._sweeper, None
        await end_task(sweeper)

    async def _sweep_forever(self) -> None:
        while not self._shutdown.begun:
            await asyncio.sleep(_SWEEP_EVERY)
            try:
                await self.sweep()
            except ClicketError as error:
                if not self._shutdown.begun:
                    logger.warning("rights to removed artifacts could not be swept: %s", error)
            except Exception:
                logger.exception("rights to removed artifacts could not be swept")

    async def sweep(self) -> int:
        """Check one page of rights, and the next page the next time. Returns how many were removed."""
        page = await self._store().documents(KIND, after=self._swept_to, limit=_SWEEP_PAGE)
        self._swept_to = page[-1].key if len(page) == _SWEEP_PAGE else ""
        before = system.now() - _MIN_AGE
        removed = 0
        for document in page:
            if document.updated_at < before and not await self._is_kept(document):
                removed += await self._remove(document)
        return removed

    async def _remove(self, document: StoredDocument) -> bool:
        done = await self._store().delete_document(KIND, document.key)
        if await self._is_kept(document):  # stored again in between
            caller, _, name = document.key.rpartition("/")
            await allow_reading(self._store(), caller, name)
            return False
        return done

    async def _is_kept(self, document: StoredDocument) -> bool:
        try:
            await self._store().read_artifact(document.key.rpartition("/")[2], 0, 0)
        except NotFound:
            return False
        return True

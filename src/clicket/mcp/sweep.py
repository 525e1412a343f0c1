"""Removes stored answers of tasks whose calls are gone: retention removes the calls, and this module the documents beside them.

A few documents are looked at now and then, when a client asks for a task.
"""

from __future__ import annotations

import logging

import msgspec

from clicket.errors import ClicketError
from clicket.mcp.chain import KIND
from clicket.ports import Store
from clicket.runtime import Runtime
from clicket.vault import Identity

__all__ = ["Sweep"]

logger = logging.getLogger("clicket.mcp")

EVERY = 60.0
STEP = 20


class Sweep:
    """Goes through the documents in small steps. Several processes may do so at once."""

    def __init__(self) -> None:
        self._next_at = float("-inf")
        self._after = ""

    def now_and_then(self, runtime: Runtime) -> None:
        """Look at the next few documents in the background, if it is time."""
        now = runtime.clock.now()
        if now >= self._next_at:
            self._next_at = now + EVERY
            runtime.spawn(self._step(runtime.store))

    async def _step(self, store: Store) -> None:
        try:
            documents = await store.documents(KIND, after=self._after, limit=STEP)
            self._after = documents[-1].key if len(documents) == STEP else ""
            for document in documents:
                if not await _has_call(store, document.key):
                    await store.delete_document(KIND, document.key)
        except ClicketError as error:
            logger.info("documents of tasks that are gone could not be swept: %s", error)


async def _has_call(store: Store, key: str) -> bool:
    try:
        caller, thread, id = msgspec.json.decode(key, type=Identity)
    except msgspec.MsgspecError:  # nobody will ever ask for it
        return False
    return bool(await store.load(id, thread, caller))

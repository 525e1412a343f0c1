"""Papers of tasks whose calls are gone. Retention takes calls; the answers that were waiting beside them go some time after.

A few papers are looked at now and then, when somebody asks for a task; where nobody does, none are made either.
"""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from clicket.errors import ClicketError
from clicket.mcp.chain import KIND
from clicket.vault import Identity

__all__ = ["Sweep"]

logger = logging.getLogger("clicket.mcp")

EVERY = 60.0
STEP = 20


class Sweep:
    """Goes round the papers in small steps. Several processes may: a paper that is gone is gone."""

    def __init__(self) -> None:
        self._next_at = float("-inf")
        self._after = ""

    def now_and_then(self, engine: Any) -> None:
        now = engine.clock.now()
        if now >= self._next_at:
            self._next_at = now + EVERY
            engine.spawn(self._step(engine.store))

    async def _step(self, store: Any) -> None:
        try:
            documents = await store.documents(KIND, after=self._after, limit=STEP)
            self._after = documents[-1].key if len(documents) == STEP else ""
            for document in documents:
                if not await _has_call(store, document.key):
                    await store.delete_document(KIND, document.key)
        except ClicketError as error:
            logger.info("papers of tasks that are gone could not be swept: %s", error)


async def _has_call(store: Any, key: str) -> bool:
    try:
        caller, thread, id = msgspec.json.decode(key, type=Identity)
    except msgspec.MsgspecError:  # nobody will ever ask for it
        return False
    return bool(await store.load(id, thread, caller))

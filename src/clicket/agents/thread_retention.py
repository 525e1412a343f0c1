"""Removes threads that were idle for too long. Each sweep looks at a bounded number of threads and continues where the last one ended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import unquote

from clicket.agents.context_window import SUMMARY
from clicket.agents.memory import HEAD, TURN
from clicket.ports import Records

__all__ = ["ThreadSweep"]

_BATCH = 200

IsRunning = Callable[[str, str, str], Awaitable[bool]]
"""`is_running(caller, agent, thread)`: does a turn of the thread run?"""


class ThreadSweep:
    """Remembers between sweeps where to continue."""

    def __init__(self) -> None:
        self._after = ""

    async def step(self, records: Records, before: float, is_running: IsRunning) -> int:
        """Remove threads that were not written since `before`; returns how many."""
        heads = await records.documents(HEAD, after=self._after, limit=_BATCH)
        self._after = heads[-1].key if len(heads) == _BATCH else ""
        forgotten = 0
        for head in heads:
            if head.updated_at >= before:
                continue
            caller, agent, thread = (unquote(part) for part in head.key.split("/", 2))
            if not await is_running(caller, agent, thread):
                await _forget(records, head.key)
                forgotten += 1
        return forgotten


async def _forget(records: Records, key: str) -> None:
    """The head is removed last, so that the next sweep finds what an interrupted one left."""
    while True:
        found = await records.documents(TURN, after=f"{key}/", limit=_BATCH)
        mine = [document for document in found if document.key.startswith(f"{key}/")]
        for document in mine:
            await records.delete_document(TURN, document.key)
        if len(mine) < _BATCH:
            break
    await records.delete_document(SUMMARY, key)
    await records.delete_document(HEAD, key)

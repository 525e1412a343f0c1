"""Removes threads that were idle for too long. Each sweep looks at a bounded number of threads and continues where the last one ended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import unquote

from clicket.agents.context_window import SUMMARY
from clicket.agents.memory import HEAD, REQUESTS, delete_turns
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
                await delete_turns(records, head.key)
                await records.delete_document(SUMMARY, head.key)
                await records.delete_document(REQUESTS, head.key)
                await records.delete_document(HEAD, head.key)  # last, so that an interrupted sweep is repeated
                forgotten += 1
        return forgotten

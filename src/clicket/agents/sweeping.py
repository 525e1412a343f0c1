"""Threads that nobody came back to are forgotten. A few are looked at each time, and the next ones the next time: no sweep grows with
the number of threads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import unquote

from clicket.agents.memory import HEAD, TURN
from clicket.agents.window import SUMMARY
from clicket.ports import Records

__all__ = ["ThreadSweep"]

_AT_ONCE = 200

IsRunning = Callable[[str, str, str], Awaitable[bool]]
"""`is_running(caller, agent, thread)`: has the thread a turn under way?"""


class ThreadSweep:
    """Keeps its place between sweeps."""

    def __init__(self) -> None:
        self._after = ""

    async def step(self, records: Records, before: float, is_running: IsRunning) -> int:
        """Forget threads that were not touched since `before`; how many."""
        heads = await records.documents(HEAD, after=self._after, limit=_AT_ONCE)
        self._after = heads[-1].key if len(heads) == _AT_ONCE else ""
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
    """The head goes last: what is left of a sweep that was cut off is found by the next."""
    while True:
        found = await records.documents(TURN, after=f"{key}/", limit=_AT_ONCE)
        mine = [document for document in found if document.key.startswith(f"{key}/")]
        for document in mine:
            await records.delete_document(TURN, document.key)
        if len(mine) < _AT_ONCE:
            break
    await records.delete_document(SUMMARY, key)
    await records.delete_document(HEAD, key)

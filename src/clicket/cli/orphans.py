"""Which calls are nobody's any more: their owner is gone, and no runtime with their tool has come by yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from clicket.kernel import State
from clicket.model import Record
from clicket.ports import Presence, Query, Stored

if TYPE_CHECKING:
    from clicket.reader import Reader
    from clicket.runtime import Runtime

__all__ = ["Owners", "active_calls", "is_orphan", "orphans", "waits"]

MOST_COUNTED = 1_000
_AT_WORK = (State.INITIALIZING, State.RUNNING, State.STREAMING)


class Owners:
    """The owners that a store knows; `alive` and `gone` are those beside ourselves."""

    def __init__(self, known: Sequence[Presence]) -> None:
        self.alive = [presence for presence in known if presence.alive and not presence.mine]
        self.gone = [presence for presence in known if not presence.alive]
        self._alive = {presence.id for presence in known if presence.alive}

    @classmethod
    async def of(cls, runtime: Runtime | Reader) -> Owners:
        return cls(await runtime.workers())

    def have_left(self, stored: Stored) -> bool:
        """Is the call under way, with nobody there to go on with it? One that only waits for a worker is not."""
        if _has_ended(stored):
            return False
        if stored.owner is None:
            return stored.events[-1].state in _AT_WORK
        return stored.owner not in self._alive


def waits(stored: Stored) -> bool:
    """Is the call nobody's, and free for whoever has its tool?"""
    return not _has_ended(stored) and stored.owner is None and stored.events[-1].state not in _AT_WORK


def _has_ended(stored: Stored) -> bool:
    return stored.damaged is not None or not stored.events or stored.events[-1].state.is_terminal


async def active_calls(runtime: Runtime | Reader) -> list[Stored]:
    """The newest calls that have not ended, as many as one would count by hand."""
    return await runtime.store.history(Query(active=True, limit=MOST_COUNTED))


async def orphans(runtime: Runtime | Reader) -> list[Stored]:
    """Calls whose owner is gone."""
    found = await active_calls(runtime)
    owners = await Owners.of(runtime)  # after the calls: who came meanwhile is known
    return [stored for stored in found if owners.have_left(stored)]


async def is_orphan(runtime: Runtime | Reader, record: Record) -> bool:
    found = await runtime.store.load(record.id, record.thread, record.caller)
    owners = await Owners.of(runtime)
    return any(owners.have_left(stored) for stored in found)

"""Finds orphans: active calls whose owner is dead, and which no runtime has taken over yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from clicket.kernel import State
from clicket.model import Record
from clicket.model.ports import Presence, Query, Stored

if TYPE_CHECKING:
    from clicket.runtime.reader import Reader
    from clicket.runtime.runtime import Runtime

__all__ = ["Owners", "active_calls", "is_orphan", "orphans", "waits_for_worker"]

MAX_COUNTED = 1_000
_RUNNING = (State.INITIALIZING, State.RUNNING, State.STREAMING)


class Owners:
    """The owners that a store knows, without this process."""

    def __init__(self, known: Sequence[Presence]) -> None:
        self.alive = [presence for presence in known if presence.alive and not presence.mine]
        self.gone = [presence for presence in known if not presence.alive]
        self._alive = {presence.id for presence in known if presence.alive}

    @classmethod
    async def of(cls, runtime: Runtime | Reader) -> Owners:
        return cls(await runtime.store.owners())

    def are_gone(self, stored: Stored) -> bool:
        """Is the call active, and its owner dead? A call that waits for a worker has no owner and is not an orphan."""
        if _has_ended(stored):
            return False
        if stored.owner is None:
            return stored.events[-1].state in _RUNNING
        return stored.owner not in self._alive


def waits_for_worker(stored: Stored) -> bool:
    """Does the call have no owner, so that any worker with its tool may claim it?"""
    return not _has_ended(stored) and stored.owner is None and stored.events[-1].state not in _RUNNING


def _has_ended(stored: Stored) -> bool:
    return stored.damaged is not None or not stored.events or stored.events[-1].state.is_terminal


async def active_calls(runtime: Runtime | Reader) -> list[Stored]:
    """The newest calls that have not ended, at most `MAX_COUNTED`."""
    return await runtime.store.history(Query(active=True, limit=MAX_COUNTED))


async def orphans(runtime: Runtime | Reader) -> list[Stored]:
    """The active calls whose owner is dead."""
    found = await active_calls(runtime)
    owners = await Owners.of(runtime)  # read after the calls, so that new owners are known
    return [stored for stored in found if owners.are_gone(stored)]


async def is_orphan(runtime: Runtime | Reader, record: Record) -> bool:
    found = await runtime.store.load(record.id, record.thread, record.caller)
    owners = await Owners.of(runtime)
    return any(owners.are_gone(stored) for stored in found)

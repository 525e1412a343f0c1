"""A store that does not answer for a while does not end a turn: the turn waits and goes on, as the journal does for the writes of calls.

`TurnLifecycle` drives an interrupted turn again from its entries, as after a crash. `tool_step` and the end of a turn repeat the one
operation that failed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from clicket.engine.executors import TurnLog
from clicket.errors import ClicketError, StoreUnavailable
from clicket.model.ports import AgentHost, sleep

__all__ = ["Outages"]

T = TypeVar("T")
_FIRST = 0.1
_MOST = 2.0
_MAX_TRIES = 5
"""How often an operation is repeated that fails although the store answers."""
_PROBE = "outage"
"""The kind and the key of a document that does not exist."""


class Outages:
    """For one operation, or one turn that is driven."""

    def __init__(self, host: AgentHost, log: TurnLog) -> None:
        self._host = host
        self._log = log
        self._tries = 0
        self._lasting = _FIRST
        self._seq = log.entry.seq

    async def through(self, work: Callable[[], Awaitable[T]], error: StoreUnavailable) -> T:
        """Repeat what failed with `error` until it is done."""
        while True:
            await self.wait(error)
            try:
                return await work()
            except StoreUnavailable as again:
                error = again

    async def wait(self, error: StoreUnavailable) -> None:
        """Return when the store answers, and has all entries of the turn so far. If the store answers each time, the error is not one of
        an outage, such as a damaged record: it is raised after some tries without an entry in between. A full disk answers, too, and is
        waited for: somebody makes room."""
        host = self._host
        log = self._log
        delay = _FIRST
        while not await self._answers():
            self._tries = 0
            await sleep(host.clock, delay)
            delay = min(delay * 2, _MOST)
        if error.lasting:
            await sleep(host.clock, self._lasting)
            self._lasting = min(self._lasting * 2, _MOST)
            return
        if log.entry.seq != self._seq:
            self._seq = log.entry.seq
            self._tries = 0
        self._tries += 1
        if self._tries > _MAX_TRIES:
            raise error
        await sleep(host.clock, _FIRST * self._tries)

    async def note_end(self) -> None:
        """Record that the turn goes on. The outage may have been longer than the lease: only a write shows whether another process owns the
        turn now."""
        with suppress(ClicketError):
            await self._log.note("The store answers again: the turn goes on.")
        self._seq = self._log.entry.seq

    def leave_if_closing(self) -> None:
        """Hand the call back if the runtime closes."""
        if self._host.closing:
            self._log.hand_back()

    async def _answers(self) -> bool:
        self.leave_if_closing()
        try:
            await self._log.flush()
            await self._host.records.document(_PROBE, _PROBE)
        except StoreUnavailable:
            return False
        return not self._host.is_stuck  # reads are answered on a full disk, too

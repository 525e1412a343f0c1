"""Callers that wait for the call they made: an async body runs in the caller's own task, without a task or a hop more."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from clicket.errors import ClicketError
from clicket.execution import Wait
from clicket.journal import LiveCall
from clicket.model import ToolResult

if TYPE_CHECKING:
    from clicket.engine.local import LocalEngine

__all__ = ["Conductor", "refusal_of"]

_BREATH = 0.002
"""Seconds of one turn of the loop that calls which never wait may have, all together."""
_CROWD = 64
"""Callers that go on in one turn of the loop when those are over; the others stand in line."""


def refusal_of(call: LiveCall) -> ClicketError | None:
    """Why nothing more will come of a call here."""
    return call.refused or call.gone


class Conductor:
    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self._monotonic = engine.clock.monotonic
        self._breathe_at = 0.0
        self._turning = False
        self._resting = 0
        self._line: deque[asyncio.Future[None]] = deque()

    async def conduct(self, call: LiveCall) -> ToolResult:
        """For a caller that waits: an async body runs in the caller's own task, other calls are waited for."""
        refusal = refusal_of(call)
        if refusal is not None:
            raise refusal
        if not call.ready and call.result is None:
            call.turn = Wait(loop=self._loop)
            call.waiters.append(call.turn)
            try:
                await call.turn
            except asyncio.CancelledError:
                await self._left(call)
                raise
        if call.result is not None:
            return call.result
        call.task = asyncio.current_task()
        await self._engine.pipeline.perform(call)
        self._engine.performed(call)
        if call.caller_left:
            raise asyncio.CancelledError
        if call.result is None:
            return await self._engine.outcome(call)
        if self._monotonic() >= self._breathe_at:
            await self._rest()
        return call.result

    async def breathe(self) -> None:
        """Calls that never wait must still let others run: wait, if they had their time in this turn of the loop."""
        if self._monotonic() >= self._breathe_at:
            await self._rest()

    async def _rest(self) -> None:
        if not self._turning:
            self._turning = True
            self._loop.call_soon(self._new_turn)
        if self._resting < _CROWD and not self._line:
            self._resting += 1
            await asyncio.sleep(0)
        else:
            place = Wait(loop=self._loop)
            self._line.append(place)
            await place

    def _new_turn(self) -> None:
        self._breathe_at = self._monotonic() + _BREATH
        self._resting = 0
        while self._line and self._resting < _CROWD:
            place = self._line.popleft()
            if not place.done():  # else its caller has left
                place.set_result(None)
                self._resting += 1
        self._turning = bool(self._line)
        if self._turning:
            self._loop.call_soon(self._new_turn)

    async def _left(self, call: LiveCall) -> None:
        """The caller was cancelled while its call waited or ran elsewhere: the call ends, and with it the work."""
        self._engine.cancel(call, "its caller was cancelled")
        if call.ready and not call.settling:
            self._engine.drive_apart(call)
        call.direct = False
        if not call.settled:
            ending = asyncio.ensure_future(self._engine.outcome(call))
            try:
                await asyncio.wait([ending], timeout=self._engine.limits.cancel_grace + 1.0)
            finally:
                ending.cancel()

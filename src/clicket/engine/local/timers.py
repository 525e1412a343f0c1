"""The timers of calls that wait: for a slot, for a person, and for their deadline."""

from __future__ import annotations

from collections.abc import Callable

from clicket.engine.live_call import Call
from clicket.model.ports import Clock

__all__ = ["WaitTimers"]


class WaitTimers:
    """`expire(call, reason)` is called when time is up."""

    def __init__(self, clock: Clock, expire: Callable[[Call, str], None]) -> None:
        self._clock = clock
        self._expire = expire

    def wait(self, call: Call, seconds: float, reason: str) -> None:
        """Bound a wait: in the queue, or for a person. A call has one of them at a time."""
        self.end_wait(call)
        call.wait_timer = self._clock.call_later(seconds, self._expire, call, reason)

    def end_wait(self, call: Call) -> None:
        if call.wait_timer is not None:
            call.wait_timer.cancel()
            call.wait_timer = None

    def deadline(self, call: Call, seconds: float) -> None:
        """Bound the whole call."""
        call.deadline_timer = self._clock.call_later(seconds, self._expire, call, "deadline")

    def cancel(self, call: Call) -> None:
        """The call is over here."""
        if call.wait_timer is not None:
            call.wait_timer.cancel()
        if call.deadline_timer is not None:
            call.deadline_timer.cancel()

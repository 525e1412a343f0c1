"""The clocks of an attempt: its deadline, its idle limit, and the grace after it was told to stop."""

from __future__ import annotations

from collections.abc import Callable

from clicket.execution.deadlines import Deadlines
from clicket.journal import LiveCall
from clicket.ports import Clock, Timer
from clicket.tools import Tool

__all__ = ["Clocks"]


class Clocks:
    """`stop` is called with the reason when time is up."""

    def __init__(self, clock: Clock, stop: Callable[[LiveCall, str], None], *, grace: float) -> None:
        self.clock = clock
        self.grace = grace
        self._stop = stop
        self._deadlines = Deadlines(clock, lambda call: stop(call, "attempt"))

    def start(self, call: LiveCall, tool: Tool) -> None:
        timeout = call.request.timeout or tool.options.timeout
        if timeout is not None:
            self.limit(call, timeout)
        if tool.options.idle_timeout is not None:
            call.idle_timer = _IdleTimer(self.clock, self._stop, call, tool.options.idle_timeout)

    def limit(self, call: LiveCall, seconds: float) -> None:
        """Set the attempt's deadline, or a new one."""
        if call.attempt_deadline is not None:
            self._deadlines.drop(call, call.attempt_deadline)
        call.attempt_deadline = self._deadlines.add(call, seconds)

    def grant(self, call: LiveCall, then: Callable[..., None], *args: LiveCall) -> None:
        """The call was told to stop: after the grace, `then`."""
        # A call that waits for others stops when they have stopped, and they have their grace, too.
        grace = 2 * self.grace + 1.0 if call.inner else self.grace
        call.grace_timer = self.clock.call_later(grace, then, *args)

    def over(self, call: LiveCall) -> None:
        """The attempt has ended: nothing ticks for it any more."""
        call.stopper = None
        if call.attempt_deadline is not None:
            self._deadlines.drop(call, call.attempt_deadline)
            call.attempt_deadline = None
        if call.idle_timer is not None:
            call.idle_timer.cancel()
            call.idle_timer = None
        if call.grace_timer is not None:
            call.grace_timer.cancel()
            call.grace_timer = None

    def close(self) -> None:
        self._deadlines.close()


class _IdleTimer:
    """Ends the attempt when its sink was silent for too long; looks again only when it might be."""

    __slots__ = ("_call", "_clock", "_limit", "_since", "_stop", "_timer")

    def __init__(self, clock: Clock, stop: Callable[[LiveCall, str], None], call: LiveCall, limit: float) -> None:
        self._clock, self._stop, self._call, self._limit = clock, stop, call, limit
        self._since = clock.monotonic()
        self._timer: Timer = clock.call_later(limit, self._look)

    def _look(self) -> None:
        active_at = self._since if self._call.sink is None else self._call.sink.active_at
        left = active_at + self._limit - self._clock.monotonic()
        if left <= 0:
            self._stop(self._call, "idle")
        else:
            self._timer = self._clock.call_later(left, self._look)

    def cancel(self) -> None:
        self._timer.cancel()

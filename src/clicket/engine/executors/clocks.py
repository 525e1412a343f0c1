"""The clocks of an attempt: its deadline, its idle limit, and the grace after a request to stop."""

from __future__ import annotations

from collections.abc import Callable

from clicket.engine.executors.deadlines import Deadlines
from clicket.engine.executors.stopping import attempt_of, set_stopper
from clicket.engine.live_call import Call
from clicket.model.ports import Clock, Timer
from clicket.tools import Tool

__all__ = ["Clocks"]


class Clocks:
    """`stop` is called with the reason when time is up."""

    def __init__(self, clock: Clock, stop: Callable[[Call, str], None], *, grace: float) -> None:
        self.clock = clock
        self.grace = grace
        self._stop = stop
        self._deadlines = Deadlines(clock, lambda call: stop(call, "attempt"))

    def start(self, call: Call, tool: Tool) -> None:
        timeout = call.request.timeout or tool.options.timeout
        if timeout is not None:
            self.limit(call, timeout)
        if tool.options.idle_timeout is not None:
            attempt_of(call).idle_timer = _IdleTimer(self.clock, self._stop, call, tool.options.idle_timeout)

    def limit(self, call: Call, seconds: float) -> None:
        """Set the attempt's deadline, or a new one."""
        attempt = attempt_of(call)
        if attempt.deadline is not None:
            self._deadlines.drop(call, attempt.deadline)
        attempt.deadline = self._deadlines.add(call, seconds)

    def unlimit(self, call: Call) -> None:
        """Take the attempt's deadline away."""
        attempt = attempt_of(call)
        if attempt.deadline is not None:
            self._deadlines.drop(call, attempt.deadline)
            attempt.deadline = None

    def start_grace(self, call: Call, after: Callable[..., None], *args: Call) -> None:
        """The call is being stopped: call `after` when its grace is over."""
        # A call that waits for other calls stops after them, and they have a grace, too.
        grace = 2 * self.grace + 1.0 if call.entry.internal else self.grace
        attempt_of(call).grace_timer = self.clock.call_later(grace, after, *args)

    def over(self, call: Call) -> None:
        """The attempt has ended: its timers end with it."""
        attempt = attempt_of(call)
        set_stopper(attempt, None)
        if attempt.deadline is not None:
            self._deadlines.drop(call, attempt.deadline)
            attempt.deadline = None
        if attempt.idle_timer is not None:
            attempt.idle_timer.cancel()
            attempt.idle_timer = None
        if attempt.grace_timer is not None:
            attempt.grace_timer.cancel()
            attempt.grace_timer = None

    def close(self) -> None:
        self._deadlines.close()


class _IdleTimer:
    """Ends the attempt when its sink was silent for too long. Checks again only when that could be the case."""

    __slots__ = ("_call", "_clock", "_limit", "_since", "_stop", "_timer")

    def __init__(self, clock: Clock, stop: Callable[[Call, str], None], call: Call, limit: float) -> None:
        self._clock = clock
        self._stop = stop
        self._call = call
        self._limit = limit
        self._since = clock.monotonic()
        self._timer: Timer = clock.call_later(limit, self._look)

    def _look(self) -> None:
        sink = attempt_of(self._call).sink
        active_at = self._since if sink is None else sink.active_at
        left = active_at + self._limit - self._clock.monotonic()
        if left <= 0:
            self._stop(self._call, "idle")
        else:
            self._timer = self._clock.call_later(left, self._look)

    def cancel(self) -> None:
        self._timer.cancel()

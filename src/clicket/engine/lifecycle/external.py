"""The owner's side of a call that ends elsewhere: it waits without a slot, a task or a thread, and takes what the token brings.

`external_results.py` takes a result, in any process, and writes it into the call. A result that is on record before the wait was closed
is the outcome; one that comes later is refused. So the wait is closed on record first, and the call is ended after that.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import msgspec

from clicket.engine.call.foreign import token_closed
from clicket.engine.core import Core
from clicket.engine.executors import Spool, attempt_of, explain
from clicket.engine.lifecycle.ending import Ending
from clicket.engine.live_call import Call
from clicket.errors import ClicketError
from clicket.kernel import State
from clicket.model import Event, Record, ToolError
from clicket.model.ports import elapsed, mark

__all__ = ["External"]

_REPORTS = frozenset({"output", "progress", "heartbeat"})
_MAX_OUTPUT = 1 << 40
"""Of the spool: what the journal has of an output fits into memory."""


class _Wait(msgspec.Struct):
    """Times are on the monotonic clock."""

    began_at: float
    due_at: float | None
    idle: float | None
    active_at: float
    closing: bool = False
    ended: bool = False


class External:
    def __init__(self, core: Core, ending: Ending) -> None:
        self._journal = core.journal
        self._clock = core.clock
        self._pipeline = core.pipeline
        self._timers = core.timers
        self._ending = ending
        self._gate = core.gate
        self._spawn = core.spawn

    # The wait begins.

    def park(self, call: Call) -> None:
        """The body has returned, and the call goes on elsewhere."""
        entry = call.entry
        attempt = attempt_of(call)
        options = call.required_tool().options
        now = self._clock.monotonic()
        timeout = call.request.timeout or options.timeout
        began_at = now if attempt.sink is None else attempt.sink.attempt_at
        left = None if timeout is None else max(began_at + timeout - now, 0.0)
        at = self._journal.stamp(entry)
        data: dict[str, Any] = {
            "text": "It waits for a result from outside.",
            "waiting_for": "external",
            "left": left,
            "deadline": None if left is None else at + left,
            **mark(self._clock),
        }
        attempt.wait = _Wait(began_at, None if left is None else now + left, options.idle_timeout, now)
        self._journal.wait_for(entry, "external")
        self._journal.record(entry, "note", data, at)
        self._journal.commit(entry, partial(self._on_waiting, call))
        self._gate.release(call)
        self._arm(call)

    def _on_waiting(self, call: Call, error: ClicketError | None) -> None:
        if error is None:  # a result may have come while the body ran
            self._take_report(call, call.entry.events)

    @staticmethod
    def has(record: Record) -> bool:
        """Is the result of a call on record, or does it wait for one?"""
        known = record.external
        return known is not None and (known["since"] is not None or known["reported_at"] is not None)

    def wait_again(self, call: Call, record: Record) -> None:
        """Continue the wait of a call that this process has just taken over. Its body is not run again."""
        entry = call.entry
        options = call.required_tool().options
        now = self._clock.monotonic()
        notes = (event for event in reversed(entry.events) if event.type == "note")
        since = next((note for note in notes if note.data.get("waiting_for") == "external"), None)
        left = None if since is None else since.data.get("left")
        if since is not None and left is not None:
            left -= elapsed(self._clock, since.at, since.data)
        began_at = now - max(self._clock.now() - record.attempts[-1].started_at, 0.0)
        attempt_of(call).wait = _Wait(began_at, None if left is None else now + left, options.idle_timeout, now)
        self._journal.wait_for(entry, "external")
        closed = token_closed(entry.events)
        if self._take_report(call, entry.events):
            return
        if closed is not None:
            self._end(call, closed)
            return
        if record.deadline is not None:
            self._timers.deadline(
                call, max(record.deadline - elapsed(self._clock, record.created_at, entry.events[0].data), 0.0)
            )
        if record.cancel_requested:
            asked = next(e for e in reversed(entry.events) if e.type == "cancel_requested")
            self.stop(call, "cancel", str(asked.data.get("reason") or ""))
        else:
            self._arm(call)

    def _arm(self, call: Call) -> None:
        """Start the timer of what is due next: the end of the wait, or of the silence."""
        wait: _Wait = attempt_of(call).wait
        idle_at = None if wait.idle is None else wait.active_at + wait.idle
        due = [(at, reason) for at, reason in ((wait.due_at, "attempt"), (idle_at, "idle")) if at is not None]
        if due:
            at, reason = min(due)
            self._timers.wait(call, max(at - self._clock.monotonic(), 0.0), reason)

    # What comes from outside.

    def take(self, call: Call, events: Iterable[Event]) -> None:
        """Other processes, or this one, wrote what a token brought."""
        wait = None if call.attempt is None else call.attempt.wait
        if wait is None or wait.ended or call.ending or self._take_report(call, events) or wait.closing:
            return
        kinds = {event.type for event in events} & _REPORTS
        if kinds:
            wait.active_at = self._clock.monotonic()
            if "output" in kinds and call.entry.state is State.RUNNING:
                self._journal.advance(call.entry, State.STREAMING, {"waiting_for": "external"})
                self._journal.commit(call.entry)
            self._arm(call)

    def _take_report(self, call: Call, events: Iterable[Event]) -> bool:
        """Apply the result, if it is among the events."""
        report = next((event for event in events if event.type == "reported"), None)
        wait: _Wait = attempt_of(call).wait
        if report is None or wait.ended or call.ending:
            return wait.ended
        wait.ended = True
        self._journal.wait_for(call.entry, None)
        self._timers.cancel(call)
        if "error" in report.data:
            error = msgspec.convert(report.data["error"], ToolError)
            self._pipeline.fail(call, error, self._ending.on_outcome_durable, ran=self._seconds(call))
        else:
            output = report.data.get("output")
            self._spawn(self._complete(call, _emitted(call.entry.events) if output is None else output))
        return True

    async def _complete(self, call: Call, output: Any) -> None:
        await self._pipeline.take_result(call, output, self._seconds(call))
        if not call.ending and call.failure is None:
            self._pipeline.finish(call, self._ending.on_outcome_durable)

    def _seconds(self, call: Call) -> float:
        """Since the attempt began."""
        return max(self._clock.monotonic() - float(attempt_of(call).wait.began_at), 0.0)

    # The wait ends without a result.

    def stop(self, call: Call, reason: str, why: str = "") -> None:
        """Stop the wait: no result is taken from the next commit on, and then the call ends."""
        wait: _Wait = attempt_of(call).wait
        if wait.ended or wait.closing:
            return
        if reason == "idle" and wait.active_at + (wait.idle or 0.0) > self._clock.monotonic():
            self._arm(call)  # a report came while the timer went off
            return
        if why:
            explain(call, why)
        wait.closing = True
        self._timers.end_wait(call)
        if reason == "shutdown":  # the store ends with this process
            self._end(call, reason)
            return
        closed = {"text": "No result from outside is taken any more.", "external_closed": reason}
        self._journal.record(call.entry, "note", closed)
        self._journal.commit(call.entry, partial(self._on_closed, call, reason))

    def _on_closed(self, call: Call, reason: str, error: ClicketError | None) -> None:
        if error is None and not self._take_report(call, call.entry.events):
            self._end(call, reason)

    def _end(self, call: Call, reason: str) -> None:
        wait: _Wait = attempt_of(call).wait
        if not wait.ended and not call.ending:
            wait.ended = True
            self._journal.wait_for(call.entry, None)
            self._pipeline.end_stopped(call, reason, self._ending.on_outcome_durable, ran=self._seconds(call))


def _emitted(events: Iterable[Event]) -> Any:
    """The output that was streamed in the attempt whose token brought the result; None: none was."""
    spool: Spool | None = None
    for event in events:
        if event.type == "attempt_started":
            spool = None
        elif event.type == "reported":
            break
        elif event.type == "output":
            spool = spool or Spool(_MAX_OUTPUT)
            spool.add(event.data["content"])
    return None if spool is None else spool.value()

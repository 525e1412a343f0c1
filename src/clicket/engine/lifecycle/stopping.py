"""Ends a call that waits, or stops the attempt of one that runs."""

from __future__ import annotations

import asyncio
from functools import partial

from clicket.engine.call.stops import AfterStop, StoppedCall, after_stop
from clicket.engine.core import Core
from clicket.engine.executors import can_stop, explain, stop
from clicket.engine.executors.inputs import waits_for_input
from clicket.engine.executors.stopping import has_body
from clicket.engine.lifecycle.approvals import Approvals
from clicket.engine.lifecycle.ending import Ending
from clicket.engine.lifecycle.external import External
from clicket.engine.live_call import Call
from clicket.errors import ClicketError
from clicket.model.codec import clean
from clicket.safety.vault import hide_text

__all__ = ["Stopping"]


class Stopping:
    def __init__(self, core: Core, ending: Ending, approvals: Approvals, external: External) -> None:
        self._journal = core.journal
        self._pipeline = core.pipeline
        self._limiter = core.limiter
        self._ending = ending
        self._approvals = approvals
        self._external = external

    def cancel(self, call: Call, reason: str) -> bool:
        """Ask a live call to end as cancelled. False: it has ended, or is just about to."""
        if not can_stop(call):
            return False
        reason = hide_text(clean(reason), call.secrets)
        self._journal.record(call.entry, "cancel_requested", {"reason": reason})
        self.stop(call, "cancel", reason)
        self._journal.commit(call.entry)
        return True

    def expire(self, call: Call, reason: str) -> None:
        """A timer of the call went off."""
        if not can_stop(call):
            return
        if call.entry.waiting_for is None:
            self.stop(call, reason)
        else:
            # A decision may be on record that this process has not read yet. This append reads it, and the journal reports it in the
            # same iteration of the loop.
            if call.entry.waiting_for == "approval":
                # No decision is taken from this commit on. Else one could be acknowledged while the end is being written.
                closed = {"text": "No decision is taken any more: the time for it is over.", "approval_closed": True}
                self._journal.record(call.entry, "note", closed)
            self._journal.commit(call.entry, partial(self._expire_soon, call, reason))

    def _expire_soon(self, call: Call, reason: str, error: ClicketError | None) -> None:
        if error is not None:  # it may have been the first commit of the call, whose id another process has
            self._ending.drop(call, error)
            return
        asyncio.get_running_loop().call_soon(self._expire_unanswered, call, reason)

    def _expire_unanswered(self, call: Call, reason: str) -> None:
        if call.failure is not None:  # a runtime that closes has released it, and its next owner ends it
            return
        if can_stop(call) and (reason == "deadline" or call.entry.waiting_for is not None):
            self.stop(call, reason)

    def stop(self, call: Call, reason: str, why: str = "") -> None:
        verdict = after_stop(_stopped(call), reason)
        if verdict is AfterStop.STOP_BODY:
            stop(call, reason, why)
        elif verdict is AfterStop.TELL_TOOL:
            self._approvals.expire_input(call)
        elif verdict is AfterStop.CLOSE_WAIT:
            self._external.stop(call, reason, why)
        elif verdict is AfterStop.END:
            self._limiter.leave(call)
            self._journal.wait_for(call.entry, None)
            if why:
                explain(call, why)
            self._pipeline.end_stopped(call, reason, self._ending.on_outcome_durable)


def _stopped(call: Call) -> StoppedCall:
    return StoppedCall(
        is_under_way=call.slot,
        waiting_for=call.entry.waiting_for,
        has_body=has_body(call),
        is_asked_by_tool=waits_for_input(call),
        waits_outside=call.attempt is not None and call.attempt.wait is not None,
    )

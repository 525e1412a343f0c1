"""Stage 6: the one outcome, in one commit. Every call comes here, however early it returned.

The stage's own time is what it takes to put the outcome together; the commit that makes it durable comes after, as no event
can tell of its own writing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import to_builtins

from clicket.journal import Journal, LiveCall
from clicket.kernel import State
from clicket.model import Stage
from clicket.model.figures import bucket_of
from clicket.ports import CacheUse, HealthEffect, OutcomeStats

__all__ = ["Persist", "stats_of"]

_CAUSE = 300
_TOOL_FAILED = frozenset({"tool_error", "outcome_unknown", "result_unserializable"})
_RAN = frozenset({"attempt", "idle"})  # a deadline is the caller's haste, not the tool's failure


class Persist:
    name = "persist"

    def __init__(self, journal: Journal, cache_use: Callable[[LiveCall], CacheUse | None]) -> None:
        self._journal = journal
        self._cache_use = cache_use
        self._clock = journal.clock.monotonic

    def __call__(self, call: LiveCall) -> None:
        started = self._clock()
        call.duration = started - call.submitted_at
        if call.progress is not None:
            self._last_progress(call, call.progress)
        if call.cache_key is not None:
            call.cache_use = self._cache_use(call)
        data = _outcome(call)
        call.work.append((self.name, Stage("ok", self._clock() - started)))
        at = self._journal.stamp(call)
        self._journal.record_stages(call, at, call.work)
        self._journal.advance(call, call.outcome, data, at)
        call.stats = call.ending = stats_of(call, at)

    def _last_progress(self, call: LiveCall, last: dict[str, Any]) -> None:
        """A completed call that reported any progress reports 100; others keep the last one, even if it was merged away."""
        if call.outcome is State.COMPLETED and last.get("percentage") != 100:
            # What was reported may be on record by another hand, and lack anything.
            step = last.get("step") if last.get("total_steps") is None else last["total_steps"]
            last = {**last, "step": step, "percentage": 100, "estimated_time_remaining": 0}
        if last is not call.progress_kept:
            self._journal.record(call, "progress", last)


def stats_of(call: LiveCall, at: float) -> OutcomeStats:
    """What the ending says to the figures and the hub. The run time is the execute stage's, as the journal has it."""
    work = call.work
    plain = call.tool is not None and not call.cached and not call.inner
    if call.outcome is State.COMPLETED and work[0][0] == "execute" and plain:
        took = work[0][1].duration  # the way of almost every call
        return OutcomeStats(call.request.tool, "completed", "", bucket_of(took), took, "completed", at)
    error = call.error
    seconds = None
    if not call.cached:
        for name, stage in call.work:
            if name == "execute":
                seconds = stage.duration
                break
    code = "" if error is None or call.outcome is State.COMPLETED else error.code
    cause = error.message[:_CAUSE] if error is not None and code else ""
    bucket = None if seconds is None else bucket_of(seconds)
    # Whoever ends it may not have the tool any more; that it was registered once is on record.
    registered = call.tool is not None or (bool(call.events) and "tool_version" in call.events[0].data)
    name = call.request.tool if registered else ""
    return OutcomeStats(name, call.outcome._value_, code, bucket, seconds or 0.0, _effect(call, code), at, cause)


def _effect(call: LiveCall, code: str) -> HealthEffect:
    if call.inner:  # nobody asks the hub about it
        return "none"
    if call.outcome is State.COMPLETED:
        return "served" if call.cached else "completed"
    if call.stopping == "shutdown":  # its runtime stopped it: a few restarts in a row are no failures of the tool
        return "none"
    if call.outcome is State.TIMEOUT:
        blamed = (
            call.tool is None or call.tool.traits.timeout_is_failure
        )  # not where what takes long is the caller's own program
        return "failed" if blamed and call.metadata.get("phase") in _RAN else "none"
    return "failed" if code in _TOOL_FAILED and not call.blameless else "none"


def _outcome(call: LiveCall) -> dict[str, Any]:
    """What the terminal event says. An output that fits is stored once, as a value; its text is made from it."""
    data: dict[str, Any] = {"duration": call.duration}
    if call.outcome is not State.COMPLETED:
        data["error"] = to_builtins(call.error)
    elif call.truncated:
        data["content"] = call.content
        data["truncated"] = True
        data["artifact"] = call.artifact
    else:
        data["output"] = call.output
        if call.cached:
            data["cached"] = True
    if call.metadata:
        data["metadata"] = dict(call.metadata)
    return data

"""Stage 6: writes the outcome in one commit. Every call reaches this stage, also one that an earlier stage ended.

The stage's recorded time is the time to build the outcome. It does not include the commit, because an event cannot contain the
time of its own write.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import to_builtins

from clicket.call import Call
from clicket.journal import Journal, StageEnd
from clicket.kernel import State
from clicket.model.figures import bucket_of
from clicket.ports import CacheUse, HealthEffect, OutcomeStats

__all__ = ["Persist", "stats_of"]

_CAUSE = 300
_RAISED = frozenset({"tool_error", "outcome_unknown", "result_unserializable"})
_RAN = frozenset({"attempt", "idle"})  # the caller chose the deadline: it is not a failure of the tool


class Persist:
    """`cache_use(call)`: what an ending call read from or writes to the cache."""

    name = "persist"

    def __init__(self, journal: Journal, cache_use: Callable[[Call], CacheUse | None]) -> None:
        self._journal = journal
        self._cache_use = cache_use
        self._clock = journal.clock.monotonic
        self._now = journal.clock.now

    def __call__(self, call: Call) -> tuple[StageEnd, ...]:
        """The stages that ended since the call was admitted, with this one."""
        entry, journal = call.entry, self._journal
        started = self._clock()
        call.duration = duration = started - call.submitted_at
        if call.attempt is not None and call.attempt.progress is not None:
            self._last_progress(call, call.attempt.progress)
        cache_use = None if call.cache_key is None else self._cache_use(call)
        now = self._now()
        at = now if now > entry.last_at else entry.last_at  # noqa: FURB136  # every ending call runs this
        call.stats = stats = stats_of(call, at)
        stages = (*call.stages, ("persist", "ok", self._clock() - started))
        is_plain = call.outcome is State.COMPLETED and not call.truncated and not call.cached
        if not is_plain or not journal.complete(
            entry, at, stages, duration, call.output, call.metadata and dict(call.metadata), stats, cache_use
        ):
            journal.end(entry, call.outcome, _outcome(call, duration), at, stages, stats, cache_use)
        return stages

    def _last_progress(self, call: Call, last: dict[str, Any]) -> None:
        """A completed call that reported progress gets 100. Other calls keep the last report, also one that was merged before it was
        written."""
        assert call.attempt is not None
        if call.outcome is State.COMPLETED and last.get("percentage") != 100:
            # Another program may have written the recorded report, so any field may be missing.
            step = last.get("step") if last.get("total_steps") is None else last["total_steps"]
            last = {**last, "step": step, "percentage": 100, "estimated_time_remaining": 0}
        if last is not call.attempt.recorded_progress:
            self._journal.record(call.entry, "progress", last)


def stats_of(call: Call, at: float) -> OutcomeStats:
    """What the outcome adds to stats and to the tool's health. The run time is that of the execute stage in the journal."""
    stages = call.stages
    entry = call.entry
    if call.outcome is State.COMPLETED and call.tool is not None and not call.cached and not entry.internal:
        took = stages[0][2]  # execute: the case of almost every call
        if call.tool.options.breaker == "thread":
            return OutcomeStats(entry.tool, "completed", "", bucket_of(took), took, "completed", at)
    error = call.error
    seconds = None if call.cached else _execute_time(stages)
    code = "" if error is None or call.outcome is State.COMPLETED else error.code
    cause = error.message[:_CAUSE] if error is not None and code else ""
    bucket = None if seconds is None else bucket_of(seconds)
    # The process that ends the call may not have the tool; the record says that it was registered.
    registered = call.tool is not None or (entry.durable > 0 and "tool_version" in entry.events[0].data)
    name = entry.tool if registered else ""
    effect = _effect(call, code)
    version, shared = "", False
    if call.tool is not None:
        version = call.tool.options.version if effect == "failed" else ""
        shared = call.tool.options.breaker == "shared"
    took = seconds or 0.0
    return OutcomeStats(name, call.outcome._value_, code, bucket, took, effect, at, cause, version, shared)


def _execute_time(stages: tuple[StageEnd, ...]) -> float | None:
    return next((seconds for name, _, seconds in stages if name == "execute"), None)


def _effect(call: Call, code: str) -> HealthEffect:
    """Only what the tool's body did says something about the tool: not what the runtime, a person, a policy or the caller did."""
    if call.entry.internal:  # it has no health
        return "none"
    if call.outcome is State.COMPLETED:
        return "served" if call.cached else "completed"
    if call.stopping == "shutdown":  # the runtime stopped it: restarts are not failures of the tool
        return "none"
    if call.outcome is State.TIMEOUT:
        # A slow program of the caller is not a failure of the tool.
        blamed = call.tool is None or call.tool.traits.timeout_is_failure
        phase = None if call.metadata is None else call.metadata.get("phase")
        return "failed" if blamed and phase in _RAN else "none"
    return "failed" if code in _RAISED and not call.is_blameless else "none"


def _outcome(call: Call, duration: float) -> dict[str, Any]:
    """The data of the terminal event. An output that fits is stored once, as a value; its text is derived from it."""
    data: dict[str, Any] = {"duration": duration}
    if call.outcome is not State.COMPLETED:
        data["error"] = to_builtins(call.error)
        if call.traceback:
            data["traceback"] = call.traceback
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

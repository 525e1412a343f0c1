"""Stage 6: writes the outcome in one commit. Every call reaches this stage, also one that an earlier stage ended.

`_effect` says which outcomes count as failures of the tool, for the circuit breaker (`engine/hub/judge.py`).

The stage's recorded time is the time to build the outcome. It does not include the commit, because an event cannot contain the
time of its own write. `telemetry/persist_times.py` measures the stage with its write, where metrics are read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import to_builtins

from clicket.engine.journal import Journal, Then
from clicket.engine.live_call import Call
from clicket.kernel import State
from clicket.model import Stage
from clicket.model.figures import OTHER_TYPE, bucket_of, error_label
from clicket.model.ports import CacheUse, HealthEffect, OutcomeStats

__all__ = ["Persist", "stats_of"]

_CAUSE = 300
_COMPLETED = State.COMPLETED
_MAX_TYPES = 1_000
"""Types of exceptions that a process counts apart, over all tools: a tool may make up new ones without end."""
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
        self._types: set[tuple[str, str]] = set()

    def __call__(self, call: Call, then: Then) -> bool:
        """True: the outcome is committed, and `then(call, error)` will be called. False: it is staged, and the caller may stage more
        before it commits."""
        entry, stages, attempt = call.entry, call.stages, call.attempt
        clock, now = self._clock, self._now
        started = clock()
        call.duration = duration = started - call.submitted_at
        if attempt is not None and attempt.progress is not None:
            self._last_progress(call, attempt.progress)
        cache_use = None if call.cache_key is None else self._cache_use(call)
        at = now()
        last_at = entry.last_at
        if at < last_at:  # noqa: PLR1730  # `max` costs three times as much
            at = last_at
        is_plain = (
            call.outcome is _COMPLETED
            and not call.truncated
            and not call.files
            and not call.cached
            and not call.answered
            and (attempt is None or attempt.late is None)
        )
        tool = call.tool
        if is_plain and tool is not None and tool.options.breaker == "thread" and not entry.internal:
            took = stages["execute"].duration  # as `stats_of` would find it
            stats = OutcomeStats(entry.tool, "completed", "", bucket_of(took), took, "completed", at)
        else:
            stats = stats_of(call, at, self._types)
        call.stats = stats
        stages["persist"] = Stage("ok", clock() - started)
        if is_plain:
            metadata = call.metadata
            if metadata is not None:
                metadata = metadata.copy()
            if self._journal.complete(
                entry, at, stages, call.recorded_stages, duration, call.output, metadata, stats, cache_use, then, call
            ):
                return True
        self._journal.end(
            entry, call.outcome, _outcome(call, duration), at, stages, call.recorded_stages, stats, cache_use
        )
        return False

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


def stats_of(call: Call, at: float, types: set[tuple[str, str]]) -> OutcomeStats:
    """What the outcome adds to stats and to the tool's health. The run time is that of the execute stage in the journal.

    `types`: the tools' exceptions that are counted by their type; it is added to, up to a bound.
    """
    entry = call.entry
    tool = call.tool
    ran = call.stages.get("execute")
    error = call.error
    seconds = None if call.cached or call.answered or ran is None else ran.duration
    code = "" if error is None or call.outcome is State.COMPLETED else error.code
    cause = error.message[:_CAUSE] if error is not None and code else ""
    bucket = None if seconds is None else bucket_of(seconds)
    # The process that ends the call may not have the tool; the record says that it was registered.
    registered = call.tool is not None or (entry.durable > 0 and "tool_version" in entry.events[0].data)
    name = entry.tool if registered else ""
    label = code if error is None else _label(name, code, error.type, types)
    effect = _effect(call, code)
    version, shared = "", False
    if tool is not None:
        version = tool.options.version if effect == "failed" else ""
        shared = tool.options.breaker == "shared"
    took = seconds or 0.0
    return OutcomeStats(name, call.outcome._value_, label, bucket, took, effect, at, cause, version, shared)


def _label(tool: str, code: str, type: str, types: set[tuple[str, str]]) -> str:
    if (tool, type) not in types and code == "tool_error":
        if len(types) >= _MAX_TYPES:
            type = OTHER_TYPE
        else:
            types.add((tool, type))
    return error_label(code, type)


def _effect(call: Call, code: str) -> HealthEffect:
    """Only what the tool's body did says something about the tool: not what the runtime, a person, a policy or the caller did."""
    if call.entry.internal:  # it has no health
        return "none"
    if call.outcome is State.COMPLETED:
        return "served" if call.cached or call.answered else "completed"
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
    if call.files and call.outcome is State.COMPLETED:
        data["content"] = call.content
        data["files"] = to_builtins(call.files)
    if call.metadata:
        data["metadata"] = dict(call.metadata)
    return data

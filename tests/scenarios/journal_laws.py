"""Invariants of the events of every call, whatever happened to it and whichever process owned it."""

from __future__ import annotations

from typing import Any

from clicket.kernel import CALL, State
from clicket.model import Event, Record, fold

__all__ = [
    "CACHE_FOR",
    "MAX_RETRIES",
    "MAY_REPEAT",
    "check_cached",
    "check_events",
    "code_of",
    "end_of_attempt",
    "running_in_store",
]

MAX_RETRIES = 2
CACHE_FOR = 30.0
MAY_REPEAT = {
    "again": {"outcome_unknown", "timeout"},
    "cached": {"outcome_unknown", "timeout"},
    "asked": {"outcome_unknown"},
}
"""After which codes a new attempt is allowed without the tool's declaration; after "asked" only with an approval."""
_AFTER_THE_END = frozenset({"late_result", "cancel_requested", "note"})


def code_of(event: Event) -> str | None:
    """Why the state changed."""
    error: dict[str, Any] = event.data.get("error") or {}
    return error.get("code")


def check_events(id: str, events: list[Event]) -> Record:
    """One call: its event numbers, its transitions, its attempts, its single outcome."""
    assert [event.seq for event in events] == list(range(1, len(events) + 1)), f"{id}: a gap in the event numbers"
    assert min(event.at for event in events) == events[0].at, f"{id}: an event before its creation"
    assert events[0].type == "created"
    tool: str = events[0].data["tool"]
    state, ends, attempts, retries = State.PENDING, 0, 0, 0
    for event in events:
        if event.type == "state_changed":
            assert event.data["from"] == state.value, f"{id}: a transition from another state"
            assert event.state in CALL.edges[state], f"{id}: {state} -> {event.state} is not in the table"
            state = event.state
            ends += state.is_terminal
            if state is State.RETRYING:
                code = code_of(event)
                retries += code != "outcome_unknown"
                silent = {"outcome_unknown", "timeout"} - MAY_REPEAT.get(tool, set())
                assert code not in silent, f"{id}: a silent repeat"
        elif event.type == "attempt_started":
            attempts += 1
            assert event.data["attempt"] == attempts, f"{id}: attempts are counted 1, 2, 3"
            assert state is State.RUNNING
        assert event.state is state, f"{id}: the state changed without a transition"
        assert ends == 0 or event.is_terminal or event.type in _AFTER_THE_END, f"{id}: {event.type} after the end"
    assert ends == state.is_terminal, f"{id}: one outcome"
    assert retries <= MAX_RETRIES, f"{id}: too many retries"
    _check_decisions(id, tool, events)
    record = fold(events)
    assert (record.state, len(record.attempts)) == (state, attempts)
    assert (record.ended_at is not None) == state.is_terminal
    if state.is_terminal and state is not State.COMPLETED:
        assert record.error is not None
    assert not (record.cached and attempts), f"{id}: served from the cache, but it ran"
    return record


def _check_decisions(id: str, tool: str, events: list[Event]) -> None:
    """No call runs while it waits for an approval; each request for approval gets one decision, and the call follows it."""
    decision = "needed" if tool == "asked" else "not needed"
    for event in events:
        if event.type == "state_changed" and event.state is State.RETRYING and tool == "asked":
            if code_of(event) == "outcome_unknown":
                decision = "needed"
        elif event.type == "approval_requested":
            decision = "asked for"
        elif event.type == "approval_given":
            assert decision == "asked for", f"{id}: a decision without a request ({decision})"
            decision = "yes" if event.data["approved"] else "no"
        elif event.type == "attempt_started":
            assert decision in ("yes", "not needed"), f"{id}: it runs although the decision is {decision!r}"
        elif event.is_terminal and code_of(event) == "approval_denied":
            assert decision == "no", f"{id}: it was not denied"


def end_of_attempt(events: list[Event], attempt: int) -> Event:
    """The outcome of the attempt, from the first event that records it."""
    start = next(e for e in events if e.type == "attempt_started" and e.data["attempt"] == attempt)
    changes = (e for e in events[start.seq :] if e.type == "state_changed" and e.state is not State.STREAMING)
    return next(changes, start)


def running_in_store(events: list[Event]) -> bool:
    return bool(events) and events[-1].state in (State.RUNNING, State.STREAMING)


def check_cached(served: list[Event], all_events: dict[str, list[Event]], delay: float) -> None:
    """A cached result comes from an equal call that ended not too long before, or while this one waited for it.

    `delay`: the seconds that may have passed between a cache lookup and its answer.
    """
    id, end = served[0].call_id, next(event for event in served if event.is_terminal)
    origin = str(end.data["output"]).split(":", 1)[0]
    assert origin in all_events.keys() - {id}, f"{id}: served {end.data['output']!r} without an origin"
    made = next((event for event in all_events[origin] if event.is_terminal), None)
    assert made is not None, f"{id}: served the result of {origin} before it was stored"
    assert made.state is State.COMPLETED, f"{id}: served the result of {origin}, which did not complete"
    assert (made.data.get("cached"), made.data["output"]) == (None, end.data["output"]), f"{id}: not equal to {origin}"
    assert 0 <= end.at - made.at < CACHE_FOR + delay or served[0].at <= made.at, (
        f"{id}: served {end.at - made.at:g} s after it was made"
    )
    first, other = served[0].data, all_events[origin][0].data
    assert (first["tool"], first["arguments"]) == (other["tool"], other["arguments"]), f"{id}: {origin} is not equal"

"""What must be true of the events of every call, whatever happened to it and whoever held it."""

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
"""After what an attempt may be made again without the tool's saying so; of "asked" only when a person says so."""
_AFTER_THE_END = frozenset({"late_result", "cancel_requested", "note"})


def code_of(event: Event) -> str | None:
    """Why the state changed."""
    error: dict[str, Any] = event.data.get("error") or {}
    return error.get("code")


def check_events(id: str, events: list[Event]) -> Record:
    """One call: its numbers, its way through the table, its attempts, its one outcome."""
    assert [event.seq for event in events] == list(range(1, len(events) + 1)), f"{id}: a gap"
    assert min(event.at for event in events) == events[0].at, f"{id}: it began before it was made"
    assert events[0].type == "created"
    tool: str = events[0].data["tool"]
    state, ends, attempts, retries = State.PENDING, 0, 0, 0
    for event in events:
        if event.type == "state_changed":
            assert event.data["from"] == state.value, f"{id}: starts elsewhere than it was"
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
        assert event.state is state, f"{id}: the state changed without saying so"
        assert ends == 0 or event.is_terminal or event.type in _AFTER_THE_END, f"{id}: {event.type} after the end"
    assert ends == state.is_terminal, f"{id}: one outcome"
    assert retries <= MAX_RETRIES, f"{id}: tried again too often"
    _check_words(id, tool, events)
    record = fold(events)
    assert (record.state, len(record.attempts)) == (state, attempts)
    assert (record.ended_at is not None) == state.is_terminal
    if state.is_terminal and state is not State.COMPLETED:
        assert record.error is not None
    assert not (record.cached and attempts), f"{id}: served from the cache, and run"
    return record


def _check_words(id: str, tool: str, events: list[Event]) -> None:
    """Nothing runs that waits for a person's word; one word answers a question, and it is obeyed."""
    word = "needed" if tool == "asked" else "not needed"
    for event in events:
        if event.type == "state_changed" and event.state is State.RETRYING and tool == "asked":
            if code_of(event) == "outcome_unknown":
                word = "needed"
        elif event.type == "approval_requested":
            word = "asked for"
        elif event.type == "approval_given":
            assert word == "asked for", f"{id}: a word that nobody waited for ({word})"
            word = "yes" if event.data["approved"] else "no"
        elif event.type == "attempt_started":
            assert word in ("yes", "not needed"), f"{id}: it runs, and the word is {word!r}"
        elif event.is_terminal and code_of(event) == "approval_denied":
            assert word == "no", f"{id}: nobody denied it"


def end_of_attempt(events: list[Event], attempt: int) -> Event:
    """What became of the attempt, by its first event that says so."""
    start = next(e for e in events if e.type == "attempt_started" and e.data["attempt"] == attempt)
    changes = (e for e in events[start.seq :] if e.type == "state_changed" and e.state is not State.STREAMING)
    return next(changes, start)


def running_in_store(events: list[Event]) -> bool:
    return bool(events) and events[-1].state in (State.RUNNING, State.STREAMING)


def check_cached(served: list[Event], all_events: dict[str, list[Event]], delay: float) -> None:
    """What was served is what an equal call left: not too long before, or while this one waited for it.

    `delay`: the seconds that may have passed between a look into the cache and its answer.
    """
    id, end = served[0].call_id, next(event for event in served if event.is_terminal)
    origin = str(end.data["output"]).split(":", 1)[0]
    assert origin in all_events.keys() - {id}, f"{id}: served {end.data['output']!r}, which nobody made"
    made = next((event for event in all_events[origin] if event.is_terminal), None)
    assert made is not None, f"{id}: served what {origin} said before it said it"
    assert made.state is State.COMPLETED, f"{id}: served what {origin} said, whose outcome is another"
    assert (made.data.get("cached"), made.data["output"]) == (None, end.data["output"]), f"{id}: not what {origin} left"
    assert 0 <= end.at - made.at < CACHE_FOR + delay or served[0].at <= made.at, (
        f"{id}: served {end.at - made.at:g} s after it was made"
    )
    first, other = served[0].data, all_events[origin][0].data
    assert (first["tool"], first["arguments"]) == (other["tool"], other["arguments"]), f"{id}: {origin} is no equal"

"""A record is the fold of a call's events: the same whether read whole, event by event, or back from the store's text."""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.model.arguments_kit import JSON, OBJECTS, exactly

from clicket.errors import InvalidTransition, StoreUnavailable
from clicket.kernel import CALL, State
from clicket.model import (
    Event,
    EventType,
    Record,
    ToolError,
    dump_unit,
    fold,
    is_unresolved,
    load_events,
    result_of,
    rows_of,
)
from clicket.model.ids import new_id
from clicket.model.record import read
from clicket.model.result import plain_result

ERROR = {"code": "tool_error", "message": "no", "type": "ValueError", "retryable": False, "details": {}}
TIMES = st.floats(0, 4e9)


class Script:
    """Events of one call, numbered and dated automatically."""

    def __init__(self, **created: Any) -> None:
        self.events: list[Event] = []
        self.state = State.PENDING
        self.add("created", {"tool": "tool", "thread": "t", **created})

    def add(self, kind: Any, data: dict[str, Any] | None = None, at: float | None = None) -> Script:
        seq = len(self.events) + 1
        event = Event(
            call_id="a", seq=seq, at=100.0 + seq if at is None else at, type=kind, state=self.state, data=data or {}
        )
        self.events.append(event)
        return self

    def to(self, state: str, **data: Any) -> Script:
        before, self.state = self.state, State(state)
        return self.add("state_changed", {"from": before.value, "to": state, **data})

    def started(self, attempt: int = 1) -> Script:
        if attempt == 1:
            self.to("initializing")
        return self.to("running").add("attempt_started", {"attempt": attempt})

    @property
    def record(self) -> Record:
        return fold(self.events)


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    """Any path through the table, with heartbeats in between."""
    script = Script(arguments=draw(OBJECTS), priority=draw(st.integers(-5, 5)))
    attempts = 0
    for _ in range(draw(st.integers(0, 25))):
        move = draw(
            st.sampled_from(["step", "step", "output", "progress", "heartbeat", "note", "cancel", "stage", "late"])
        )
        if move == "step" and (targets := sorted(CALL.edges[script.state])):
            to = draw(st.sampled_from(targets))
            data: dict[str, Any] = {}
            if to is State.COMPLETED:
                data = {"output": draw(JSON), "duration": 1.0}
            elif to is State.RETRYING:
                data = {"error": ERROR, "delay": 0.5}
            elif to.is_terminal:
                data = {"error": ERROR}
            script.to(to.value, **data)
            if to is State.RUNNING:
                attempts += 1
                script.add("attempt_started", {"attempt": attempts})
        elif move == "output":
            script.add("output", {"content": draw(JSON), "offset": 0})
        elif move == "progress":
            script.add("progress", {"step": draw(st.integers(0, 9)), "percentage": None})
        elif move == "heartbeat":
            script.add("heartbeat")
        elif move == "note":
            script.add("note", {"text": "x"})
        elif move == "cancel":
            script.add("cancel_requested", {"reason": ""})
        elif move == "stage":
            script.add(
                "stage_ended", {"stage": draw(st.sampled_from(["find", "execute"])), "outcome": "ok", "duration": 0.1}
            )
        elif move == "late" and script.state.is_terminal:
            script.add("late_result", {"output": 1})
    return script


@given(scripts())
def test_a_fold_of_a_prefix_is_what_was_known_then(script: Script) -> None:
    """Continuing from an old record gives the record of all events: nothing depends on where a reader started."""
    whole = msgspec.to_builtins(script.record)
    for cut in range(1, len(script.events) + 1):
        known = msgspec.to_builtins(fold(script.events[:cut]))
        assert known["state"] == script.events[cut - 1].state.value
        assert known["updated_at"] == script.events[cut - 1].at
        assert known["events"] == whole["events"][:cut]
        assert [a["started_at"] for a in known["attempts"]] == [
            a["started_at"] for a in whole["attempts"][: len(known["attempts"])]
        ]
    assert msgspec.to_builtins(fold(iter(script.events))) == whole


@given(scripts(), st.data())
def test_a_record_is_the_same_from_the_stores_text(script: Script, data: st.DataObject) -> None:
    """However the events were split into units."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(script.events)), max_size=4)))
    edges = [0, *cuts, len(script.events)]
    texts = [dump_unit(rows_of(script.events[a:b])) for a, b in pairwise(edges)]
    read = [event for text in texts for event in load_events("a", text)]
    assert read == script.events
    assert exactly(msgspec.to_builtins(fold(read)), msgspec.to_builtins(script.record))


@given(scripts())
def test_folding_changes_no_event_and_shares_no_list(script: Script) -> None:
    before = copy.deepcopy(script.events)
    one, two = script.record, script.record
    one.attempts.clear()
    one.stages.clear()
    one.metadata["x"] = 1
    one.events.clear()
    assert script.events == before
    assert msgspec.to_builtins(two) == msgspec.to_builtins(script.record)


@given(scripts())
def test_a_late_result_changes_nothing_but_the_list_of_events(script: Script) -> None:
    if not script.state.is_terminal:
        return
    before = msgspec.to_builtins(script.record)
    after = msgspec.to_builtins(script.add("late_result", {"output": "other"}).record)
    for record in (before, after):
        del record["events"], record["updated_at"]
    assert after == before


def test_a_resolution_stands_beside_the_outcome_and_the_first_one_counts() -> None:
    unknown = {"code": "outcome_unknown", "message": "it may have run", "type": "OutcomeUnknown"}
    script = Script().to("initializing").to("running").to("failed", error=unknown)
    before = script.record
    assert is_unresolved(before)
    data = {"happened": True, "output": {"id": 7}, "by": "ann", "note": "on the statement"}
    after = script.add("resolved", data).record
    assert after.resolution == {**data, "at": after.events[-1].at, "rerun_as": None}
    assert not is_unresolved(after)
    assert (after.state, after.error, after.output, after.ended_at) == (
        State.FAILED,
        before.error,
        None,
        before.ended_at,
    )
    assert script.add("resolved", {"happened": False}).record.resolution == after.resolution


@given(st.lists(st.tuples(TIMES, st.sampled_from(get_args(EventType)), st.sampled_from(State), OBJECTS), max_size=5))
def test_events_survive_their_text(rows: list[tuple[float, Any, State, dict[str, Any]]]) -> None:
    events = [
        Event(call_id="é", seq=n, at=at, type=kind, state=state, data=data)
        for n, (at, kind, state, data) in enumerate(rows, start=1)
    ]
    assert exactly(msgspec.to_builtins(load_events("é", dump_unit(rows_of(events)))), msgspec.to_builtins(events))


@pytest.mark.parametrize(
    "text",
    [b"", b"{}", b"[1]", b"[[1]]", b'[[1,1,"created","pending"]]', b'[[1,1,"no such","pending",{}]]',
     b'[[1,1,"created","no such",{}]]', b'[["1",1,"created","pending",{}]]', b'[[1,1,"created","pending",[]]]', b"\xff"],
)  # fmt: skip  # texts that are not ours
def test_foreign_text_is_refused(text: bytes) -> None:
    with pytest.raises((msgspec.MsgspecError, UnicodeDecodeError)):
        load_events("a", text)


def test_the_way_of_a_good_call() -> None:
    script = Script(
        arguments={"a": 1}, metadata={"m": 1}, request_id="r", timeout=3.0, idempotency_key="k", tool_version="2"
    )
    script.add("stage_ended", {"stage": "find", "outcome": "ok", "duration": 0.25}).started()
    script.to("streaming").add("output", {"content": "x", "offset": 0}).add("progress", {"step": 1, "percentage": 50})
    script.to("completed", output={"b": [1]}, duration=7.0, metadata={"n": 2})
    record = script.record
    assert (record.id, record.tool, record.thread, record.arguments) == ("a", "tool", "t", {"a": 1})
    assert (record.timeout, record.request_id, record.idempotency_key, record.tool_version) == (3.0, "r", "k", "2")
    assert (record.state, record.success, record.output, record.content) == (
        State.COMPLETED,
        True,
        {"b": [1]},
        '{"b":[1]}',
    )
    assert (record.created_at, record.started_at, record.ended_at, record.duration) == (101.0, 105.0, 109.0, 7.0)
    assert record.stages["find"].outcome == "ok"
    assert record.progress == {"step": 1, "percentage": 50}
    assert record.metadata == {"m": 1, "n": 2}
    (attempt,) = record.attempts
    assert (attempt.number, attempt.started_at, attempt.ended_at, attempt.outcome, attempt.error) == (
        1,
        105.0,
        109.0,
        "ok",
        None,
    )
    result = result_of(record)
    assert (result.call_id, result.success, result.output, result.attempts, result.error) == (
        "a",
        True,
        {"b": [1]},
        1,
        None,
    )


def test_each_attempt_says_how_it_ended() -> None:
    script = Script().started()
    script.to("retrying", error=ERROR, delay=0.5).started(2).to("timeout", error={**ERROR, "code": "timeout"})
    first, second = script.record.attempts
    assert (first.outcome, first.delay, first.error) == (
        "tool_error",
        0.5,
        ToolError(code="tool_error", message="no", type="ValueError"),
    )
    assert (second.number, second.outcome, second.delay, second.ended_at) == (2, "timeout", None, script.events[-1].at)


def test_a_call_that_never_started_has_no_attempt() -> None:
    record = Script(refused={"size": 1, "sha256": "x", "reason": "invalid_input"}).to("failed", error=ERROR).record
    assert (record.attempts, record.started_at, record.arguments) == ([], None, None)
    assert record.refused == {"size": 1, "sha256": "x", "reason": "invalid_input"}
    assert record.ended_at is not None
    assert record.error == ToolError(code="tool_error", message="no", type="ValueError")


@pytest.mark.parametrize("state", ["failed", "timeout", "cancelled"])
def test_every_end_has_its_time(state: str) -> None:
    record = Script().started().to(state, error=ERROR).record
    assert record.ended_at == record.updated_at
    assert record.duration is not None
    assert record.attempts[-1].ended_at == record.ended_at
    assert (record.output, record.content, record.success) == (None, str(record.error), False)


@pytest.mark.parametrize("way", [("completed", "running"), ("failed", "completed"), ("running", "pending")])
def test_a_state_that_does_not_follow_is_noticed(way: tuple[str, str]) -> None:
    script = Script().started()
    for state in way:
        if script.state.value != state:
            script.to(state, output=1)
    with pytest.raises(InvalidTransition):
        fold(script.events)
    with pytest.raises(StoreUnavailable, match="is not in the table"):
        read("c", script.events)


def test_a_cut_result_names_its_artifact() -> None:
    script = Script().started().to("completed", content="abc [cut]", truncated=True, artifact="sha256-x")
    record = script.record
    assert (record.content, record.truncated, record.artifact, record.output) == ("abc [cut]", True, "sha256-x", None)


def test_waiting_for_approval_is_seen_and_ends() -> None:
    script = Script().add("approval_requested", {"timeout": 1})
    assert script.record.waiting_for == "approval"
    script.add("approval_given", {"approved": True, "arguments": {"a": 2}})
    assert (script.record.waiting_for, script.record.arguments) == (None, {"a": 2})
    asked = Script().started().to("retrying", error=ERROR, waiting_for="approval")
    assert asked.record.waiting_for == "approval"
    asked.to("failed", error=ERROR)
    assert asked.record.waiting_for is None


def test_waiting_ends_with_the_call_however_it_ends() -> None:
    assert Script().add("approval_requested").to("timeout", error=ERROR).record.waiting_for is None


def test_a_request_to_cancel_is_seen() -> None:
    assert not Script().record.cancel_requested
    assert Script().add("cancel_requested", {"reason": "x"}).record.cancel_requested


def test_only_a_change_of_state_ends_a_call() -> None:
    script = Script().to("failed", error=ERROR).add("late_result", {"output": 1})
    assert [event.is_terminal for event in script.events] == [False, True, False]


def test_events_and_results_cannot_be_changed() -> None:
    script = Script().to("failed", error=ERROR)
    with pytest.raises(AttributeError):
        script.events[0].seq = 7  # type: ignore[misc]
    with pytest.raises(AttributeError):
        result_of(script.record).state = State.COMPLETED  # type: ignore[misc]


def test_ids_sort_by_time_and_never_repeat() -> None:
    made = [new_id() for _ in range(2_000)]
    assert len(set(made)) == len(made)
    assert [id[:12] for id in made] == sorted(id[:12] for id in made)
    assert {len(id) for id in made} == {32}


# Approvals of several people.

PEOPLE = {"ada": ("ada", "k1"), "ci": ("ci", "ada"), "bob": ("bob", "k2"), "cat": ("cat", "k3"), "": ()}


@given(st.lists(st.sampled_from(sorted(PEOPLE)), max_size=6), st.integers(2, 3))
def test_a_call_waits_until_so_many_different_people_have_approved_it(names: list[str], needed: int) -> None:
    events = [Event("c", 1, 1.0, "created", State.PENDING, {"tool": "pay", "thread": "t", "arguments": {}})]
    events.append(Event("c", 2, 2.0, "approval_requested", State.PENDING, {"approvers": needed}))
    people: list[set[str]] = []
    for number, name in enumerate(names, start=3):
        if len(people) < needed:
            known = {name, *PEOPLE[name]} - {""}
            if known and not any(known & other for other in people):
                people.append(known)
        data = {"approved": True, "by": name, "reason": "", "identities": list(PEOPLE[name])}
        events.append(Event("c", number, float(number), "approval_given", State.PENDING, data))
        record = fold(events)
        assert record.approval is not None
        if record.waiting_for is None:
            break
        assert len(people) < needed
    else:
        assert fold(events).waiting_for == "approval"
        assert len(people) < needed
        return
    assert len(people) == needed == len(record.approval["approvals"])
    assert record.approval["approved"] is True


def _completed(script: Script, **end: Any) -> Script:
    for stage in ("find", "authorize", "validate"):
        script.add("stage_ended", {"stage": stage, "outcome": "ok", "duration": 0.25})
    script.started()
    script.add("stage_ended", {"stage": "execute", "outcome": "ok", "duration": 0.5})
    return script.to("completed", **{"duration": 2.0, "output": {"a": [1]}, **end})


@pytest.mark.parametrize(
    "script",
    [
        _completed(Script()),
        _completed(Script(metadata={"a": 1, "b": 1}), metadata={"b": 2}, output="text"),
        Script().started().to("retrying", error=ERROR).started(2).to("completed", duration=0.0, output=None),
    ],
)
def test_the_result_of_a_plain_call_is_that_of_its_record(script: Script) -> None:
    assert plain_result(script.events) == result_of(fold(script.events))


@pytest.mark.parametrize(
    "script",
    [
        _completed(Script(), truncated=True, content="cut", artifact="name"),
        _completed(Script(), cached=True),
        Script().started().to("failed", error=ERROR, duration=1.0),
        Script().started().add("note", {"text": "x"}).to("completed", duration=1.0, output=1),
        _completed(Script()).add("late_result", {"output": 2}),
        Script().started(),
        Script().to("running").to("completed", duration=1.0, output=1),
        Script().started().to("completed", output=1),
        Script().started().add("stage_ended", {}).to("completed", duration=1.0, output=1),
    ],
)
def test_the_result_of_any_other_call_is_left_to_its_record(script: Script) -> None:
    assert plain_result(script.events) is None

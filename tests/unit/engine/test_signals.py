"""Requests to calls of other owners: appended after the newest event, and never to an ended call."""

from __future__ import annotations

import pytest
from tests.unit.engine.fakes import Lower

from clicket import tool
from clicket.engine.call.foreign import open_question
from clicket.engine.live_call import Question
from clicket.engine.people.questions import ask_for_approval
from clicket.errors import StoreUnavailable
from clicket.kernel import State
from clicket.ports import Stale


@tool
async def echo() -> str:
    return "echo"


async def test_a_request_is_an_event_and_the_owner_gets_a_hint() -> None:
    low = Lower(echo)
    call = low.running("echo")
    assert await low.signals.write(low.store.of(call), "cancel_requested", {"reason": "enough"})
    last = low.store.events_of(call)[-1]
    assert (last.type, last.state, last.data) == ("cancel_requested", State.RUNNING, {"reason": "enough"})
    assert await low.store.signals() == [call.entry.key]


async def test_a_request_that_comes_after_other_events_is_written_behind_them() -> None:
    low = Lower(echo)
    call = low.running("echo")
    seen = low.store.of(call)
    low.journal.record(call.entry, "note", {"text": "meanwhile"})
    low.journal.commit(call.entry)
    assert await low.signals.write(seen, "cancel_requested", {})
    assert [event.type for event in low.store.events_of(call)][-2:] == ["note", "cancel_requested"]


async def test_a_call_that_has_ended_takes_a_late_result_alone() -> None:
    low = Lower(echo)
    call = low.running("echo")
    seen = low.store.of(call)
    low.finish(call)
    assert not await low.signals.write(seen, "cancel_requested", {})
    assert await low.signals.write(seen, "late_result", {"output": 1})
    assert low.store.record(call).state is State.COMPLETED
    assert await low.store.signals() == [], "a late result is not a signal to the owner"


async def test_a_resolution_is_written_only_into_a_call_of_unknown_outcome_and_once() -> None:
    low = Lower(echo)
    known = low.running("echo")
    assert not await low.signals.write(low.store.of(known), "resolved", {"happened": True}), "the call has not ended"
    low.finish(known)
    assert not await low.signals.write(low.store.of(known), "resolved", {"happened": True})
    low = Lower(echo)
    lost = low.running("echo")
    error = {"code": "outcome_unknown", "message": "", "type": "OutcomeUnknown"}
    low.journal.advance(lost.entry, State.FAILED, {"error": error})
    low.journal.commit(lost.entry)
    seen = low.store.of(lost)
    assert await low.signals.write(seen, "resolved", {"happened": False})
    assert not await low.signals.write(seen, "resolved", {"happened": True}), "of two resolutions one wins"
    assert [event.data for event in low.store.events_of(lost) if event.type == "resolved"] == [{"happened": False}]
    assert await low.store.signals() == [], "a resolution is not a signal to the owner"


async def test_an_approval_is_written_only_into_a_call_that_waits_for_one() -> None:
    low = Lower(echo)
    call = low.pending("echo")
    assert not await low.signals.write(low.store.of(call), "approval_given", {"approved": True})
    ask_for_approval(low.journal, call, Question(), purpose="run", reason="", timeout=None)
    low.journal.commit(call.entry)
    seen = low.store.of(call)
    assert await low.signals.write(seen, "approval_given", {"approved": True})
    assert not await low.signals.write(seen, "approval_given", {"approved": False}), "of two decisions one wins"
    assert [event.data for event in low.store.events_of(call) if event.type == "approval_given"] == [{"approved": True}]


async def test_an_event_is_never_dated_before_the_last_one() -> None:
    low = Lower(echo)
    call = low.running("echo")
    at = low.store.events_of(call)[-1].at
    low.clock._start -= 1_000.0  # the date was set back
    assert await low.signals.write(low.store.of(call), "cancel_requested", {})
    assert low.store.events_of(call)[-1].at == at


async def test_a_call_that_was_swept_meanwhile_takes_nothing() -> None:
    low = Lower(echo)
    call = low.running("echo")
    seen = low.store.of(call)
    low.store.remove(call)
    assert not await low.signals.write(seen, "cancel_requested", {})


async def test_a_store_that_refuses_and_has_nothing_newer_is_an_error_and_no_endless_loop() -> None:
    low = Lower(echo)
    call = low.running("echo")
    low.store.refusal = Stale("its row and its events disagree")
    with pytest.raises(StoreUnavailable):
        await low.signals.write(low.store.of(call), "cancel_requested", {})
    low.store.refusal = StoreUnavailable("away")
    with pytest.raises(StoreUnavailable):
        await low.signals.write(low.store.of(call), "cancel_requested", {})


async def test_an_approval_is_for_the_question_that_it_names() -> None:
    """Another approver decided meanwhile, and the call asks again: a decision on the first request does not apply to
    the second."""
    low = Lower(echo)
    call = low.pending("echo")
    ask_for_approval(low.journal, call, Question(), purpose="run", reason="", timeout=None)
    low.journal.commit(call.entry)
    first = low.store.of(call)
    asked = open_question(first.events)
    assert asked is not None
    assert await low.signals.write(first, "approval_given", {"approved": True}, question=asked)
    await low.journal.flush(call.entry)  # it is stale, and takes the decision in
    ask_for_approval(low.journal, call, Question(), purpose="recovery", reason="", timeout=None)
    await low.journal.flush(call.entry)
    again = open_question(low.store.of(call).events)
    assert again not in (None, asked)
    assert not await low.signals.write(first, "approval_given", {"approved": True}, question=asked)
    assert await low.signals.write(low.store.of(call), "approval_given", {"approved": False}, question=str(again))

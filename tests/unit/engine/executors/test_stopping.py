"""Why a call stops: which reason overrides which, what the body receives, and the text of the error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clicket import tool
from clicket.engine.executors.stopping import (
    CALLER_LEFT,
    abandon,
    attempt_of,
    can_stop,
    cancel_with_caller,
    explain,
    forget_stop,
    is_abandoned,
    keep_late,
    resume_attempts,
    returned,
    set_stopper,
    state_of,
    stop,
    stop_error,
    stop_inside,
)
from clicket.engine.journal import Entry
from clicket.engine.live_call import Call, Origin
from clicket.kernel import State
from clicket.model import ToolCall
from clicket.tools import Registry

OF_ATTEMPT, OF_CALL = ("attempt", "idle"), ("cancel", "shutdown", "deadline")


@tool(timeout=5.0, idle_timeout=2.0)
async def echo() -> str:
    return "echo"


def made(**more: float) -> Call:
    return Call(
        Entry("a", "t", "", "echo", 0.0), ToolCall("echo", {}, id="a", thread="t", **more), Origin(), 0.0, "key", {}
    )


@given(st.lists(st.sampled_from((*OF_ATTEMPT, *OF_CALL)), max_size=6))
def test_the_first_reason_counts_unless_a_later_one_ends_more(reasons: list[str]) -> None:
    call, stops = made(), list[str]()
    set_stopper(attempt_of(call), lambda: stops.append("stop"))
    for reason in reasons:
        stop(call, reason)
    ends_call = [reason for reason in reasons if reason in OF_CALL]
    assert call.stopping == next(iter(ends_call or reasons), None)
    assert len(stops) == bool(reasons), "the body is cancelled once"
    assert can_stop(call) == (not ends_call)


@pytest.mark.parametrize("reason", OF_CALL)
def test_the_explanation_is_that_of_the_reason_that_counts(reason: str) -> None:
    call = made()
    stop(call, "attempt", "first")
    stop(call, reason, "second")
    stop(call, "cancel", "third")
    assert (call.stopping, call.cancel_reason) == (reason, "second")


def test_a_call_that_is_about_to_end_is_not_stopped() -> None:
    call, stops = made(), list[str]()
    set_stopper(attempt_of(call), lambda: stops.append("stop"))
    call.seal()
    stop(call, "cancel", "too late")
    assert (call.stopping, call.cancel_reason, stops, can_stop(call)) == (None, "", [], False)


def test_a_call_without_a_body_remembers_the_reason() -> None:
    call = made()
    stop(call, "shutdown")
    assert (call.stopping, call.attempt) == ("shutdown", None)


def test_after_a_stopped_attempt_the_next_one_can_be_stopped() -> None:
    call, stops = made(), list[str]()
    set_stopper(attempt_of(call), lambda: stops.append("stop"))
    stop(call, "attempt")
    forget_stop(call)
    stop(call, "idle")
    assert (call.stopping, stops) == ("idle", ["stop", "stop"])


@pytest.mark.parametrize("before", [None, "deadline"])
def test_a_caller_that_left_cancels_its_call_unless_another_reason_came_first(before: str | None) -> None:
    call = made()
    if before is not None:
        stop(call, before)
    cancel_with_caller(call)
    assert attempt_of(call).caller_left
    assert (call.stopping, call.cancel_reason) == ((before, "") if before else ("cancel", CALLER_LEFT))


def test_a_body_that_ends_itself_gets_no_stop_request() -> None:
    call, stops = made(), list[str]()
    set_stopper(attempt_of(call), lambda: stops.append("stop"))
    stop_inside(call, "cancel", "its turn was cancelled")
    assert (call.stopping, call.cancel_reason, stops) == ("cancel", "its turn was cancelled", [])


def test_an_abandoned_body_comes_back() -> None:
    call = made()
    assert not is_abandoned(call)
    abandon(call)
    keep_late(attempt_of(call), "late", None)
    assert (is_abandoned(call), attempt_of(call).late) == (True, ("late", None))
    returned(call)
    assert not is_abandoned(call)


def test_a_call_that_is_taken_over_goes_on_counting() -> None:
    call = made()
    resume_attempts(call, retries=0, outputs=0, progress=None)
    assert call.attempt is None, "most calls have no attempt to continue"
    resume_attempts(call, retries=2, outputs=3, progress={"step": 1})
    assert call.attempt is not None
    assert (call.attempt.retries, call.attempt.outputs, call.attempt.progress) == (2, 3, {"step": 1})


@pytest.mark.parametrize(
    ("reason", "state", "words"),
    [
        ("cancel", State.CANCELLED, "the call was cancelled: not needed"),
        ("shutdown", State.CANCELLED, "the call was cancelled: not needed"),
        ("attempt", State.TIMEOUT, "after 5 s"),
        ("idle", State.TIMEOUT, "after 2 s"),
        ("deadline", State.TIMEOUT, "after 9 s"),
        ("queue", State.TIMEOUT, "max_concurrency"),
        ("approval", State.TIMEOUT, "no decision came in time"),
    ],
)
def test_the_error_says_what_happened_and_what_to_do(reason: str, state: State, words: str) -> None:
    call = made(deadline=9.0)
    registered = Registry([echo]).find("echo")
    call.tool, call.check = registered.tool, registered.check
    explain(call, "not needed")
    error = stop_error(call, reason)
    assert (state_of(reason), error.code) == (state, "cancelled" if state is State.CANCELLED else "timeout")
    assert words in error.message


def test_the_requests_own_timeout_is_named_and_a_tool_is_not_needed() -> None:
    assert "after 0.5 s" in stop_error(made(timeout=0.5), "attempt").message
    assert "after" not in stop_error(made(), "idle").message.split(".")[0]

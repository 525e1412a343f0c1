"""Stopping: a waiting call ends at once, a running call is cancelled through its attempt, and it happens once."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.unit.engine.fakes import Lower

from clicket import tool
from clicket.engine.executors.stopping import attempt_of, set_stopper
from clicket.engine.journal import Entry
from clicket.engine.lifecycle.stopping import Stopping
from clicket.engine.records.stored_calls import Closed
from clicket.kernel import State
from clicket.model import Event
from clicket.ports import Duplicate


@tool
async def echo(key: str = "") -> str:
    return "echo"


@tool(sensitive=["key"])
async def secretive(key: str = "") -> str:
    return "echo"


def parts() -> tuple[Lower, Stopping]:
    low = Lower(echo, secretive)
    return low, low.stopping_part()


async def test_a_queued_call_ends_at_once_and_leaves_the_queue() -> None:
    low, stopping = parts()
    call = low.queued("echo")
    assert stopping.cancel(call, "no longer needed")
    assert call.result is not None
    assert call.result.state is State.CANCELLED
    assert call.result.error is not None
    assert "no longer needed" in call.result.error.message
    assert low.limiter.queued == 0
    assert [event.type for event in low.store.events_of(call)].count("cancel_requested") == 1


async def test_a_call_that_waits_for_a_person_ends_at_once() -> None:
    low, stopping = parts()
    call = low.pending("echo")
    low.journal.wait_for(call.entry, "approval")
    stopping.expire(call, "approval")
    await asyncio.sleep(0)
    assert call.result is not None
    assert (call.result.state, call.result.metadata) == (State.TIMEOUT, {"phase": "approval"})
    assert low.store.waiting_for(call) is None


async def test_the_deadline_of_a_call_whose_id_is_taken_ends_nothing() -> None:
    """Its first commit is the one that looks for a decision: the caller gets the other call, not an error of a call that is not there."""
    low, stopping = parts()
    first = low.pending("echo")
    second = low.admitted("echo")
    low.journal.wait_for(second.entry, "approval")
    answer = low.ending.waiter(second)
    stopping.expire(second, "deadline")
    await low.settle()
    assert isinstance(answer.exception(), Duplicate)
    assert second.ending, "nothing more is written of it"
    assert low.store.record(first).state is State.PENDING


async def test_the_cancellation_of_a_call_whose_id_is_taken_ends_nothing() -> None:
    """It has a slot here and waits for one that processes share; its first commit is that of the cancellation."""
    low, stopping = parts()
    first = low.pending("echo")
    second = low.admitted("echo")
    assert low.limiter.take(second)
    low.live.add(second)
    answer = low.ending.waiter(second)
    assert stopping.cancel(second, "asked to")
    await low.settle()
    assert isinstance(answer.exception(), Duplicate)
    assert second.ending, "nothing more is written of it"
    assert low.logged("release") == [second]
    assert list(low.live) == [first]
    record = low.store.record(first)
    assert (record.state, record.cancel_requested) == (State.PENDING, False)


@pytest.mark.parametrize("reason", ["approval", "deadline"])
async def test_a_decision_on_record_counts_though_its_owner_reads_it_after_the_time(reason: str) -> None:
    low, stopping = parts()
    call = low.pending("echo")
    low.journal.wait_for(call.entry, "approval")
    low.journal.commit(call.entry)
    low.store.write(call, "approval_given", approved=True, by="ann")
    decided: list[Any] = []

    def apply(entry: Entry, events: list[Event]) -> None:
        decided.extend(event.data["by"] for event in events)
        low.journal.wait_for(entry, None)

    low.on_signal = apply
    stopping.expire(call, reason)
    await asyncio.gather(*low.spawned)
    await asyncio.sleep(0)
    assert decided == ["ann"]
    assert (call.result is None) == (reason == "approval"), "the deadline limits the whole call"


async def test_a_call_that_is_released_as_its_time_ends_is_not_ended_here() -> None:
    """The runtime closes, and the next owner of the call decides."""
    low, stopping = parts()
    call = low.pending("echo")
    low.journal.wait_for(call.entry, "approval")
    low.journal.commit(call.entry)
    low.store.holding = True
    stopping.expire(call, "approval")
    low.ending.let_go(call, Closed("the runtime was closed"))
    low.store.let_through()
    await asyncio.sleep(0)
    assert not low.store.events_of(call)[-1].is_terminal


async def test_a_running_call_is_stopped_through_its_attempt_and_ends_by_itself() -> None:
    low, stopping = parts()
    call = low.running("echo")
    stops: list[str | None] = []
    set_stopper(attempt_of(call), lambda: stops.append(call.stopping))
    assert stopping.cancel(call, "enough")
    assert (stops, call.cancel_reason, call.ending, call.result) == (["cancel"], "enough", False, None)
    assert low.store.record(call).cancel_requested, "the request is recorded before the body has stopped"


async def test_a_body_is_stopped_once_and_the_first_final_reason_counts() -> None:
    low, stopping = parts()
    call = low.running("echo")
    stops: list[str] = []
    set_stopper(attempt_of(call), lambda: stops.append("stop"))
    assert stopping.cancel(call, "first")
    assert not stopping.cancel(call, "second")
    stopping.expire(call, "deadline")
    assert (call.stopping, call.cancel_reason, stops) == ("cancel", "first", ["stop"])
    assert [event.data for event in low.store.events_of(call) if event.type == "cancel_requested"] == [
        {"reason": "first"}
    ]


@pytest.mark.parametrize("before", ["attempt", "idle"])
async def test_a_cancel_takes_the_place_of_a_reason_that_ends_the_attempt_alone(before: str) -> None:
    low, stopping = parts()
    call = low.running("echo")
    stops: list[str] = []
    set_stopper(attempt_of(call), lambda: stops.append("stop"))
    stopping.stop(call, before)
    assert stopping.cancel(call, "now for good")
    assert (call.stopping, stops) == ("cancel", ["stop"])


async def test_a_call_that_is_about_to_end_cannot_be_cancelled() -> None:
    low, stopping = parts()
    call = low.running("echo")
    low.store.holding = True
    low.finish(call)
    assert not stopping.cancel(call, "too late")
    stopping.expire(call, "deadline")
    low.store.let_through()
    assert call.result is not None
    assert call.result.state is State.COMPLETED
    assert not low.store.record(call).cancel_requested


async def test_a_call_that_waits_for_a_shared_slot_is_marked_and_not_ended() -> None:
    """It has a slot here and no body: the gate ends it after the store's answer, so that its slots are released once."""
    low, stopping = parts()
    call = low.pending("echo")
    assert low.limiter.take(call)
    assert stopping.cancel(call, "")
    assert (call.stopping, call.ending) == ("cancel", False)


async def test_a_secret_in_the_reason_is_hidden() -> None:
    low, stopping = parts()
    call = low.queued("secretive", {"key": "hunter2hunter2"})
    stopping.cancel(call, "it leaked hunter2hunter2")
    assert call.result is not None
    assert "hunter2" not in msgspec.json.encode(call.result).decode()
    assert "hunter2" not in msgspec.json.encode(low.store.events_of(call)).decode()

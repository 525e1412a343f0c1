"""What recovery does with each call, by its state and its tool."""

from __future__ import annotations

import pytest
from tests.unit.engine.recovery_kit import Parts, asked

from clicket.engine.executors.stopping import attempt_of
from clicket.engine.live_call import Call
from clicket.engine.stages import Policy
from clicket.kernel import State
from clicket.ports import LATER, QueueName, Stored
from clicket.runtime.settings import Settings

# The decision table.


async def test_a_call_that_never_started_runs() -> None:
    parts = Parts()
    what, record = await parts.recover(parts.pending("plain", {"n": 3}, priority=2, metadata={"run": 1}))
    (call,) = parts.resumed
    assert (what, record.state, call.arguments, call.request.priority) == ("queued", State.PENDING, {"n": 3}, 2)
    assert (list(parts.live), call.idempotency_key, call.plan.needs[0][0]) == ([call], "key-a", "runtime")
    note = record.events[-1]
    assert (note.type, note.data["claims"]) == ("note", 2), "the takeover is recorded"


@pytest.mark.parametrize("name", ["repeatable", "rerun"])
async def test_a_call_that_started_and_may_be_repeated_runs_again(name: str) -> None:
    parts = Parts()
    what, record = await parts.recover(parts.running(name))
    assert (what, record.state, len(parts.resumed)) == ("rerun", State.RETRYING, 1)
    assert record.attempts[-1].error is not None
    assert record.attempts[-1].error.code == "outcome_unknown"


@pytest.mark.parametrize("name", ["plain", "failing"])
async def test_the_outcome_of_a_call_that_may_not_be_repeated_is_unknown(name: str) -> None:
    parts = Parts()
    what, record = await parts.recover(parts.running(name))
    assert (what, record.state, parts.resumed) == ("unknown", State.FAILED, [])
    assert record.error is not None
    assert record.error.code == "outcome_unknown"


async def test_a_tool_that_asks_has_a_person_decide() -> None:
    parts = Parts(policy=Policy(approval_timeout=50.0))
    what, record = await parts.recover(parts.running("asking"))
    assert (what, record.waiting_for, parts.resumed, parts.clock.pending) == ("asked", "approval", [], [50.0])
    assert record.approval is not None
    assert record.approval["purpose"] == "recovery"


async def test_a_call_between_two_attempts_goes_on() -> None:
    parts = Parts()
    call = parts.running("plain")
    error = {"code": "tool_error", "message": "x", "type": "X"}
    parts.journal.advance(call.entry, State.RETRYING, {"attempt": 1, "error": error, "delay": 1.0})
    parts.journal.commit(call.entry)
    what, _ = await parts.recover(call)
    assert (what, attempt_of(parts.resumed[0]).retries) == ("queued", 1), "earlier retries count"


@pytest.mark.parametrize("name", ["plain", "repeatable"])
async def test_a_call_that_was_cancelled_before_it_started_is_cancelled(name: str) -> None:
    parts = Parts()
    call = parts.pending(name)
    parts.store.write(call, "cancel_requested", reason="not needed")
    what, record = await parts.recover(call)
    assert (what, record.state) == ("cancelled", State.CANCELLED)
    assert record.error is not None
    assert "not needed" in record.error.message


@pytest.mark.parametrize(("name", "what"), [("repeatable", "cancelled"), ("plain", "unknown"), ("asking", "unknown")])
async def test_a_call_that_was_cancelled_while_it_ran(name: str, what: str) -> None:
    """If its effect may not be repeated, `cancelled` would wrongly mean that there was none: its outcome is unknown."""
    parts = Parts()
    call = parts.running(name)
    parts.store.write(call, "cancel_requested", reason="")
    found, record = await parts.recover(call)
    assert (found, record.state) == (what, State.CANCELLED if what == "cancelled" else State.FAILED)


async def test_a_question_waits_for_the_rest_of_its_time() -> None:
    parts = Parts()
    call = asked(parts)
    parts.clock.advance(20.0)
    what, record = await parts.recover(call)
    assert (what, record.waiting_for, parts.clock.pending) == ("asked", "approval", [40.0])


async def test_a_question_whose_time_is_over_is_ended_by_its_timer() -> None:
    """A decision may have come after the call was claimed: the timer's end looks for it (`Stopping.expire`)."""
    parts = Parts()
    call = asked(parts)
    parts.clock.advance(61.0)
    what, record = await parts.recover(call)
    assert (what, record.state, parts.clock.pending) == ("asked", State.PENDING, [0.0])
    parts.clock.advance(0.0)
    assert parts.log[-1][0] == "approval"


async def test_a_call_that_was_approved_meanwhile_runs() -> None:
    parts = Parts()
    call = asked(parts)
    parts.store.write(call, "approval_given", approved=True, by="ann", arguments={"n": 9})
    what, _ = await parts.recover(call)
    assert (what, parts.resumed[0].arguments) == ("queued", {"n": 9}), "with the approver's arguments"


async def test_a_call_that_was_denied_meanwhile_ends() -> None:
    parts = Parts()
    call = asked(parts)
    parts.store.write(call, "approval_given", approved=False, by="ann", reason="no")
    what, record = await parts.recover(call)
    assert (what, record.state) == ("cancelled", State.FAILED)
    assert record.error is not None
    assert record.error.code == "approval_denied"


async def test_a_call_whose_deadline_is_over_ends_and_another_keeps_the_rest() -> None:
    parts = Parts()
    late, early = parts.pending("plain", id="a", deadline=5.0), parts.pending("plain", id="b", deadline=50.0)
    parts.clock.advance(10.0)
    what, record = await parts.recover(late)
    assert (what, record.state, record.metadata["phase"]) == ("cancelled", State.TIMEOUT, "deadline")
    assert (await parts.recover(early))[0] == "queued"
    assert parts.clock.pending == [40.0]


async def test_a_call_in_doubt_keeps_its_deadline_while_a_person_is_asked() -> None:
    parts = Parts()
    call = parts.running("asking", deadline=50.0)
    parts.clock.advance(10.0)
    what, record = await parts.recover(call)
    assert (what, record.waiting_for) == ("asked", "approval")
    assert 40.0 in parts.clock.pending


async def test_a_call_that_kills_its_workers_is_not_tried_for_ever() -> None:
    parts = Parts(limits=Settings(max_claims=3).limits)
    call = parts.running("repeatable")
    for death in (1, 2):
        assert (await parts.recover(call))[0] == "rerun", death
        call = parts.resumed.pop()
        parts.journal.start(call.entry)
        parts.journal.commit(call.entry)
    what, record = await parts.recover(call)
    assert (what, record.state) == ("unknown", State.FAILED)
    assert record.error is not None
    assert "died 3 times" in record.error.message


async def test_waiting_while_workers_die_is_no_death_of_the_call() -> None:
    parts = Parts(limits=Settings(max_claims=2).limits)
    call = parts.pending("plain")
    for _ in range(6):
        assert (await parts.recover(call))[0] == "queued"
        call = parts.resumed.pop()


async def test_a_damaged_call_is_left_as_it_is_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    parts = Parts()
    bad, good = parts.pending("plain", id="a"), parts.pending("plain", id="b")
    stored = parts.store.steal(bad)
    stored.damaged, stored.events = "not events", []
    await parts.recovery.resume([stored, parts.store.steal(good)])
    assert ([call.id for call in parts.resumed], parts.recovery.held) == (["b"], {bad.entry.key})
    assert "cannot be taken over" in caplog.text


async def test_a_call_that_breaks_its_recovery_holds_nothing(caplog: pytest.LogCaptureFixture) -> None:
    parts = Parts()
    call = parts.pending("plain")

    def broken(call: Call) -> None:
        raise RuntimeError("a bug")

    parts.next_steps.go_on = broken
    what, _ = await parts.recover(call)
    assert (what, list(parts.live), parts.gate.names) == ("damaged", [], ["release"])


async def test_a_call_whose_time_has_come_waits_in_the_queue_of_its_tool_from_then_on() -> None:
    """Its process died after it had claimed the call as due. The next owner releases it, whichever way."""
    parts = Parts()
    call = parts.pending("plain", not_before=1_577_836_800.0)
    note = {"text": "It waits until its time.", "waiting_for": "time"}
    parts.journal.record(call.entry, "note", note)
    parts.journal.wait_in(call.entry, str(QueueName("plain", holder=LATER)))
    await parts.journal.flush(call.entry)
    await parts.recover(call)
    await parts.store.hand_back([call.entry.key])
    assert [each.key for each in await parts.store.claim_waiting(frozenset({"plain"}), 1)] == [call.entry.key]


async def test_a_worker_that_takes_no_calls_takes_over_none() -> None:
    parts = Parts()
    parts.entry.is_active = False

    async def claim_orphans(tools: frozenset[str], limit: int) -> list[Stored]:
        raise AssertionError("it asked for calls of dead owners")

    parts.store.claim_orphans = claim_orphans  # type: ignore[method-assign]
    assert (await parts.recovery.recover()).total == 0

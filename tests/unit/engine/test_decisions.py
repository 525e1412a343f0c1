"""Decisions of people, wherever the call runs: one decision counts, a cancellation ends the call, and no secret is recorded."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.unit.engine.fakes import Lower, Recorder

from clicket import tool
from clicket.engine.actions.cancels import Cancels
from clicket.engine.actions.decision_checks import DecisionChecks, examine
from clicket.engine.actions.decisions import Decisions
from clicket.engine.fleet.claimer import WorkClaimer
from clicket.engine.journal import Fenced
from clicket.engine.lifecycle.handover import HandOver
from clicket.engine.live_call import Call, Question
from clicket.engine.people.approvers import Approver
from clicket.engine.people.audit import AuditLog
from clicket.engine.people.grants import Grants
from clicket.engine.people.questions import ask_for_approval
from clicket.engine.stages import Policy
from clicket.errors import InvalidInput, NotFound, PermissionDenied, UsageError
from clicket.kernel import State
from clicket.tools import Registry


@tool(sensitive=["key"])
async def pay(amount: int = 0, key: str = "") -> str:
    return "paid"


SECRET = "hunter2hunter2"


class Parts(Lower):
    def __init__(self, policy: Policy | None = None) -> None:
        super().__init__(pay, policy=policy)
        self.stored_calls = self.core.stored_calls
        self.taken: list[int] = []
        self.audited: list[tuple[str, str, dict[str, Any]]] = []
        self.claimer: Any = Recorder(WorkClaimer)

        async def kept(who: str, what: str, **details: Any) -> None:
            self.audited.append((who, what, details))

        async def take(key: int) -> None:
            self.taken.append(key)

        audit: Any = Recorder(AuditLog, kept=kept)
        handover: Any = Recorder(HandOver, take=take)
        grants = Grants(self.store, self.clock, audit, retention=60.0)
        core = self.with_core(audit=audit, grants=grants, claimer=self.claimer)
        self.decisions = Decisions(core, DecisionChecks(core))
        self.cancels = Cancels(core, self.ending, handover, self.stopping_part())

    def asked(self, arguments: Any = None, *, here: bool = True) -> Call:
        call = self.pending("pay", arguments or {"amount": 1}, caller="bob")
        ask_for_approval(self.journal, call, Question(), purpose="run", reason="", timeout=None)
        self.journal.commit(call.entry)
        if not here:
            self.live.remove(call)
        return call

    async def decide(self, call: Call, *, approved: bool = True, reason: str = "", arguments: Any = None) -> bool:
        stored = self.store.of(call)
        return await self.decisions.decide(
            stored, Approver("ann"), approved=approved, reason=reason, arguments=arguments
        )

    def given(self, call: Call) -> list[dict[str, Any]]:
        return [event.data for event in self.store.events_of(call) if event.type == "approval_given"]


# Approvals.


async def test_a_decision_is_written_audited_and_applied_to_a_call_of_ours() -> None:
    parts = Parts()
    signals: list[str] = []
    parts.on_signal = lambda entry, events: signals.extend(event.type for event in events)
    call = parts.asked()
    assert await parts.decide(call, reason="fine")
    assert parts.given(call) == [{"approved": True, "by": "ann", "reason": "fine"}]
    assert signals == ["approval_given"], "this process reads its own decision like another process's"
    ((who, what, details),) = parts.audited
    assert (who, what, details["call"], details["caller"], details["edited"]) == (
        "ann",
        "call.approved",
        "a",
        "bob",
        False,
    )


async def test_a_decision_is_taken_though_a_second_submission_of_the_call_is_about_to_be_refused() -> None:
    parts = Parts()
    call = parts.asked(here=False)
    second = parts.admitted("pay", {"amount": 1}, caller="bob")
    parts.live.add(second)
    assert await parts.decide(call)
    assert len(parts.given(call)) == 1
    assert parts.claimer.names == ["nudge"], "the call may have no owner"
    assert not second.ending, "it is refused when it is stored"


async def test_of_two_decisions_at_once_one_is_first() -> None:
    parts = Parts()
    call = parts.asked(here=False)
    stored = parts.store.of(call)
    both = [parts.decisions.decide(stored, Approver("ann"), approved=yes, reason="") for yes in (True, False)]
    assert await asyncio.gather(*both) == [True, False]
    assert (len(parts.given(call)), len(parts.audited)) == (1, 1)


async def test_a_call_that_is_not_here_is_looked_for_by_the_process_that_has_it() -> None:
    parts = Parts()
    call = parts.asked(here=False)
    assert await parts.decide(call, approved=False)
    assert parts.claimer.names == ["nudge"], "the call may have no owner"
    assert parts.audited[0][1] == "call.denied"


async def test_a_call_that_does_not_wait_takes_no_decision() -> None:
    parts = Parts()
    call = parts.pending("pay")
    assert not await parts.decide(call)
    assert not await parts.decide(call, arguments={"amount": 2})
    assert (parts.given(call), parts.audited) == ([], [])


async def test_other_arguments_come_with_the_decision_and_the_same_ones_do_not() -> None:
    parts = Parts()
    call = parts.asked()
    assert await parts.decide(call, arguments={"amount": 1})
    assert "arguments" not in parts.given(call)[0]
    other = Parts()
    call = other.asked()
    assert await other.decide(call, arguments={"amount": 7})
    assert other.given(call)[0]["arguments"] == {"amount": 7}
    assert other.audited[0][2]["edited"]


async def test_arguments_that_do_not_fit_are_refused_before_anything_is_written() -> None:
    parts = Parts()
    call = parts.asked()
    with pytest.raises(InvalidInput) as raised:
        await parts.decide(call, arguments={"amount": "much", "key": SECRET})
    assert SECRET not in repr((str(raised.value), raised.value.details, raised.value.problems))
    assert parts.given(call) == []


async def test_arguments_that_the_policy_denies_are_refused() -> None:
    def rule(request: Any) -> Any:
        return "deny" if (request.arguments or {}).get("amount") == 500 else None

    parts = Parts(Policy(rule=rule))
    call = parts.asked()
    with pytest.raises(PermissionDenied):
        await parts.decide(call, arguments={"amount": 500})


async def test_a_tool_that_is_not_here_cannot_judge_its_arguments_but_the_policy_can() -> None:
    parts = Parts()
    call = parts.asked()
    record = parts.store.record(call)
    nothing = Registry()
    assert examine(nothing, Policy(), record, {"amount": "much"}, max_size=1_000) == {"amount": "much"}
    with pytest.raises(PermissionDenied):
        examine(nothing, Policy(deny=["pay"]), record, {}, max_size=1_000)
    with pytest.raises(InvalidInput):
        examine(nothing, Policy(), record, {"amount": "x" * 2_000}, max_size=1_000)


async def test_a_secret_in_the_reason_is_hidden() -> None:
    parts = Parts()
    call = parts.asked({"key": SECRET})
    assert await parts.decide(call, approved=False, reason=f"it shows {SECRET}")
    assert SECRET not in msgspec.json.encode((parts.store.events_of(call), parts.audited)).decode()


# Cancellation.


async def test_a_live_call_has_ended_when_its_cancel_returns() -> None:
    parts = Parts()
    call = parts.queued("pay")
    assert await parts.cancels.cancel("a", "t", "", "enough")
    assert call.result is not None
    assert call.result.state is State.CANCELLED


async def test_a_call_that_completes_before_the_cancel_took_effect_was_not_cancelled() -> None:
    parts = Parts()
    call = parts.running("pay")
    parts.store.holding = True
    parts.finish(call)
    cancelling = asyncio.ensure_future(parts.cancels.cancel("a", "t", "", ""))
    await parts.settle()
    parts.store.let_through()
    assert not await cancelling


async def test_a_cancel_of_a_call_elsewhere_is_written_and_a_call_without_an_owner_is_taken() -> None:
    parts = Parts()
    call = parts.asked(here=False)
    assert await parts.cancels.cancel("a", "t", "bob", "enough")
    assert parts.store.record(call).cancel_requested
    assert parts.taken == [call.entry.key]


async def test_a_call_that_has_ended_cannot_be_cancelled() -> None:
    parts = Parts()
    call = parts.running("pay")
    parts.finish(call)
    assert not await parts.cancels.cancel("a", "t", None, "")
    assert parts.taken == []


async def test_a_request_for_a_call_of_another_process_goes_there() -> None:
    parts = Parts()
    call = parts.running("pay")
    cancelling = asyncio.ensure_future(parts.cancels.cancel("a", "t", "", "enough"))
    await parts.settle()
    parts.ending.let_go(call, Fenced("in other hands"))
    assert await cancelling
    assert [event.type for event in parts.store.events_of(call)].count("cancel_requested") == 2


async def test_an_unknown_call_and_a_name_of_several_calls_are_errors() -> None:
    parts = Parts()
    with pytest.raises(NotFound):
        await parts.cancels.cancel("none", None, None, "")
    parts.pending("pay", thread="t1")
    parts.pending("pay", thread="t2")
    with pytest.raises(UsageError):
        await parts.cancels.cancel("a", None, None, "")


async def test_a_call_that_is_not_durable_yet_is_not_there() -> None:
    parts = Parts()
    call = parts.admitted("pay")
    parts.live.add(call)
    assert await parts.cancels.find_live("a", "t", "") is None


async def test_a_name_that_is_live_once_and_stored_twice_needs_its_thread() -> None:
    parts = Parts()
    live, other = parts.pending("pay", thread="t1"), parts.pending("pay", thread="t2")
    parts.live.remove(other)
    assert await parts.cancels.find_live("a", "t1", None) is live
    with pytest.raises(UsageError):
        await parts.cancels.find_live("a", None, None)

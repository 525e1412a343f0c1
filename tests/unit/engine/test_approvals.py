"""Calls that wait for approval: the recorded decision is applied, and edited arguments are checked like the first ones."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.unit.engine.fakes import Lower, Recorder

from clicket import tool
from clicket.engine.cache.caching import Caching
from clicket.engine.lifecycle.approvals import Approvals, edit_of
from clicket.engine.live_call import Call
from clicket.engine.people.grants import Grants
from clicket.engine.stages import Policy
from clicket.kernel import State
from clicket.model import ToolError, read
from clicket.model.grant import Grant


@tool(sensitive=["key"])
async def pay(amount: int = 0, key: str = "") -> str:
    return "paid"


class Parts(Lower):
    def __init__(self, policy: Policy | None = None) -> None:
        super().__init__(pay, policy=policy or Policy(ask=["pay"], approval_timeout=60.0))
        self.resumed: list[Call] = []
        self.caching: Any = Recorder(Caching)
        self.arguments = self.core.arguments
        self.granted: Grant | None = None
        self.kept: list[Call] = []

        async def use(call: Call) -> Grant | None:
            return self.granted

        self.inputs.go_on = lambda call: (self.resumed if call.is_allowed else self.kept).append(call)
        self.approvals = Approvals(self.with_core(caching=self.caching, grants=Recorder(Grants, use=use)), self.ending)

    def asked(self, arguments: Any = None) -> Call:
        call = self.admitted("pay", arguments or {"amount": 1})
        self.approvals.ask(call)
        self.journal.commit(call.entry)
        assert call in self.live
        return call

    def error(self, call: Call) -> ToolError:
        assert call.result is not None
        assert call.result.state is State.FAILED
        assert call.result.error is not None
        assert self.resumed == []
        return call.result.error


async def test_the_question_waits_for_as_long_as_the_policy_says() -> None:
    parts = Parts()
    call = parts.asked()
    assert (call.entry.waiting_for, parts.store.record(call).waiting_for) == ("approval", "approval")
    parts.clock.advance(60.0)
    assert parts.log == [("approval", call)]


async def test_a_question_on_record_goes_on_waiting_for_the_rest_of_its_time() -> None:
    parts = Parts()
    call = parts.pending("pay")
    parts.approvals.wait_on(call, 12.0)
    assert (call.entry.waiting_for, parts.clock.pending) == ("approval", [12.0])
    forever = parts.pending("pay", id="b")
    parts.approvals.wait_on(forever, None)
    assert (forever.entry.waiting_for, parts.clock.pending) == ("approval", [12.0])


async def test_an_approved_call_goes_on_and_its_timer_ends() -> None:
    parts = Parts()
    call = parts.asked()
    parts.approvals.apply(call, {"approved": True, "by": "ann"})
    assert (parts.resumed, call.entry.waiting_for, parts.clock.pending) == ([call], None, [])


async def test_a_denied_call_fails_with_the_approver_and_the_reason() -> None:
    parts = Parts()
    call = parts.asked()
    parts.approvals.apply(call, {"approved": False, "by": "ann", "reason": "too much"})
    error = parts.error(call)
    assert error.code == "approval_denied"
    assert "ann denied the call: too much" in error.message


@pytest.mark.parametrize("approved", ["yes", 1, None, [True]])
async def test_only_true_is_an_approval(approved: Any) -> None:
    parts = Parts()
    call = parts.asked()
    parts.approvals.apply(call, {"approved": approved})
    assert parts.error(call).code == "approval_denied"


async def test_edited_arguments_that_fit_are_the_calls_own_from_then_on() -> None:
    parts = Parts()
    call = parts.asked()
    parts.approvals.apply(call, {"approved": True, "by": "ann", "arguments": {"amount": 5}})
    assert (parts.resumed, call.arguments) == ([call], {"amount": 5})
    assert parts.caching.names == ["fit"], "the edited arguments have another key"


async def test_a_call_that_has_run_before_is_not_served_from_the_cache_after_an_edit() -> None:
    parts = Parts()
    call = parts.running("pay")
    parts.journal.advance(call.entry, State.RETRYING, {"attempt": 1, "error": None, "delay": None})
    parts.approvals.ask_again(call, "its process died")
    parts.journal.commit(call.entry)
    assert parts.clock.pending == [60.0]
    parts.approvals.apply(call, {"approved": True, "arguments": {"amount": 5}})
    assert parts.caching.names == ["fit", "exclude"]


async def test_edited_arguments_that_do_not_fit_fail_the_call_and_name_the_approver() -> None:
    parts = Parts()
    call = parts.asked()
    parts.approvals.apply(call, {"approved": True, "by": "ann", "arguments": {"amount": "much"}})
    error = parts.error(call)
    assert error.code == "invalid_input"
    assert "ann" in error.message
    assert error.details["problems"]


async def test_edited_arguments_that_the_policy_denies_fail_the_call() -> None:
    def rule(request: Any) -> Any:
        return "deny" if (request.arguments or {}).get("amount") == 500 else "ask"

    parts = Parts(Policy(rule=rule))
    call = parts.asked({"amount": 1})
    parts.approvals.apply(call, {"approved": True, "by": "ann", "arguments": {"amount": 500}})
    assert parts.error(call).code == "permission_denied"


async def test_an_error_about_edited_arguments_shows_no_secret() -> None:
    parts = Parts()
    call = parts.asked()
    parts.approvals.apply(call, {"approved": True, "arguments": {"amount": "much", "key": "hunter2hunter2"}})
    assert "hunter2" not in repr(parts.error(call))
    assert "hunter2" not in msgspec.json.encode(parts.store.events_of(call)).decode()


async def test_edited_arguments_that_are_lost_fail_the_call() -> None:
    parts = Parts()
    call = parts.asked()
    record = read(call.id, parts.store.events_of(call))
    elsewhere = parts.arguments.recorded_edit(record, None, {"amount": 2, "key": "hunter2hunter2"})
    parts.approvals.apply(call, {"approved": True, "by": "ann", **elsewhere})
    assert parts.error(call).code == "arguments_lost"


async def test_the_edit_in_force_is_the_last_one_that_came_with_arguments() -> None:
    parts = Parts()
    call = parts.asked()
    assert edit_of(call) is None
    for decision in ({"arguments": {"amount": 2}}, {"arguments": {"amount": 3}}, {"approved": True}):
        parts.journal.record(call.entry, "approval_given", decision)
    parts.journal.commit(call.entry)
    assert edit_of(call) == {"arguments": {"amount": 3}}


# Grants.

GRANT = Grant(id="gr_1", tool="pay", caller="", by="ann", call="first", given_at=0.0)


async def test_a_grant_answers_in_the_commit_of_the_question() -> None:
    parts = Parts()
    parts.granted = GRANT
    call = parts.admitted("pay", {"amount": 1})
    parts.live.add(call)
    parts.approvals.ask(call)
    assert call.entry.durable == 0, "nothing is written before the grants are looked at"
    await asyncio.sleep(0)
    assert (parts.resumed, parts.kept) == ([call], [])
    parts.journal.commit(call.entry)
    record = read(call.id, call.entry.events)
    assert record.approval is not None
    assert (record.approval["approved"], record.approval["grant"], record.approval["by"]) == (True, "gr_1", "ann")
    assert (call.wait_timer, record.waiting_for) == (None, None)


async def test_without_a_grant_the_call_waits() -> None:
    parts = Parts()
    call = parts.admitted("pay", {"amount": 1})
    parts.approvals.ask(call)
    await asyncio.sleep(0)
    assert (parts.resumed, parts.kept) == ([], [call])
    assert call.entry.waiting_for == "approval"


async def test_a_call_that_ended_while_grants_were_looked_at_does_not_run() -> None:
    parts = Parts()
    parts.granted = GRANT
    call = parts.asked()
    parts.pipeline.end_stopped(call, "cancel", parts.ending.on_outcome_durable)
    await asyncio.sleep(0)
    assert (parts.resumed, parts.kept) == ([], [])
    assert call.result is not None
    assert call.result.state is State.CANCELLED

"""Accepting calls: refused ones are recorded; admitted ones go to an approval, the cache, another process or a slot;
nothing leaks."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.engine.fakes import Lower, Recorder

from clicket import tool
from clicket.engine.cache.caching import Caching
from clicket.engine.cache.single_flight import SingleFlight
from clicket.engine.hub import Hub
from clicket.engine.lifecycle.admission import Admission
from clicket.engine.lifecycle.approvals import Approvals
from clicket.engine.lifecycle.credential_waits import CredentialWaits
from clicket.engine.lifecycle.dep_waits import DepWaits
from clicket.engine.lifecycle.due_calls import DueCalls
from clicket.engine.lifecycle.handover import HandOver
from clicket.engine.lifecycle.next_steps import NextSteps
from clicket.engine.lifecycle.running import Running
from clicket.engine.live_call import Call, Origin
from clicket.engine.local.loop_share import LoopShare
from clicket.engine.people.audit import AuditLog
from clicket.engine.slots.shared_slots import SharedSlots
from clicket.engine.stages import Policy
from clicket.errors import QueueFull, UsageError
from clicket.kernel import State
from clicket.model import ToolCall


@tool
async def echo(n: int = 0) -> str:
    return "echo"


@tool
async def risky() -> str:
    return ""


@tool
async def forbidden() -> str:
    return ""


@tool(cache=60, credentials=["github"])
async def personal() -> str:
    return "mine"


@tool(cache=60)
async def cached() -> str:
    return ""


class Parts(Lower):
    def __init__(self, *, gives_away: bool = False, needs_look: bool = False, trial: str | None = None) -> None:
        super().__init__(echo, risky, forbidden, cached, personal, policy=Policy(ask=["risky"], deny=["forbidden"]))

        async def look(tool: str, thread: str, caller: str) -> str | None:
            return trial

        def ask(call: Call) -> None:
            self.journal.wait_for(call.entry, "approval")
            self.log.append(("ask", call))

        def fit(call: Call) -> None:
            call.cache_key = "k"

        self.running_part: Any = Recorder(Running)
        self.handover: Any = Recorder(HandOver)
        self.caching: Any = Recorder(Caching, fit=fit)
        self.flights: Any = Recorder(SingleFlight)
        self.audit: Any = Recorder(AuditLog)
        self.slots: Any = Recorder(SharedSlots)
        self.credentials: Any = Recorder(CredentialWaits)
        self.share = LoopShare(self.clock.monotonic)
        hub: Any = Recorder(Hub, needs_look=lambda *place: needs_look, look=look, degraded={"a thread"})
        approvals: Any = Recorder(Approvals, ask=ask)
        due_calls: Any = Recorder(DueCalls, wait_of=lambda call: 0.0)
        core = self.with_core(
            hub=hub,
            caching=self.caching,
            flights=self.flights,
            slots=self.slots,
            audit=self.audit,
            gives_away=gives_away,
        )
        self.phase.leaves_calls = gives_away
        self.next_steps = NextSteps(
            core,
            self.ending,
            self.handover,
            self.running_part,
            approvals,
            due_calls,
            self.credentials,
            DepWaits(core, self.handover),
        )
        self.admission = Admission(core, self.ending, self.next_steps, due_calls, self.share)

    def take(self, name: str, arguments: Any = None, **more: Any) -> Call:
        return self.admission.take(ToolCall(name, arguments or {}, thread="t", **more), Origin("ann"))


async def test_an_admitted_call_goes_to_a_slot_and_nothing_of_it_is_stored_before() -> None:
    parts = Parts()
    call = parts.take("echo", {"n": 1}, deadline=9.0)
    assert parts.running_part.calls == [("take_slot", call)]
    assert (call.arguments, call.plan.needs[0][0], parts.clock.pending) == ({"n": 1}, "runtime", [9.0])
    assert await parts.store.load(call.id) == []


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [("nothing", {}, "tool_not_found"), ("echo", {"n": "x"}, "invalid_input"), ("forbidden", {}, "permission_denied")],
)
async def test_a_refused_call_is_on_record_and_ends_at_once(name: str, arguments: Any, code: str) -> None:
    parts = Parts()
    call = parts.take(name, arguments)
    assert call.result is not None
    assert (call.result.state, parts.running_part.calls, list(parts.live)) == (State.FAILED, [], [])
    assert call.result.error is not None
    assert call.result.error.code == code
    assert parts.store.record(call).refused is not None
    assert parts.audit.names == (["refused"] if name == "forbidden" else []), "refusals of the policy are audited"


async def test_a_call_that_its_maker_may_not_make_is_refused_with_its_reason() -> None:
    parts = Parts()
    call = parts.admission.take(ToolCall("echo", {}, thread="t"), Origin(), denied="the agent has other tools")
    assert call.result is not None
    assert call.result.error is not None
    assert "the agent has other tools" in call.result.error.message


async def test_a_call_that_a_person_must_approve_is_durable_and_holds_no_slot() -> None:
    parts = Parts()
    call = parts.take("risky")
    parts.next_steps.go_on(call)  # no grant answers the question
    assert (parts.logged("ask"), parts.running_part.calls) == ([call], [])
    assert parts.store._calls[call.entry.key].waiting_for == "approval"
    assert not call.slot
    await parts.ending.created(call)


async def test_a_call_that_may_be_cached_asks_the_cache_first() -> None:
    parts = Parts()
    call = parts.take("cached")
    assert (parts.flights.calls, parts.running_part.calls, list(parts.live)) == ([("enter", call)], [], [call])


async def test_a_call_that_needs_credentials_is_looked_at_before_the_cache_and_the_slots() -> None:
    parts = Parts()
    call = parts.take("personal")
    assert (parts.credentials.calls, parts.flights.calls, parts.running_part.calls) == ([("enter", call)], [], [])
    call.credentials = ("c1",)
    parts.next_steps.go_on(call)
    assert parts.flights.calls == [("enter", call)]
    away = Parts(gives_away=True)
    given = away.take("personal")
    assert (away.credentials.calls, given.entry.durable) == ([], 0), "the process that runs it looks"


async def test_a_call_that_has_started_before_does_not_ask_the_cache() -> None:
    parts = Parts()
    call = parts.running("cached")
    call.cache_key = "k"
    parts.next_steps.go_on(call)
    assert (parts.flights.calls, parts.running_part.calls) == ([], [("take_slot", call)])


async def test_where_other_processes_run_calls_they_are_given_away() -> None:
    parts = Parts(gives_away=True)
    plain, asked = parts.take("echo"), parts.take("risky")
    parts.next_steps.go_on(asked)
    assert parts.handover.calls == [("give_away", plain), ("give_away", asked)]
    assert parts.running_part.calls == []


async def test_a_part_of_clickets_own_is_run_here_all_the_same() -> None:
    parts = Parts(gives_away=True)
    call = parts.admission.take(ToolCall("echo", {}, thread="t"), Origin(), internal=True)
    assert (parts.handover.calls, parts.running_part.calls) == ([], [("take_slot", call)])


async def test_a_full_queue_leaves_no_trace() -> None:
    parts = Parts()

    def full(call: Call) -> None:
        raise QueueFull("full")

    parts.next_steps.go_on = full  # type: ignore[method-assign]
    with pytest.raises(QueueFull):
        parts.take("echo", id="a", deadline=5.0)
    assert (await parts.store.load("a"), list(parts.live), parts.clock.pending) == ([], [], [])


async def test_a_closing_runtime_takes_nothing() -> None:
    parts = Parts()
    parts.phase.closing = True
    with pytest.raises(UsageError):
        parts.take("echo")
    assert list(parts.live) == []


async def test_no_call_is_accepted_before_the_hub_has_loaded() -> None:
    parts = Parts(needs_look=True, trial="trial:echo")
    request = ToolCall("echo", {}, thread="t")
    assert parts.admission.accept_now(request, Origin()) is None
    call = await parts.admission.accept(request, Origin())
    assert (call.trial, call.hub_checked) == ("trial:echo", False)
    known = Parts().admission.accept_now(request, Origin())
    assert known is not None
    assert known.hub_checked


async def test_the_trials_slot_is_given_back_when_the_call_is_not_taken() -> None:
    parts = Parts(needs_look=True, trial="trial:echo")
    parts.phase.closing = True
    with pytest.raises(UsageError):
        await parts.admission.accept(ToolCall("echo", {}, thread="t"), Origin())
    assert parts.slots.calls == [("give", "trial:echo")]


async def test_appends_are_grouped_while_others_are_at_work() -> None:
    parts = Parts()
    parts.take("echo")
    assert not parts.journal.groups
    parts.limiter.used["runtime", 10] = 1
    parts.take("echo")
    assert parts.journal.groups

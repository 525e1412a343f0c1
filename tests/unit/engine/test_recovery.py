"""What dead owners left, case by case: a call that never started runs, one that may be repeated runs again, any other outcome is
unknown and says so; what people decided meanwhile counts."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.engine.fakes import Lower, Recorder

from clicket import tool
from clicket.call import Call
from clicket.engine.approvals import Approvals
from clicket.engine.arguments import ArgumentsOnRecord
from clicket.engine.limits import Limits
from clicket.engine.questions import ask_for_approval
from clicket.engine.recovery import Recovered, Recovery
from clicket.errors import StoreUnavailable
from clicket.execution.stopping import attempt_of
from clicket.journal import Fenced
from clicket.kernel import State
from clicket.model import Record
from clicket.pipeline import Policy
from clicket.ports import Stored
from clicket.settings import Settings


@tool
async def plain(n: int = 0) -> str:
    return ""


@tool(idempotent=True)
async def repeatable() -> str:
    return ""


@tool(recovery="rerun")
async def rerun() -> str:
    return ""


@tool(recovery="ask")
async def asking() -> str:
    return ""


@tool(idempotent=True, recovery="fail")
async def failing() -> str:
    return ""


@tool(sensitive=["key"])
async def secretive(key: str = "") -> str:
    return ""


class World(Lower):
    """`low` calls live in the process that dies; `recover` is what the next one does."""

    def __init__(self, *, gives_away: bool = False, limits: Limits | None = None, policy: Policy | None = None) -> None:
        super().__init__(plain, repeatable, rerun, asking, failing, secretive, limits=limits, policy=policy)
        self.resumed: list[Call] = []
        self.caching: Any = Recorder()
        self.gate: Any = Recorder()
        self.admission: Any = Recorder(resume=self.resumed.append)
        self.claims = 0
        arguments = ArgumentsOnRecord(self.vault, self.registry, max_size=10_000)
        approvals = Approvals(
            self.journal,
            self.pipeline,
            self.policy,
            self.timers,
            self.ending,
            self.caching,
            arguments,
            resume=self.resumed.append,
        )

        async def claim() -> None:
            self.claims += 1

        claimer: Any = Recorder(claim=claim)
        self.recovery = Recovery(
            self.journal,
            self.store,
            self.registry,
            self.pipeline,
            self.plans,
            self.limiter,
            self.gate,
            self.live,
            self.timers,
            self.caching,
            arguments,
            self.ending,
            approvals,
            self.admission,
            claimer,
            self.limits,
            gives_away=gives_away,
            spawn=self.spawn,
        )

    def die(self, call: Call) -> None:
        """The process that has the call dies: nothing of it is left here."""
        self.live.remove(call)
        self.timers.cancel(call)
        self.limiter.release(call)

    async def recover(self, *calls: Call) -> tuple[str, Record]:
        """Take the calls over; what became of the first one, and its record."""
        for call in calls:
            self.die(call)
        orphans = [self.store.steal(call) for call in calls]

        async def claim_orphans(tools: frozenset[str], limit: int) -> list[Stored]:
            claimed, orphans[:] = orphans[:limit], orphans[limit:]
            return claimed

        self.store.claim_orphans = claim_orphans  # type: ignore[method-assign]
        report = await self.recovery.recover()
        await self.settle()
        assert report.total == len(calls)
        (what,) = {name for name in Recovered.__struct_fields__ if getattr(report, name)}
        return what, self.store.record(calls[0])


# The decision table.


async def test_a_call_that_never_started_runs() -> None:
    world = World()
    what, record = await world.recover(world.pending("plain", {"n": 3}, priority=2, metadata={"run": 1}))
    (call,) = world.resumed
    assert (what, record.state, call.arguments, call.request.priority) == ("queued", State.PENDING, {"n": 3}, 2)
    assert (list(world.live), call.idempotency_key, call.plan.needs[0][0]) == ([call], "key-a", "runtime")
    note = record.events[-1]
    assert (note.type, note.data["claims"]) == ("note", 2), "the take-over is on record"


@pytest.mark.parametrize("name", ["repeatable", "rerun"])
async def test_a_call_that_started_and_may_be_repeated_runs_again(name: str) -> None:
    world = World()
    what, record = await world.recover(world.running(name))
    assert (what, record.state, len(world.resumed)) == ("rerun", State.RETRYING, 1)
    assert record.attempts[-1].error is not None
    assert record.attempts[-1].error.code == "outcome_unknown"


@pytest.mark.parametrize("name", ["plain", "failing"])
async def test_the_outcome_of_a_call_that_may_not_be_repeated_is_unknown(name: str) -> None:
    world = World()
    what, record = await world.recover(world.running(name))
    assert (what, record.state, world.resumed) == ("unknown", State.FAILED, [])
    assert record.error is not None
    assert record.error.code == "outcome_unknown"


async def test_a_tool_that_asks_has_a_person_decide() -> None:
    world = World(policy=Policy(approval_timeout=50.0))
    what, record = await world.recover(world.running("asking"))
    assert (what, record.waiting_for, world.resumed, world.clock.pending) == ("asked", "approval", [], [50.0])
    assert record.approval is not None
    assert record.approval["purpose"] == "recovery"


async def test_a_call_between_two_attempts_goes_on() -> None:
    world = World()
    call = world.running("plain")
    error = {"code": "tool_error", "message": "x", "type": "X"}
    world.journal.advance(call.entry, State.RETRYING, {"attempt": 1, "error": error, "delay": 1.0})
    world.journal.commit(call.entry)
    what, _ = await world.recover(call)
    assert (what, attempt_of(world.resumed[0]).retries) == ("queued", 1), "the retries that were spent count"


@pytest.mark.parametrize("name", ["plain", "repeatable"])
async def test_a_call_that_was_cancelled_before_it_started_is_cancelled(name: str) -> None:
    world = World()
    call = world.pending(name)
    world.store.write(call, "cancel_requested", reason="not needed")
    what, record = await world.recover(call)
    assert (what, record.state) == ("cancelled", State.CANCELLED)
    assert record.error is not None
    assert "not needed" in record.error.message


@pytest.mark.parametrize(("name", "what"), [("repeatable", "cancelled"), ("plain", "unknown"), ("asking", "unknown")])
async def test_a_call_that_was_cancelled_while_it_ran(name: str, what: str) -> None:
    """Where its effect may not be repeated, `cancelled` would say that there was none: its outcome is unknown."""
    world = World()
    call = world.running(name)
    world.store.write(call, "cancel_requested", reason="")
    found, record = await world.recover(call)
    assert (found, record.state) == (what, State.CANCELLED if what == "cancelled" else State.FAILED)


def asked(world: World, name: str = "plain", timeout: float | None = 60.0) -> Call:
    call = world.pending(name)
    ask_for_approval(world.journal, call, purpose="run", reason="", timeout=timeout)
    world.journal.commit(call.entry)
    return call


async def test_a_question_waits_for_the_rest_of_its_time() -> None:
    world = World()
    call = asked(world)
    world.clock.advance(20.0)
    what, record = await world.recover(call)
    assert (what, record.waiting_for, world.clock.pending) == ("asked", "approval", [40.0])


async def test_a_question_whose_time_is_over_ends_the_call() -> None:
    world = World()
    call = asked(world)
    world.clock.advance(61.0)
    what, record = await world.recover(call)
    assert (what, record.state, record.metadata["phase"]) == ("cancelled", State.TIMEOUT, "approval")


async def test_a_call_that_was_approved_meanwhile_runs() -> None:
    world = World()
    call = asked(world)
    world.store.write(call, "approval_given", approved=True, by="ann", arguments={"n": 9})
    what, _ = await world.recover(call)
    assert (what, world.resumed[0].arguments) == ("queued", {"n": 9}), "with the approver's arguments"


async def test_a_call_that_was_denied_meanwhile_ends() -> None:
    world = World()
    call = asked(world)
    world.store.write(call, "approval_given", approved=False, by="ann", reason="no")
    what, record = await world.recover(call)
    assert (what, record.state) == ("cancelled", State.FAILED)
    assert record.error is not None
    assert record.error.code == "approval_denied"


async def test_a_call_whose_deadline_is_over_ends_and_another_keeps_the_rest() -> None:
    world = World()
    late, early = world.pending("plain", id="a", deadline=5.0), world.pending("plain", id="b", deadline=50.0)
    world.clock.advance(10.0)
    what, record = await world.recover(late)
    assert (what, record.state, record.metadata["phase"]) == ("cancelled", State.TIMEOUT, "deadline")
    assert (await world.recover(early))[0] == "queued"
    assert world.clock.pending == [40.0]


async def test_a_call_that_kills_its_workers_is_not_tried_for_ever() -> None:
    world = World(limits=Settings(max_claims=3).limits())
    call = world.running("repeatable")
    for death in (1, 2):
        assert (await world.recover(call))[0] == "rerun", death
        call = world.resumed.pop()
        world.journal.start(call.entry)
        world.journal.commit(call.entry)
    what, record = await world.recover(call)
    assert (what, record.state) == ("unknown", State.FAILED)
    assert record.error is not None
    assert "died 3 times" in record.error.message


async def test_waiting_while_workers_die_is_no_death_of_the_call() -> None:
    world = World(limits=Settings(max_claims=2).limits())
    call = world.pending("plain")
    for _ in range(6):
        assert (await world.recover(call))[0] == "queued"
        call = world.resumed.pop()


async def test_a_damaged_call_is_left_as_it_is_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    bad, good = world.pending("plain", id="a"), world.pending("plain", id="b")
    stored = world.store.steal(bad)
    stored.damaged, stored.events = "not events", []
    await world.recovery.resume([stored, world.store.steal(good)])
    assert ([call.id for call in world.resumed], world.recovery.broken) == (["b"], {bad.entry.key})
    assert "cannot be taken over" in caplog.text


async def test_a_call_that_breaks_its_recovery_holds_nothing(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    call = world.pending("plain")

    def broken(call: Call) -> None:
        raise RuntimeError("a bug")

    world.admission.resume = broken
    what, _ = await world.recover(call)
    assert (what, list(world.live), world.gate.names) == ("damaged", [], ["release"])


# Tools that are gone or changed.


async def test_a_call_whose_tool_is_not_here_is_handed_back_untouched() -> None:
    world = World()
    call = world.pending("plain")
    before = len(world.store.events_of(call))
    world.registry.remove("plain")
    world.die(call)
    await world.recovery.resume([world.store.steal(call)])
    await world.settle()
    assert (world.store.is_owned(call), len(world.store.events_of(call))) == (False, before)


@pytest.mark.parametrize("why", ["cancel", "deadline"])
async def test_a_call_without_its_tool_can_still_be_ended(why: str) -> None:
    world = World()
    call = world.pending("plain", deadline=5.0)
    if why == "cancel":
        world.store.write(call, "cancel_requested", reason="")
    else:
        world.clock.advance(6.0)
    world.registry.remove("plain")
    what, record = await world.recover(call)
    assert (what, record.state) == ("cancelled", State.CANCELLED if why == "cancel" else State.TIMEOUT)


async def test_a_started_call_without_its_tool_is_left_to_a_process_that_has_it() -> None:
    world = World()
    call = world.running("plain")
    world.store.write(call, "cancel_requested", reason="")
    world.registry.remove("plain")
    _, record = await world.recover(call)
    assert (record.state, world.store.is_owned(call)) == (State.RUNNING, False)


async def test_a_tool_that_does_not_take_the_arguments_any_more() -> None:
    world = World()
    call = world.pending("plain", {"n": 1})

    @tool(name="plain")
    async def changed(n: str) -> str:
        return n

    world.registry.remove("plain")
    world.registry.add(changed)
    what, record = await world.recover(call)
    assert what == "unavailable"
    assert record.error is not None
    assert record.error.code == "tool_unavailable"


async def test_a_secret_that_no_key_opens_ends_the_call() -> None:
    world = World()
    what, record = await world.recover(world.pending("secretive", {"key": "hunter2hunter2"}))
    assert what == "unavailable"
    assert record.error is not None
    assert record.error.code == "arguments_lost"


async def test_edited_arguments_are_judged_by_this_processs_policy_too() -> None:
    def rule(request: Any) -> Any:
        return "deny" if (request.arguments or {}).get("n") == 9 else None

    world = World(policy=Policy(rule=rule))
    call = asked(world)
    world.store.write(call, "approval_given", approved=True, by="ann", arguments={"n": 9})
    what, record = await world.recover(call)
    assert what == "unavailable"
    assert record.error is not None
    assert record.error.code == "permission_denied"


# A call that this process knows from before.


async def test_a_call_that_was_lost_and_claimed_anew_is_held_once() -> None:
    world = World()
    old = world.running("repeatable")
    stored = world.store.steal(old)
    await world.recovery.resume([stored])
    (new,) = world.resumed
    assert (list(world.live), world.ending.superseded, old.entry.fenced) == ([new], {old}, True)
    with pytest.raises(Fenced):
        await world.ending.outcome(old)
    assert old.slot, "its body still runs"


# As a whole.


async def test_all_orphans_are_taken_in_steps_and_then_what_waits() -> None:
    world = World()
    calls = [world.pending("plain", id=f"c{n}") for n in range(450)]
    seen: list[int] = []
    orphans = [world.store.steal(call) for call in calls]
    for call in calls:
        world.die(call)

    async def claim_orphans(tools: frozenset[str], limit: int) -> list[Stored]:
        assert tools == world.registry.names
        claimed, orphans[:] = orphans[:limit], orphans[limit:]
        return claimed

    world.store.claim_orphans = claim_orphans  # type: ignore[method-assign]
    report = await world.recovery.recover(lambda so_far: seen.append(so_far.total))
    assert (report.queued, seen, world.claims) == (450, [200, 400, 450], 1)


async def test_a_closing_runtime_hands_back_what_it_has_just_claimed() -> None:
    world = World()
    call = world.pending("plain")
    world.die(call)
    world.recovery.closing = True
    await world.recovery.resume([world.store.steal(call)])
    assert (world.store.is_owned(call), world.resumed) == (False, [])


async def test_an_outcome_that_cannot_be_stored_yet_does_not_hold_up_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    call = world.running("plain")
    world.die(call)
    stored = world.store.steal(call)
    world.store.steal(call)  # and the next process has it already
    await world.recovery.resume([stored])
    await world.settle()
    assert "not stored yet" in caplog.text


async def test_a_call_that_cannot_be_handed_back_is_a_stray_later(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    call = world.pending("plain")
    world.registry.remove("plain")
    world.die(call)
    stored = world.store.steal(call)

    async def hand_back(keys: Any) -> None:
        raise StoreUnavailable("away")

    world.store.hand_back = hand_back  # type: ignore[method-assign]
    await world.recovery.resume([stored])
    await world.settle()
    assert "could not be released yet" in caplog.text
    assert list(world.live) == []

"""Recovery of calls whose tools are gone or changed, and of many calls at once."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.engine.recovery_kit import Parts, asked

from clicket import tool
from clicket.engine.journal import Fenced
from clicket.engine.stages import Policy
from clicket.errors import StoreUnavailable
from clicket.kernel import State
from clicket.ports import Stored

# Tools that are gone or changed.


async def test_a_call_whose_tool_is_not_here_is_handed_back_untouched() -> None:
    parts = Parts()
    call = parts.pending("plain")
    before = len(parts.store.events_of(call))
    parts.registry.remove("plain")
    parts.die(call)
    await parts.recovery.resume([parts.store.steal(call)])
    await parts.settle()
    assert (parts.store.is_owned(call), len(parts.store.events_of(call))) == (False, before)


@pytest.mark.parametrize("why", ["cancel", "deadline"])
async def test_a_call_without_its_tool_can_still_be_ended(why: str) -> None:
    parts = Parts()
    call = parts.pending("plain", deadline=5.0)
    if why == "cancel":
        parts.store.write(call, "cancel_requested", reason="")
    else:
        parts.clock.advance(6.0)
    parts.registry.remove("plain")
    what, record = await parts.recover(call)
    assert (what, record.state) == ("cancelled", State.CANCELLED if why == "cancel" else State.TIMEOUT)


async def test_a_started_call_without_its_tool_is_left_to_a_process_that_has_it() -> None:
    parts = Parts()
    call = parts.running("plain")
    parts.store.write(call, "cancel_requested", reason="")
    parts.registry.remove("plain")
    _, record = await parts.recover(call)
    assert (record.state, parts.store.is_owned(call)) == (State.RUNNING, False)


async def test_a_tool_that_does_not_take_the_arguments_any_more() -> None:
    parts = Parts()
    call = parts.pending("plain", {"n": 1})

    @tool(name="plain")
    async def changed(n: str) -> str:
        return n

    parts.registry.remove("plain")
    parts.registry.add(changed)
    what, record = await parts.recover(call)
    assert what == "unavailable"
    assert record.error is not None
    assert record.error.code == "tool_unavailable"


async def test_a_secret_that_no_key_opens_ends_the_call() -> None:
    parts = Parts()
    what, record = await parts.recover(parts.pending("secretive", {"key": "hunter2hunter2"}))
    assert what == "unavailable"
    assert record.error is not None
    assert record.error.code == "arguments_lost"


async def test_edited_arguments_are_judged_by_this_processs_policy_too() -> None:
    def rule(request: Any) -> Any:
        return "deny" if (request.arguments or {}).get("n") == 9 else None

    parts = Parts(policy=Policy(rule=rule))
    call = asked(parts)
    parts.store.write(call, "approval_given", approved=True, by="ann", arguments={"n": 9})
    what, record = await parts.recover(call)
    assert what == "unavailable"
    assert record.error is not None
    assert record.error.code == "permission_denied"


# A call that this process already knows.


async def test_a_call_that_was_lost_and_claimed_anew_is_held_once() -> None:
    parts = Parts()
    old = parts.pending("repeatable")
    parts.live.add(old)
    stored = parts.store.steal(old)
    await parts.recovery.resume([stored])
    (new,) = parts.resumed
    assert (list(parts.live), old.entry.fenced) == ([new], True)
    with pytest.raises(Fenced):
        await parts.ending.outcome(old)


async def test_a_call_that_is_claimed_anew_runs_again_only_once_its_old_body_is_over() -> None:
    parts = Parts()
    old, other = parts.running("repeatable"), parts.pending("plain", id="other")
    claimed = [parts.store.steal(old), parts.store.steal(other)]
    parts.die(other)
    await parts.recovery.resume(claimed)
    await parts.settle()
    assert ([call.id for call in parts.resumed], old.stopping) == ([other.id], "shutdown")
    assert old.entry.key in parts.recovery.held, "the call is not released as a stray"
    parts.finish(old)
    await parts.settle()
    assert [call.id for call in parts.resumed] == [other.id, old.id]
    assert (parts.recovery.held, parts.ending.superseded) == (set(), {})


async def test_a_body_of_a_call_that_does_not_run_again_is_left_alone() -> None:
    parts = Parts()
    old = parts.running("plain")
    await parts.recovery.resume([parts.store.steal(old)])
    assert (old.stopping, parts.resumed) == (None, [])
    assert parts.store.events_of(old)[-1].data["error"]["code"] == "outcome_unknown"
    parts.finish(old, "late")
    await parts.settle()
    last = parts.store.events_of(old)[-1]
    assert (last.type, last.data["output"]) == ("late_result", "late")


# As a whole.


async def test_all_orphans_are_taken_in_steps_and_then_what_waits() -> None:
    parts = Parts()
    calls = [parts.pending("plain", id=f"c{n}") for n in range(450)]
    seen: list[int] = []
    orphans = [parts.store.steal(call) for call in calls]
    for call in calls:
        parts.die(call)

    async def claim_orphans(tools: frozenset[str], limit: int) -> list[Stored]:
        assert tools == parts.registry.names | {f"{name}#later" for name in parts.registry.names}
        claimed, orphans[:] = orphans[:limit], orphans[limit:]
        return claimed

    parts.store.claim_orphans = claim_orphans  # type: ignore[method-assign]
    report = await parts.recovery.recover(lambda so_far: seen.append(so_far.total))
    assert (report.queued, seen, parts.claims) == (450, [200, 400, 450], 1)


async def test_a_closing_runtime_hands_back_what_it_has_just_claimed() -> None:
    parts = Parts()
    call = parts.pending("plain")
    parts.die(call)
    parts.phase.closing = True
    await parts.recovery.resume([parts.store.steal(call)])
    assert (parts.store.is_owned(call), parts.resumed) == (False, [])


async def test_an_outcome_that_cannot_be_stored_yet_does_not_hold_up_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    parts = Parts()
    call = parts.running("plain")
    parts.die(call)
    stored = parts.store.steal(call)
    parts.store.steal(call)  # and the next process has claimed it already
    await parts.recovery.resume([stored])
    await parts.settle()
    assert "not stored yet" in caplog.text


async def test_a_call_that_cannot_be_handed_back_is_a_stray_later(caplog: pytest.LogCaptureFixture) -> None:
    parts = Parts()
    call = parts.pending("plain")
    parts.registry.remove("plain")
    parts.die(call)
    stored = parts.store.steal(call)

    async def hand_back(keys: Any) -> None:
        raise StoreUnavailable("away")

    parts.store.hand_back = hand_back  # type: ignore[method-assign]
    await parts.recovery.resume([stored])
    await parts.settle()
    assert "could not be released yet" in caplog.text
    assert list(parts.live) == []

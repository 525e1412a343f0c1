"""The breaker: only a tool's own failures take it out of service, and every refusal names the remedy and which role has it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.scenarios import process_tools
from tests.scenarios.kit import make, sqlite_url
from tests.scenarios.test_recovery import child, reopen, result_of

from clicket import Policy, Runtime, tool
from clicket.errors import InvalidInput
from clicket.kernel import ToolStatus
from clicket.testing import StepClock, memory_runtime


@tool(max_retries=0)
async def card(ok: bool = False) -> str:
    if ok:
        return "paid"
    raise ValueError("declined")


@tool(max_retries=0, breaker="shared")
async def gateway(ok: bool = False) -> str:
    if ok:
        return "up"
    raise ValueError("the gateway is down")


async def codes(rt: Runtime, name: str, times: int, thread: str | None = "t") -> list[str | None]:
    where = {} if thread is None else {"thread": thread}
    results = [await rt.call(name, **where) for _ in range(times)]  # type: ignore[arg-type]  # `thread` or nothing
    return [result.error.code if result.error else None for result in results]


# Which failures count.


async def test_a_host_that_died_is_no_failure_of_the_tools_that_it_ran(tmp_path: Path) -> None:
    ids = [f"plain{number}" for number in range(5)]
    async with child(tmp_path, "plain*5") as doomed:
        await doomed.until(*(f"started {id}" for id in ids))
        await doomed.kill()
    async with reopen(tmp_path) as rt:
        for id in ids:
            assert (await result_of(rt, id)).error.code == "outcome_unknown"
        state = await rt.hub().status("plain")
        assert (state.consecutive_failures, state.failures) == (0, 0)


async def test_input_that_the_body_refuses_is_no_failure_of_the_tool(store: str) -> None:
    @tool(max_retries=0)
    async def picky() -> None:
        raise InvalidInput("there is no such order")

    async with make([picky], store) as rt:
        assert await codes(rt, "picky", 5) == ["invalid_input"] * 5


async def test_input_that_a_child_process_refuses_is_no_failure_of_the_tool() -> None:
    async with make([process_tools.picky]) as rt:
        results = [await rt.call("picky", {"order": "7"}, thread="t") for _ in range(4)]
    assert {result.error.code for result in results if result.error} == {"invalid_input"}
    assert "there is no order 7" in str(results[0].error)


async def test_a_policy_and_a_denial_are_no_failures_of_the_tool(store: str) -> None:
    async with make([card], store, policy=Policy(ask=["card"])) as rt:
        for number in range(4):
            handle = await rt.submit("card", thread="t", id=f"c{number}")
            assert await rt.deny(handle.id)
            assert (await handle.result()).error.code == "approval_denied"  # type: ignore[union-attr]  # it was denied
        assert (await rt.hub("t").status("card")).failures == 0


async def test_calls_without_a_thread_have_no_breaker(store: str) -> None:
    async with make([card], store) as rt:
        assert await codes(rt, "card", 5, thread=None) == ["tool_error"] * 5
        state = await rt.hub().status("card")
        assert (state.status, state.consecutive_failures) == (ToolStatus.AVAILABLE, 5)
        assert "card" in await rt.hub().available()
        await rt.hub().set("card", "maintenance")  # a status set by a person applies without a thread, too
        assert await codes(rt, "card", 1, thread=None) == ["tool_unavailable"]


async def test_one_breaker_of_all_callers_for_a_tool_that_asks_for_it(store: str) -> None:
    async with make([gateway], store) as rt:
        for caller, thread in (("one", "t"), ("two", "u"), ("", None)):
            assert await codes(rt.acting_for(caller), "gateway", 1, thread) == ["tool_error"]
        for caller, thread in (("one", "t"), ("three", "new"), ("", None)):
            assert await codes(rt.acting_for(caller), "gateway", 1, thread) == ["tool_unavailable"]
            assert await rt.acting_for(caller).hub(thread or "default").available() == []
        assert await rt.acting_for("one").hub("t").reset("gateway") == []  # a single caller may not reset it
        assert await rt.hub().reset("gateway") == ["gateway"]
        assert (await rt.acting_for("three").call("gateway", {"ok": True}, thread="new")).success


async def test_a_shared_breaker_opens_again_after_its_cool_down() -> None:
    clock = StepClock()
    async with memory_runtime([gateway], clock=clock) as rt:
        assert await codes(rt, "gateway", 4) == ["tool_error"] * 3 + ["tool_unavailable"]
        clock.advance(301)
        assert (await rt.call("gateway", {"ok": True}, thread="u")).success
        assert await codes(rt, "gateway", 1) == ["tool_error"]


async def test_a_shared_breaker_survives_a_restart(tmp_path: Path) -> None:
    async with make([gateway], sqlite_url(tmp_path)) as rt:
        await codes(rt, "gateway", 3)
    async with make([gateway], sqlite_url(tmp_path)) as rt:
        assert await codes(rt.acting_for("x"), "gateway", 1, "y") == ["tool_unavailable"]


async def test_a_new_version_starts_clean(tmp_path: Path) -> None:
    def version(number: str) -> object:
        @tool(name="buggy", max_retries=0, version=number)
        async def body() -> None:
            raise ValueError(f"a bug of version {number}")

        return body

    async with make([version("1")], sqlite_url(tmp_path)) as rt:
        assert await codes(rt, "buggy", 4) == ["tool_error"] * 3 + ["tool_unavailable"]
    async with make([version("2")], sqlite_url(tmp_path)) as rt:
        state = await rt.hub("t").status("buggy")
        assert (state.status, state.consecutive_failures) == (ToolStatus.AVAILABLE, 0)
        assert "version" in state.reason
        assert await codes(rt, "buggy", 4) == ["tool_error"] * 3 + ["tool_unavailable"]
        assert "a bug of version 2" in (await rt.hub("t").status("buggy")).reason


# The text of a refusal and a status.


async def test_a_refusal_names_the_command_that_reopens_the_tool(store: str) -> None:
    async with make([card, gateway], store) as rt:
        mine = rt.acting_for("key one")
        await codes(mine, "card", 3, "my thread")
        refused = await mine.call("card", thread="my thread")
        assert refused.error is not None
        assert "clicket reset 'my thread' card --caller 'key one'" in refused.error.message
        assert "in 300 s" in refused.error.message
        await codes(mine, "gateway", 3)
        refused = await mine.call("gateway", thread="t")
        assert refused.error is not None
        assert "`clicket reset default gateway`" in refused.error.message
        assert "all callers" in refused.error.message
        await rt.hub("t").set("card", "maintenance", "moving house")
        refused = await rt.call("card", thread="t")
        assert refused.error is not None
        assert "moving house" in refused.error.message
        assert "`clicket reset t card`" in refused.error.message


async def test_a_reason_is_never_stale(store: str) -> None:
    async with make([card], store) as rt:
        hub = rt.hub("t")
        await codes(rt, "card", 3)
        await hub.reset("card")
        assert (await hub.status("card")).reason == "reset by hand"
        await rt.call("card", {"ok": True}, thread="t")
        assert (await hub.status("card")).reason == "the last run completed"
        await hub.set("card", "maintenance", "moving house")
        await hub.set("card", "available")
        await codes(rt, "card", 1)
        assert (await hub.status("card")).reason == "the last run failed: declined"
        await rt.call("card", {"ok": True}, thread="t")
        assert (await hub.status("card")).reason == "the last run completed"


async def test_a_reason_is_never_stale_while_the_clock_stands() -> None:
    async with memory_runtime([card], clock=StepClock()) as rt:
        hub = rt.hub("t")
        await codes(rt, "card", 3)
        await hub.reset("card")
        assert (await hub.status("card")).reason == "reset by hand"
        await rt.call("card", {"ok": True}, thread="t")
        assert (await hub.status("card")).reason == "the last run completed"


async def test_reset_needs_no_tools(tmp_path: Path) -> None:
    async with make([card, gateway], sqlite_url(tmp_path)) as rt:
        await asyncio.gather(codes(rt, "card", 3), codes(rt, "gateway", 3))
    async with make([], sqlite_url(tmp_path)) as rt:
        assert sorted(await rt.hub("t").reset()) == ["card", "gateway"]
        assert await rt.hub("t").reset() == []
    async with make([card, gateway], sqlite_url(tmp_path)) as rt:
        assert await codes(rt, "card", 1) == await codes(rt, "gateway", 1) == ["tool_error"]


@pytest.mark.parametrize("given", ["all", 1])
def test_a_breaker_that_there_is_not(given: object) -> None:
    with pytest.raises(Exception, match="breaker must be one of thread, shared"):
        tool(breaker=given)(lambda: None)  # type: ignore[call-overload]  # that is the point

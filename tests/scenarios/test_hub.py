"""Tools across turns: a thread's available tools are the same after a restart, in another process, and from a snapshot."""

from __future__ import annotations

import asyncio
import json
import logging
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from tests.kit.waiting import eventually
from tests.scenarios.kit import make, sqlite_url

from clicket import Runtime, State, tool
from clicket.errors import InvalidTransition, ToolNotFound, UsageError
from clicket.hub import Change
from clicket.kernel import ToolStatus
from clicket.model.notice import Notice
from clicket.testing import StepClock, memory_runtime
from clicket.tools import Registry


@tool
async def base() -> str:
    return "base"


@tool(depends_on="base")
async def dependent() -> str:
    return "dependent"


@tool(max_retries=0)
async def flaky(ok: bool = False) -> str:
    if ok:
        return "fine"
    raise ValueError("boom")


@tool(max_retries=0, timeout=0.01)
async def slow() -> None:
    await asyncio.Event().wait()


TOOLS = [base, dependent, flaky, slow]


async def fail(rt: Runtime, times: int, thread: str = "t") -> list[str | None]:
    results = [await rt.call("flaky", thread=thread) for _ in range(times)]
    return [result.error.code if result.error else None for result in results]


class TestDependencies:
    async def test_a_chain_across_turns(self, store: str) -> None:
        async with make(TOOLS, store) as rt:
            refused = await rt.call("dependent", thread="t")
            assert refused.state is State.FAILED
            assert refused.error is not None
            assert refused.error.code == "tool_unavailable"
            assert refused.error.details["missing"] == refused.error.details["suggested"] == ["base"]
            assert "'base' first" in refused.error.message
            assert list(refused.stages) == ["find", "persist"]
            assert "dependent" not in await rt.hub("t").available()
            assert (await rt.call("base", thread="t")).success
            assert "dependent" in await rt.hub("t").available()
            assert (await rt.call("dependent", thread="t")).success
            assert (await rt.call("dependent", thread="u")).error is not None

    async def test_it_survives_a_restart(self, tmp_path: Path) -> None:
        url = sqlite_url(tmp_path)
        async with make(TOOLS, url) as rt:
            await rt.call("base", thread="t")
            assert await fail(rt, 3) == ["tool_error"] * 3
        async with make(TOOLS, url) as rt:
            assert (await rt.call("dependent", thread="t")).success
            assert await fail(rt, 1) == ["tool_unavailable"]

    async def test_a_failed_dependency_does_not_count(self) -> None:
        needy = tool(depends_on="flaky", name="needy")(lambda: None)
        async with make([flaky, needy]) as rt:
            await fail(rt, 1)
            assert (await rt.call("needy", thread="t")).error is not None
            await rt.call("flaky", {"ok": True}, thread="t")
            assert (await rt.call("needy", thread="t")).success

    async def test_callers_have_threads_of_their_own(self, store: str) -> None:
        async with make(TOOLS, store) as rt:
            one, other = rt.acting_for("one"), rt.acting_for("other")
            await one.call("base", thread="t")
            assert (await one.call("dependent", thread="t")).success
            assert not (await other.call("dependent", thread="t")).success


class TestFailures:
    async def test_three_in_a_row_switch_a_tool_off(self, store: str) -> None:
        async with make(TOOLS, store) as rt:
            assert await fail(rt, 4) == ["tool_error"] * 3 + ["tool_unavailable"]
            status = await rt.hub("t").status("flaky")
            assert (status.status, status.consecutive_failures) == (ToolStatus.FAILED, 3)
            assert "boom" in status.reason
            assert await fail(rt, 1, thread="u") == ["tool_error"]

    async def test_success_in_between_begins_anew(self, store: str) -> None:
        async with make(TOOLS, store) as rt:
            await fail(rt, 2)
            assert (await rt.call("flaky", {"ok": True}, thread="t")).success
            assert await fail(rt, 3) == ["tool_error"] * 3

    async def test_timeouts_count_and_mistakes_of_the_caller_do_not(self) -> None:
        async with make(TOOLS) as rt:
            for _ in range(3):
                assert (await rt.call("slow", thread="t")).state is State.TIMEOUT
            assert (await rt.hub("t").status("slow")).status is ToolStatus.FAILED
            for _ in range(5):
                await rt.call("flaky", {"wrong": 1}, thread="t")
            assert (await rt.hub("t").status("flaky")).status is ToolStatus.AVAILABLE

    async def test_reset_by_hand(self, store: str) -> None:
        async with make(TOOLS, store) as rt:
            await fail(rt, 3)
            assert await rt.hub("t").reset("flaky") == ["flaky"]
            assert await rt.hub("t").reset("flaky") == []
            status = await rt.hub("t").status("flaky")
            assert status.status is ToolStatus.AVAILABLE
            assert status.last_failure_at is not None
            assert await fail(rt, 1) == ["tool_error"]

    async def test_after_the_cool_down_exactly_one_call_tries(self) -> None:
        clock, gate, runs = StepClock(), asyncio.Event(), 0

        @tool(max_retries=0, cooldown=300)
        async def door(ok: bool = False) -> str:
            nonlocal runs
            if not ok:
                raise ValueError("shut")
            runs += 1
            await gate.wait()
            return "open"

        async with memory_runtime([door], clock=clock) as rt:
            for _ in range(3):
                await rt.call("door", thread="t")
            clock.advance(299)
            assert (await rt.call("door", {"ok": True}, thread="t")).error is not None
            clock.advance(2)
            assert await rt.hub("t").available() == ["door"]
            assert (await rt.hub("t").status("door")).should_rebind
            trial = await rt.submit("door", {"ok": True}, thread="t")
            others = await rt.call_many([{"tool": "door", "arguments": {"ok": True}, "thread": "t"}] * 5)
            assert {result.error.code for result in others if result.error} == {"tool_unavailable"}
            assert all(not result.success for result in others)
            gate.set()
            assert (await trial.result()).success
            assert runs == 1
            assert (await rt.hub("t").status("door")).status is ToolStatus.AVAILABLE
            assert (await rt.call("door", {"ok": True}, thread="t")).success

    async def test_a_trial_that_fails_waits_again(self) -> None:
        clock = StepClock()
        patient = tool(max_retries=0, cooldown=300, name="patient")(_raise)
        async with memory_runtime([patient], clock=clock) as rt:
            for _ in range(3):
                await rt.call("patient", thread="t")
            clock.advance(301)
            assert (await rt.call("patient", thread="t")).error.code == "tool_error"  # type: ignore[union-attr]
            assert (await rt.call("patient", thread="t")).error.code == "tool_unavailable"  # type: ignore[union-attr]

    async def test_a_trial_that_is_refused_leaves_room_for_the_next(self) -> None:
        clock = StepClock()
        async with memory_runtime([flaky], clock=clock) as rt:
            await fail(rt, 3)
            clock.advance(301)
            wrong = await rt.call("flaky", {"nonsense": 1}, thread="t")
            assert wrong.error is not None
            assert wrong.error.code == "invalid_input"
            assert (await rt.call("flaky", {"ok": True}, thread="t")).success


def _raise() -> None:
    raise ValueError("boom")


class TestHand:
    async def test_maintenance_and_back(self, store: str) -> None:
        async with make(TOOLS, store) as rt:
            hub = rt.hub("t")
            await hub.set("base", "maintenance", "moving house", by="ann")
            refused = await rt.call("base", thread="t")
            assert refused.error is not None
            assert "moving house" in refused.error.message
            assert (await hub.set("base", ToolStatus.AVAILABLE)).status is ToolStatus.AVAILABLE
            assert (await rt.call("base", thread="t")).success

    async def test_an_edge_that_the_table_lacks(self) -> None:
        async with make(TOOLS) as rt:
            await rt.hub("t").set("base", "maintenance")
            with pytest.raises(InvalidTransition):
                await rt.hub("t").set("base", "failed")
            assert (await rt.hub("t").status("base")).status is ToolStatus.MAINTENANCE

    async def test_names_that_do_not_exist(self) -> None:
        async with make(TOOLS) as rt:
            for asked in (rt.hub("t").status("bas"), rt.hub("t").reset("bas"), rt.hub("t").set("bas", "failed")):
                with pytest.raises(ToolNotFound, match="Did you mean 'base'"):
                    await asked
            with pytest.raises(UsageError, match="Did you mean 'available'"):
                await rt.hub("t").set("base", "availabel")

    async def test_a_call_that_was_let_in_is_not_shut_out_afterwards(self, tmp_path: Path) -> None:
        """The tool is taken out of service while the call waits in the queue; a restart does not check it again."""
        gate = asyncio.Event()

        @tool
        async def hold() -> str:
            await gate.wait()
            return "held"

        async with make([hold], sqlite_url(tmp_path), max_concurrency=1) as rt:
            first = await rt.submit("hold", thread="t")
            second = await rt.submit("hold", thread="t")
            await rt.hub("t").set("hold", "maintenance")
            gate.set()
            assert (await first.result()).success
            assert (await second.result()).success


class TestChanges:
    async def test_watched_in_order(self, store: str) -> None:
        async with make(TOOLS, store) as rt:
            seen: list[Change] = []

            async def watch() -> None:
                async for change in rt.hub("t").watch():
                    seen.append(change)  # noqa: PERF401  # each is wanted as it comes

            watching = asyncio.create_task(watch())
            await eventually(lambda: bool(rt.engine.hub.watchers))
            await asyncio.sleep(0)
            await fail(rt, 3)
            await rt.hub("t").reset("flaky")
            await rt.hub("t").set("base", "maintenance", "why")
            await eventually(lambda: len(seen) >= 3)
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            changes = [(change.tool, str(change.before), str(change.after)) for change in seen]
            assert changes == [
                ("flaky", "available", "failed"),
                ("flaky", "failed", "available"),
                ("base", "available", "maintenance"),
            ]

    async def test_webhooks_get_each_change_once(self, tmp_path: Path) -> None:
        secret = "whsec_" + b64encode(b"one secret of this test, 32 byte").decode()
        hook = {"url": "http://127.0.0.1:9/hook", "secret": secret, "events": ["tool.health"], "allow_private": True}
        options: dict[str, Any] = {"webhooks": [hook]}
        place = sqlite_url(tmp_path)
        async with make(TOOLS, place, **options) as rt, make(TOOLS, place, **options) as other:

            async def notices(count: int) -> list[Notice]:
                found = (await rt.notices.list(type="tool.health")).items
                return found if len(found) >= count else []

            for number in range(4):  # two runtimes share the failures
                await fail(rt if number % 2 else other, 1)
            await eventually(lambda: notices(1))
            await rt.hub("t").reset("flaky")
            found = await eventually(lambda: notices(2))
            data = [
                (await rt.notices.get(each.id)).payload["data"]
                for each in sorted(found, key=lambda each: each.created_at)
            ]
        assert [(each["tool"], each["before"], each["after"]) for each in data] == [
            ("flaky", "available", "failed"),
            ("flaky", "failed", "available"),
        ]


class TestSnapshots:
    async def test_carried_to_another_store(self, tmp_path: Path) -> None:
        async with make(TOOLS, sqlite_url(tmp_path, "one.db")) as rt:
            await rt.call("base", thread="t")
            await fail(rt, 3)
            await rt.hub("t").set("slow", "maintenance", "later")
            text = await rt.hub("t").snapshot()
            before = await rt.hub("t").summary()
        found = {state["toolName"]: state for state in json.loads(text)["states"]}
        assert found["base"]["executionCount"] == 1
        assert found["flaky"]["consecutiveFailures"] == 3
        assert {"status", "reason", "lastUpdated", "lastSuccessTime", "lastFailureTime", "shouldRebind"} <= set(
            found["base"]
        )
        async with make(TOOLS, sqlite_url(tmp_path, "two.db")) as rt:
            assert await rt.hub("t").restore(text)
            assert await rt.hub("t").summary() == before
            assert (await rt.call("dependent", thread="t")).success
            assert await fail(rt, 1) == ["tool_unavailable"]

    @pytest.mark.parametrize(
        "text",
        ["", "nonsense", "[]", "{}", '{"states": 5}', '{"states": [{}]}', '{"states": [{"toolName": 1}]}',
         '{"states": [{"toolName": "base", "status": "odd"}]}', b"\xff", '{"states": [{"toolName": "base", "lastUpdated": "x"}]}',
         '{"states": [{"toolName": "base", "consecutiveFailures": -1}]}', "[" * 100_000],
    )  # fmt: skip
    async def test_one_that_does_not_load_is_a_warning(self, text: Any, caplog: pytest.LogCaptureFixture) -> None:
        async with make(TOOLS) as rt:
            await fail(rt, 3)
            before = await rt.hub("t").summary()
            with caplog.at_level(logging.WARNING, "clicket.hub"):
                assert await rt.hub("t").restore(text) is False
            assert "does not load" in caplog.text
            assert await rt.hub("t").summary() == before

    async def test_live_configuration_wins(self) -> None:
        async with make(TOOLS) as rt:
            await fail(rt, 2)
            snapshot = json.loads(await rt.hub("t").snapshot())
            snapshot["config"]["flaky"]["failureThreshold"] = 1
            assert await rt.hub("u").restore(json.dumps(snapshot))
            assert (await rt.hub("u").status("flaky")).status is ToolStatus.AVAILABLE

    async def test_the_documents_own_form_loads(self) -> None:
        """Without counts: a tool that succeeded has run."""
        text = json.dumps(
            {
                "states": [
                    {"toolName": "base", "status": "available", "reason": "ok", "lastUpdated": "2024-01-01T12:00:00.000Z",
                     "consecutiveFailures": 0, "lastSuccessTime": "2024-01-01T12:00:00.000Z", "shouldRebind": False},
                    {"toolName": "unheard_of", "status": "failed", "lastUpdated": "2024-01-01T12:00:00.000Z"},
                ],
                "config": {"failureThreshold": 3},
                "timestamp": "2024-01-01T12:03:00.000Z",
            }
        )  # fmt: skip
        async with make(TOOLS) as rt:
            assert await rt.hub("t").restore(text)
            assert (await rt.call("dependent", thread="t")).success


async def test_a_hand_through_other_tools_is_a_hand_all_the_same(store: str) -> None:
    """`clicket states` has its own tools; a status that it sets applies to the runtime's calls, in memory too."""
    async with make(TOOLS, store) as rt:
        assert (await rt.call("base", thread="t")).success
        await rt.hub("t", registry=Registry([base])).set("base", "maintenance", "moving")
        assert (await rt.call("base", thread="t")).error is not None

"""The tasks extension: a task is a call, durable before the client gets its id, and it outlives the server."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.kit.forks import SERVER, forked
from tests.kit.waiting import eventually
from tests.mcp.kit import PATIENCE, TASKS, Hand, accept, serving
from tests.redis_server import free_port

from clicket import Policy, Runtime, State, ToolContext, tool
from clicket.engine.executors.sink import questions
from clicket.mcp import ProtocolError, answers, elicit, need
from clicket.tools.question import InputQuestion

ROOT = Path(__file__).resolve().parents[2]
WORD = {"properties": {"word": {"type": "string"}}, "required": ["word"]}


@tool(tags={"mcp:task"})
async def work(seconds: float = 0.0, ctx: ToolContext | None = None) -> dict[str, float]:
    """Takes its time."""
    assert ctx is not None
    ctx.progress(1, 2, "half way")
    await ctx.drain()
    await asyncio.sleep(seconds)
    return {"seconds": seconds}


@tool(timeout=60)
async def quick_or_slow(seconds: float) -> str:
    """Nobody said whether it is a task."""
    await asyncio.sleep(seconds)
    return "done"


@tool(tags={"mcp:no-task"})
async def never(seconds: float) -> str:
    """Never a task."""
    await asyncio.sleep(seconds)
    return "done"


@tool(tags={"mcp:task-required"}, failure_threshold=1_000)
async def fails() -> None:
    """Fails."""
    raise ValueError("out of paper")


@tool(tags={"mcp:task"}, failure_threshold=1_000)
async def breaks() -> None:
    """Breaks."""
    raise ProtocolError("the printer is gone", number=-32000)


@tool(tags={"mcp:task"})
async def two_words(ctx: ToolContext) -> Any:
    """Asks for two words, then for a third."""
    given = answers(ctx)
    missing = {key: elicit(f"The {key} word?", WORD) for key in ("first", "second") if key not in given}
    if missing:
        return need(**missing)
    if "third" not in given:
        return need(third=elicit("The third word?", WORD))
    return " ".join(given[key]["content"]["word"] for key in ("first", "second", "third"))


TOOLS = (work, quick_or_slow, never, fails, breaks, two_words)


async def test_a_task_goes_from_working_to_completed() -> None:
    async with Runtime(TOOLS, store="memory://") as rt, serving(rt) as url, Hand(url) as hand:
        made = await hand.call("work", seconds=0.3)
        assert made["resultType"] == "task"
        assert made["status"] == "working"
        assert made["ttlMs"] == 24 * 3600 * 1000
        assert (await rt.get(made["taskId"])).tool == "work"
        while_working = await hand.task(made["taskId"], "working")
        assert "result" not in while_working
        done = await hand.task(made["taskId"], "completed")
        assert done["resultType"] == "complete"
        assert done["result"]["structuredContent"] == {"seconds": 0.3}
        assert done["createdAt"] <= done["lastUpdatedAt"]


async def test_a_call_that_takes_long_becomes_a_task_and_a_quick_one_does_not() -> None:
    async with Runtime(TOOLS, store="memory://") as rt, serving(rt, task_after=0.2) as url, Hand(url) as hand:
        assert (await hand.call("quick_or_slow", seconds=0))["resultType"] == "complete"
        slow = await hand.call("quick_or_slow", seconds=0.6)
        assert slow["resultType"] == "task"
        assert (await hand.task(slow["taskId"], "completed"))["result"]["content"][0]["text"] == "done"
        assert (await hand.call("never", seconds=0.4))["resultType"] == "complete"
        async with Hand(url, capabilities={}) as old:  # a client without tasks waits for the result
            assert (await old.call("quick_or_slow", seconds=0.4))["resultType"] == "complete"
            assert (await old.error("tools/call", name="fails", arguments={}))["code"] == -32021


async def test_a_failure_of_the_tool_is_a_result_and_one_of_the_protocol_is_not() -> None:
    async with Runtime(TOOLS, store="memory://") as rt, serving(rt) as url, Hand(url) as hand:
        failed = await hand.task((await hand.call("fails"))["taskId"], "completed", "failed")
        assert (failed["status"], failed["result"]["isError"]) == ("completed", True)
        assert "out of paper" in failed["result"]["content"][0]["text"]
        broken = await hand.task((await hand.call("breaks"))["taskId"], "completed", "failed")
        assert broken["status"] == "failed"
        assert broken["error"] == {"code": -32000, "message": "the printer is gone"}
        assert "result" not in broken


async def test_cancelling_a_task_cancels_its_call() -> None:
    async with Runtime(TOOLS, store="memory://") as rt, serving(rt) as url, Hand(url) as hand:
        id = (await hand.call("work", seconds=25))["taskId"]
        for _ in range(2):  # the second time it has ended already, which is not an error
            acknowledged = await hand.result("tasks/cancel", taskId=id)
            assert set(acknowledged) <= {"resultType", "_meta"}
            await hand.task(id, "cancelled")
        assert (await rt.get(id)).state is State.CANCELLED


async def test_questions_of_a_task_are_answered_one_by_one_over_several_rounds() -> None:
    async with Runtime(TOOLS, store="memory://") as rt, serving(rt) as url, Hand(url) as hand:
        id = (await hand.call("two_words"))["taskId"]
        task = await hand.task(id, "input_required")
        assert set(task["inputRequests"]) == {"first", "second"}
        await hand.answer(id, second=accept(word="b"), unknown=accept(word="?"))
        assert set((await hand.task(id))["inputRequests"]) == {"first"}
        await hand.answer(id, first=accept(word=7))  # not a string
        assert set((await hand.task(id))["inputRequests"]) == {"first"}
        await hand.answer(id, first=accept(word="a"), second=accept(word="too late"))

        async def third() -> bool:
            return set((await hand.task(id)).get("inputRequests", {})) == {"third"}

        await eventually(third)
        await hand.answer(id, third=accept(word="c"))
        done = await hand.task(id, "completed")
        assert done["result"]["content"][0]["text"] == "a b c"
        assert await rt.store.documents("mcp-task") == []


async def test_a_task_with_an_open_question_can_be_cancelled() -> None:
    async with Runtime(TOOLS, store="memory://") as rt, serving(rt) as url, Hand(url) as hand:
        id = (await hand.call("two_words"))["taskId"]
        await hand.task(id, "input_required")
        await hand.result("tasks/cancel", taskId=id)
        await hand.task(id, "cancelled")
        await hand.answer(id, first=accept(word="a"), second=accept(word="b"))
        assert (await hand.task(id))["status"] == "cancelled"


@pytest.mark.parametrize(("answer", "status"), [(True, "done"), (False, "denied")])
async def test_waiting_for_approval_is_a_question(answer: bool, status: str) -> None:
    policy = Policy(ask=["work"])
    async with Runtime(TOOLS, store="memory://", policy=policy) as rt, serving(rt) as url, Hand(url) as hand:
        id = (await hand.call("work"))["taskId"]
        task = await hand.task(id, "input_required")
        (key,) = task["inputRequests"]
        question = task["inputRequests"][key]
        assert question["method"] == "elicitation/create"
        assert "'work'" in question["params"]["message"]
        await hand.answer(id, **{key: {"action": "cancel"}})  # closed without a choice: the task still waits
        assert (await hand.task(id))["status"] == "input_required"
        await hand.answer(id, **{key: accept(approve=answer, reason="because")})
        task = await hand.task(id, "completed")
        assert task["result"].get("isError", False) is (status == "denied")
        given = [e for e in (await rt.get(id)).events if e.type in ("approval_given", "state_changed")]
        assert given


async def test_a_key_that_may_not_approve_gets_no_approval_request() -> None:
    async with (
        Runtime(TOOLS, store="memory://", policy=Policy(ask=["work"])) as rt,
        serving(rt, may_approve=lambda scope: False) as url,
        Hand(url) as hand,
    ):
        id = (await hand.call("work"))["taskId"]

        task = await hand.task(id, "input_required")
        assert task["inputRequests"] == {}
        assert "scope approve" in task["statusMessage"]
        error = await hand.error("tasks/update", taskId=id, inputResponses={"approval": accept(approve=True)})
        assert "may not approve" in error["message"]
        assert (await rt.get(id)).waiting_for == "approval"
        await rt.approve(id)
        assert (await hand.task(id, "completed"))["result"]["structuredContent"] == {"seconds": 0.0}


async def test_a_key_without_the_scope_does_not_answer_the_question_of_a_tool() -> None:
    @tool(tags={"mcp:task"})
    async def order(ctx: ToolContext) -> str:
        """Asks a person in the middle."""
        form = {"type": "object", **WORD}
        answer = questions(ctx).ask(InputQuestion(key="q", source="the shop", message="Which?", schema=form), None)
        return answer.action

    async with (
        Runtime([order], store="memory://") as rt,
        serving(rt, may_approve=lambda scope: False) as url,
        Hand(url) as hand,
    ):
        id = (await hand.call("order"))["taskId"]
        task = await hand.task(id, "input_required")
        assert (task["inputRequests"], "another person" in task["statusMessage"]) == ({}, False)
        assert "lacks the scope approve" in task["statusMessage"]
        error = await hand.error("tasks/update", taskId=id, inputResponses={"x": accept(word="y")})
        assert "lacks the scope approve" in error["message"]


async def test_answers_of_tasks_that_are_gone_are_swept_in_small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clicket.adapters.mcp.task_state.SWEEP_EVERY", 0.0)
    async with Runtime(TOOLS, store="memory://") as rt, serving(rt) as url, Hand(url) as hand:
        store = rt.store
        for number in range(50):
            await store.put_document("mcp-task", f'["","mcp","gone-{number:02}"]', b'{"round":1}', 0)
        await store.put_document("mcp-task", "no identity", b"{}", 0)
        id = (await hand.call("two_words"))["taskId"]
        await hand.task(id, "input_required")
        await hand.answer(id, second=accept(word="b"))

        async def swept() -> bool:
            assert set((await hand.task(id))["inputRequests"]) == {"first"}
            return [document.key for document in await store.documents("mcp-task")] == [f'["","mcp","{id}"]']

        await eventually(swept)


async def test_task_methods_need_the_extension_and_the_right_name() -> None:
    async with Runtime(TOOLS, store="memory://") as rt, serving(rt) as url, Hand(url) as hand:
        id = (await hand.call("work"))["taskId"]
        async with Hand(url, capabilities={}) as old:
            for method in ("tasks/get", "tasks/cancel"):
                error = await old.error(method, taskId=id)
                assert error["code"] == -32021
                assert error["data"] == {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        assert (await hand.error("tasks/get", taskId=id, headers={"mcp-name": "other"}))["code"] == -32020
        assert (await hand.error("tasks/get", taskId="nobody"))["code"] == -32602


# Across servers.


@contextmanager
def server(store: str, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """The fixture's server as a process of its own."""
    command = [sys.executable, *forked("tests.mcp.serve", *SERVER), "-m", "tests.mcp.serve", str(port), store]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def answers_at(url: str) -> Hand:
    hand = Hand(url)

    async def up() -> bool:
        try:
            return bool(await hand.result("tools/list"))
        except Exception:
            return False

    await eventually(up)
    return hand


async def test_tasks_outlive_the_server(tmp_path: Path) -> None:
    store, port = f"sqlite:///{tmp_path}/calls.db", free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    with server(store, port) as first:
        async with await answers_at(url) as hand:
            done = (await hand.call("slow_compute", seconds=0, label="before"))["taskId"]
            await hand.task(done, "completed")
            asking = (await hand.call("multi_input"))["taskId"]
            await hand.task(asking, "input_required")
            await hand.answer(asking, first=accept(name="Ada"))
            lost = (await hand.call("slow_compute", seconds=30, label="lost"))["taskId"]

            async def running() -> bool:
                return "running" in (await hand.task(lost)).get("statusMessage", "")

            await eventually(running)
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
    with server(store, port):
        async with await answers_at(url) as hand:
            assert "before" in (await hand.task(done, "completed"))["result"]["content"][0]["text"]
            assert set((await hand.task(asking, "input_required"))["inputRequests"]) == {"second"}
            await hand.answer(asking, second=accept(name="Bo"))
            assert (await hand.task(asking, "completed"))["result"]["content"][0]["text"] == "Ada and Bo"
            ended = await hand.task(lost, "completed")  # it may have had effects, so it is not run again
            assert ended["result"]["isError"]
            assert ended["result"]["_meta"]["io.clicket/error"]["code"] == "outcome_unknown"


def test_the_clock_of_a_task_is_the_store_s() -> None:
    """Times are UTC, in milliseconds."""
    from clicket.adapters.mcp.tasks import iso_time

    assert iso_time(0.5) == "1970-01-01T00:00:00.500Z"
    assert iso_time(time.time()).endswith("Z")


async def test_a_stream_reports_the_progress_of_tasks() -> None:
    async with Runtime(TOOLS, store="memory://") as rt, serving(rt) as url, Hand(url) as hand:
        id = (await hand.call("two_words"))["taskId"]
        await hand.task(id, "input_required")
        seen: list[dict[str, Any]] = []
        async with asyncio.TaskGroup() as group:
            listening = group.create_task(hand.listen(seen, taskIds=[id, "nobody's"]))
            await eventually(lambda: len(seen) >= 2)
            await hand.answer(id, first=accept(word="a"), second=accept(word="b"))
            await eventually(
                lambda: any("third" in each["params"].get("inputRequests", {}) for each in seen), timeout=PATIENCE
            )
            await hand.answer(id, third=accept(word="c"))
            await eventually(lambda: seen[-1]["params"].get("status") == "completed")
            listening.cancel()
        assert seen[0]["method"] == "notifications/subscriptions/acknowledged"
        assert seen[0]["params"]["notifications"] == {"taskIds": [id]}
        assert {each["method"] for each in seen[1:]} == {"notifications/tasks"}
        assert seen[-1]["params"]["result"]["content"][0]["text"] == "a b c"
        assert len({str(each["params"]["_meta"]) for each in seen}) == 1


async def test_a_stream_about_tasks_needs_the_extension() -> None:
    async with Runtime(TOOLS, store="memory://") as rt, serving(rt) as url, Hand(url, capabilities={}) as hand:
        error = await hand.error("subscriptions/listen", notifications={"taskIds": []})
        assert error["code"] == -32021

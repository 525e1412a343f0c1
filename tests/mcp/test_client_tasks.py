"""Tasks of a server of the official SDK: followed, answered, cancelled, and found again after either side was killed."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit.children import ROOT, environment
from tests.kit.forks import forked
from tests.kit.waiting import PATIENCE, eventually
from tests.mcp.far import FarServer, asked, over_stdio
from tests.mcp.kit import Hand, accept, serving

from clicket import Runtime, State, ToolContext, tool
from clicket.mcp import McpServer, answers, elicit, need
from clicket.runtime.settings import Settings
from clicket.tools import Continues


@pytest.fixture
async def far(tmp_path: Path) -> AsyncIterator[FarServer]:
    server = FarServer(tmp_path)
    await server.start()
    yield server
    server.kill()


async def test_a_task_is_followed_to_its_result(far: FarServer) -> None:
    async with Runtime(store="memory://") as rt:
        await far.joined().join(rt)
        handle = await rt.submit("grow", {})
        await eventually(lambda: far.count("looks") > 1)
        record = await rt.get(handle.id)
        assert record.progress["status"] == "growing"
        kept = [event.data for event in record.events if event.data.get("reason") == "checkpoint"]
        assert json.loads(kept[0]["content"])["task"] == "task-1"
        far.release()
        assert (await handle.result()).output == "grown"
        assert far.count("runs") == 1


async def test_a_question_of_a_task_is_answered_once(far: FarServer) -> None:
    far.release()
    async with Runtime(settings=Settings(store="memory://", max_concurrency=1)) as rt:
        await far.joined().join(rt)
        handle = await rt.submit("grow", {"ask": True})
        await asked(rt, handle.id)
        assert (await rt.call("grow", {})).output == "grown"  # the one slot is free
        await rt.respond(handle.id, {"name": "Ann"})
        assert (await handle.result()).output == "grown for Ann"
        assert (far.count("runs"), far.count("updates")) == (2, 1)


async def test_cancelling_the_call_cancels_the_task(far: FarServer) -> None:
    async with Runtime(store="memory://") as rt:
        await far.joined().join(rt)
        handle = await rt.submit("grow", {})
        await eventually(lambda: far.count("looks") > 0)
        assert await rt.cancel(handle.id)
        assert (await handle.result()).state is State.CANCELLED
        await eventually(lambda: far.count("cancels") == 1)


async def test_cancelling_a_call_that_waits_for_a_person_cancels_the_task(far: FarServer) -> None:
    async with Runtime(store="memory://") as rt:
        await far.joined().join(rt)
        handle = await rt.submit("grow", {"ask": True})
        await asked(rt, handle.id)
        assert await rt.cancel(handle.id)
        await eventually(lambda: far.count("cancels") == 1)
        assert (await handle.result()).state is State.CANCELLED


async def test_a_call_that_runs_out_of_time_cancels_the_task(far: FarServer) -> None:
    async with Runtime(store="memory://") as rt:
        await far.joined(options={"timeout": 0.6}).join(rt)
        result = await rt.call("grow", {})
        assert result.state is State.TIMEOUT
        await eventually(lambda: far.count("cancels") == 1)


async def test_a_task_that_the_server_cancels_fails_the_call(far: FarServer) -> None:
    async with Runtime(store="memory://") as rt:
        await far.joined().join(rt)
        handle = await rt.submit("grow", {})
        await eventually(lambda: far.count("looks") > 0)
        (far.folder / "task-1").write_text(json.dumps({"ask": False, "answers": None, "cancelled": True}))
        result = await handle.result()
        assert (result.error.code, "cancelled the task" in result.error.message) == ("tool_error", True)


async def test_a_server_that_dies_and_comes_back_goes_on_with_its_task(far: FarServer) -> None:
    async with Runtime(store="memory://") as rt:
        await far.joined().join(rt)
        handle = await rt.submit("grow", {})
        await eventually(lambda: far.count("looks") > 0)
        far.kill()
        looks = far.count("looks")
        await far.start()
        await eventually(lambda: far.count("looks") > looks)
        far.release()
        assert (await handle.result()).output == "grown"
        assert far.count("runs") == 1


async def test_a_task_that_the_server_forgot_is_unknown(far: FarServer) -> None:
    async with Runtime(store="memory://") as rt:
        await far.joined().join(rt)
        handle = await rt.submit("grow", {})
        await eventually(lambda: far.count("looks") > 0)
        (far.folder / "task-1").unlink()
        result = await handle.result()
        assert result.error.code == "outcome_unknown"
        assert "does not know task 'task-1' any more" in result.error.message
        assert far.count("runs") == 1


def start_child(store: str, url: str, arguments: dict[str, Any]) -> subprocess.Popen[bytes]:
    module = "tests.mcp.client_child"
    command = [sys.executable, *forked(module, "clicket.mcp"), "-m", module, store, url, "grow", json.dumps(arguments)]
    return subprocess.Popen(command, cwd=ROOT, env=environment(), stdin=subprocess.DEVNULL)


@pytest.mark.parametrize("ask", [False, True])
async def test_after_our_death_the_task_goes_on_by_its_id(far: FarServer, ask: bool) -> None:
    """Killed while the task runs, or while a person is asked: the outcome is found, and the body ran once."""
    store = f"sqlite:///{far.folder}/calls.db"
    child = start_child(store, far.url, {"ask": ask})
    async with Runtime(store=store) as watcher:  # without the tool, it takes over nothing

        async def under_way() -> bool:
            found = await watcher.history(thread="t")
            if not found.items:
                return False
            record = await watcher.get("the-call")
            waits = record.waiting_for == "approval"
            return waits if ask else any(event.data.get("reason") == "checkpoint" for event in record.events)

        await eventually(under_way)
        child.send_signal(signal.SIGKILL)
        child.wait(PATIENCE)
        if ask:
            assert await watcher.respond("the-call", {"name": "Ann"}, by="ann")
    far.release()
    async with Runtime(store=store) as rt:
        await far.joined().join(rt)
        await rt.recover()
        result = await (await rt.handle("the-call")).result()
        assert (result.state, result.output) == (State.COMPLETED, "grown for Ann" if ask else "grown")
        record = await rt.get("the-call")
        assert ask or record.reconciliation["outcome"] == "continues"
    assert (far.count("runs"), far.count("cancels")) == (1, 0)


async def test_after_our_death_a_call_without_a_task_is_unknown(far: FarServer) -> None:
    store = f"sqlite:///{far.folder}/calls.db"
    module = "tests.mcp.client_child"
    command = [sys.executable, *forked(module, "clicket.mcp"), "-m", module, store, far.url, "slow", "{}"]
    child = subprocess.Popen(command, cwd=ROOT, env=environment(), stdin=subprocess.DEVNULL)
    async with Runtime(store=store) as watcher:

        async def running() -> bool:
            found = (await watcher.history(thread="t")).items
            return bool(found) and (await watcher.get("the-call")).progress is not None

        await eventually(running)
        child.send_signal(signal.SIGKILL)
        child.wait(PATIENCE)
    async with Runtime(store=store) as rt:
        await far.joined().join(rt)
        await rt.recover()
        result = await (await rt.handle("the-call")).result()
        assert result.error.code == "outcome_unknown"


async def test_closing_leaves_the_task_to_the_next_process(far: FarServer) -> None:
    store = f"sqlite:///{far.folder}/calls.db"
    async with Runtime(settings=Settings(store=store, close_timeout=0)) as rt:
        await far.joined(options={"timeout": 60}).join(rt)
        handle = await rt.submit("grow", {})
        await eventually(lambda: far.count("looks") > 0)
    far.release()
    async with Runtime(store=store) as rt:
        await far.joined().join(rt)
        await rt.recover()
        assert (await (await rt.handle(handle.id)).result()).output == "grown"
    assert (far.count("runs"), far.count("cancels")) == (1, 0)


async def test_a_cancel_that_came_while_no_process_had_the_call(far: FarServer) -> None:
    store = f"sqlite:///{far.folder}/calls.db"
    async with Runtime(settings=Settings(store=store, close_timeout=0)) as rt:
        await far.joined(options={"timeout": 60}).join(rt)
        handle = await rt.submit("grow", {})
        await eventually(lambda: far.count("looks") > 0)
    async with Runtime(store=store) as rt:
        assert await rt.cancel(handle.id)
    async with Runtime(store=store) as rt:
        await far.joined().join(rt)
        await rt.recover()
        assert (await (await rt.handle(handle.id)).result()).state is State.CANCELLED
    assert far.count("cancels") >= 1


# clicket on both sides.


@tool(tags=["mcp", "mcp:task"])
async def order(item: str, ctx: ToolContext) -> object:
    given = answers(ctx)
    if "size" not in given:
        return need(size=elicit("Which size?", {"properties": {"size": {"type": "string"}}, "required": ["size"]}))
    return f"{item} {given['size']['content']['size']}"


async def test_clicket_follows_a_task_of_clicket() -> None:
    async with Runtime([order], store="memory://") as there, serving(there) as url, Runtime(store="memory://") as rt:
        server = McpServer("shop", url=url)
        await server.join(rt)
        handle = await rt.submit("order", {"item": "tea"})
        assert (await asked(rt, handle.id)).approval["question"]["message"] == "Which size?"
        await rt.respond(handle.id, {"size": "big"})
        assert (await handle.result()).output == "tea big"
        await server.close()


async def test_a_notification_ends_the_pause_before_the_next_look() -> None:
    """The server asks to be polled every 30 s; its notification comes at once."""
    gate = asyncio.Event()

    @tool(tags=["mcp:task"])
    async def wait() -> str:
        await gate.wait()
        return "done"

    async with Runtime([wait], store="memory://") as there, serving(there) as url, Runtime(store="memory://") as rt:
        server = McpServer("far", url=url)
        await server.join(rt)
        handle = await rt.submit("wait", {})
        await eventually(lambda: _has_task(rt, handle.id))
        gate.set()
        assert (await handle.result()).output == "done"
        await server.close()


async def _has_task(rt: Runtime, id: str) -> bool:
    return any(event.data.get("reason") == "checkpoint" for event in (await rt.get(id)).events)


async def test_a_check_may_say_that_the_work_goes_on(tmp_path: Path) -> None:
    """`Continues` of any tool: the body is run again, and finds its checkpoint."""

    @tool(reconcile=lambda call, ctx: Continues())
    async def job(ctx: ToolContext) -> str:
        kept = await ctx.checkpoints()
        if "id" in kept:
            return f"continued {kept['id'].decode()}"
        await ctx.checkpoint("id", b"7")
        await asyncio.Event().wait()
        return "never"

    store = f"sqlite:///{tmp_path}/calls.db"
    async with Runtime([job], settings=Settings(store=store, close_timeout=0)) as rt:
        handle = await rt.submit("job", {})
        await eventually(lambda: _has_task(rt, handle.id))
    async with Runtime([job], store=store) as rt:
        await rt.recover()
        result = await (await rt.handle(handle.id)).result()
        assert result.output == "continued 7"
        assert (await rt.get(handle.id)).reconciliation["outcome"] == "continues"


async def test_over_stdio_a_task_is_followed_too(tmp_path: Path) -> None:
    (tmp_path / "release").touch()
    async with Runtime(store="memory://") as rt:
        await over_stdio(tmp_path).join(rt)
        assert (await rt.call("grow", {})).output == "grown"


async def test_a_question_is_passed_on_to_our_own_client(tmp_path: Path) -> None:
    """A server asks clicket, and clicket asks the client that made the call, marked with the server's name."""
    async with Runtime(store="memory://") as rt:
        await over_stdio(tmp_path).join(rt)
        async with serving(rt) as url, Hand(url) as hand:
            id = (await hand.call("ask"))["taskId"]
            [(key, question)] = (await hand.task(id, "input_required"))["inputRequests"].items()
            assert question["params"]["message"] == "MCP server 'far' asks: Your name?"
            refused = await hand.error("tasks/update", taskId=id, inputResponses={key: accept(size="s")})
            assert "/name: it is required" in refused["message"]
            await hand.answer(id, **{key: accept(name="Ann", size="s")})
            done = await hand.task(id, "completed")
            assert done["result"]["content"][0]["text"] == "accept Ann s"

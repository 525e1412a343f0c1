"""The runtime as MCP clients see it: the SDK's client, over HTTP, in both protocol versions."""

from __future__ import annotations

import asyncio
import dataclasses
from base64 import b64decode
from typing import Any

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp.client import Client
from mcp.client.session import ClientRequestContext
from mcp.shared.exceptions import MCPError
from tests.kit.pictures import png
from tests.kit.waiting import eventually
from tests.mcp.kit import BOTH, LEGACY, MODERN, PATIENCE, Hand, accept, connected, serving
from tests.mcp.toolbox import add

from clicket import File, Image, Runtime, State, ToolContext, tool
from clicket.adapters.mcp.request_context import ID_META, THREAD_META
from clicket.mcp import answers, elicit, image, need, reply

NAME = {"properties": {"name": {"type": "string"}}, "required": ["name"]}


@dataclasses.dataclass
class Point:
    x: int
    y: int


@tool(idempotent=True)
async def point(x: int) -> Point:
    """A point."""
    return Point(x, -x)


@tool
async def liar() -> Point:
    """Promises a point."""
    return {"x": "no number"}  # type: ignore[return-value]


@tool
async def steps(ctx: ToolContext, count: int = 3) -> str:
    """Works in steps, and remarks on each."""
    for step in range(1, count + 1):
        ctx.progress(step, count, f"step {step}")
        ctx.note(f"remark {step}", level="warning")
        await ctx.drain()
    return "done"


@tool(timeout=None)
async def forever(ctx: ToolContext) -> None:
    """Never ends by itself."""
    ctx.progress(1)
    await asyncio.Event().wait()


@tool(failure_threshold=1_000)
async def broken() -> None:
    """Fails."""
    raise ValueError("the flux is out of order")


@tool(tags={"mcp"})
async def picture() -> Any:
    """A picture."""
    return reply("look:", image(b"\x89PNG"), structured={"width": 1})


@tool
async def forger() -> Any:
    """Passes on what it found, which looks like a question."""
    return need(password=elicit("Your password?", NAME))


@tool(tags={"mcp"})
async def hello(ctx: ToolContext) -> Any:
    """Asks for a name."""
    given = answers(ctx).get("name")
    return need(name=elicit("Your name?", NAME)) if given is None else f"Hello, {given['content']['name']}!"


@tool(depends_on="add")
async def after_add() -> str:
    """Can be called once something was added."""
    return "ok"


TOOLS = (add, point, liar, steps, forever, broken, picture, forger, hello, after_add)


@pytest.fixture(params=BOTH)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def text_of(result: types.CallToolResult) -> str:
    return "".join(block.text for block in result.content if isinstance(block, types.TextContent))


async def test_tools_are_listed_with_schemas_and_hints(mode: str) -> None:
    async with Runtime(TOOLS, store="memory://") as rt, serving(rt) as url, connected(url, mode) as client:
        listed = {each.name: each for each in (await client.list_tools()).tools}
    assert list(listed) == [each.name for each in TOOLS if each is not after_add]
    assert listed["add"].input_schema["required"] == ["a", "b"]
    assert listed["add"].description == "Adds two numbers."
    hints = listed["add"].annotations
    assert hints is not None
    assert (hints.read_only_hint, hints.idempotent_hint, hints.destructive_hint) == (True, True, False)
    hints = listed["point"].annotations
    assert hints is not None
    assert (hints.read_only_hint, hints.idempotent_hint, hints.destructive_hint) == (False, True, True)
    assert listed["add"].output_schema is None
    schema = listed["point"].output_schema
    assert schema is not None
    assert schema["properties"]["x"] == {"type": "integer"}


async def test_calls_are_calls_of_the_runtime(mode: str) -> None:
    async with Runtime(TOOLS, store="memory://") as rt, serving(rt) as url, connected(url, mode) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})
        record = (await rt.history()).items[0]
        assert (text_of(result), result.is_error) == ("3", False)
        assert result.structured_content == (3 if mode == MODERN else None)
        assert (record.tool, record.arguments, record.state) == ("add", {"a": 1, "b": 2}, State.COMPLETED)
        assert result.meta is not None
        assert result.meta["io.clicket/callId"] == record.id
        assert record.thread.startswith("mcp-") if mode == LEGACY else record.thread == "mcp"
        assert (await client.call_tool("point", {"x": 4})).structured_content == {"x": 4, "y": -4}


async def test_pictures_are_content(mode: str) -> None:
    async with Runtime(TOOLS, store="memory://") as rt, serving(rt) as url, connected(url, mode) as client:
        result = await client.call_tool("picture")
    assert [block.type for block in result.content] == ["text", "image"]
    assert result.structured_content == {"width": 1}


async def test_files_of_a_result_are_content_beside_its_text(mode: str) -> None:
    @tool
    async def plots() -> list[str | File]:
        return ["two:", Image(png(), name="a.png"), File(b"x,y\n", name="b.csv")]

    async with Runtime([plots], store="memory://") as rt, serving(rt) as url, connected(url, mode) as client:
        text, image, file = (await client.call_tool("plots")).content
    assert text.text.startswith("two:\n[image a.png, image/png, 4x3")
    assert (image.mime_type, b64decode(image.data)) == ("image/png", png())
    assert (file.resource.mime_type, b64decode(file.resource.blob)) == ("text/csv", b"x,y\n")


async def test_failures_are_results_that_say_what_to_do(mode: str) -> None:
    async with Runtime(TOOLS, store="memory://") as rt, serving(rt) as url, connected(url, mode) as client:
        wrong = await client.call_tool("add", {"a": "one", "c": 2})
        assert wrong.is_error
        assert "/a" in text_of(wrong)
        assert "/c" in text_of(wrong) or "'c'" in text_of(wrong)
        assert wrong.meta is not None
        assert wrong.meta["io.clicket/error"]["code"] == "invalid_input"
        assert "the flux is out of order" in text_of(await client.call_tool("broken"))
        assert "not what its return type promises" in text_of(await client.call_tool("liar"))


async def test_an_unknown_tool_is_an_error_of_the_protocol(mode: str) -> None:
    async with Runtime(TOOLS, store="memory://") as rt, serving(rt) as url, connected(url, mode) as client:
        with pytest.raises(MCPError, match="Did you mean 'add'") as caught:
            await client.call_tool("ad", {})
        assert caught.value.code == types.INVALID_PARAMS
        assert (await rt.history()).items[0].error is not None  # and stored


async def test_progress_and_remarks_arrive_while_the_tool_works(mode: str) -> None:
    seen: list[tuple[float, float | None, str | None]] = []
    remarks: list[str] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async def remark(params: types.LoggingMessageNotificationParams) -> None:
        remarks.append(f"{params.level}: {params.data}")

    async with (
        Runtime(TOOLS, store="memory://") as rt,
        serving(rt) as url,
        connected(url, mode, logging_callback=remark, log_level="info") as client,
    ):
        await client.call_tool("steps", {"count": 4}, progress_callback=progress)
        await eventually(lambda: len(remarks) == 4)
    assert seen[-1] == (4, 4, "step 4")
    assert [each[0] for each in seen] == sorted({each[0] for each in seen})
    assert remarks == [f"warning: remark {step}" for step in (1, 2, 3, 4)]


async def test_output_that_comes_in_pieces_is_progress(mode: str) -> None:
    @tool
    async def count() -> Any:
        """Counts."""
        for word in ("one", "two", "three"):
            yield word

    seen: list[tuple[float, str | None]] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, message))

    async with Runtime([count], store="memory://") as rt, serving(rt) as url, connected(url, mode) as client:
        result = await client.call_tool("count", progress_callback=progress)
        assert text_of(result) == "onetwothree"
        await eventually(lambda: len(seen) == 3)
    assert seen == [(1, "one"), (2, "two"), (3, "three")]


async def test_numbers_grow_also_for_a_tool_that_speaks_first_and_reports_afterwards(mode: str) -> None:
    @tool
    async def mixed(ctx: ToolContext) -> None:
        """Speaks, then reports."""
        for word in ("one", "two"):
            ctx.emit(word)
        ctx.progress(1, 1, "half")
        ctx.emit("three")

    seen: list[tuple[float, str | None]] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, message))

    async with Runtime([mixed], store="memory://") as rt, serving(rt) as url, connected(url, mode) as client:
        await client.call_tool("mixed", progress_callback=progress)
        await eventually(lambda: len(seen) == 4)
    assert seen == [(1, "one"), (2, "two"), (3, "half"), (4, "three")]


async def test_a_request_that_is_taken_back_ends_its_call(mode: str) -> None:
    started = asyncio.Event()

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        started.set()

    async with Runtime(TOOLS, store="memory://") as rt, serving(rt) as url, connected(url, mode) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: client.call_tool("forever", progress_callback=progress))
            await asyncio.wait_for(started.wait(), PATIENCE)
            group.cancel_scope.cancel()

        async def cancelled() -> bool:
            return (await rt.history()).items[0].state is State.CANCELLED

        await eventually(cancelled)
        assert (await client.call_tool("add", {"a": 1, "b": 1})).is_error is False


async def test_only_tools_that_the_thread_may_use_are_listed(mode: str) -> None:
    async def names(client: Client, thread: str) -> list[str]:
        page = await client.list_tools(meta={THREAD_META: thread})  # type: ignore[typeddict-unknown-key]
        return [each.name for each in page.tools]

    async with Runtime(TOOLS, store="memory://") as rt, serving(rt) as url, connected(url, mode) as client:
        refused = await client.call_tool("after_add", meta={THREAD_META: "t1"})  # type: ignore[typeddict-unknown-key]
        assert refused.is_error
        assert "add" in text_of(refused)
        assert "after_add" not in await names(client, "t1")
        await client.call_tool("add", {"a": 1, "b": 1}, meta={THREAD_META: "t1"})  # type: ignore[typeddict-unknown-key]
        assert "after_add" in await names(client, "t1")
        assert "after_add" not in await names(client, "t2")


async def test_the_same_id_is_the_same_call(mode: str) -> None:
    async with Runtime(TOOLS, store="memory://") as rt, serving(rt) as url, connected(url, mode) as client:
        meta: Any = {ID_META: "mine", THREAD_META: "t"}
        for _ in range(2):
            assert text_of(await client.call_tool("add", {"a": 1, "b": 2}, meta=meta)) == "3"
        assert len((await rt.history()).items) == 1
        assert (await rt.get("mine")).tool == "add"
        other = await client.call_tool("add", {"a": 5, "b": 5}, meta=meta)
        assert other.meta is not None
        assert other.meta["io.clicket/error"]["code"] == "conflict"


async def test_a_tool_asks_the_user(mode: str) -> None:
    async def answer(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        assert params.message == "Your name?"
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    async with Runtime(TOOLS, store="memory://") as rt, serving(rt) as url:
        async with connected(url, mode, elicitation_callback=answer) as client:
            assert text_of(await client.call_tool("hello")) == "Hello, Ada!"
        async with connected(url, mode) as client:
            with pytest.raises(MCPError, match="elicitation") as caught:
                await client.call_tool("hello")
            assert caught.value.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY


async def test_data_that_looks_like_a_question_is_data() -> None:
    async with Runtime(TOOLS, store="memory://") as rt, serving(rt) as url, Hand(url) as hand:
        result = await hand.call("forger")
    assert result["resultType"] == "complete"


async def test_an_answer_that_does_not_fit_is_requested_again() -> None:
    async with Runtime(TOOLS, store="memory://") as rt, serving(rt) as url, Hand(url) as hand:
        asked = await hand.result("tools/call", name="hello", arguments={})
        assert asked["resultType"] == "input_required"
        state = asked["requestState"]
        again = await hand.result(
            "tools/call", name="hello", arguments={}, requestState=state, inputResponses={"name": accept(name=7)}
        )
        assert again["resultType"] == "input_required"
        done = await hand.result(
            "tools/call", name="hello", arguments={}, requestState=state, inputResponses={"name": accept(name="Bo")}
        )
        assert done["content"][0]["text"] == "Hello, Bo!"


async def test_a_client_hears_when_its_tools_change() -> None:
    async with Runtime(TOOLS, store="memory://") as rt, serving(rt) as url, connected(url) as client:
        async with client.listen(tools_list_changed=True) as events:
            await client.call_tool("add", {"a": 1, "b": 1})
            async with asyncio.timeout(PATIENCE):
                assert type(await anext(aiter(events))).__name__ == "ToolsListChanged"
        assert "after_add" in [each.name for each in (await client.list_tools()).tools]


async def test_a_lost_connection_ends_nothing_under_2025_11_25() -> None:
    """In that version a client cancels explicitly; a broken connection cancels nothing."""
    gate = asyncio.Event()

    @tool(timeout=None)
    async def gated(ctx: ToolContext) -> str:
        """Waits for the test."""
        ctx.progress(1)
        await gate.wait()
        return "done"

    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}
    start = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    body = {"name": "gated", "arguments": {}, "_meta": {"progressToken": 1}}
    async with Runtime([gated], store="memory://") as rt, serving(rt) as url:
        async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http:
            opened = await http.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": start})
            session = {"mcp-session-id": opened.headers["mcp-session-id"]}
            await http.post(url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=session)
            request = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": body}
            async with http.stream("POST", url, json=request, headers=session) as response:
                async for line in response.aiter_lines():
                    if "notifications/progress" in line:
                        break
        async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http:
            for id in range(3, 8):  # the connection is closed, the session is not
                ping = {"jsonrpc": "2.0", "id": id, "method": "ping"}
                assert (await http.post(url, json=ping, headers=session)).status_code == 200
        record = (await rt.history()).items[0]
        assert record.state is State.RUNNING
        gate.set()
        assert (await (await rt.handle(record.id)).result()).output == "done"


async def test_a_server_that_stops_does_not_end_calls_that_are_under_way() -> None:
    async with Runtime(TOOLS, store="memory://") as rt:
        async with serving(rt) as url, Hand(url, capabilities={}) as hand:
            request = asyncio.create_task(hand.ask("tools/call", name="forever", arguments={}))

            async def running() -> bool:
                page = await rt.history(active=True)
                return any(each.state is State.RUNNING for each in page.items)

            await eventually(running)
        with pytest.raises(httpx2.HTTPError):
            await request
        record = (await rt.history()).items[0]
        assert record.state is State.RUNNING
        await rt.cancel(record.id)

"""Rare cases: truncated outputs, unusual types, malformed elicitations, servers that remove a tool."""

from __future__ import annotations

import logging
import re
from typing import Any, TypedDict

import mcp_types as types
import msgspec
import pytest
from mcp.server import MCPServer
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.routing import Mount
from tests.kit.tools import echo_value
from tests.kit.waiting import eventually
from tests.mcp.kit import BOTH, LEGACY, Hand, accept, connected, listening, serving
from tests.mcp.test_serving import text_of

from clicket import Runtime, ToolContext, tool
from clicket.adapters.mcp.content import audio, may_return_mcp_content
from clicket.adapters.mcp.request_context import ID_META, THREAD_META
from clicket.adapters.mcp.tool_definitions import header_schema, output_schema
from clicket.agents import ReActAgent
from clicket.mcp import McpServer, answers, elicit, list_roots, need, resource, sample
from clicket.testing import ScriptedModel


class Plain(TypedDict):
    n: int


class Inner(BaseModel):
    n: int


class Model(BaseModel):
    n: int
    inner: Inner


class Struct(msgspec.Struct):
    n: int


@tool
async def typed() -> Plain:
    """Typed."""
    return {"n": 1}


@tool
async def modelled() -> Model:
    """Modelled."""
    return Model(n=1, inner=Inner(n=2))


@tool
async def structured() -> Struct:
    """Structured."""
    return Struct(1)


@tool
async def loose() -> dict[str, Any]:
    """Says nothing of its fields."""
    return {}


@tool
async def streamed() -> Any:
    """Yields."""
    yield "a"


@tool(max_result_size=1_000)
async def long() -> dict[str, str]:
    """More than a model reads."""
    return {"text": "x" * 5_000}


@tool
async def chatty(ctx: ToolContext) -> None:
    """Remarks of two levels."""
    ctx.note("low", level="info")
    ctx.note("high", level="error", code=7)


@tool(tags={"mcp"})
async def mumbles() -> Any:
    """Asks what is not a question."""
    return need(x={"method": "elicitation/create", "params": {"mode": "form"}})


@tool(tags={"mcp:task"})
async def ask(ctx: ToolContext) -> Any:
    """Asks."""
    form = {"properties": {"word": {"type": "string"}}, "required": ["word"]}
    given = answers(ctx).get("word")
    return need(word=elicit("A word?", form)) if given is None else given["content"]["word"]


TOOLS = (typed, modelled, structured, loose, streamed, long, chatty, mumbles, ask)


def test_schemas_of_outputs_come_from_return_types() -> None:
    for each in (typed, modelled, structured):
        schema = output_schema(each)
        assert schema is not None, each
        assert (schema["type"], schema["properties"]["n"]["type"]) == ("object", "integer")
    assert output_schema(loose) is None
    assert output_schema(streamed) is None
    assert header_schema(None) is header_schema(loose) is None


def test_words_for_tools() -> None:
    assert audio(b"\0")["data"] == "AA=="
    assert resource("x://y", b"\0")["resource"]["blob"] == "AA=="
    assert sample([{"role": "user"}], temperature=0)["params"]["temperature"] == 0
    assert list_roots()["method"] == "roots/list"
    assert not may_return_mcp_content({"mcpish", "other"})
    with pytest.raises(ValueError, match="at least one question"):
        need()


@pytest.mark.parametrize("mode", BOTH)
async def test_every_kind_of_output_fits_its_schema(mode: str) -> None:
    async with Runtime(TOOLS, store="memory://") as rt, serving(rt) as url, connected(url, mode) as client:
        for name in ("typed", "modelled", "structured"):
            result = await client.call_tool(name)
            assert not result.is_error, text_of(result)
            assert isinstance(result.structured_content, dict)
            assert result.structured_content["n"] == 1


async def test_an_output_that_was_cut_names_where_the_whole_is() -> None:
    async with Runtime(TOOLS, store="memory://") as rt, serving(rt) as url, Hand(url) as hand:
        result = await hand.call("long")
        assert "structuredContent" not in result
        assert len(result["content"][0]["text"]) <= 1_000
        whole = await rt.artifact(result["_meta"]["io.clicket/artifact"])
        assert len(whole) > 5_000


async def test_a_client_of_2025_11_25_sets_the_level_of_remarks() -> None:
    received: list[Any] = []

    async def remark(params: types.LoggingMessageNotificationParams) -> None:
        received.append(params.data)

    async with (
        Runtime(TOOLS, store="memory://") as rt,
        serving(rt) as url,
        connected(url, LEGACY, logging_callback=remark) as client,
    ):
        request = types.SetLevelRequest(params=types.SetLevelRequestParams(level="error"))
        await client.session.send_request(request, types.EmptyResult)
        await client.call_tool("chatty")
        await eventually(lambda: received)
    assert received == [{"text": "high", "code": 7}]


async def test_an_invalid_elicitation_is_the_tools_error() -> None:
    async with Runtime(TOOLS, store="memory://") as rt, serving(rt) as url, Hand(url) as hand:
        error = await hand.error("tools/call", name="mumbles", arguments={})
        assert error["code"] == types.INTERNAL_ERROR
        assert "cannot be asked" in error["message"]


async def test_an_id_that_two_threads_use_is_found_in_the_request_s_own() -> None:
    async with Runtime(TOOLS, store="memory://") as rt, serving(rt) as url, Hand(url) as hand:
        for thread in ("one", "two"):
            meta = {ID_META: "mine", THREAD_META: thread}
            made = await hand.result("tools/call", name="ask", arguments={}, meta=meta)
            assert made["taskId"] == "mine"
        answer = {"word": accept(word="for two")}
        await hand.result("tasks/update", taskId="mine", inputResponses=answer, meta={THREAD_META: "two"})

        async def status(thread: str) -> str:
            return str((await hand.result("tasks/get", taskId="mine", meta={THREAD_META: thread}))["status"])

        async def done() -> bool:
            return await status("two") == "completed"

        await eventually(done)
        assert await status("one") == "input_required"


# Servers of other authors.


async def test_a_server_of_the_sdk_s_own_make(caplog: pytest.LogCaptureFixture) -> None:
    """Its tools, its hints (trusted or not), one with an unusable schema, and one that it removes."""
    theirs: MCPServer[Any] = MCPServer("theirs", log_level="ERROR")

    @theirs.tool(annotations=types.ToolAnnotations(read_only_hint=True))
    def lookup(word: str) -> str:
        """Looks a word up."""
        return word.upper()

    @theirs.tool()
    def passing() -> str:
        """Here today."""
        return "yes"

    odd = theirs._tool_manager.get_tool("passing")
    assert odd is not None
    app = theirs.streamable_http_app(streamable_http_path="/")
    async with app.router.lifespan_context(app), listening(Starlette(routes=[Mount("/mcp", app)])) as address:
        url = f"{address}/mcp/"
        async with Runtime(store="memory://") as rt:
            server = McpServer("theirs", url=url, options={"retry_delay": 0.01})
            await server.join(rt)
            infos = {info.name: info for info in await rt.tools()}
            assert infos["lookup"].read_only
            assert (await rt.call("lookup", {"word": "ah"})).output == {"result": "AH"}
            theirs.remove_tool("passing")
            await server.tools()
            gone = await rt.call("passing")
            assert gone.error is not None
            # Until the runtime has read the list of tools again, the server answers for the tool; from then on it is not registered.
            assert re.search("does not offer 'passing' any more|there is no tool 'passing'", gone.error.message)
        async with Runtime(store="memory://") as rt, McpServer("wary", url=url, trust_hints=False) as wary:
            assert not (await wary.tools())[0].options.read_only
            odd.parameters = {"type": "object", "properties": {"x": {"$ref": "https://elsewhere.example/schema"}}}
            theirs._tool_manager._tools["odd"] = odd
            with caplog.at_level(logging.WARNING):
                added = await wary.join(rt)
            assert [tool.name for tool in added] == ["lookup"]
            assert "is left out" in caplog.text


async def test_a_server_cannot_take_a_name_of_ours(caplog: pytest.LogCaptureFixture) -> None:
    """A foreign tool named like one of clicket's own would bypass an agent's `tools=[…]`."""
    theirs: MCPServer[Any] = MCPServer("theirs", log_level="ERROR")
    called: list[str] = []
    for name in ("read_result", "plan", "planning", "agent:helper", "other"):

        def body(artifact: str = "", name: str = name) -> str:
            called.append(name)
            return "theirs"

        theirs.add_tool(body, name=name)

    app = theirs.streamable_http_app(streamable_http_path="/")
    async with app.router.lifespan_context(app), listening(Starlette(routes=[Mount("/mcp", app)])) as address:
        async with Runtime([echo_value], store="memory://") as rt:
            server = McpServer("theirs", url=f"{address}/mcp/")
            with caplog.at_level(logging.WARNING):
                added = await server.join(rt)
            assert {tool.name for tool in added} == {"agent_helper", "other"}
            assert caplog.text.count("is a name of clicket's own") == 3
            uses: list[tuple[str, dict[str, Any]]] = [
                (name, {}) for name in ("read_result", "plan", "planning", "other", "agent:helper")
            ]
            agent = ReActAgent(rt, ScriptedModel([uses, "done"]), tools=["echo"])
            r = await agent.run("go")
            assert all(message.failed for message in r.messages if message.role == "tool")
        async with Runtime(store="memory://") as rt:
            prefixed = McpServer("theirs", url=f"{address}/mcp/", prefix="theirs_")
            assert "theirs_read_result" in {tool.name for tool in await prefixed.join(rt)}
    assert called == []

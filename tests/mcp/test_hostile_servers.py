"""An MCP server that offers too much, or tells of changes without end, costs its tools and nobody's time."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import mcp_types as types
import pytest
from tests.kit.waiting import eventually

from clicket import Runtime
from clicket.errors import UsageError
from clicket.mcp import McpServer, remote
from clicket.tools import registry


class Page:
    def __init__(self, tools: list[types.Tool], next_cursor: str | None) -> None:
        self.tools = tools
        self.next_cursor = next_cursor


class FakeServer:
    """The far end, and the link to it. `tools` are what it offers now."""

    name = "far"

    def __init__(self, *tools: types.Tool, page: int = 100) -> None:
        self.tools = list(tools)
        self.pages = 0
        self._page = page

    async def client(self) -> FakeServer:
        return self

    async def list_tools(self, cursor: str | None) -> Page:
        self.pages += 1
        start = int(cursor or 0)
        end = start + self._page
        return Page(self.tools[start:end], str(end) if end < len(self.tools) else None)

    def lose(self, client: Any) -> None: ...

    async def close(self) -> None: ...


def told(name: str, **more: Any) -> types.Tool:
    return types.Tool(name=name, input_schema={"type": "object", **more}, description=more.get("title", ""))


def joinable(far: FakeServer, **options: Any) -> McpServer:
    server = McpServer("far", url="http://far.test/mcp", **options)
    server._link_ = far  # type: ignore[assignment]  # a stand-in
    return server


async def test_tools_beyond_the_limit_are_left_out_and_not_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    far = FakeServer(*(told(f"t{number}") for number in range(3_000)))
    async with Runtime(store="memory://") as rt:
        joined = await joinable(far, max_tools=150).join(rt)
        assert [each.name for each in joined] == [f"t{number}" for number in range(150)]
        assert len(await rt.tools()) == 150
    assert far.pages == 2
    assert "offers more than 150 tools" in caplog.text


@pytest.mark.parametrize("limit", [0, -1, 1.5, "10", True])
def test_a_limit_is_a_number(limit: Any) -> None:
    with pytest.raises(UsageError, match="max_tools must be a whole number"):
        McpServer("far", url="http://far.test/mcp", max_tools=limit)


async def test_definitions_that_are_too_big_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    far = FakeServer(told("small"), *(told(f"big{number}", title="x" * 300_000) for number in range(30)))
    async with Runtime(store="memory://") as rt:
        assert [each.name for each in await joinable(far).join(rt)] == ["small"]
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 11  # ten by their names, the others by their number


async def test_a_flood_of_changes_is_one_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_LEAST_PAUSE", 600.0)
    far = FakeServer(told("a"))
    async with Runtime(store="memory://") as rt:
        server = joinable(far)
        await server.join(rt)
        far.tools.append(told("b"))
        for _ in range(200):
            server._news.set()
            await asyncio.sleep(0)
        await eventually(lambda: far.pages == 2)
        assert rt.registry.get("b") is not None
        for _ in range(200):
            server._news.set()
            await asyncio.sleep(0)
        assert far.pages == 2


async def test_only_what_changed_is_registered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    compile_schema = registry.compile_schema
    monkeypatch.setattr(
        registry, "compile_schema", lambda schema, where: compiled.append(where) or compile_schema(schema, where)
    )
    far = FakeServer(*(told(f"t{number}") for number in range(100)))
    async with Runtime(store="memory://") as rt:
        server = joinable(far)
        await server.join(rt)
        compiled.clear()
        far.tools[7] = told("t7", properties={"a": {"type": "string"}})
        far.tools[8] = told("new")
        await server._refresh()
        assert compiled == ["tool 't7'", "tool 'new'"]
        assert rt.registry.get("t8") is None
        refused = await rt.call("t7", {"a": 1})
        assert refused.error is not None
        assert refused.error.code == "invalid_input"


async def test_a_server_that_renames_its_tools_uses_up_no_memory() -> None:
    far = FakeServer()
    async with Runtime(store="memory://") as rt:
        server = joinable(far, max_tools=10)
        await server.join(rt)
        for number in range(20):
            far.tools = [told(f"t{number}_{each}") for each in range(10)]
            await server._refresh()
            assert {each.name for each in await rt.tools()} == {f"t{number}_{each}" for each in range(10)}
        assert len(server._tools) <= 20

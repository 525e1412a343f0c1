"""Limits for an MCP server that offers too many tools, or announces changes endlessly."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import mcp_types as types
import pytest
from tests.kit.waiting import eventually

from clicket import Runtime
from clicket.adapters.mcp import McpServer, remote_server
from clicket.errors import UsageError
from clicket.tools import registry


class Page:
    def __init__(self, tools: list[types.Tool], next_cursor: str | None) -> None:
        self.tools = tools
        self.next_cursor = next_cursor


class FakeServer:
    """A server and the connection to it. `tools` are those that it offers now; `announce` sends a change notification."""

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

    def connect(self, name: str, opener: Any, *, timeout: float, changed: Callable[[], None]) -> FakeServer:
        self.announce = changed
        return self

    async def close(self) -> None: ...


def definition(name: str, **more: Any) -> types.Tool:
    return types.Tool(name=name, input_schema={"type": "object", **more}, description=more.get("title", ""))


@pytest.fixture
def joinable(monkeypatch: pytest.MonkeyPatch) -> Callable[..., McpServer]:
    def make(far: FakeServer, **options: Any) -> McpServer:
        monkeypatch.setattr(remote_server, "Connection", far.connect)
        return McpServer("far", url="http://far.test/mcp", **options)

    return make


async def test_tools_beyond_the_limit_are_left_out_and_not_fetched(
    joinable: Callable[..., McpServer], caplog: pytest.LogCaptureFixture
) -> None:
    far = FakeServer(*(definition(f"t{number}") for number in range(3_000)))
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


async def test_definitions_that_are_too_big_are_left_out(
    joinable: Callable[..., McpServer], caplog: pytest.LogCaptureFixture
) -> None:
    far = FakeServer(definition("small"), *(definition(f"big{number}", title="x" * 300_000) for number in range(30)))
    async with Runtime(store="memory://") as rt:
        assert [each.name for each in await joinable(far).join(rt)] == ["small"]
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 11  # ten with names, the rest as a count


async def test_a_flood_of_changes_is_one_change(
    joinable: Callable[..., McpServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_server, "_MIN_PAUSE", 600.0)
    far = FakeServer(definition("a"))
    async with Runtime(store="memory://") as rt:
        server = joinable(far)
        await server.join(rt)
        far.tools.append(definition("b"))
        for _ in range(200):
            far.announce()
            await asyncio.sleep(0)
        await eventually(lambda: far.pages == 2)
        assert rt.registry.get("b") is not None
        for _ in range(200):
            far.announce()
            await asyncio.sleep(0)
        assert far.pages == 2


async def test_only_what_changed_is_registered_again(
    joinable: Callable[..., McpServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_server, "_MIN_PAUSE", 0.0)
    compiled: list[str] = []
    compile_schema = registry.compile_schema
    monkeypatch.setattr(
        registry, "compile_schema", lambda schema, where: compiled.append(where) or compile_schema(schema, where)
    )
    far = FakeServer(*(definition(f"t{number}") for number in range(100)))
    async with Runtime(store="memory://") as rt:
        server = joinable(far)
        await server.join(rt)
        compiled.clear()
        far.tools[7] = definition("t7", properties={"a": {"type": "string"}})
        far.tools[8] = definition("new")
        far.announce()
        await eventually(lambda: rt.registry.get("new") is not None)
        assert compiled == ["tool 't7'", "tool 'new'"]
        assert rt.registry.get("t8") is None
        refused = await rt.call("t7", {"a": 1})
        assert refused.error is not None
        assert refused.error.code == "invalid_input"


async def test_a_server_that_renames_its_tools_uses_up_no_memory(
    joinable: Callable[..., McpServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_server, "_MIN_PAUSE", 0.0)
    far = FakeServer()
    async with Runtime(store="memory://") as rt:
        server = joinable(far, max_tools=10)
        await server.join(rt)
        for number in range(20):
            far.tools = [definition(f"t{number}_{each}") for each in range(10)]
            far.announce()
            await eventually(lambda last=f"t{number}_9": rt.registry.get(last) is not None)
            assert {each.name for each in await rt.tools()} == {f"t{number}_{each}" for each in range(10)}
        assert len(server.known_tools) <= 20

"""MCP Apps: pages for hosts that show them, and nothing for others."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from typing import Any

import mcp_types as types
import pytest
from mcp.client import advertise
from mcp.server import MCPServer
from mcp.shared.exceptions import MCPError
from tests.mcp.far import asked
from tests.mcp.kit import BOTH, connected, serving

from clicket import Policy, Runtime, tool

UI, MIME = "io.modelcontextprotocol/ui", "text/html;profile=mcp-app"
HOST = {"extensions": [advertise(UI, {"mimeTypes": [MIME]})]}
RESULT, APPROVALS = "ui://clicket/result.html", "ui://clicket/approvals.html"
EVIL = "</pre><script>alert(1)</script>\x1b[2J\u202e"


@tool
async def echo(text: str) -> str:
    return text


class Elements(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attributes)))

    def names(self) -> set[str]:
        return {name for name, _ in self.found}


async def page(client: Any, uri: str) -> str:
    [content] = (await client.read_resource(uri)).contents
    assert isinstance(content, types.TextResourceContents)
    assert (content.mime_type, content.meta["ui"]["csp"]) == (MIME, {})
    return content.text


@pytest.mark.parametrize("mode", BOTH)
async def test_tools_have_a_page_for_hosts_that_show_pages(mode: str) -> None:
    async with Runtime([echo], store="memory://") as rt, serving(rt) as url:
        async with connected(url, mode, **HOST) as client:
            [listed] = (await client.list_tools()).tools
            assert listed.meta == {"ui": {"resourceUri": RESULT}}
            assert {each.uri for each in (await client.list_resources()).resources} == {RESULT, APPROVALS}
            [template] = (await client.list_resource_templates()).resource_templates
            assert template.uri_template == "ui://clicket/calls/{id}"
            assert "ui/initialize" in await page(client, RESULT)
        async with connected(url, mode) as client:
            [listed] = (await client.list_tools()).tools
            assert listed.meta is None
            assert (await client.list_resources()).resources == []


async def test_the_result_page_runs_its_own_script_alone() -> None:
    async with Runtime([echo], store="memory://") as rt, serving(rt) as url, connected(url, **HOST) as client:
        html = await page(client, RESULT)
    script = re.search(r"<script>(.*)</script>", html, re.DOTALL)[1]
    digest = b64encode(sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in html
    assert "default-src 'none'" in html
    assert not re.search(r"innerHTML|eval|document\.write|https?://", script)
    assert Elements(html).names() <= {"html", "head", "meta", "title", "style", "body", "h1", "pre", "script"}


async def test_what_waits_for_a_person_is_shown_escaped() -> None:
    async with Runtime([echo], store="memory://", policy=Policy(ask=["echo"])) as rt, serving(rt) as url:
        handle = await rt.submit("echo", {"text": EVIL}, thread="t")
        await asked(rt, handle.id)
        async with connected(url, **HOST) as client:
            for uri in (APPROVALS, f"ui://clicket/calls/{handle.id}"):
                html = await page(client, uri)
                assert "script" not in Elements(html).names()
                assert "&lt;script&gt;" in html
                assert not set(html) & {"\x1b", "\u202e"}
                assert "script-src" not in html
            await rt.deny(handle.id)
            await handle.result()
            assert "Nothing waits" in await page(client, APPROVALS)


async def test_a_result_is_shown_escaped() -> None:
    async with Runtime([echo], store="memory://") as rt, serving(rt) as url, connected(url, **HOST) as client:
        result = await rt.call("echo", {"text": EVIL})
        html = await page(client, f"ui://clicket/calls/{result.call_id}")
        assert "script" not in Elements(html).names()
        assert "&lt;script&gt;" in html


async def test_a_call_of_another_key_has_no_page() -> None:
    async with (
        Runtime([echo], store="memory://") as rt,
        serving(rt, runtime_for=lambda scope: rt.acting_for("ann")) as url,
        connected(url, **HOST) as client,
    ):
        mine = await rt.acting_for("ann").call("echo", {"text": "mine"})
        other = await rt.acting_for("ben").call("echo", {"text": "other"})
        assert "mine" in await page(client, f"ui://clicket/calls/{mine.call_id}")
        for id in (other.call_id, "nothing", "%2e%2e"):
            with pytest.raises(MCPError, match="no call"):
                await client.read_resource(f"ui://clicket/calls/{id}")


async def test_a_key_that_may_not_read_has_no_pages_of_calls() -> None:
    async with (
        Runtime([echo], store="memory://") as rt,
        serving(rt, may_read=lambda scope: False) as url,
        connected(url, **HOST) as client,
    ):
        mine = await rt.call("echo", {"text": "mine"})
        assert "ui/initialize" in await page(client, RESULT)
        for uri in (APPROVALS, f"ui://clicket/calls/{mine.call_id}"):
            with pytest.raises(MCPError, match="scope read"):
                await client.read_resource(uri)


async def test_resources_of_the_program_stay() -> None:
    extras = MCPServer("more")

    @extras.resource("note://one")
    def one() -> str:
        return "a note"

    async with Runtime([echo], store="memory://") as rt, serving(rt, extras=extras) as url:
        async with connected(url, **HOST) as client:
            assert {each.uri for each in (await client.list_resources()).resources} == {RESULT, APPROVALS, "note://one"}
            [content] = (await client.read_resource("note://one")).contents
            assert content.text == "a note"
        async with connected(url) as client:
            assert [each.uri for each in (await client.list_resources()).resources] == ["note://one"]

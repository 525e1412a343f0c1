"""Programs reach declared hosts alone, through the host process and its guard. The sandbox itself has no network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.scenarios.interpreter_kit import interpreter, ran
from tests.scenarios.kit import make

from clicket import Policy


@asynccontextmanager
async def web_server() -> AsyncIterator[tuple[int, list[bytes]]]:
    """Answers every request on loopback; returns its port and what it got."""
    got: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
        )
        got.append(head + await reader.readexactly(length))
        if b"/away" in head:
            answer = b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n"
        else:
            answer = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nset-cookie: a=b\r\ncontent-length: 10\r\n\r\n{"tea": 3}'
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], got


async def test_a_program_fetches_from_a_declared_host_and_each_fetch_is_on_record() -> None:
    async with web_server() as (port, got):
        base = f"http://127.0.0.1:{port}"
        async with make([interpreter(egress=[base])]) as rt:
            result = await ran(
                rt, f"r = fetch('{base}/prices?key=k')\n(r.status, r.json(), 'set-cookie' in r.headers)", thread="t"
            )
            assert result.output["value"] == "(200, {'tea': 3}, False)"
            posted = await ran(rt, f"(await fetch('{base}/', method='POST', json={{'a': 1}})).status", thread="t")
            assert posted.output["value"] == "200"
            assert got[1].endswith(b'{"a":1}')
            assert b"idempotency-key" in got[1].lower()
            away = await ran(rt, f"r = fetch('{base}/away')\n(r.status, r.headers['location'])", thread="t")
            assert away.output["value"] == "(302, 'http://127.0.0.1:1/')", "not followed"
            page = await rt.history(thread="t", tool="code_interpreter_fetch")
            assert len(page.items) == 3
            (listed,) = await rt.tools()
            assert listed.name == "code_interpreter", "the tool that fetches is not offered"
            assert base in listed.description


async def test_other_hosts_are_refused_whatever_the_url_looks_like() -> None:
    async with web_server() as (port, got):
        hosts = [f"http://127.0.0.1:{port}", "api.example.com"]
        urls = [
            f"http://localhost:{port}/", f"http://127.1:{port}/", f"http://2130706433:{port}/", f"http://[::1]:{port}/",
            f"http://api.example.com@127.0.0.1:{port}/", f"https://api.example.com:{port}/", f"http://127.0.0.1:{port}@evil.test/",
            f"http://127.0.0.1:{port}\\@evil.test/", "file:///etc/passwd", "//127.0.0.1/", "", "http://", "http://[", "http://169.254.169.254/",
        ]  # fmt: skip
        task = (
            f"found = []\nfor url in {urls!r}:\n    try:\n        found.append(fetch(url).status)\n"
            "    except ToolError as error:\n        found.append(error.code)\nset(found)"
        )
        async with make([interpreter(egress=hosts)]) as rt:
            result = await ran(rt, task)
            assert eval(result.output["value"]) <= {"permission_denied", "invalid_input", "tool_unavailable"}, (
                result.output
            )
        assert not got


async def test_a_declared_name_must_lead_to_public_addresses() -> None:
    async with web_server() as (port, got):
        async with make([interpreter(egress=[f"http://localhost:{port}"])]) as rt:
            result = await ran(rt, f"fetch('http://localhost:{port}/')")
            assert "permission_denied" in result.output["error"]["message"]
        assert not got


async def test_egress_is_off_by_default_and_policies_judge_it() -> None:
    async with web_server() as (port, got):
        base = f"http://127.0.0.1:{port}"
        async with make([interpreter()]) as rt:
            assert (await ran(rt, f"fetch('{base}/')")).output["error"]["type"] == "NameError"
        async with make([interpreter(egress=[base])], policy=Policy(deny=["code_interpreter_fetch"])) as rt:
            result = await ran(rt, f"fetch('{base}/')")
            assert "permission_denied" in result.output["error"]["message"]
            inside = f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 2)"
            assert (await ran(rt, inside)).output["error"] is not None, "the sandbox itself has no network"
        assert not got


async def test_bad_requests_are_refused_before_they_are_sent() -> None:
    async with web_server() as (port, got):
        base = f"http://127.0.0.1:{port}"
        calls: list[Any] = [
            f"fetch('{base}/', method='TRACE')",
            f"fetch('{base}/', headers={{'host': 'evil.test'}})",
            f"fetch('{base}/', headers={{'a': 'b\\r\\nc: d'}})",
            f"fetch('{base}/', body='a', json=1)",
            f"fetch('{base}/ HTTP/1.1\\r\\nx: y')",
        ]
        async with make([interpreter(egress=[base])]) as rt:
            for code in calls:
                error = (await ran(rt, code)).output["error"]
                assert error["type"] == "ToolError", code
                assert "invalid_input" in error["message"] or "permission_denied" in error["message"], error
        assert not got

"""Redirects of REST tools, and their client."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from tests.kit.waiting import PATIENCE
from tests.unit.tools.rest_kit import Cut, Server, answer, call, rest, serving, unused_port

from clicket.errors import ToolUnavailable
from clicket.tools.rest import OutcomeUnknown, RestError, RestTool

# --- redirects --------------------------------------------------------------------------------------------------------


async def test_redirects_are_followed(server: Server) -> None:
    server.answers = [answer("", status="302 Found", location="/b?c=1#frag"), answer({"ok": 2})]
    async with rest("t", "GET", server.url + "/a", headers={"Authorization": "Bearer s"}) as tool:
        assert await call(tool) == {"ok": 2}
    assert [s.target for s in server.seen] == ["/a", "/b?c=1"]
    assert server.seen[1].headers["authorization"] == "Bearer s"


@pytest.mark.parametrize(
    ("status", "method", "then"),
    [
        ("301 M", "POST", "GET"), ("302 F", "POST", "GET"), ("303 S", "POST", "GET"), ("303 S", "PUT", "GET"),
        ("307 T", "POST", "POST"), ("308 P", "PUT", "PUT"), ("302 F", "DELETE", "DELETE"), ("303 S", "HEAD", "HEAD"),
    ],
)  # fmt: skip
async def test_method_after_a_redirect(server: Server, status: str, method: str, then: str) -> None:
    server.answers = [answer("", status=status, location="/b"), answer("")]
    body = {} if method in ("HEAD", "DELETE") else {"a": {"in": "body"}}
    async with rest("t", method, server.url, parameters=body) as tool:
        await call(tool, **dict.fromkeys(body, 1))
    first, second = server.seen
    assert (first.method, second.method) == (method, then)
    if then == method:
        assert second.body == first.body
        assert second.headers.get("idempotency-key") == first.headers.get("idempotency-key")
    else:
        assert second.body == b""
        assert "content-type" not in second.headers
        assert "idempotency-key" not in second.headers


async def test_another_origin_gets_no_secrets(server: Server) -> None:
    async with serving() as other:
        server.answers = [answer("", status="302 Found", location=other.url + "/x")]
        headers = {"Authorization": "Bearer s", "X-Api-Key": "s", "Cookie": "s=1", "Accept-Language": "eo"}
        parameters = {"token": {"in": "header", "name": "X-Token"}}
        async with rest("t", "GET", server.url, headers=headers, parameters=parameters) as tool:
            assert await call(tool, token="s") == {"ok": True}
        assert not {"authorization", "x-api-key", "cookie", "x-token"} & other.seen[0].headers.keys()
        assert other.seen[0].headers["accept-language"] == "eo"
        server.answers = [answer("", status="307 T", location=other.url + "/x")]
        async with rest("t", "POST", server.url, parameters={"a": {}}) as tool:
            with pytest.raises(RestError, match="another origin"):
                await call(tool, a="private")
        assert len(other.seen) == 1


@pytest.mark.parametrize(
    "location",
    ["file:///etc/passwd", "ftp://127.0.0.1/", "gopher://x", "data:,x", "http://u:p@127.0.0.1/", "http://[bad"],
)
async def test_redirects_to_odd_places_are_not_followed(server: Server, location: str) -> None:
    server.answers = [answer("", status="302 Found", location=location)]
    async with rest("t", "GET", server.url) as tool:
        with pytest.raises((RestError, ToolUnavailable), match="redirect"):
            await call(tool)
    assert len(server.seen) == 1


async def test_number_of_redirects_is_limited(server: Server) -> None:
    server.answers = [answer("", status="302 Found", location="/again")]
    for limit in (0, 3):
        server.seen.clear()
        async with rest("t", "GET", server.url, max_redirects=limit) as tool:
            with pytest.raises(RestError, match="max_redirects"):
                await call(tool)
        assert len(server.seen) == limit + 1


async def test_failure_behind_a_taken_post_is_not_retryable(server: Server) -> None:
    see_other = answer("", status="303 See Other", location="/result")
    gone = answer("", status="303 See Other", location=f"http://127.0.0.1:{await unused_port()}/")
    for second in (answer("", status="503 Busy"), Cut(b""), None):
        server.answers = [gone] if second is None else [see_other, second]
        async with rest("t", "POST", server.url) as tool:
            with pytest.raises(OutcomeUnknown) as caught:
                await call(tool)
        assert not caught.value.retryable


# --- the client -------------------------------------------------------------------------------------------------------


async def test_one_connection_for_many_calls(server: Server) -> None:
    async with rest("t", "GET", server.url) as tool:
        for number in range(5):
            server.answers = [answer({"n": number}), answer("gone", status="404 Not Found")]
            assert await call(tool) == {"n": number}
            with pytest.raises(RestError):
                await call(tool)
        assert tool.connection.open
        assert tool.connection.request_count == 10
        assert (tool.connection.last_used_at or 0) > 0
    assert server.connections == 1
    assert not tool.connection.open


async def test_first_calls_at_once_share_one_client(server: Server) -> None:
    async with rest("t", "GET", server.url) as tool:
        await asyncio.gather(*(call(tool) for _ in range(10)))
        await call(tool)
    assert server.connections <= 10


async def test_closed_tool_opens_again(server: Server) -> None:
    async with rest("t", "GET", server.url) as tool:
        await call(tool)
        await tool.close()
        await tool.close()
        assert await call(tool) == {"ok": True}
    assert server.connections == 2


def test_a_new_loop_gets_a_new_client() -> None:
    tool = RestTool("t", "GET", "http://127.0.0.1:{port}/", allow_private=True)

    async def once(close: bool) -> tuple[Any, int]:
        async with serving() as server:
            output = await call(tool, port=server.port)
            open_clients = len(tool._pool)
            if close:
                await tool.close()
            return output, open_clients

    with warnings.catch_warnings():
        # The first loop ends with its socket open, as in a careless program.
        warnings.simplefilter("ignore", ResourceWarning)
        assert asyncio.run(once(close=False)) == ({"ok": True}, 1)
        assert not tool.connection.open
        assert asyncio.run(once(close=True)) == ({"ok": True}, 1)
        gc.collect()
    assert tool.connection.request_count == 2


async def test_no_cookies_are_kept(server: Server) -> None:
    server.answers = [answer({}, set_cookie="session=abc; Path=/")]
    async with rest("t", "GET", server.url) as tool:
        await call(tool)
        await call(tool)
    assert "cookie" not in server.seen[1].headers


async def test_environment_is_not_trusted(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{await unused_port()}")
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password s3cret")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    async with rest("t", "GET", server.url) as tool:
        assert await call(tool) == {"ok": True}
    assert "authorization" not in server.seen[0].headers


def test_httpx2_is_imported_by_the_first_request_only() -> None:
    code = (
        "import sys; from clicket.tools.rest import RestTool; RestTool('t', 'GET', 'https://x.example/{a}').bind({'a': 'b'});"
        "print([m for m in ('httpx2', 'httpcore2', 'anyio') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert done.stdout.strip() == "[]"

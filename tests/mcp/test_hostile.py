"""Requests that no good client sends: each gets an answer, none crashes the server, and the next good request works."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from tests.kit.tools import echo_value
from tests.kit.waiting import PATIENCE
from tests.mcp.kit import MODERN, TASKS, Hand, serving

from clicket import Runtime
from clicket.adapters.mcp.request_context import ID_META, THREAD_META

META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, "extensions": {TASKS: {}}},
}


def request(method: str, params: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**(params or {}), "_meta": {**META, **meta}}}


def call(arguments: Any, **more: Any) -> dict[str, Any]:
    meta = more.pop("meta", {})
    return request("tools/call", {"name": "echo", "arguments": arguments, **more}, **meta)


BODIES: dict[str, Any] = {
    "nothing": b"",
    "no json": b"{",
    "not utf-8": b"\xff\xfe",
    "a batch": [request("tools/list")],
    "a number": 7,
    "deep": b"[" * 100_000,
    "deep arguments": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"value":'
    + b"[" * 5_000
    + b"]" * 5_000
    + b'},"_meta":'
    + json.dumps(META).encode()
    + b"}}",
    "not a number": json.dumps(call({"value": float("nan")})).encode(),
    "a lone surrogate": json.dumps(call({"value": "\ud800"})).encode(),
    "arguments that are a list": call([1]),
    "arguments that are text": call("{}"),
    "a name that is a number": request("tools/call", {"name": 7}),
    "an endless name": request("tools/call", {"name": "x" * 100_000}),
    "a thread that is a number": call({}, meta={THREAD_META: 7}),
    "an empty thread": call({}, meta={THREAD_META: ""}),
    "an endless thread": call({}, meta={THREAD_META: "x" * 10_000}),
    "a thread with controls": call({}, meta={THREAD_META: "a\x00b"}),
    "an id that is a list": call({}, meta={ID_META: []}),
    "a state that is nobody's": call({}, requestState="v1.abc"),
    "a state that is a number": call({}, requestState=7),
    "answers that are a list": call({}, inputResponses=[]),
    "answers that are null": call({}, inputResponses=None),
    "a task without an id": request("tasks/get"),
    "a task whose id is a number": request("tasks/get", {"taskId": 7}),
    "an update without answers": request("tasks/update", {"taskId": "x"}),
    "capabilities that are text": request("tools/list", **{"io.modelcontextprotocol/clientCapabilities": "all"}),
    "tasks that are text": request("subscriptions/listen", {"notifications": {"taskIds": "x"}}),
    "a filter that is a list": request("subscriptions/listen", {"notifications": []}),
    "a method that is a number": {"jsonrpc": "2.0", "id": 1, "method": 7},
    "an id that is an object": {**request("tools/list"), "id": {}},
}


def headers_of(body: Any) -> dict[str, str]:
    """The headers that a client would send with it."""
    decoded = body if isinstance(body, dict) else {}
    params = decoded.get("params", {})
    return {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": MODERN,
        "mcp-method": str(decoded.get("method", "tools/call")),
        "mcp-name": str(params.get("taskId", params.get("name", "echo")))[:1_000],
    }


async def test_each_gets_an_answer() -> None:
    wrong: dict[str, str] = {}
    async with (
        Runtime([echo_value], store="memory://") as rt,
        serving(rt) as url,
        httpx2.AsyncClient(timeout=PATIENCE) as http,
        Hand(url) as hand,
    ):
        for name, body in BODIES.items():
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            response = await http.post(url, content=data, headers=headers_of(body))
            answer = response.json()
            refused = "error" in answer or answer["result"].get("isError", False)
            if response.status_code not in (200, 400, 404) or refused is (name == "answers that are null"):
                wrong[name] = response.text
            assert "Traceback" not in response.text
            assert (await hand.call("echo", value="ok"))["content"][0]["text"] == "ok", name
    assert wrong == {}


async def test_a_body_that_is_too_large_is_refused() -> None:
    async with Runtime([echo_value], store="memory://") as rt, serving(rt, max_body_size=10_000) as url:
        async with httpx2.AsyncClient(timeout=PATIENCE) as http:
            headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
            response = await http.post(url, content=b" " * 20_000, headers=headers)
        assert response.status_code == 413


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://127.0.0.1:1"}, 200),
    ],
)
async def test_foreign_hosts_and_origins_are_refused(headers: dict[str, str], status: int) -> None:
    allowed = {"allowed_hosts": ["127.0.0.1:*"], "allowed_origins": ["http://127.0.0.1:*"]}
    async with Runtime([echo_value], store="memory://") as rt, serving(rt, **allowed) as url:
        async with httpx2.AsyncClient(timeout=PATIENCE) as http:
            needed = {
                "accept": "application/json, text/event-stream",
                "mcp-protocol-version": MODERN,
                "mcp-method": "tools/list",
            }
            response = await http.post(url, json=request("tools/list"), headers={**needed, **headers})
        assert response.status_code == status

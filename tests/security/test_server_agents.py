"""Threads of an agent belong to the key that began them: other keys see an empty thread, on every route."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.kit.waiting import eventually
from tests.scenarios.agent_server_kit import TURN, Gate, replayed, say, script, streamed, with_id
from tests.scenarios.kit import sqlite_url
from tests.scenarios.server_kit import TOOLS, Api, key_for, read_sse, served

from clicket import Policy, tool
from clicket.model.ids import alias_of
from clicket.server import keys
from clicket.tools import ToolContext

SECRET = "sk-live-4f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c"


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else sqlite_url(tmp_path)


@asynccontextmanager
async def talking(folder: Path, store: str, answers: Any = TURN, tools: Any = TOOLS, **more: Any) -> AsyncIterator[Api]:
    agents = {"helper": {"model": script(folder, {"answers": answers, "repeat": True})}}
    async with served(tools, store, agents=agents, **more) as it:
        yield it


def id_of(headers: dict[str, str]) -> str:
    return headers["authorization"].split("_")[1]


async def test_no_thread_of_another(store: str, tmp_path: Path) -> None:
    async with talking(tmp_path, store) as it:
        a, b = await key_for(it, "a", "read", "call"), await key_for(it, "b", "read", "call", "approve")
        await say(it, "my secret plans", thread="shared", headers=a, wait=True)
        own = (await it.get("/agents/shared", headers=a)).json()
        assert own["turns"] == 1
        unused, other = (await it.get("/agents/unused", headers=b)), (await it.get("/agents/shared", headers=b))
        assert other.status_code == 200
        assert other.json() == {**unused.json(), "thread": "shared"}, "it looks like an unused thread"
        history = await it.get("/agents/shared/messages", headers=b)
        assert history.json()["turns"] == []
        assert (await it.post("/agents/shared/stop", headers=b)).json() == {"stopped": False}
        mine = (await say(it, "hello", thread="shared", headers=b, wait=True)).json()
        assert (mine["turn"], len(mine["messages"])) == (1, 4), "a thread of the same name is another thread"
        assert "secret" not in str(mine)
        events = await replayed(it, "1-5.2", thread="shared", headers=b, after="0")
        assert "secret" not in str(events)
        assert (await it.get("/agents/shared", headers=a)).json()["turns"] == 1
        # The turn's own call and its tool calls are the key's, too.
        for call, thread in (("turn-1", "agent:helper/shared"), ("helper.1.1.1", "shared")):
            seen = await it.get(f"/calls/{call}", params={"thread": thread, "caller": id_of(a)}, headers=b)
            assert seen.status_code == 404
        listed = (await it.get("/calls", headers=b)).json()["items"]
        assert {item["caller"] for item in listed} == {id_of(b)}


async def test_a_turn_under_way_is_hidden_from_other_callers(store: str, tmp_path: Path) -> None:
    gate = Gate()
    async with talking(tmp_path, store, [[["gate", {}]], "done"], [gate.tool]) as it:
        a, b = await key_for(it, "a", "read", "call"), await key_for(it, "b", "read", "call")
        await say(it, headers=a, wait=0)
        await gate.reached.wait()
        assert (await it.post("/agents/t/stop", headers=b)).json() == {"stopped": False}
        assert (await it.get("/agents/t", headers=b)).json()["state"] == "idle"
        cancelled = await it.post("/calls/turn-1/cancel", params={"thread": "agent:helper/t"}, headers=b)
        assert cancelled.status_code == 404
        assert (await say(it, headers=b, wait=0)).status_code == 202, "the thread is not busy for another key"
        assert (await say(it, headers=a, wait=0)).status_code == 409
        gate.open.set()
        await it.parts.agents["helper"].acting_for(it.runtime.acting_for(id_of(a))).wait("t", 1)
        assert (await it.get("/agents/t", headers=a)).json()["text"] == "done"


async def test_an_admin_names_the_caller(store: str, tmp_path: Path) -> None:
    async with talking(tmp_path, store) as it:
        a, b = await key_for(it, "a", "read", "call"), await key_for(it, "b", "read", "call")
        root = await key_for(it, "root", "admin")
        await say(it, "mine", headers=a, wait=True)
        assert (await it.get("/agents/t", headers=root)).json()["turns"] == 0, "root has its own thread of that name"
        whose = {"caller": id_of(a)}
        assert (await it.get("/agents/t", params=whose, headers=root)).json()["turns"] == 1
        assert (await it.get("/agents/t/messages", params=whose, headers=root)).json()["turns"][0]["text"] == TURN[1]
        for method, path in (("GET", ""), ("GET", "/messages"), ("GET", "/events"), ("POST", "/stop")):
            refused = await it.request(method, f"/agents/t{path}", params=whose, headers=b)
            assert (refused.status_code, refused.json()["code"]) == (403, "missing_scope"), path
        response = await it.post("/agents/t/messages", params=whose, json={"message": "x"}, headers=b)
        assert response.status_code == 403


async def test_scopes(store: str, tmp_path: Path) -> None:
    async with talking(tmp_path, store) as it:
        reads, calls = await key_for(it, "r", "read"), await key_for(it, "c", "call")
        assert (await say(it, headers=reads, wait=True)).status_code == 403
        assert (await it.post("/agents/t/stop", headers=reads)).status_code == 403
        assert (await say(it, headers=calls, wait=True)).status_code == 200
        for path in ("/agents", "/agents/t", "/agents/t/messages", "/agents/t/events"):
            assert (await it.get(path, headers=calls)).status_code == 403, path
            if not path.endswith("/events"):
                assert (await it.get(path, headers=reads)).status_code == 200, path


async def test_an_agent_may_do_what_its_key_may(store: str, tmp_path: Path) -> None:
    """The agent calls tools with its key's identity: the key's scopes apply, and the calls belong to the key."""

    @tool(permissions=["admin"])
    async def wipe() -> str:
        """Wipe it all."""
        return "wiped"

    async with talking(tmp_path, store, [[["wipe", {}]], "done"], [wipe]) as it:
        a, root = await key_for(it, "a", "read", "call"), await key_for(it, "root", "admin")
        refused = (await say(it, headers=a, wait=True)).json()["messages"][2]
        assert refused["failed"]
        assert "permission_denied" in refused["content"] or "tool_unavailable" in refused["content"]
        assert (await say(it, headers=root, wait=True)).json()["messages"][2]["content"] == "wiped"


async def test_the_inner_tool_is_not_there_for_callers(store: str, tmp_path: Path) -> None:
    async with talking(tmp_path, store) as it:
        arguments = {"message": "x", "thread": "t", "turn": 1, "run": "r"}
        made = await it.call("agent:helper", arguments)
        assert (made.status_code, made.json()["code"]) == (404, "tool_not_found")
        assert "agent:helper" not in (await it.get("/tools")).text
        assert "agent:helper" not in (await it.get("/agents/t/tool-states")).text
        asked = await it.post(
            "/calls", json={"tool": "agent:helper", "arguments": arguments, "thread": "agent:helper/t", "id": "turn-1"}
        )
        assert asked.status_code == 404
        reply = (await say(it, wait=True)).json()
        assert (reply["text"], reply["turn"]) == (TURN[1], 2), "a call with the id of a turn blocks that turn only"


async def test_streams_end_when_their_key_is_revoked(store: str, tmp_path: Path) -> None:
    gate = Gate()
    async with talking(tmp_path, store, [[["gate", {}]], "done"], [gate.tool]) as it:
        a = await key_for(it, "a", "read", "call")

        async def last(method: str, path: str, **more: Any) -> str:
            async with it.stream(method, path, headers=a, **more) as response:
                return [event["event"] async for event in read_sse(response)][-1]

        follows = asyncio.create_task(last("GET", "/agents/t/events"))
        speaks = asyncio.create_task(last("POST", "/agents/t/messages", json={"message": "go"}))
        await gate.reached.wait()
        await eventually(lambda: len(it.parts.event_streams.open) == 2)
        await keys.revoke(it.runtime.store, id_of(a), now=2.0)
        assert await asyncio.gather(follows, speaks) == ["error", "error"]
        gate.open.set()


async def test_approvals_are_listed_for_the_approver(store: str, tmp_path: Path) -> None:
    async with talking(tmp_path, store, policy=Policy(ask=["add"])) as it:
        a, boss = await key_for(it, "a", "read", "call"), await key_for(it, "boss", "approve")
        await say(it, headers=a, wait=0)
        waiting: list[str] = []
        while not waiting:
            items = (await it.get("/calls", params={"waiting_for": "approval"}, headers=boss)).json()["items"]
            waiting = [item["id"] for item in items]
        assert [alias_of(id) for id in waiting] == ["helper.1.1.1"]
        assert (await it.get("/agents/t", headers=boss)).status_code == 403
        assert (await it.post(f"/calls/{waiting[0]}/approve", headers=boss)).status_code == 200
        await it.parts.agents["helper"].acting_for(it.runtime.acting_for(id_of(a))).wait("t", 1)
        assert (await it.get("/agents/t", headers=a)).json()["text"] == TURN[1]


async def test_secrets_are_not_at_rest_in_plain(tmp_path: Path) -> None:
    async with talking(tmp_path, sqlite_url(tmp_path), secret_key="k" * 32) as it:
        await say(it, f"my key is {SECRET}", wait=True)
        history = (await it.get("/agents/t/messages")).json()
        assert SECRET in str(history), "the key that wrote it reads it"
        events = with_id(await streamed(it, f"again {SECRET}"))
        assert SECRET in str(events)
    whole = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.name.startswith("calls.db"))
    assert whole
    assert SECRET.encode() not in whole


async def test_a_slow_reader_costs_a_bounded_memory(tmp_path: Path) -> None:
    """The server drops a reader that does not read; the turn ends all the same."""

    @tool
    async def chatter(ctx: ToolContext) -> str:
        """Say much."""
        for _ in range(400):
            ctx.emit("x" * 4_000)
            await asyncio.sleep(0)
        return "said"

    options = {"stall_timeout": 0.3, "heartbeat": 0.1}
    async with talking(tmp_path, "memory://", [[["chatter", {}]], "done"], [chatter], options=options) as it:
        host, port = it.served.host, it.served.port
        reader, writer = await asyncio.open_connection(host, port, limit=1_000)
        body = b'{"message":"go"}'
        writer.write(
            b"POST /agents/t/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
        )
        await writer.drain()
        await reader.readline()
        while (await it.get("/agents/t")).json()["turns"] == 0:
            pass
        await eventually(lambda: not it.parts.event_streams.open)
        writer.close()

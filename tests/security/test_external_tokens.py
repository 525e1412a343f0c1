"""Tokens of external calls over HTTP: each authorises its own call once, and nothing else. They are in no log."""

from __future__ import annotations

import asyncio
import io
import logging
from pathlib import Path
from typing import Any

import pytest
from tests.kit.waiting import PATIENCE, eventually
from tests.scenarios.cli_kit import Place
from tests.scenarios.kit import sqlite_url
from tests.scenarios.server_kit import Api, key_for, served

from clicket import ToolContext, tool
from clicket.client import Client, SyncClient
from clicket.errors import Conflict, NotFound
from clicket.server.access_log import AccessLog
from clicket.sync import Runtime as SyncRuntime

tokens: dict[str, str] = {}


@tool(external=True, timeout=600.0)
async def job(ctx: ToolContext, name: str = "") -> None:
    tokens[ctx.call_id] = ctx.pending(token_for="vendor").token


ACTIONS: dict[str, Any] = {
    "complete": {"output": 1},
    "fail": {"error": "no"},
    "output": {"output": "x"},
    "heartbeat": {},
}


async def begun(it: Api, id: str, headers: dict[str, str] | None = None) -> str:
    await it.post("/calls", json={"tool": "job", "arguments": {}, "id": id}, headers=headers)
    await eventually(lambda: _waits(it, id))
    return tokens[id]


async def _waits(it: Api, id: str) -> bool:
    return (await it.runtime.get(id)).waiting_for == "external"


@pytest.mark.parametrize("action", ACTIONS)
async def test_the_token_alone_authorises(action: str) -> None:
    async with served([job]) as it:
        key = await key_for(it, "a", "read", "call")
        token = await begun(it, "c", key)
        other = await begun(it, "d", key)
        path, body = f"/external/{token}/{action}", ACTIONS[action]
        done = await it.post(path, json=body)
        assert (done.status_code, done.json()) == (200, {"id": "c"})
        again = await it.post(path, json=body)
        ends = action in ("complete", "fail")
        assert again.status_code == (409 if ends else 200)
        assert (await it.post(path, json=body, headers=key)).status_code == again.status_code, "a key changes nothing"
        # Neither a key of any scope nor another call's token does anything to it.
        assert (await it.runtime.get("d")).state.value == "running"
        for wrong in (token[:-1], token[:-2] + other[-2:], other.rpartition("-")[0] + "-Yw", "d", "x"):
            for headers in ({}, key, await key_for(it, "root", "admin")):
                refused = await it.post(f"/external/{wrong}/{action}", json=body, headers=headers)
                assert refused.status_code == 404, wrong
                assert token not in refused.text


async def test_no_other_route_takes_the_token() -> None:
    async with served([job]) as it:
        key = await key_for(it, "a", "read", "call", "approve")
        token = await begun(it, "c", key)
        for headers in ({"authorization": f"Bearer {token}"}, {"x-api-key": token}):
            for path in ("/calls", "/calls/c", "/unknown", "/approvals"):
                assert (await it.get(path, headers=headers)).status_code == 401
        for method in ("GET", "PUT", "DELETE"):
            response = await it.request(method, f"/external/{token}/complete")
            assert response.status_code == 405
        for path in ("", "/", "/complete/x", "/cancel", "/../calls", "/%2e%2e/%2e%2e/calls"):
            response = await it.post(f"/external/{token}{path}", json={})
            assert response.status_code in (401, 404), path
            assert token not in response.text
        assert (await it.get("/external/../calls/c")).status_code in (401, 404)
        record = (await it.get("/calls/c", headers=key)).text
        assert token not in record


async def test_bodies_are_judged_and_a_wrong_token_costs_no_body() -> None:
    async with served([job], options={"max_body_size": 2_000}) as it:
        token = await begun(it, "c")
        for action, body, status in (
            ("fail", {}, 422),
            ("fail", {"error": ""}, 422),
            ("complete", {"outputs": 1}, 422),
            ("heartbeat", {"step": "x"}, 422),
            ("complete", {"output": "x" * 3_000}, 413),
        ):
            response = await it.post(f"/external/{token}/{action}", json=body)
            assert response.status_code == status, (action, response.text)
        assert (
            await it.post(f"/external/{token}/complete", content=b"{}", headers={"content-type": "text/plain"})
        ).status_code == 415
        wrong = await it.post("/external/nonsense/complete", json={"output": "x" * 3_000})
        assert wrong.status_code == 404, "the token is checked first"
        assert (await it.post(f"/external/{token}/heartbeat", json={"step": 1, "total": 2})).status_code == 200
        assert (await it.post(f"/external/{token}/complete")).status_code == 200, "a body may be left out"
        await eventually(lambda: _ended(it, "c"))


async def _ended(it: Api, id: str) -> bool:
    return (await it.runtime.state(id)).is_terminal


async def test_the_token_is_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    lines = io.StringIO()
    caplog.set_level(logging.DEBUG)
    async with served([job], options={"access_log": True, "access_lines": AccessLog(lines, json=False)}) as it:
        token = await begun(it, "c")
        for action, body in reversed(ACTIONS.items()):
            await it.post(f"/external/{token}/{action}", json=body)
        await it.post(f"/external/{token}/nothing", json={})
        await it.get(f"/external/{token}/complete")
        await asyncio.sleep(0.1)
    secret = token[4:40]
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("clicket")]
    assert "/external/{token}/complete" in lines.getvalue()
    assert secret not in lines.getvalue()
    assert not any(secret in line for line in ours)


async def test_one_of_many_requests_wins() -> None:
    async with served([job]) as it:
        token = await begun(it, "c")
        sent = [it.post(f"/external/{token}/complete", json={"output": n}) for n in range(12)]
        statuses = [response.status_code for response in await asyncio.gather(*sent)]
        assert sorted(statuses) == [200] + [409] * 11
        await eventually(lambda: _ended(it, "c"))
        assert (await it.runtime.get("c")).output == statuses.index(200)


async def test_by_the_clients() -> None:
    async with served([job]) as it, Client(it.url) as client:
        token = await begun(it, "c")
        await client.emit(token, "a")
        await client.heartbeat(token)
        await client.report_progress(token, 1, 2, "half")
        assert await client.complete(token) == "c"
        with pytest.raises(Conflict):
            await client.fail(token, "no")
        for wrong in ("x", "../calls/c", token[:-1]):
            with pytest.raises(NotFound):
                await client.complete(wrong, 1)
        other = await begun(it, "d")

        def block() -> str:
            with SyncClient(it.url) as blocking:
                blocking.emit(other, "x")
                blocking.heartbeat(other)
                blocking.report_progress(other, 1)
                return blocking.fail(other, "broken")

        assert await asyncio.to_thread(block) == "d"
        await eventually(lambda: _ended(it, "d"))


def test_by_the_command_line(tmp_path: Path) -> None:
    place = Place(tmp_path, sqlite_url(tmp_path), "tests.security.test_external_tokens:job")
    with SyncRuntime([job], store=place.store) as rt:
        for id in ("a", "b"):
            rt.submit("job", id=id)
            while rt.get(id).waiting_for != "external":
                pass
        assert place.ask("complete", tokens["a"], "--output", '{"n": 1}') == {"id": "a", "result": "completed"}
        assert place.ask("fail", tokens["b"], "--error", "broken", "--type", "Broken") == {
            "id": "b",
            "result": "failed",
        }
        assert rt.handle("b").result(timeout=PATIENCE).state.value == "failed"
        with pytest.raises(Conflict):
            rt.complete(tokens["b"], 1)
    again = place.inside("complete", tokens["a"])
    assert again.returncode != 0
    assert "has its result already" in again.stderr
    assert place.inside("complete", "nonsense").returncode != 0
    shown = place.inside("show", "a", "--events").stdout
    assert "completed outside" in shown

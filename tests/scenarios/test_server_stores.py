"""Two servers over one Redis or PostgreSQL share keys, calls, files, events and approvals."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest
from tests.kit.waiting import PATIENCE
from tests.postgres_server import postgres_server
from tests.redis_server import redis_server
from tests.scenarios.server_kit import key_for, read_sse, served

from clicket import Policy
from clicket.server import keys

CONTENT = bytes(range(256)) * 8_000


@pytest.fixture(params=["redis", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "redis":
        with redis_server(tmp_path) as redis:
            yield redis.url
    else:
        with postgres_server() as postgres:
            yield postgres.url()


async def test_two_servers_over_one_store(url: str) -> None:
    policy = Policy(ask=["echo"])
    async with served(store=url, policy=policy) as one, served(store=url, policy=policy) as two:
        a = await key_for(one, "a", "read", "call", "approve")
        b = await key_for(one, "b", "read", "call")
        two.parts.authenticator.checked_at = float("-inf")
        assert (await two.get("/calls")).status_code == 401

        made = (await one.call("long", {"size": 3_000}, id="x", headers=a)).json()
        again = (await two.call("long", {"size": 3_000}, id="x", headers=a)).json()
        assert again["artifact"] == made["artifact"]
        assert (await two.get("/calls/x/result", headers=a)).text == "x" * 3_000
        assert (await two.get(f"/artifacts/{made['artifact']}", headers=a)).text == "x" * 3_000
        assert (await two.get(f"/artifacts/{made['artifact']}", headers=b)).status_code == 404
        assert (await two.get("/calls/x", headers=b)).status_code == 404

        name = (await one.post("/artifacts", content=CONTENT, headers=b)).json()["id"]
        part = await two.get(f"/artifacts/{name}", headers={**b, "range": "bytes=1000000-1000009"})
        assert part.content == CONTENT[1_000_000:1_000_010]
        assert (await two.get(f"/artifacts/{name}", headers=b)).content == CONTENT

        async with (
            asyncio.timeout(PATIENCE),
            two.stream("GET", "/events", headers=b) as response,
            aclosing(read_sse(response)) as stream,
        ):
            await one.call("add", {"a": 1, "b": 1}, id="seen", headers=b)
            await one.call("add", {"a": 1, "b": 1}, id="hidden", headers=a)
            seen = []
            async for event in stream:
                seen.append((event["data"]["call_id"], event["data"]["seq"]))
                if event["data"]["state"] == "completed":
                    break
        assert seen == [("seen", number) for number in range(1, len(seen) + 1)]

        await one.post("/calls", json={"tool": "echo", "id": "w", "arguments": {"value": 7}}, headers=b)
        decided = await two.post("/calls/w/approve", headers=a)
        assert decided.status_code == 200
        waited = await one.post(
            "/calls", json={"tool": "echo", "id": "w", "arguments": {"value": 7}, "wait": 20}, headers=b
        )
        assert waited.json()["output"] == 7

        await keys.revoke(one.runtime.store, b["authorization"].split("_")[1], now=time.time())
        assert (await two.get("/tools", headers=b)).status_code == 401

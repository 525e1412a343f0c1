"""`/mcp` of clicket's own server: keys and scopes apply to MCP as to every route."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest
from tests.kit.tools import add
from tests.kit.waiting import PATIENCE
from tests.mcp.kit import BOTH, MODERN, Hand, connected, listening
from tests.mcp.test_serving import text_of

from clicket import Policy, Runtime, tool
from clicket.server import Options, create_app

ALICE, BOB, BOSS, READER = ("alices-secret-key-1", "bobs-secret-key-12", "the-boss-secret-key", "a-readers-secret-key")
KEYS = (f"alice:read+call:{ALICE}", f"bob:read+call:{BOB}", f"boss:read+call+approve:{BOSS}", f"reader:read:{READER}")


@tool(tags={"mcp:task"})
async def pay(amount: int) -> str:
    """Pays, after approval."""
    return f"paid {amount}"


@asynccontextmanager
async def served(*, self_approval: bool = False) -> AsyncIterator[tuple[Runtime, str]]:
    policy = Policy(ask=["pay"], self_approval=self_approval)
    async with Runtime([add, pay], store="memory://", policy=policy) as rt:
        app = create_app(rt, Options(api_keys=KEYS))
        async with app.router.lifespan_context(app), listening(app) as address:
            yield rt, f"{address}/mcp"


@pytest.mark.parametrize("mode", BOTH)
async def test_calls_belong_to_the_key(mode: str) -> None:
    async with served() as (rt, url), connected(url, mode, key=ALICE) as client:
        assert text_of(await client.call_tool("add", {"a": 1, "b": 2})) == "3"
        (record,) = (await rt.history()).items
        assert record.caller
        assert (await rt.acting_for(record.caller).get(record.id)).id == record.id


async def test_no_request_is_served_without_a_key_that_may_call() -> None:
    async with served() as (_, url), httpx2.AsyncClient(timeout=PATIENCE) as http:
        statuses = {}
        for name, key in (("nobody", None), ("stranger", "no-such-key-at-all"), ("reader", READER)):
            headers = {} if key is None else {"authorization": f"Bearer {key}"}
            statuses[name] = (await http.post(url, json={}, headers=headers)).status_code
        assert statuses == {"nobody": 401, "stranger": 401, "reader": 403}


async def test_another_key_does_not_find_the_task_and_only_some_may_approve() -> None:
    async with served() as (rt, url), Hand(url, key=ALICE) as alice, Hand(url, key=BOB) as bob:
        id = (await alice.call("pay", amount=5))["taskId"]
        assert (await bob.error("tasks/get", taskId=id))["code"] == -32602

        asked = await alice.task(id, "input_required")
        assert (asked["inputRequests"], "scope approve" in asked["statusMessage"]) == ({}, True)
        await rt.approve(id)
        assert (await alice.task(id, "completed"))["result"]["content"][0]["text"] == "paid 5"


async def test_a_key_approves_its_own_tasks_only_if_the_policy_says_so() -> None:
    async with served() as (rt, url), Hand(url, key=BOSS) as boss:
        own = (await boss.call("pay", amount=7))["taskId"]
        asked = await boss.task(own, "input_required")
        assert (asked["inputRequests"], "another person" in asked["statusMessage"]) == ({}, True)
        responses = {"approval": {"action": "accept", "content": {"approve": True}}}
        refused = await boss.error("tasks/update", taskId=own, inputResponses=responses)
        assert "another person" in refused["message"]
        assert (await rt.get(own)).waiting_for == "approval"
    async with served(self_approval=True) as (rt, url), Hand(url, key=BOSS) as boss:
        own = (await boss.call("pay", amount=7))["taskId"]
        asked = await boss.task(own, "input_required")
        (key,) = asked["inputRequests"]
        await boss.answer(own, **{key: {"action": "accept", "content": {"approve": True}}})
        assert (await boss.task(own, "completed"))["result"]["content"][0]["text"] == "paid 7"


async def test_a_foreign_page_is_refused() -> None:
    async with served() as (_, url), httpx2.AsyncClient(timeout=PATIENCE) as http:
        headers = {"authorization": f"Bearer {ALICE}", "mcp-protocol-version": MODERN, "origin": "http://evil.example"}
        assert (await http.post(url, json={}, headers=headers)).status_code == 403

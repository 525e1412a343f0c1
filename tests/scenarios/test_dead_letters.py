"""Calls that were given up: which they are, and that each can be requeued once, over every interface."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.scenarios.cli_kit import Place
from tests.scenarios.kit import make, sqlite_url
from tests.scenarios.server_kit import key_for, served

from clicket import Policy, RetryableError, Runtime, State, tool
from clicket.client import Client
from clicket.errors import Conflict
from clicket.sync import Runtime as SyncRuntime

broken = {"is": True}


@tool(max_retries=1, retry_delay=0.001)
async def flaky() -> str:
    """Fails while it is broken."""
    if broken["is"]:
        raise RetryableError("down")
    return "up"


@tool(timeout=0.01)
async def slow() -> None:
    """Never ends in time."""
    await asyncio.Event().wait()


@tool
async def add(a: int, b: int) -> int:
    return a + b


ALL = [flaky, slow, add]


@pytest.fixture(autouse=True)
def _broken() -> None:
    broken["is"] = True


async def fill(rt: Runtime) -> None:
    await rt.call("flaky", id="failed", thread="t")
    await rt.call("slow", id="late")
    await rt.call("add", {"a": 1, "b": 2}, id="good")
    await rt.call("add", {"a": "one"}, id="refused")
    handle = await rt.submit("add", {"a": 1, "b": 2}, id="asked", thread="ask")
    await rt.cancel(handle.id)


async def test_calls_that_were_given_up_are_listed_and_requeued_once(store: str) -> None:
    async with make(ALL, store) as rt:
        await fill(rt)
        page = await rt.dead()
        assert [(call.id, call.state, call.error.code, call.attempts) for call in page.items] == [
            ("late", State.TIMEOUT, "timeout", 1),
            ("failed", State.FAILED, "tool_error", 2),
        ]
        assert page.items[1].worker == rt.workers.id
        assert [call.id for call in (await rt.dead(tool="slow")).items] == ["late"]
        assert [call.id for call in (await rt.dead(thread="t")).items] == ["failed"]
        first = await rt.dead(limit=1)
        second = await rt.dead(limit=1, cursor=first.cursor)
        assert ([call.id for call in (*first.items, *second.items)], second.cursor) == (["late", "failed"], None)

        broken["is"] = False
        handle = await rt.requeue("failed")
        assert (await handle.result()).output == "up"
        assert (await rt.get(handle.id)).metadata["again_of"] == "failed"
        assert (await rt.requeue("failed")).id == handle.id, "a second requeue changes nothing"
        assert [call.id for call in (await rt.dead()).items] == ["late"]
        both = (await rt.dead(requeued=True)).items
        assert [call.requeued_as for call in both] == [None, handle.id]
        for id in ("good", "refused", "asked"):
            with pytest.raises(Conflict, match="not dead"):
                await rt.requeue(id)


async def test_a_call_that_waits_for_a_person_is_not_dead(sqlite: str) -> None:
    async with make(ALL, sqlite, policy=Policy(ask=["add"])) as rt:
        await rt.submit("add", {"a": 1, "b": 2}, id="waits")
        assert (await rt.dead()).items == []


async def test_over_http_each_key_sees_its_own(sqlite: str) -> None:
    async with served(ALL, sqlite) as it:
        ann, bob = await key_for(it, "ann", "call", "read"), await key_for(it, "bob", "call", "read")
        ops = await key_for(it, "ops", "admin")
        await it.call("flaky", id="mine", headers=ann)
        assert [call["id"] for call in (await it.get("/dead", headers=ann)).json()["items"]] == ["mine"]
        assert (await it.get("/dead", headers=bob)).json() == {"items": [], "cursor": None}
        assert [call["id"] for call in (await it.get("/dead?tool=flaky&limit=5", headers=ops)).json()["items"]] == [
            "mine"
        ]
        assert (await it.post("/calls/mine/requeue", headers=bob)).status_code == 404
        broken["is"] = False
        made = await it.post("/calls/mine/requeue", headers=ops)
        assert (made.status_code, made.json()["again_of"]) == (202, "mine")
        assert made.headers["location"].startswith("/calls/")
        assert (await it.get("/dead", headers=ann)).json()["items"] == []
        assert [call["requeued_as"] for call in (await it.get("/dead?requeued=true", headers=ann)).json()["items"]] == [
            made.json()["id"]
        ]


async def test_by_the_client(store: str) -> None:
    async with served(ALL, store) as it, Client(it.url) as client:
        await client.call("flaky", id="failed")
        assert [call.id for call in (await client.dead()).items] == ["failed"]
        broken["is"] = False
        assert (await (await client.requeue("failed")).result()).output == "up"
        with pytest.raises(Conflict):
            await client.requeue((await client.dead(requeued=True)).items[0].requeued_as or "")


def test_on_the_command_line(tmp_path: Path) -> None:
    place = Place(tmp_path, sqlite_url(tmp_path), "tests.scenarios.test_dead_letters:ALL")
    assert place.ask("dead") == {"items": [], "cursor": None}, "also before there is a store"
    with SyncRuntime(ALL, store=place.store) as rt:
        rt.call("flaky", id="failed")
        rt.call("add", {"a": 1, "b": 2}, id="good")
        assert [call.id for call in rt.dead().items] == ["failed"]
    assert [call["id"] for call in place.ask("dead")["items"]] == ["failed"]
    assert "tool_error" in place.inside("dead").stdout
    done = place.inside("requeue", "fail", "good", "--json")
    assert done.returncode == 1, "one of them is not dead"
    again, refused = json.loads(done.stdout)["items"]
    assert (again["again_of"], refused["error"]["code"]) == ("failed", "conflict")
    assert place.ask("dead")["items"] == []
    broken["is"] = False
    with SyncRuntime(ALL, store=place.store) as rt:
        assert rt.handle(again["id"]).result().output == "up"

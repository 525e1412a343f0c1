"""Undo over HTTP, from the client, the blocking runtime and the command line."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.kit.waiting import eventually
from tests.scenarios.agent_server_kit import script
from tests.scenarios.cli_kit import Place
from tests.scenarios.kit import sqlite_url
from tests.scenarios.server_kit import key_for, served

from clicket import Policy, Record, ToolContext, tool
from clicket.client import Client
from clicket.errors import UsageError
from clicket.model.undo import undo_id
from clicket.sync import Runtime as SyncRuntime

undone: list[str] = []


async def revert(call: Record, ctx: ToolContext) -> None:
    undone.append(call.id)


@tool(undo=revert)
async def pay(bill: str) -> str:
    return f"paid {bill}"


@tool
async def mail(to: str) -> str:
    return "sent"


ALL = [pay, mail]


@pytest.fixture(autouse=True)
def _clean() -> None:
    undone.clear()


async def test_a_call_over_http() -> None:
    async with served(ALL) as it:
        owner, other = [await key_for(it, name, "call", "read") for name in ("ann", "bob")]
        await it.call("pay", {"bill": "a"}, id="c", headers=owner)
        assert (await it.post("/calls/c/undo", headers=other)).status_code == 404
        dry = (await it.post("/calls/c/undo", json={"dry": True}, headers=owner)).json()
        assert ([each["id"] for each in dry["waiting"]], undone) == (["c"], [])
        answer = await it.post("/calls/c/undo", headers=owner)
        assert (answer.status_code, [each["undo"] for each in answer.json()["undone"]]) == (200, [undo_id("c")])
        assert (await it.post("/calls/c/undo", json={"retry": True}, headers=owner)).json() == answer.json()
        assert (await it.post("/calls/c/undo", json={"wait": -1}, headers=owner)).status_code == 422
    assert undone == ["c"]


async def test_an_undo_that_waits_for_a_person_goes_on() -> None:
    async with served(ALL, policy=Policy(ask=["undo:*"])) as it, Client(it.url) as client:
        await it.call("pay", {"bill": "a"}, id="c")
        answer = await it.post("/calls/c/undo", json={"wait": 0})
        assert answer.status_code == 202
        waiting = asyncio.ensure_future(client.undo("c"))

        async def asked() -> bool:
            return bool((await it.runtime.history(waiting_for="approval")).items)

        await eventually(asked)
        report = (await it.post("/calls/c/undo", json={"dry": True})).json()
        assert "waits for approval" in report["unknown"][0]["reason"]
        await client.approve(undo_id("c"))
        assert (await waiting).undone
    assert undone == ["c"]


async def test_a_turn_over_http_and_by_the_client(tmp_path: Path) -> None:
    answers = [[["pay", {"bill": "a"}], ["mail", {"to": "me"}]], "done"]
    agents = {"helper": {"model": script(tmp_path, {"answers": answers, "repeat": True})}}
    async with served(ALL, agents=agents) as it, Client(it.url) as client:
        await client.agent("helper").run("go", thread="t")
        report = await client.undo(thread="t", turn=1, dry=True)
        assert ([each.tool for each in report.waiting], [each.tool for each in report.impossible]) == (
            ["pay"],
            ["mail"],
        )
        report = await client.undo(thread="t", turn=1, agent="helper")
        assert ([each.tool for each in report.undone], len(undone)) == (["pay"], 1)
        body = {"turn": 1, "agent": "helper"}
        assert len((await it.post("/agents/t/undo", json=body)).json()["undone"]) == 1
        assert (await it.post("/agents/t/undo", json={"turn": 7})).status_code == 404
        assert (await it.post("/agents/t/undo", json={})).status_code == 422
        with pytest.raises(UsageError):
            await client.undo("x", turn=1)
        other = await client.agent("helper").begin("again", thread="t")
        del other
    assert len(undone) == 1


def test_the_blocking_runtime_undoes() -> None:
    with SyncRuntime(ALL, store="memory://") as rt:
        rt.call("pay", {"bill": "a"}, id="c")
        assert rt.undo("c").is_complete
    assert undone == ["c"]


def test_a_command_undoes(tmp_path: Path) -> None:
    place = Place(tmp_path, sqlite_url(tmp_path), "tests.scenarios.test_undo_interfaces:ALL")
    with SyncRuntime(ALL, store=place.store) as rt:
        rt.call("pay", {"bill": "a"}, id="c")
        rt.call("mail", {"to": "me"}, id="m")
    dry = place.inside("undo", "c", "--dry")
    assert (dry.returncode, "would undo" in dry.stdout + dry.stderr, undone) == (0, True, [])
    assert len(place.ask("undo", "c")["undone"]) == len(place.ask("undo", "c")["undone"]) == 1
    assert "has no undo" in place.ask("undo", "m")["impossible"][0]["reason"]
    assert place.inside("undo").returncode == 2
    assert undone == ["c"]

"""The list of threads: conversations with their last activity, counts and agents, each visible to its own caller."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.kit.tools import add, breaks
from tests.scenarios.agent_server_kit import Gate, say, served_agent
from tests.scenarios.cli_kit import Place
from tests.scenarios.kit import make, sqlite_url
from tests.scenarios.server_kit import TOOLS, key_for, served

from clicket import Runtime
from clicket.client import Client
from clicket.errors import UsageError
from clicket.ports import Keep
from clicket.sync import Runtime as SyncRuntime


@pytest.mark.parametrize("kind", ["runtime", "client"])
async def test_threads_and_their_counts(kind: str) -> None:
    async def check(rt: Runtime | Client) -> None:
        assert (await rt.threads()).items == []
        for number in range(7):
            await rt.call("add", {"a": 1, "b": number}, thread=f"t{number % 3}")
        await rt.call("breaks", {}, thread="t1")
        page = await rt.threads()
        assert [item.name for item in page.items] == ["t1", "t0", "t2"], "the newest call first"
        assert page.cursor is None
        first = page.items[0]
        assert (first.caller, first.total, first.active, first.counts) == ("", 3, 0, {"completed": 2, "failed": 1})
        assert (first.agent_state, first.agents) == (None, [])
        newest = (await rt.history(limit=1)).items[0]
        assert first.last_activity_at == newest.ended_at
        names, cursor = [], None
        while True:
            page = await rt.threads(limit=1, cursor=cursor)
            names += [item.name for item in page.items]
            cursor = page.cursor
            if cursor is None:
                break
        assert names == ["t1", "t0", "t2"], "each once"
        for wrong in ({"limit": 0}, {"limit": 1001}, {"cursor": "x"}):
            with pytest.raises(UsageError):
                await rt.threads(**wrong)

    if kind == "runtime":
        async with make((add, breaks)) as runtime:
            await check(runtime)
    else:
        async with served((add, breaks)) as it, Client(it.url) as client:
            await check(client)


async def test_a_conversation_with_an_agent(tmp_path: Path) -> None:
    gate = Gate()
    answers = [[["gate", {}], ["add", {"a": 1, "b": 1}]], "Done."]
    async with served_agent(tmp_path, answers, tools=(*TOOLS, gate.tool)) as it:
        under_way = asyncio.create_task(say(it, "go", thread="chat", wait=True))
        await gate.reached.wait()
        (running,) = (await it.get("/threads")).json()["items"]
        assert (running["name"], running["agent_state"], running["active"]) == ("chat", "running", 1)
        gate.open.set()
        assert (await under_way).json()["text"] == "Done."
        assert (await say(it, "again", thread="talk", wait=True)).json()["text"] == "Done."
        items = (await it.get("/threads")).json()["items"]
        assert [(item["name"], item["agent_state"], item["total"]) for item in items] == [
            ("talk", "finished", 2),
            ("chat", "finished", 2),
        ]
        assert [(agent["name"], agent["turns"]) for agent in items[1]["agents"]] == [("helper", 1)]
        names = []
        cursor = ""
        while True:
            page = (await it.get(f"/threads?limit=1{cursor}")).json()
            names += [item["name"] for item in page["items"]]
            if page["cursor"] is None:
                break
            cursor = f"&cursor={page['cursor']}"
        assert names == ["talk", "chat"], "turns and tool calls form one thread, on one page"
        await it.runtime.store.sweep(
            Keep(since=1e11), 1_000
        )  # a sweep of the runtime would keep them with their thread
        left = (await it.get("/threads")).json()["items"]
        assert sorted((item["name"], item["agent_state"], item["total"]) for item in left) == [
            ("chat", "finished", 0),
            ("talk", "finished", 0),
        ], "an agent's memory outlives its calls"


async def test_each_key_sees_its_own() -> None:
    async with served((add,)) as it:
        admin, mine = await key_for(it, "admin", "admin"), await key_for(it, "mine", "call", "read")
        other, caller = await key_for(it, "other", "call", "read"), await key_for(it, "caller", "call")
        for headers in (mine, other):
            await it.call("add", {"a": 1, "b": 1}, thread="same", headers=headers)

        async def listed(headers: Any, query: str = "") -> Any:
            return await it.get(f"/threads{query}", headers=headers)

        assert [item["total"] for item in (await listed(mine)).json()["items"]] == [1]
        of_all = (await listed(admin)).json()["items"]
        assert [item["name"] for item in of_all] == ["same", "same"]
        assert len({item["caller"] for item in of_all}) == 2
        named = (await listed(admin, f"?caller={of_all[0]['caller']}")).json()["items"]
        assert named == of_all[:1]
        assert (await listed(mine, f"?caller={of_all[0]['caller']}")).status_code == 403
        assert (await listed(caller)).status_code == 403
        bad = await listed(mine, "?cursor=nope")
        assert (bad.status_code, bad.json()["code"]) == (400, "invalid_query")


def test_on_the_command_line(tmp_path: Path) -> None:
    place = Place(tmp_path, sqlite_url(tmp_path), "")
    assert place.ask("threads") == {"items": [], "cursor": None}
    with SyncRuntime((add,), store=place.store) as rt:
        rt.call("add", {"a": 1, "b": 2}, thread="t1")
        assert [item.name for item in rt.threads().items] == ["t1"]
    (listed,) = place.ask("threads")["items"]
    assert (listed["name"], listed["counts"]) == ("t1", {"completed": 1})
    assert "t1" in place.inside("threads").stdout

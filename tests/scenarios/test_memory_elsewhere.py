"""Memory and `forget` over HTTP, in the client, in the blocking interfaces and on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.scenarios.agent_server_kit import script
from tests.scenarios.cli_kit import Place
from tests.scenarios.kit import sqlite_url
from tests.scenarios.server_kit import key_for, served, serving_in_thread

import clicket.sync
from clicket.client import Client, SyncClient
from clicket.errors import InvalidInput, NotFound, PermissionDenied, UsageError

TEA = "The user drinks tea."


def key_in(header: dict[str, str]) -> str:
    return header["authorization"].removeprefix("Bearer ")


async def test_a_key_has_its_own_memory_and_an_admin_names_another(tmp_path: Path) -> None:
    answers = [[["remember", {"fact": TEA}], ["write_todo", {"items": [{"text": "look"}]}]], "noted"]
    table = {"model": script(tmp_path, {"answers": answers, "repeat": True}), "memory": "caller", "todo": True}
    async with served(agents={"helper": table}) as it:
        ann, bob, admin = [await key_for(it, name, "read", "call") for name in ("ann", "bob")] + [
            await key_for(it, "root", "read", "call", "admin")
        ]
        async with Client(it.url, key=key_in(ann)) as mine, Client(it.url, key=key_in(bob)) as theirs:
            await mine.agent("helper").run("I drink tea.", thread="t")
            (fact,) = await mine.memory.list()
            assert (fact.text, fact.by) == (TEA, "model")
            assert await theirs.memory.list() == []
            for attempt in (theirs.memory.edit(fact.id, "x"), theirs.memory.forget(fact.id)):
                with pytest.raises(NotFound):
                    await attempt
            whose = (await it.runtime.history(thread="t")).items[0].caller
            for refused in (theirs.memory.list(caller=whose), theirs.forget(caller=whose)):
                with pytest.raises(PermissionDenied):
                    await refused
            assert (await mine.memory.edit(fact.id, "The user drinks green tea.")).by == "ann"
            own = await mine.memory.add("The user has a dog.", agent="helper")
            assert [each.id for each in await mine.memory.list(agent="helper")] == [own.id]
            with pytest.raises(InvalidInput):
                await mine.memory.add("x" * 501)
            await mine.memory.forget(own.id)
            await theirs.memory.add("about bob")
            async with Client(it.url, key=key_in(admin)) as root:
                assert [each.text for each in await root.memory.list(caller=whose)] == ["The user drinks green tea."]
                report = await root.forget(caller=whose)
            assert (report.caller, report.threads, report.facts) == (whose, 1, 1)
            assert await mine.memory.list() == []
            assert [each.text for each in await theirs.memory.list()] == ["about bob"]
            assert (await theirs.forget()).facts == 1
            audited = [
                (each.what, each.who) for each in await it.runtime.audit.list() if each.what.startswith("caller")
            ]
            assert audited == [("caller.forgotten", "bob"), ("caller.forgotten", "root")]


async def test_a_server_without_keys_is_told_whom_to_forget() -> None:
    async with served() as it:
        await it.runtime.memory.add(TEA)
        assert (await it.post("/forget")).status_code == 400
        assert (await it.get("/memory")).json()["items"][0]["text"] == TEA
        assert (await it.post("/forget?caller=")).json()["facts"] == 1
        assert (await it.get("/memory")).json() == {"items": []}


def test_the_blocking_interfaces() -> None:
    with clicket.sync.Runtime(store="memory://") as rt:
        fact = rt.memory.add(TEA, caller="ann")
        assert rt.memory.edit(fact.id, "coffee", caller="ann").text == "coffee"
        assert [each.text for each in rt.memory.list(caller="ann")] == ["coffee"]
        assert rt.memory.forget(fact.id, caller="ann").id == fact.id
        rt.memory.add(TEA, caller="ann")
        assert rt.forget(caller="ann").facts == 1
        with pytest.raises(UsageError, match="is not the name of an agent"):
            rt.memory.add(TEA, agent="a/b")
    with serving_in_thread() as url, SyncClient(url) as client:
        fact = client.memory.add(TEA)
        assert client.memory.list() == [fact]
        assert client.forget(caller="").facts == 1


def test_the_command_line(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path)
    place = Place(tmp_path, url, "")
    assert "nothing is remembered" in place.inside("memory").stderr
    with clicket.sync.Runtime(store=url) as rt:
        fact = rt.memory.add(TEA, caller="ann")
        rt.memory.add("about bob", caller="bob")
    assert "tea" in place.inside("memory", "list", "--caller", "ann").stdout
    assert (
        "changed"
        in place.inside("memory", "edit", fact.id, "The user drinks \x1b[31mcoffee.", "--caller", "ann").stderr
    )
    shown = place.inside("memory", "list", "--caller", "ann").stdout
    assert "coffee" in shown
    assert "\x1b" not in shown
    assert place.inside("memory", "forget", fact.id, "--caller", "bob").returncode == 2
    assert place.ask("memory", "forget", fact.id, "--caller", "ann")["id"] == fact.id
    assert "1 facts" in place.inside("forget", "bob").stderr
    report = json.loads(place.inside("--json", "forget", "bob").stdout)
    assert (report["caller"], report.get("facts", 0)) == ("bob", 0)

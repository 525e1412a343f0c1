"""Unknown outcomes: listed by age, settled once by a person, over every interface. The recorded outcome stays."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.kit.waiting import PATIENCE, eventually
from tests.scenarios.cli_kit import Place
from tests.scenarios.kit import assert_sound, make, sqlite_url
from tests.scenarios.server_kit import Api, key_for, served
from tests.scenarios.test_recovery import crash, effects, reopen

from clicket import State, ToolContext, tool
from clicket.agents import ReActAgent
from clicket.client import Client, SyncClient
from clicket.errors import Conflict, NotFound, PermissionDenied, UsageError
from clicket.model import Record
from clicket.runtime.calls.dead_letters import requeued_id
from clicket.subscription import EventFilter
from clicket.sync import Runtime as SyncRuntime
from clicket.testing import ScriptedModel
from clicket.tools.rest import OutcomeUnknown

lost = {"is": True}


@tool
async def pay(amount: int) -> str:
    """Pay. The connection breaks, so it is not known whether it did."""
    if lost["is"]:
        raise OutcomeUnknown("the connection broke after the request was sent")
    return f"paid {amount}"


@tool(sensitive=["password"])
async def sign_in(password: str) -> None:
    raise OutcomeUnknown("no answer")


@tool
async def add(a: int, b: int) -> int:
    return a + b


ALL = [pay, sign_in, add]


@pytest.fixture(autouse=True)
def _lost() -> None:
    lost["is"] = True


def settled(record: Record) -> dict[str, Any]:
    assert record.resolution is not None
    return {name: value for name, value in record.resolution.items() if name != "at"}


async def test_unknown_outcomes_are_listed_by_age_until_they_are_settled(store: str) -> None:
    async with make(ALL, store) as rt:
        await rt.call("add", {"a": 1, "b": 2}, id="good")
        for id, thread in (("a", "t"), ("b", "u"), ("c", "t")):
            await rt.call("pay", {"amount": 5}, id=id, thread=thread)
        assert [call.id for call in (await rt.unknown()).items] == ["a", "b", "c"]
        assert [call.id for call in (await rt.unknown(thread="t", tool="pay")).items] == ["a", "c"]
        first = await rt.unknown(limit=2)
        rest = await rt.unknown(limit=2, cursor=first.cursor)
        assert ([call.id for call in (*first.items, *rest.items)], rest.cursor) == (["a", "b", "c"], None)

        before = await rt.get("a")
        news = rt.subscribe(EventFilter(types=frozenset({"resolved"})))
        record = await rt.resolve("a", happened=True, output={"receipt": 7}, by="ann", note="on the statement")
        assert settled(record) == {
            "happened": True, "output": {"receipt": 7}, "by": "ann", "note": "on the statement", "rerun_as": None,
        }  # fmt: skip
        event = await asyncio.wait_for(anext(news), PATIENCE)
        assert (event.call_id, event.type) == ("a", "resolved"), "readers of this process get the event"  # type: ignore[union-attr]  # no gap
        after = await rt.get("a")
        assert after.resolution == record.resolution
        assert (after.state, after.error, after.output) == (State.FAILED, before.error, None), "the outcome stays"
        assert after.events[: len(before.events)] == before.events
        assert [call.id for call in (await rt.unknown()).items] == ["b", "c"]
        assert "a" not in [call.id for call in (await rt.dead()).items], "it happened, so it is not requeued"
        (entry,) = await rt.audit.list(limit=1)
        assert (entry.who, entry.what, entry.details["call"], entry.details["happened"]) == (
            "ann", "call.resolved", "a", True,
        )  # fmt: skip

        with pytest.raises(Conflict, match="settled by 'ann'"):
            await rt.resolve("a", happened=False)
        with pytest.raises(Conflict, match="is completed"):
            await rt.resolve("good", happened=True)
        with pytest.raises(NotFound):
            await rt.resolve("nope", happened=True)


async def test_what_did_not_happen_runs_again_once(store: str) -> None:
    async with make(ALL, store) as rt:
        await rt.call("pay", {"amount": 5}, id="a", thread="t", metadata={"order": 1})
        lost["is"] = False
        record = await rt.resolve("a", happened=False, by="ann", rerun=True)
        new = settled(record)["rerun_as"]
        assert (await (await rt.handle(new)).result()).output == "paid 5"
        made = await rt.get(new)
        assert (made.thread, made.metadata) == ("t", {"order": 1, "again_of": "a"})
        with pytest.raises(Conflict):
            await rt.resolve("a", happened=False, rerun=True)
        assert (await rt.requeue("a")).id == new, "requeue makes no second call"
        assert len((await rt.history(tool="pay")).items) == 2


async def test_of_settlements_at_the_same_time_one_wins(store: str) -> None:
    async with make(ALL, store) as rt:
        for n in range(5):
            await rt.call("pay", {"amount": n}, id=f"c{n}")
            lost["is"] = False
            answers = await asyncio.gather(
                *(rt.resolve(f"c{n}", happened=bool(who % 2), rerun=not who % 2, by=f"p{who}") for who in range(4)),
                return_exceptions=True,
            )
            lost["is"] = True
            won = [answer for answer in answers if isinstance(answer, Record)]
            assert len(won) == 1
            assert all(isinstance(answer, Conflict) for answer in answers if answer not in won)
            record = await rt.get(f"c{n}")
            assert record.resolution == won[0].resolution
            assert len([event for event in record.events if event.type == "resolved"]) == 1
            ran = [call for call in (await rt.history(tool="pay")).items if call.metadata.get("again_of") == f"c{n}"]
            assert len(ran) == (not settled(record)["happened"])


async def test_a_settlement_whose_process_ended_before_the_new_call_is_completed(sqlite: str) -> None:
    """The settlement is durable before the new call is made. The same request makes the call, and no second one."""
    async with make(ALL, sqlite) as rt:
        await rt.call("pay", {"amount": 5}, id="a")
        lost["is"] = False
        stored = await rt.engine.stored_calls.find("a", None, None)
        planned = requeued_id("a", "default", "")
        await rt.engine.resolutions.resolve(stored, happened=False, by="ann", rerun_as=planned)
        with pytest.raises(Conflict):
            await rt.resolve("a", happened=False, by="bob", rerun=True)
        assert (await rt.history(id_contains=planned)).items == []
        record = await rt.resolve("a", happened=False, by="ann", rerun=True)
        assert settled(record)["rerun_as"] == planned
        assert (await (await rt.handle(planned)).result()).output == "paid 5"
        with pytest.raises(Conflict):
            await rt.resolve("a", happened=False, by="ann", rerun=True)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"happened": "yes"}, "happened"),
        ({"happened": False, "output": 1}, "no output"),
        ({"happened": True, "rerun": True}, "not run again"),
        ({"happened": True, "output": "x" * 2_000_000}, "max_arguments_size"),
        ({"happened": True, "output": object()}, "cannot be recorded"),
        ({"happened": True, "note": "x" * 2_001}, "note"),
        ({"happened": True, "by": "x" * 201}, "by"),
    ],
)
async def test_bad_settlements_are_refused_and_change_nothing(given: dict[str, Any], why: str) -> None:
    async with make(ALL) as rt:
        await rt.call("pay", {"amount": 5}, id="a")
        with pytest.raises(UsageError, match=why):
            await rt.resolve("a", **given)
        assert [call.id for call in (await rt.unknown()).items] == ["a"]


async def test_a_tool_that_is_not_here_is_not_run_again_from_here(sqlite: str) -> None:
    async with make(ALL, sqlite) as rt:
        await rt.call("pay", {"amount": 5}, id="a")
    async with make([add], sqlite) as rt:
        with pytest.raises(UsageError, match="not registered"):
            await rt.resolve("a", happened=False, rerun=True)
        assert [call.id for call in (await rt.unknown()).items] == ["a"]
        assert settled(await rt.resolve("a", happened=False))["happened"] is False


async def test_secrets_of_the_call_are_masked_in_a_settlement(store: str) -> None:
    async with make(ALL, store, secret_key="k" * 32) as rt:
        await rt.call("sign_in", {"password": "hunter2-hunter2"}, id="a")
        record = await rt.resolve(
            "a", happened=True, output={"with": "hunter2-hunter2"}, by="ann", note="used hunter2-hunter2"
        )
        assert settled(record)["by"] == "ann"
        for kept in (record, await rt.get("a"), await rt.audit.list()):
            assert b"hunter2" not in msgspec.json.encode(kept)


async def test_after_a_kill_a_person_settles_it(tmp_path: Path) -> None:
    await crash(tmp_path, "plain")
    async with reopen(tmp_path) as rt:
        assert [call.id for call in (await rt.unknown()).items] == ["plain"]
        record = await rt.resolve("plain", happened=True, output=1, by="ann")
    async with reopen(tmp_path) as rt:
        assert (await rt.get("plain")).resolution == record.resolution, "it is durable"
        assert (await rt.unknown()).items == []
    assert len(effects(tmp_path, "plain")) == 1


async def keys(it: Api) -> dict[str, dict[str, str]]:
    return {
        name: await key_for(it, name, *scopes)
        for name, scopes in {
            "ann": ("call", "read"), "bob": ("call", "read"), "boss": ("approve",), "chief": ("approve", "call"), "ops": ("admin",),
        }.items()
    }  # fmt: skip


async def ids(it: Api, headers: dict[str, str], query: str = "") -> list[str]:
    return [call["id"] for call in (await it.get(f"/unknown{query}", headers=headers)).json()["items"]]


async def test_over_http_by_scope() -> None:
    async with served(ALL) as it:
        key = await keys(it)
        for id in ("one", "two", "three"):
            await it.call("pay", {"amount": 1}, id=id, headers=key["ann"])
        assert await ids(it, key["ann"]) == ["one", "two", "three"]
        assert await ids(it, key["bob"]) == [], "a key sees its own calls only"
        assert await ids(it, key["boss"]) == await ids(it, key["ops"], "?limit=3") == ["one", "two", "three"]
        assert (await it.get("/calls/one", headers=key["boss"])).status_code == 200, "the approver reads it"
        assert (await it.get("/unknown")).status_code == 401

        async def settle(name: str, id: str, **body: Any) -> tuple[int, dict[str, Any]]:
            response = await it.post(f"/calls/{id}/resolve", json=body, headers=key[name])
            return response.status_code, response.json()

        assert (await settle("ann", "one", happened=True))[0] == 403
        assert (await settle("bob", "one", happened=True))[0] == 404
        assert (await settle("boss", "one", happened=False, rerun=True))[1]["code"] == "missing_scope"
        assert (await settle("boss", "nope", happened=True))[0] == 404
        assert (await settle("boss", "one"))[0] == 422
        assert (await settle("boss", "one", happened=False, output=1))[0] in (400, 422)
        status, record = await settle("boss", "one", happened=True, output=[1], note="seen")
        assert (status, record["resolution"]["by"], record["resolution"]["output"]) == (200, "boss", [1])
        assert (record["state"], record["error"]["code"]) == ("failed", "outcome_unknown")
        status, problem = await settle("chief", "one", happened=False)
        assert (status, problem["code"]) == (409, "conflict")
        assert "boss" in problem["detail"]
        lost["is"] = False
        status, record = await settle("chief", "two", happened=False, rerun=True)
        made = (await it.get(f"/calls/{record['resolution']['rerun_as']}", headers=key["ann"])).json()
        assert (status, made["metadata"]["again_of"], made["caller"]) == (200, "two", record["caller"])
        assert (await settle("ops", "three", happened=False))[0] == 200
        assert await ids(it, key["ann"]) == []
        assert (await it.get("/calls/one", headers=key["boss"])).status_code == 404, "the call is settled"
        shown = (await it.get("/calls?tool=pay", headers=key["ann"])).json()["items"]
        assert [call["resolution"] is not None for call in shown if call["id"] == "one"] == [True]
        audit = (await it.get("/audit", headers=key["ops"])).json()
        assert "call.resolved" in json.dumps(audit)


async def test_by_the_client() -> None:
    async with served(ALL) as it, Client(it.url) as client:
        for n in range(3):
            await client.call("pay", {"amount": n}, id=f"c{n}")
        assert [call.id for call in (await client.unknown(limit=2)).items] == ["c0", "c1"]
        assert settled(await client.resolve("c0", happened=True, output={"x": 1}))["output"] == {"x": 1}
        with pytest.raises(Conflict):
            await client.resolve("c0", happened=True)
        with pytest.raises(UsageError):
            await client.resolve("c1", happened=False, output=1)
        lost["is"] = False
        new = settled(await client.resolve("c1", happened=False, rerun=True))["rerun_as"]
        assert (await (await client.handle(new)).result()).output == "paid 1"

        def block() -> list[str]:
            with SyncClient(it.url) as blocking:
                blocking.resolve("c2", happened=True, note="seen")
                return [call.id for call in blocking.unknown().items]

        assert await asyncio.to_thread(block) == []


def test_on_the_command_line(tmp_path: Path) -> None:
    place = Place(tmp_path, sqlite_url(tmp_path), "tests.scenarios.test_unknown_outcomes:ALL")
    assert place.ask("unknown") == {"items": [], "cursor": None}, "also before there is a store"
    with SyncRuntime(ALL, store=place.store) as rt:
        for id in ("first", "second"):
            rt.call("pay", {"amount": 3}, id=id)
    assert [call["id"] for call in place.ask("unknown")["items"]] == ["first", "second"]
    assert "first" in place.inside("unknown").stdout
    assert place.inside("resolve", "first").returncode == 2, "the option is required"
    done = place.ask("resolve", "first", "--happened", "--output", '{"id": 7}', "--note", "seen", "--by", "ann")
    assert (done["resolution"]["output"], done["resolution"]["by"], done["state"]) == ({"id": 7}, "ann", "failed")
    shown = place.inside("show", "first", "--events").stdout
    assert "settled by ann" in shown
    again = json.loads(place.inside("resolve", "first", "--did-not-happen", "--json").stdout)
    assert again["error"]["code"] == "conflict"
    new = place.ask("resolve", "second", "--did-not-happen", "--rerun")["resolution"]["rerun_as"]
    assert place.ask("unknown")["items"] == []
    lost["is"] = False
    with SyncRuntime(ALL, store=place.store) as rt:
        assert rt.handle(new).result().output == "paid 3"
        assert rt.unknown().items == []


async def test_one_caller_settles_its_own(sqlite: str) -> None:
    async with make(ALL, sqlite) as rt:
        ann, bob = rt.acting_for("ann"), rt.acting_for("bob")
        await ann.call("pay", {"amount": 1}, id="a")
        assert (await bob.unknown()).items == []
        with pytest.raises(NotFound):
            await bob.resolve("a", happened=True)
        assert settled(await ann.resolve("a", happened=True))["by"] == "ann"


# A call that waits for a decision, and an agent's turn that waits for the call.


async def in_doubt(url: str, **settings: Any) -> tuple[Any, str]:
    """A turn of an agent whose tool call was under way when its runtime closed; returns the tool, and the id of the call."""
    begun = asyncio.Event()

    @tool(recovery="ask", timeout=None)
    async def transfer(amount: int, ctx: ToolContext) -> str:
        begun.set()
        if ctx.attempt == 1:
            await asyncio.sleep(600)
        return f"sent {amount} at last"

    async with make([transfer], url, close_timeout=0.0, **settings) as rt:
        await bank(rt).begin("Send 5.", thread="t")
        await begun.wait()
    async with make([], url) as rt:
        (call,) = (await rt.history(tool="transfer")).items
        assert (str(call.state), call.waiting_for) == ("retrying", "approval")
    return transfer, call.id


def bank(rt: Any) -> ReActAgent:
    return ReActAgent(rt, ScriptedModel([[("transfer", {"amount": 5})], "done"]), name="bank")


@pytest.mark.parametrize("here", [True, False], ids=["here", "elsewhere"])
@pytest.mark.parametrize(
    ("settlement", "read"),
    [
        ({"happened": True, "output": "sent 5"}, "sent 5"),
        ({"happened": False, "rerun": True}, "sent 5 at last"),
        ({"happened": False, "note": "the bank is closed"}, "the bank is closed"),
    ],
    ids=["happened", "rerun", "not"],
)
async def test_a_settlement_lets_the_turn_go_on_that_waits(
    sqlite: str, here: bool, settlement: dict[str, Any], read: str
) -> None:
    transfer, id = await in_doubt(sqlite)
    async with make([transfer], sqlite) as rt, make([transfer] if settlement.get("rerun") else [], sqlite) as other:
        run = asyncio.ensure_future(bank(rt).run("Send 5.", thread="t"))
        await eventually(lambda: rt.is_held(id, "t", ""))
        record = await (rt if here else other).resolve(id, **settlement, by="ann")
        assert record.id == id
        result = await run
        (answer,) = [message for message in result.messages if message.role == "tool"]
        assert read in answer.content
        assert (result.text, answer.failed) == ("done", "note" in settlement)
        assert_sound(await rt.get(id))
        with pytest.raises(Conflict):
            await other.resolve(id, happened=True)


async def test_a_settlement_of_a_call_that_waits_follows_the_rules_of_approvals(sqlite: str) -> None:
    transfer, id = await in_doubt(sqlite)
    async with served([transfer], store=sqlite) as it:
        key = await keys(it)

        async def settle(name: str, **body: Any) -> tuple[int, dict[str, Any]]:
            response = await it.post(f"/calls/{id}/resolve", json=body, headers=key[name])
            return response.status_code, response.json()

        assert (await settle("ann", happened=True, output="x"))[0] in (403, 404)
        assert (await settle("boss", happened=False, output=1))[0] in (400, 422)
        assert (await settle("boss", happened=False, rerun=True))[1]["code"] == "missing_scope"
        status, record = await settle("boss", happened=True, output="sent 5", note="on the statement")
        assert status == 200, record
        ended = (await it.get(f"/calls/{id}", headers=key["ops"])).json()
        assert ended["waiting_for"] is None


async def test_the_person_that_made_a_call_does_not_settle_it_while_it_waits(sqlite: str) -> None:
    transfer, _ = await in_doubt(sqlite)
    async with make([transfer], sqlite, close_timeout=0.0) as rt:
        ann = rt.acting_for("ann")
        handle = await ann.submit("transfer", {"amount": 1}, id="own")
        await eventually(lambda: _is_running(ann))
    async with make([transfer], sqlite) as rt:
        with pytest.raises(PermissionDenied):
            await rt.acting_for("ann").resolve("own", happened=True, output="sent")
        assert (await rt.acting_for("ann").get("own")).waiting_for == "approval"
    assert handle.id == "own"


async def _is_running(view: Any) -> bool:
    return str((await view.get("own")).state) == "running"

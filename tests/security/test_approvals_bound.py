"""A decision applies to what the approver saw: the caller's call, its arguments, and this request for approval. It
applies neither to a newer call with the same id and thread, nor to a later request of the same call."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.cli_kit import Place
from tests.scenarios.kit import make, sqlite_url
from tests.scenarios.server_kit import Api, key_for, served

from clicket import Conflict, Policy, Record, Runtime, State, tool
from clicket.engine.people.approvers import Approver

ASK = Policy(ask=["pay"])


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else sqlite_url(tmp_path)


@tool(recovery="ask", max_retries=0)
async def pay(to: str) -> str:
    """Pay somebody."""
    return f"paid {to}"


def seen_in(record: Record | dict[str, Any]) -> str:
    approval = record.approval if isinstance(record, Record) else record["approval"]
    assert approval is not None
    assert len(approval["hash"]) == 64
    return str(approval["hash"])


async def waiting(rt: Runtime, to: str, **names: Any) -> Record:
    handle = await rt.submit("pay", {"to": to}, **names)
    return await rt.get(handle.id, thread=names.get("thread"))


# In Python.


async def test_the_hash_is_that_of_the_call_and_of_the_question(store: str) -> None:
    async with make([pay], store, policy=ASK) as rt:
        first = await waiting(rt, "ann", id="one", thread="t")
        again = await rt.get("one")
        others = [
            await waiting(rt.acting_for("k"), "ann", id="one", thread="t"),
            await waiting(rt, "ann", id="one", thread="u"),
            await waiting(rt, "ann", id="two", thread="t"),
            await waiting(rt, "bob", id="three", thread="t"),
        ]
        assert seen_in(again) == seen_in(first)
        assert len({seen_in(record) for record in (first, *others)}) == 5


async def test_a_decision_about_something_else_changes_nothing(store: str) -> None:
    async with make([pay], store, policy=ASK) as rt:
        one, two = await waiting(rt, "ann", id="one"), await waiting(rt, "bob", id="two")
        for decide in (rt.approve, rt.deny):
            for wrong in (seen_in(two), "0" * 64, seen_in(one)[:15], "no hash"):
                with pytest.raises(Conflict, match="another decision than the one that was seen"):
                    await decide("one", seen=wrong)
        assert (await rt.get("one")).waiting_for == "approval"
        assert await rt.approve("one", seen=seen_in(one)[:16])
        assert await rt.deny("two", seen=seen_in(two))
        assert (await (await rt.handle("one")).result()).output == "paid ann"
        given = next(event for event in (await rt.get("one")).events if event.type == "approval_given")
        assert given.data["seen"] == seen_in(one)
        assert await rt.approve("one", seen=seen_in(one)) is False  # it does not wait any more


async def test_a_decision_is_not_for_a_later_question_of_the_same_call(store: str) -> None:
    """Approved once, then its process died: an approval of the first request does not approve running it again."""
    async with make([pay], store, policy=ASK) as rt:
        first = await waiting(rt, "ann", id="one")
        stored = await rt.engine.stored_calls.find("one", None, None)
        assert await rt.deny("one", seen=seen_in(first))
        # The decision of somebody who read the call before: the question that it answers is not open any more.
        assert not await rt.engine.decisions.decide(stored, Approver("late"), approved=True, reason="")
        assert (await (await rt.handle("one")).result()).state is State.FAILED


# Over HTTP.


async def bound(it: Api) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    return (
        await key_for(it, "a", "read", "call"),
        await key_for(it, "b", "read", "call"),
        await key_for(it, "boss", "approve"),
    )


async def listed(it: Api, boss: dict[str, str]) -> list[dict[str, Any]]:
    found = await it.get("/calls", params={"waiting_for": "approval"}, headers=boss)
    items: list[dict[str, Any]] = found.json()["items"]
    return items


async def asks(it: Api, to: str, headers: dict[str, str]) -> None:
    body = {"tool": "pay", "arguments": {"to": to}, "id": "order-1", "thread": "t"}
    assert (await it.post("/calls", json=body, headers=headers)).status_code == 202


@pytest.mark.parametrize("decision", ["approve", "deny"])
async def test_the_same_id_and_thread_of_another_caller_is_not_decided(decision: str) -> None:
    async with served([pay], policy=ASK) as it:
        a, b, boss = await bound(it)
        await asks(it, "ann", a)
        (saw,) = await listed(it, boss)
        assert (await it.post("/calls/order-1/cancel", headers=a)).status_code == 200
        await asks(it, "eve", b)
        path, where = f"/calls/order-1/{decision}", {"thread": "t"}
        blind = await it.post(path, params=where, headers=boss)
        assert (blind.status_code, blind.json()["code"]) == (409, "conflict")
        assert "caller=" in blind.json()["detail"]
        stale = await it.post(path, params=where, json={"seen": seen_in(saw)}, headers=boss)
        assert (stale.status_code, stale.json()["code"]) == (409, "conflict")
        theirs = await it.post(path, params={**where, "caller": saw["caller"]}, headers=boss)
        assert theirs.status_code == 404  # it does not wait any more, so the route does not show it
        (now,) = await listed(it, boss)
        assert now["caller"] != saw["caller"]
        done = await it.post(path, params=where, json={"seen": seen_in(now)[:16]}, headers=boss)
        assert done.status_code == 200
        state = (await it.get("/calls/order-1", headers=b)).json()["approval"]
        assert state["approved"] is (decision == "approve")


async def test_a_hash_or_a_caller_distinguishes_two_waiting_calls() -> None:
    async with served([pay], policy=ASK) as it:
        a, b, boss = await bound(it)
        await asks(it, "ann", a)
        await asks(it, "eve", b)
        both = {item["caller"]: item for item in await listed(it, boss)}
        assert len(both) == 2
        assert (await it.post("/calls/order-1/approve", headers=boss)).status_code == 409
        first, second = both
        yes = await it.post("/calls/order-1/approve", json={"seen": seen_in(both[first])}, headers=boss)
        no = await it.post("/calls/order-1/deny", params={"caller": second}, headers=boss)
        assert (yes.status_code, no.status_code) == (200, 200)
        records = [(await it.get("/calls/order-1", headers=key)).json() for key in (a, b)]
        assert {record["caller"]: record["approval"]["approved"] for record in records} == {first: True, second: False}


async def test_an_approver_with_a_call_of_the_same_id_does_not_decide_about_its_own_by_mistake() -> None:
    async with served([pay], policy=ASK) as it:
        a = await key_for(it, "a", "read", "call")
        boss = await key_for(it, "boss", "read", "call", "approve")
        await asks(it, "ann", a)
        await asks(it, "me", boss)
        assert (await it.post("/calls/order-1/approve", params={"thread": "t"}, headers=boss)).status_code == 409
        assert len(await listed(it, boss)) == 2
        mine = (await it.get("/calls/order-1", headers=boss)).json()  # reading its own call works as before
        assert mine["arguments"] == {"to": "me"}


async def test_without_a_twin_an_id_is_enough() -> None:
    async with served([pay], policy=ASK) as it:
        a, _, boss = await bound(it)
        await asks(it, "ann", a)
        assert (await it.post("/calls/order-1/approve", headers=boss)).status_code == 200
        assert (await it.post("/calls/order-1/approve", headers=boss)).status_code == 404
        assert (await it.post("/calls/nothing/approve", headers=boss)).status_code == 404


@pytest.mark.parametrize("seen", ["x", "0" * 15, "0" * 65, "G" * 64, 5, None])
async def test_what_is_no_hash_is_refused(seen: Any) -> None:
    async with served([pay], policy=ASK) as it:
        a, _, boss = await bound(it)
        await asks(it, "ann", a)
        for word in ("approve", "deny"):
            answer = await it.post(f"/calls/order-1/{word}", json={"seen": seen}, headers=boss)
            assert answer.status_code == 422


# From a shell.


def test_a_command_decides_about_the_call_it_showed(tmp_path: Path) -> None:
    place = Place(tmp_path, sqlite_url(tmp_path), "")

    async def ask() -> None:
        async with make([pay], place.store, policy=ASK) as rt:
            await waiting(rt, "ann", id="one")
            await waiting(rt, "bob", id="two")

    asyncio.run(ask())
    hashes = {call["id"]: seen_in(call) for call in place.ask("approve")["calls"]}
    wrong = place.inside("approve", "one", "--seen", hashes["two"])
    assert wrong.returncode == 2
    assert "another decision than the one that was seen" in wrong.stderr
    assert place.inside("approve", "one", "--seen", hashes["one"]).returncode == 0
    assert place.inside("deny", "two", "--seen", hashes["two"][:16]).returncode == 0

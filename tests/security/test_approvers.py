"""Nobody approves their own calls: not with the key that made them, not with another key, not through a grant, an answer, MCP or many
calls at once. Grants and answers need the scope `approve`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.kit import sqlite_url
from tests.scenarios.server_kit import Api, key_for, served

from clicket import Policy, Rule
from clicket.client import Client
from clicket.errors import Conflict, InvalidInput, PermissionDenied
from clicket.server import keys

ASK = Policy(ask=["add"])


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else sqlite_url(tmp_path)


@pytest.fixture
async def it(store: str) -> AsyncIterator[Api]:
    async with served(store=store, policy=ASK) as served_api:
        yield served_api


async def held(it: Api, name: str, holder: str, *scopes: str) -> dict[str, str]:
    _, text = await keys.create(it.runtime.store, name=name, scopes=scopes, now=1.0, holder=holder)
    it.parts.authenticator.checked_at = float("-inf")
    return {"authorization": f"Bearer {text}"}


async def asked(it: Api, headers: dict[str, str], id: str, a: int = 1) -> str:
    """The path of a call that waits."""
    body = {"tool": "add", "arguments": {"a": a, "b": 1}, "id": id}
    assert (await it.post("/calls", json=body, headers=headers)).status_code == 202
    return f"/calls/{id}"


async def decisions(it: Api, path: str, headers: dict[str, str]) -> list[tuple[int, str]]:
    """How the server answers every way to let a call go on."""
    id = path.rpartition("/")[2]
    answers = [
        await it.post(f"{path}/approve", headers=headers),
        await it.post(f"{path}/approve", json={"grant": {"uses": 5}}, headers=headers),
        await it.post(f"{path}/respond", json={"output": 1}, headers=headers),
    ]
    found = [(answer.status_code, answer.json().get("code", "")) for answer in answers]
    many = (await it.post("/bulk", json={"action": "approve", "ids": [id]}, headers=headers)).json()
    return [*found, (many["done"], many["failures"][0]["code"] if many["failures"] else "")]


REFUSED = [(403, "permission_denied")] * 3 + [(0, "permission_denied")]


async def test_the_key_that_made_a_call_and_other_keys_of_its_holder(it: Api) -> None:
    ann = await key_for(it, "ann", "read", "call", "approve")
    same_name = await key_for(it, "ann", "approve")
    works = await held(it, "ci", "ann", "read", "call", "approve", "admin")
    bob = await key_for(it, "bob", "approve")
    path = await asked(it, ann, "one")
    for key in (ann, same_name, works):
        assert await decisions(it, path, key) == REFUSED
    other = await asked(it, works, "two")
    assert await decisions(it, other, ann) == REFUSED, "in the other direction, too"
    assert (await it.get("/grants", headers=bob)).json()["items"] == []
    assert (await it.runtime.get("one")).waiting_for == "approval"
    decided = await it.post(f"{path}/approve", headers=bob)
    assert (decided.status_code, decided.json()["by"]) == (200, "bob")
    assert (await it.post(f"{other}/deny", headers=ann)).status_code == 200, "a call may be taken back"


async def test_a_policy_that_allows_it(store: str) -> None:
    async with served(store=store, policy=Policy(ask=["add"], self_approval=True)) as it:
        ann = await key_for(it, "ann", "read", "call", "approve")
        path = await asked(it, ann, "one")
        assert (await it.get(path, headers=ann)).json()["approval"]["self_approval"] is True
        assert (await it.post(f"{path}/approve", headers=ann)).status_code == 200


async def test_without_keys_the_program_decides(store: str) -> None:
    async with served(store=store, policy=ASK) as it:
        path = await asked(it, {}, "one")
        assert (await it.post(f"{path}/approve", json={"grant": {"uses": 1}})).json()["grant"].startswith("gr_")
        assert (await it.call("add", {"a": 2, "b": 2})).json()["output"] == 4
        of_ann = it.runtime.acting_for("ann")
        await of_ann.submit("add", {"a": 5, "b": 5}, id="hers")
        assert (await it.post("/calls/hers/approve")).status_code == 200


async def test_a_grant_does_not_become_an_approval_of_ones_own_calls(it: Api) -> None:
    ann = await key_for(it, "ann", "read", "call", "approve")
    bob = await key_for(it, "bob", "read", "call")
    path = await asked(it, bob, "one")
    given = {"grant": {"caller": "*", "uses": 100}}
    assert (await it.post(f"{path}/approve", json=given, headers=ann)).status_code == 200
    assert (await it.call("add", {"a": 2, "b": 1}, headers=bob)).json()["output"] == 3
    await asked(it, ann, "hers", a=3)
    assert (await it.runtime.get("hers")).waiting_for == "approval"


async def test_two_keys_of_one_person_are_one_approver(store: str) -> None:
    rules = [Rule(verdict="ask", tools=["add"], approvers=2)]
    async with served(store=store, policy=Policy(rules=rules)) as it:
        caller = await key_for(it, "caller", "read", "call")
        ann, ci = await key_for(it, "ann", "approve"), await held(it, "ci", "ann", "approve")
        bob = await key_for(it, "bob", "approve")
        path = await asked(it, caller, "one")
        first = await it.post(f"{path}/approve", headers=ann)
        assert (first.status_code, first.json()["missing"], first.json()["state"]) == (200, 1, "pending")
        for key in (ann, ci):
            again = await it.post(f"{path}/approve", headers=key)
            assert (again.status_code, again.json()["code"]) == (409, "conflict")
        assert (await it.post(f"{path}/approve", json={"grant": {}}, headers=bob)).status_code == 400
        assert (await it.post(f"{path}/approve", json={"arguments": {"a": 9, "b": 9}}, headers=bob)).status_code == 400
        second = await it.post(f"{path}/approve", headers=bob)
        assert (second.status_code, second.json()["missing"]) == (200, 0)
        assert (await (await it.runtime.handle("one")).result()).output == 2


async def test_grants_by_scope(it: Api) -> None:
    ann, eve = await key_for(it, "ann", "read", "call"), await key_for(it, "eve", "read", "call")
    boss, caller = await key_for(it, "boss", "approve"), await key_for(it, "c", "call")
    path = await asked(it, ann, "one")
    schema = {"properties": {"a": {"maximum": 10}}}
    body = {"grant": {"uses": 3, "seconds": 60, "thread": "default", "arguments": schema}}
    decided = (await it.post(f"{path}/approve", json=body, headers=boss)).json()
    for headers, count in ((ann, 1), (eve, 0), (boss, 1)):
        items = (await it.get("/grants", headers=headers)).json()["items"]
        assert [item["id"] for item in items] == [decided["grant"]] * count
    [item] = (await it.get("/grants", params={"tool": "add", "state": "active"}, headers=boss)).json()["items"]
    assert (item["uses"], item["arguments"], item["by"], item["thread"]) == (3, schema, "boss", "default")
    assert "identities" not in item
    assert (await it.get("/grants", params={"state": "revoked"}, headers=boss)).json()["items"] == []
    assert (await it.get("/grants", params={"state": "dead"}, headers=boss)).status_code == 400
    assert (await it.get("/grants", headers=caller)).status_code == 403
    for headers in (ann, eve, caller):
        refused = await it.client.delete(f"/grants/{decided['grant']}", headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (403, "missing_scope")
    assert (await it.call("add", {"a": 5, "b": 1}, headers=ann)).json()["output"] == 6
    revoked = await it.client.delete(f"/grants/{decided['grant']}", headers=boss)
    assert (revoked.status_code, revoked.json()["state"], revoked.json()["revoked_by"]) == (200, "revoked", "boss")
    assert (await it.client.delete("/grants/gr_none", headers=boss)).status_code == 404
    await asked(it, ann, "two", a=6)
    assert (await it.runtime.get("two")).waiting_for == "approval"


@pytest.mark.parametrize(
    "terms",
    [
        {"uses": 0}, {"uses": "1"}, {"seconds": 0}, {"seconds": 1e12}, {"thread": ""}, {"arguments": []}, {"use": 1},
        {"caller": "x" * 200}, {"arguments": {"type": 5}}, {"arguments": {"$ref": "http://127.0.0.1:9/schema"}},
        {"arguments": {"pattern": "(?=a)"}},
    ],
)  # fmt: skip
async def test_terms_that_are_none_change_nothing(it: Api, terms: dict[str, Any]) -> None:
    ann, boss = await key_for(it, "ann", "read", "call"), await key_for(it, "boss", "approve")
    path = await asked(it, ann, "one")
    refused = await it.post(f"{path}/approve", json={"grant": terms}, headers=boss)
    assert refused.status_code in (400, 422)
    assert (await it.runtime.get("one")).waiting_for == "approval"
    assert (await it.get("/grants", headers=boss)).json()["items"] == []


async def test_answers_by_scope(it: Api) -> None:
    ann, boss = await key_for(it, "ann", "read", "call"), await key_for(it, "boss", "approve")
    path = await asked(it, ann, "one")
    seen = (await it.get(path, headers=boss)).json()["approval"]["hash"]
    assert (await it.post(f"{path}/respond", json={"output": 1}, headers=ann)).status_code == 403
    assert (await it.post(f"{path}/respond", json={}, headers=boss)).status_code == 422
    changed = await it.post(f"{path}/respond", json={"output": 1, "seen": "0" * 64}, headers=boss)
    assert (changed.status_code, changed.json()["code"]) == (409, "conflict")
    assert (await it.post("/calls/none/respond", json={"output": 1}, headers=boss)).status_code == 404
    decided = await it.post(f"{path}/respond", json={"output": {"sum": 2}, "seen": seen}, headers=boss)
    assert (decided.status_code, decided.json()["by"]) == (200, "boss")
    result = (await it.get(path, headers=ann)).json()
    assert (result["output"], result["metadata"]["answered_by"]) == ({"sum": 2}, "boss")
    assert (await it.post(f"{path}/respond", json={"output": 1}, headers=boss)).status_code == 404


async def test_the_client_has_the_same(it: Api) -> None:
    ann, boss = await key_for(it, "ann", "read", "call", "approve"), await key_for(it, "boss", "read", "approve")
    url = f"http://127.0.0.1:{it.served.port}"
    async with (
        Client(url, key=ann["authorization"].split()[1]) as mine,
        Client(url, key=boss["authorization"].split()[1]) as approver,
    ):
        one = await mine.submit("add", {"a": 1, "b": 1})
        with pytest.raises(PermissionDenied):
            await mine.approve(one.id)
        with pytest.raises(Conflict):
            await approver.approve(one.id, seen="0" * 64)
        assert await approver.approve(one.id, grant={"uses": 1})
        assert (await mine.call("add", {"a": 2, "b": 1})).output == 3
        [given] = await approver.grants.list(state="used_up")
        assert (await approver.grants.revoke(given.id)).state == "revoked"
        two = await mine.submit("add", {"a": 3, "b": 1})
        assert await approver.respond(two.id, {"sum": 4}, reason="in my head")
        assert (await two.result()).metadata["answered_by"] == "boss"
        assert not await mine.deny(two.id)
        with pytest.raises(InvalidInput):
            await approver.approve((await mine.submit("add", {"a": 4, "b": 1})).id, arguments={"a": "x"})


async def test_an_admin_does_not_approve_what_it_made_in_the_name_of_others(it: Api) -> None:
    ann, root = await key_for(it, "ann", "read", "call"), await key_for(it, "root", "admin")
    boss = await key_for(it, "boss", "approve")
    path = await asked(it, ann, "one")
    assert (await it.post(f"{path}/deny", headers=boss)).status_code == 200
    made = (await it.post(f"{path}/again", json={"arguments": {"a": 90, "b": 9}}, headers=root)).json()["id"]
    many = (await it.post("/bulk", json={"action": "again", "ids": ["one"]}, headers=root)).json()
    for id in (made, many["made"][0]["id"]):
        record = await it.runtime.get(id)
        assert record.caller == ann["authorization"].split("_")[1]
        assert await decisions(it, f"/calls/{id}", root) == REFUSED
        assert (await it.post(f"/calls/{id}/approve", headers=boss)).status_code == 200

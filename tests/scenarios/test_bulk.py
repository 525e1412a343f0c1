"""One action on many calls: by ids or by a filter, failures collected, nothing that the key may not do."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.kit.tools import add, breaks
from tests.kit.waiting import PATIENCE, eventually
from tests.scenarios.cli_kit import Place
from tests.scenarios.kit import make, sqlite_url
from tests.scenarios.server_kit import key_for, served

from clicket import Policy, Runtime, State, tool
from clicket.client import Client
from clicket.errors import PermissionDenied, UsageError
from clicket.sync import Runtime as SyncRuntime


@tool
async def wait_long() -> None:
    """Wait to be cancelled."""
    await asyncio.sleep(3600)


@tool
async def pay(amount: int = 1) -> int:
    """Pay."""
    return amount


TOOLS = (add, breaks, wait_long, pay)
POLICY = Policy(ask=["pay"])


@pytest.mark.parametrize("kind", ["runtime", "client"])
async def test_each_action(kind: str) -> None:
    async def check(rt: Runtime | Client) -> None:
        for number in range(5):
            await rt.submit("wait_long", {}, id=f"w{number}", thread="t1" if number < 3 else "t2")
            await rt.call("add", {"a": number, "b": 0}, id=f"a{number}")
            await rt.submit("pay", {"amount": number}, id=f"p{number}")
        dry = await rt.bulk("cancel", filter={"tool": "wait_long", "thread": "t1"}, dry=True)
        assert (dry.matched, dry.done, dry.dry) == (3, 0, True)
        assert (await rt.history(tool="wait_long", active=True, limit=10)).cursor is None
        done = await rt.bulk("cancel", filter={"tool": "wait_long", "thread": "t1"}, reason="enough")
        assert (done.matched, done.done, done.failed, done.cursor) == (3, 3, 0, None)
        assert {await rt.state(f"w{n}") for n in range(3)} == {State.CANCELLED}
        assert not (await rt.state("w3")).is_terminal
        named = await rt.bulk("cancel", ["w0", "w3", "nope", {"id": "w4", "thread": "t2"}, "w3"])
        assert (named.matched, named.done, named.skipped, named.failed) == (3, 2, 1, 1)
        assert [(each.id, each.code) for each in named.failures] == [("nope", "not_found")]
        again = await rt.bulk("again", filter={"tool": "add"}, limit=2)
        assert [made.again_of for made in sorted(again.made, key=lambda made: made.again_of)] == ["a3", "a4"]
        rest = await rt.bulk("again", filter={"tool": "add"}, cursor=again.cursor)
        assert (rest.done, rest.cursor) == (3, None), "the page does not include the calls that the action made"
        approved = await rt.bulk("approve", ["p0", "p1", "a0"], by="ann")
        assert (approved.done, approved.skipped) == (2, 1)
        denied = await rt.bulk("deny", filter={"tool": "pay"}, reason="no")
        assert denied.done == 3

        async def all_ended() -> bool:
            return not (await rt.history(active=True)).items

        await eventually(all_ended)
        assert [(await rt.get(f"p{n}")).state for n in range(3)] == [State.COMPLETED, State.COMPLETED, State.FAILED]

    if kind == "runtime":
        async with make(TOOLS, policy=POLICY) as runtime:
            await check(runtime)
    else:
        async with served(TOOLS, policy=POLICY) as it, Client(it.url) as client:
            await check(client)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"action": "erase", "ids": []}, "action must be one of"),
        ({"action": "cancel"}, "ids or by a filter"),
        ({"action": "cancel", "ids": [], "filter": {"tool": "x"}}, "ids or by a filter"),
        ({"action": "cancel", "filter": {}}, "empty"),
        ({"action": "cancel", "filter": {"tol": "x"}}, "Did you mean 'tool'"),
        ({"action": "cancel", "ids": ["x"] * 1001}, "1,001 ids"),
        ({"action": "cancel", "ids": [1]}, "names no call"),
        ({"action": "cancel", "filter": {"tool": "x"}, "limit": 0}, "limit must be"),
        ({"action": "cancel", "ids": ["x"], "cursor": "1"}, "cursor"),
    ],
)
async def test_bad_orders_say_what_is_wrong(given: dict[str, Any], why: str) -> None:
    async with make(TOOLS) as rt:
        with pytest.raises(UsageError, match=why):
            await rt.bulk(**given)


async def test_a_runtime_of_one_caller_reaches_no_other() -> None:
    async with make(TOOLS) as rt:
        mine, other = rt.acting_for("mine"), rt.acting_for("other")
        await other.submit("wait_long", {}, id="w1")
        result = await mine.bulk("cancel", ["w1", {"id": "w1", "caller": "other"}])
        assert [each.code for each in result.failures] == ["not_found", "permission_denied"]
        with pytest.raises(PermissionDenied):
            await mine.bulk("cancel", filter={"caller": "other"})
        assert (await mine.bulk("cancel", filter={"active": True})).matched == 0
        assert (await rt.bulk("cancel", filter={"caller": "other"})).done == 1


async def test_keys_reach_only_what_they_may() -> None:
    async with served(TOOLS, policy=POLICY) as it:
        admin, mine = await key_for(it, "admin", "admin"), await key_for(it, "mine", "call", "read")
        other, approver = await key_for(it, "other", "call"), await key_for(it, "approver", "approve")
        reader = await key_for(it, "reader", "read")
        for number in range(2):
            await it.call("wait_long", {}, id=f"w{number}", headers=mine, wait=False)
            await it.call("pay", {}, id=f"p{number}", headers=mine, wait=False)
        await it.call("add", {"a": 1, "b": 1}, id="a0", headers=mine)

        async def order(headers: dict[str, str], **body: Any) -> Any:
            return await it.post("/bulk", json=body, headers=headers)

        assert (await order(reader, action="cancel", ids=["w0"])).status_code == 403
        for headers, action in ((mine, "approve"), (approver, "cancel"), (approver, "again")):
            refused = await order(headers, action=action, ids=["w0"])
            assert (refused.status_code, refused.json()["code"]) == (403, "missing_scope")
        hidden = (await order(other, action="cancel", ids=["w0"])).json()
        assert [each["code"] for each in hidden["failures"]] == ["not_found"]
        assert (await order(other, action="cancel", filter={"active": True})).json()["matched"] == 0
        unseen = (await order(approver, action="approve", ids=["a0", "p0"])).json()
        assert (unseen["done"], [each["code"] for each in unseen["failures"]]) == (1, ["not_found"])
        assert (await order(approver, action="deny", filter={"tool": "pay"})).json()["done"] == 1
        assert (await order(mine, action="cancel", ids=["w0"])).json()["done"] == 1
        by_admin = (await order(admin, action="cancel", filter={"tool": "wait_long"})).json()
        assert (by_admin["done"], by_admin["failures"]) == (1, [])
        log = [entry["what"] for entry in (await it.get("/audit", headers=admin)).json()["items"]]
        assert log.count("call.cancelled") == 1, "a cancellation of another caller's call"
        for body in (
            {"action": "cancel"},
            {"action": "cancel", "filter": {}},
            {"action": "x", "ids": []},
            {"action": "cancel", "id": 1},
        ):
            bad = await it.post("/bulk", json=body, headers=mine)
            assert bad.status_code in (400, 422)
            assert bad.headers["content-type"] == "application/problem+json"


async def test_calls_that_wait_for_a_credential_are_found_by_filter() -> None:
    @tool(credentials=["github"])
    async def issues() -> None:
        """Needs an account."""

    async with served([issues, *TOOLS]) as it:
        await it.call("issues", {}, id="i0", wait=False)
        await it.call("wait_long", {}, id="w0", wait=False)

        async def cancelled() -> int:
            body = {"action": "cancel", "filter": {"waiting_for": "credential"}}
            answer = (await it.post("/bulk", json=body)).json()
            assert answer["matched"] in (0, 1), answer
            return int(answer["done"])

        await eventually(cancelled)
        assert (await it.runtime.get("w0")).cancel_requested is False


async def test_on_the_command_line(tmp_path: Path) -> None:
    place = Place(tmp_path, sqlite_url(tmp_path), "")
    async with make(TOOLS, place.store) as rt:
        for number in range(3):
            await rt.submit("wait_long", {}, id=f"w{number}", metadata={"user": "ann"})
        asked = await asyncio.to_thread(place.json, "cancel", "--filter", "tool=wait_long", "--dry")
        assert (asked["matched"], asked["cancelled"]) == (3, 0)
        done = await asyncio.to_thread(
            place.json, "cancel", "--filter", "tool=wait_long", "--filter", "metadata.user=ann"
        )
        assert (done["cancelled"], done["failures"]) == (3, [])
        assert {(await (await rt.handle(f"w{n}")).result(timeout=PATIENCE)).state for n in range(3)} == {
            State.CANCELLED
        }


def test_wrong_use_of_the_command(tmp_path: Path) -> None:
    place = Place(tmp_path, sqlite_url(tmp_path), "")
    with SyncRuntime(TOOLS, store=place.store) as rt:
        rt.call("add", {"a": 1, "b": 2})
    assert place.inside("cancel").returncode == 2
    assert place.inside("cancel", "--filter", "since=x").returncode == 2
    assert "no field 'tol'" in place.inside("cancel", "--filter", "tol=x").stderr

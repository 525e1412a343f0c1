"""Running a call again: a new call that names the old one, under the rules of every new call."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from tests.kit.tools import add, echo_value
from tests.scenarios.cli_kit import Place
from tests.scenarios.kit import make, sqlite_url
from tests.scenarios.server_kit import key_for, served

from clicket import Policy, Runtime, State, tool
from clicket.agents import ReActAgent
from clicket.client import Client, SyncClient
from clicket.errors import InvalidInput, NotFound, UsageError
from clicket.testing import ScriptedModel

TOOLS = (add, echo_value)


@tool(sensitive=["password"])
async def sign_in(user: str, password: str) -> str:
    """Sign in."""
    return f"{user} {len(password)}"


@pytest.mark.parametrize("kind", ["runtime", "client"])
async def test_a_new_call_names_the_old_one(kind: str) -> None:
    async def check(rt: Runtime | Client) -> None:
        await rt.call(
            "add", {"a": 1, "b": 2}, id="c1", thread="t1", request_id="r", metadata={"user": "ann"}, priority=3
        )
        handle = await rt.again("c1")
        assert handle.id != "c1"
        assert handle.thread == "t1"
        assert (await handle.result()).output == 3
        record = await rt.get(handle.id)
        assert record.metadata["again_of"] == "c1"
        assert (record.metadata["user"], record.request_id, record.priority) == ("ann", "r", 3)
        edited = await rt.again("c1", {"a": 5, "b": 2}, thread="t1", new_id="mine")
        assert (edited.id, (await edited.result()).output) == ("mine", 7)
        assert (await rt.get("c1")).arguments == {"a": 1, "b": 2}, "the old call is unchanged"
        same = await rt.again("c1", {"a": 5, "b": 2}, new_id="mine")
        assert (await same.result()).output == 7
        assert len((await rt.history()).items) == 3, "the same id and arguments: no further call"
        refused = await (await rt.again("c1", {"a": "x"})).result()
        assert refused.error is not None
        assert refused.error.code == "invalid_input"
        with pytest.raises(NotFound):
            await rt.again("nope")
        with pytest.raises(InvalidInput):
            await rt.again("c1", '{"a": 1, "a": 2}')

    if kind == "runtime":
        async with make(TOOLS) as runtime:
            await check(runtime)
    else:
        async with served(TOOLS) as it, Client(it.url) as client:
            await check(client)


async def test_refused_arguments_are_not_on_record() -> None:
    async with make(TOOLS) as rt:
        await rt.call("add", '{"a": 1, "a": 2}', id="c1")
        with pytest.raises(UsageError, match="refused"):
            await rt.again("c1")
        assert (await (await rt.again("c1", {"a": 1, "b": 1})).result()).output == 2


async def test_a_mask_stands_for_the_value_that_it_hides(tmp_path: Any) -> None:
    async with make([sign_in], sqlite_url(tmp_path), secret_key="k" * 32) as rt:
        await rt.call("sign_in", {"user": "ann", "password": "secret-1"}, id="c1")
        shown = (await rt.get("c1")).arguments
        assert shown["password"] != "secret-1"
        assert (await (await rt.again("c1")).result()).output == "ann 8"
        assert (await (await rt.again("c1", {**shown, "user": "bob"})).result()).output == "bob 8"
    async with make([sign_in], sqlite_url(tmp_path)) as rt:  # without the key
        with pytest.raises(UsageError, match="secret"):
            await rt.again("c1")
        assert (await (await rt.again("c1", {"user": "eve", "password": "123"})).result()).output == "eve 3"


async def test_the_policy_judges_it_like_every_call() -> None:
    allowed = True

    def decide(call: Any) -> Literal["allow", "deny"]:
        return "allow" if allowed else "deny"

    async with make(TOOLS, policy=Policy(rule=decide)) as rt:
        await rt.call("add", {"a": 1, "b": 2}, id="c1")
        allowed = False
        result = await (await rt.again("c1")).result()
        assert result.error is not None
        assert result.error.code == "permission_denied"


async def test_over_http() -> None:
    async with served(TOOLS) as it:
        admin, mine, other = (
            await key_for(it, "admin", "admin"), await key_for(it, "mine", "call", "read"), await key_for(it, "other", "call"),
        )  # fmt: skip
        reader = await key_for(it, "reader", "read")
        assert (await it.call("add", {"a": 1, "b": 2}, id="c1", headers=mine)).status_code == 200
        made = await it.post("/calls/c1/again", headers=mine)
        assert made.status_code == 202
        body = made.json()
        assert (body["again_of"], body["tool"], body["thread"]) == ("c1", "add", "default")
        assert made.headers["location"] == f"/calls/{body['id']}"
        for headers, status in ((other, 404), (reader, 403)):
            assert (await it.post("/calls/c1/again", headers=headers)).status_code == status
        bad = await it.post("/calls/c1/again", json={"arguments": {"a": "x"}}, headers=mine)
        assert (bad.status_code, bad.json()["code"]) == (422, "invalid_input")
        assert bad.json()["call_id"]
        assert (await it.post("/calls/c1/again", json={"argument": {}}, headers=mine)).status_code == 422
        by_admin = (await it.post("/calls/c1/again", headers=admin)).json()
        whole = (await it.get(f"/calls/{by_admin['id']}", headers=mine)).json()
        assert whole["metadata"]["again_of"] == "c1", "it belongs to the caller of the old one"
        assert [entry["what"] for entry in (await it.get("/audit", headers=admin)).json()["items"]] == ["call.again"]


def test_on_the_command_line(tmp_path: Any) -> None:
    place = Place(tmp_path, sqlite_url(tmp_path), "sums.py")
    (tmp_path / "sums.py").write_text(
        "from clicket import tool\n@tool\ndef total(a: int, b: int) -> int:\n    return a + b\n"
    )
    place.ask("call", "total", "a=1", "b=2", "--id", "c1")
    again = place.ask("again", "c1")
    assert (again["output"], again["metadata"]["again_of"]) == (3, "c1")
    assert place.ask("again", "c1", "--arguments", '{"a": 4, "b": 4}')["output"] == 8


def test_the_blocking_client(tmp_path: Any) -> None:
    from tests.scenarios.server_kit import serving_in_thread

    with serving_in_thread(TOOLS) as url, SyncClient(url) as rt:
        rt.call("add", {"a": 1, "b": 2}, id="c1")
        result = rt.again("c1").result()
        assert (result.state, result.output) == (State.COMPLETED, 3)


@pytest.mark.parametrize("kind", ["runtime", "client"])
async def test_the_effects_that_it_would_repeat_are_listed(kind: str) -> None:
    @tool
    async def pay(bill: str) -> str:
        return f"paid {bill}"

    @tool(read_only=True)
    async def look() -> str:
        return "seen"

    def add_agents(rt: Runtime) -> ReActAgent:
        clerk = ReActAgent(rt, ScriptedModel([[("look", {}), ("pay", {"bill": "rent"})], "paid"]), name="clerk")
        rt.add(clerk.as_tool("ask_clerk", "Pays."))
        return ReActAgent(rt, ScriptedModel([[("ask_clerk", {"task": "pay"}), ("look", {})], "done"]), name="boss")

    async def check(rt: Runtime | Client, agent: Any) -> None:
        await agent.run("go", thread="t")
        asked = {call.tool: call.id for call in (await rt.history(thread="t")).items}
        (effect,) = await rt.effects(asked["ask_clerk"])
        assert (effect.tool, effect.arguments) == ("pay", {"bill": "rent"})
        assert effect.thread.startswith("t/")
        assert await rt.effects(asked["look"]) == []
        own = await rt.effects(effect.id, thread=effect.thread)
        assert [each.id for each in own] == [effect.id]
        with pytest.raises(NotFound):
            await rt.effects("nowhere")

    if kind == "runtime":
        async with make([pay, look]) as rt:
            await check(rt, add_agents(rt))
    else:
        async with served([pay, look]) as it, Client(it.url) as client:
            await check(client, add_agents(it.runtime))

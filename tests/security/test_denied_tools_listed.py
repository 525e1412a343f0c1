"""A tool of which the policy denies a key every call is in no list that the key reads; one that it might call is in all of them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scenarios.server_kit import Api, key_for, served

from clicket import Condition, Policy, Rule, tool
from clicket.agents import ReActAgent
from clicket.testing import ScriptedModel

CASES: dict[str, tuple[dict[str, Any], bool]] = {
    "denied by name": ({"deny": ["secret_*"]}, True),
    "denied by default": ({"default": "deny", "allow": ["plain", "find_tools"]}, True),
    "denied to this scope": ({"rules": [Rule(verdict="deny", tools=["secret_tool"], scopes=["call"])]}, True),
    "denied to another scope": ({"rules": [Rule(verdict="deny", tools=["secret_tool"], scopes=["approve"])]}, False),
    "denied in one thread": ({"rules": [Rule(verdict="deny", tools=["secret_tool"], threads=["t9"])]}, False),
    "allowed in one thread": (
        {"rules": [Rule(verdict="allow", tools=["secret_tool"], threads=["t1"])], "deny": ["secret_tool"]},
        False,
    ),
    "denied for some arguments": (
        {"rules": [Rule(verdict="deny", tools=["secret_tool"], when=[Condition(path="/a", op="==", value=1)])]},
        False,
    ),
    "asks": ({"ask": ["secret_tool"]}, False),
}


@tool(permissions=["vault"])
async def guarded_tool(a: int = 0) -> int:
    """Needs a permission that no key has."""
    return a


@tool
async def secret_tool(a: int = 0) -> int:
    """Do something secret."""
    return a


@tool
async def plain(a: int = 0) -> int:
    """Do something plain."""
    return a


@pytest.mark.parametrize(("policy", "is_hidden"), CASES.values(), ids=CASES)
async def test_lists_are_consistent_with_the_policy(policy: dict[str, Any], is_hidden: bool) -> None:
    async with served([guarded_tool, secret_tool, plain], policy=Policy(**policy)) as it:
        ann, admin = await key_for(it, "ann", "read", "call"), await key_for(it, "bob", "admin")
        seen = {"plain"} if is_hidden else {"plain", "secret_tool"}
        assert await listed(it, ann) == seen
        assert await listed(it, admin) == {"plain", "secret_tool", "guarded_tool"}, "an admin sees all"
        for name, headers in (("secret_tool", ann), ("guarded_tool", ann)):
            status = 200 if name in seen else 404
            assert (await it.get(f"/tools/{name}", headers=headers)).status_code == status
        missing = (await it.get("/tools/secret", headers=ann)).json()["detail"]
        assert ("secret_tool" in missing) is not is_hidden, "no hint, either"
        assert (await it.get("/tools/guarded_tool", headers=admin)).status_code == 200

        view = it.runtime.acting_for("ann", ["read", "call"])
        assert {each.name for each in await view.tools()} == seen
        assert set(await view.hub("t1").available()) == seen
        model = ScriptedModel(["done"])
        await ReActAgent(view, model).run("go", thread="t1")
        assert {each.name for each in model.requests[0].tools} == seen
        found = await view.call("find_tools", {"query": "do something secret or plain"}, thread="t1")
        assert set(found.output["found"]) == seen


async def listed(it: Api, headers: dict[str, str]) -> set[str]:
    """The tools in both forms of the list."""
    plain_list = (await it.get("/tools", headers=headers)).json()
    in_thread = (await it.get("/tools?thread=t1", headers=headers)).json()
    names = [
        {each["name"] for each in one} for one in (plain_list["items"], in_thread["items"], in_thread["standings"])
    ]
    assert names[0] == names[1] == names[2]
    return names[0]

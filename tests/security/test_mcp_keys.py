"""MCP with keys of the server: what a key lacks the scope for, and one person with several keys."""

from __future__ import annotations

import pytest
from mcp.shared.exceptions import MCPError
from tests.mcp.kit import Hand, accept, connected
from tests.scenarios.server_kit import served

from clicket import Policy, tool
from clicket.server import keys


@tool(tags={"mcp:task"})
async def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


async def test_pages_of_calls_need_the_scope_read() -> None:
    async with served([pay]) as it:
        _, calls = await keys.create(it.runtime.store, name="ann", scopes=("call",), now=1.0)
        _, reads = await keys.create(it.runtime.store, name="bob", scopes=("call", "read"), now=1.0)
        async with connected(f"{it.url}/mcp", key=reads) as client:
            await client.read_resource("ui://clicket/approvals.html")
        async with connected(f"{it.url}/mcp", key=calls) as client:
            for uri in ("ui://clicket/approvals.html", "ui://clicket/calls/any"):
                with pytest.raises(MCPError, match="scope read"):
                    await client.read_resource(uri)


@pytest.mark.parametrize(("holder", "counts"), [("ann@example.org", False), ("ben@example.org", True)])
async def test_a_person_with_two_keys_is_one_approver(holder: str, counts: bool) -> None:
    async with served([pay], policy=Policy(ask=["pay"], approvers=2, self_approval=True)) as it:
        store = it.runtime.store
        _, text = await keys.create(store, name="ann", scopes=("call", "approve"), now=1.0, holder="ann@example.org")
        _, admin = await keys.create(store, name="second", scopes=("admin",), now=1.0, holder=holder)
        async with Hand(f"{it.url}/mcp", key=text) as hand:
            id = (await hand.call("pay", amount=5))["taskId"]
            [key] = (await hand.task(id, "input_required"))["inputRequests"]
            await hand.answer(id, **{key: accept(approve=True)})
            assert len((await it.runtime.get(id)).approval["approvals"]) == 1
            headers = {"authorization": f"Bearer {admin}"}
            second = await it.post(f"/calls/{id}/approve", json={}, headers=headers)
            assert (second.status_code < 300) is counts, second.text
            if counts:
                await hand.task(id, "completed")
            else:
                assert second.status_code == 409

"""A call that waits for a credential, over MCP: a link for the user's browser, and the call goes on when the account is connected."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest
from tests.kit.waiting import eventually
from tests.mcp.kit import BOTH, TASKS, Hand, connected, serving

from clicket import Runtime, State, ToolContext, tool

PUBLIC = "https://tools.example"
URL = {"elicitation": {"form": {}, "url": {}}}
ran: list[str] = []


@tool(credentials=["github"])
async def whoami(ctx: ToolContext) -> str:
    """Whose account is it?"""
    ran.append(ctx.call_id)
    return ctx.credential("github").partition("-")[0]


@pytest.fixture(autouse=True)
def _none_ran() -> None:
    ran.clear()


def a_runtime(**options: Any) -> Runtime:
    return Runtime(
        [whoami], store="memory://", secret_key="the key of credentials over MCP", public_url=PUBLIC, **options
    )


async def test_a_task_waits_with_a_link_and_completes_by_itself() -> None:
    capabilities = {**URL, "extensions": {TASKS: {}}}
    async with a_runtime() as rt, serving(rt) as url, Hand(url, capabilities=capabilities) as hand:
        made = await hand.call("whoami")
        assert made["resultType"] == "task"
        waiting = await hand.task(made["taskId"], "input_required")
        (asked,) = waiting["inputRequests"].values()
        assert asked["method"] == "elicitation/create"
        assert asked["params"]["mode"] == "url"
        assert asked["params"]["url"].startswith(f"{PUBLIC}/connect/start/ckc_")
        assert "elicitationId" not in asked["params"]
        assert "github" in waiting["statusMessage"]
        await hand.answer(made["taskId"], **{name: {"action": "accept"} for name in waiting["inputRequests"]})
        assert (await hand.task(made["taskId"]))["status"] == "input_required", "an answer is not a credential"
        token = asked["params"]["url"].rpartition("/")[2]
        await rt.engine.connecting.put(token, "ann-t0ken")
        done = await hand.task(made["taskId"], "completed")
        assert done["result"]["content"][0]["text"] == "ann"
        assert ran == [made["taskId"]]


async def test_a_client_that_opens_no_links_gets_none() -> None:
    async with a_runtime() as rt, serving(rt) as url, Hand(url) as hand:
        made = await hand.call("whoami")
        waiting = await hand.task(made["taskId"], "input_required")
        assert waiting["inputRequests"] == {}
        await rt.credentials.put("github", "me-t0ken")
        assert (await hand.task(made["taskId"], "completed"))["result"]["content"][0]["text"] == "me"


async def test_a_task_of_another_key_shows_no_link() -> None:
    """A link connects an account for the caller of the call: an admin who sees the task gets none."""
    capabilities = {**URL, "extensions": {TASKS: {}}}
    async with a_runtime() as rt:
        await rt.acting_for("ann").submit("whoami", id="t")
        await eventually(lambda: _waits(rt))
        async with serving(rt) as url, Hand(url, capabilities=capabilities) as hand:
            assert (await hand.task("t"))["inputRequests"] == {}


async def _waits(rt: Runtime) -> bool:
    return (await rt.get("t")).waiting_for == "credential"


@pytest.mark.parametrize("mode", BOTH)
async def test_a_client_without_tasks_is_asked_while_it_waits(mode: str) -> None:
    links: list[str] = []

    async with a_runtime() as rt:

        async def open_link(context: Any, params: Any) -> types.ElicitResult:
            assert isinstance(params, types.ElicitRequestURLParams)
            links.append(params.url)
            await rt.engine.connecting.put(params.url.rpartition("/")[2], "ann-t0ken")
            return types.ElicitResult(action="accept")

        async with serving(rt) as url, connected(url, mode, elicitation_callback=open_link) as client:
            result = await client.call_tool("whoami", {})
            assert result.content[0].text == "ann"  # type: ignore[union-attr]
        assert len(links) == 1
        assert len(ran) == 1, "one call ran, whatever became of those that waited"
        states = sorted(str(record.state) for record in (await rt.history()).items)
        assert states in (["completed"], ["cancelled", "completed"])


async def test_a_user_who_declines_ends_the_call() -> None:
    async def decline(context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="decline")

    async with a_runtime() as rt, serving(rt) as url, connected(url, "legacy", elicitation_callback=decline) as client:
        result = await client.call_tool("whoami", {})
        assert result.is_error
        (record,) = (await rt.history()).items
        assert record.state is State.CANCELLED

"""Calls that a part of clicket makes so that a person decides about each, whatever the policy allows."""

from __future__ import annotations

import asyncio

import pytest
from tests.kit.tools import echo
from tests.kit.waiting import eventually
from tests.scenarios.kit import make

from clicket import Policy
from clicket.runtime.agent_host import Host


@pytest.mark.parametrize(
    ("policy", "approvers"), [(None, 1), (Policy(allow=["echo"]), 1), (Policy(ask=["echo"], approvers=2), 2)]
)
async def test_a_call_of_an_asking_host_waits_for_one_approval(policy: Policy | None, approvers: int) -> None:
    async with make([echo], policy=policy) as rt:
        host = Host(rt).asking("it costs")
        call = asyncio.create_task(host.call("echo", {"text": "x"}, id="c1", thread="t"))
        await eventually(lambda: host.waiting("t"))
        asked = next(event.data for event in (await rt.get("c1")).events if event.type == "approval_requested")
        assert asked["reason"].startswith("it costs")
        assert asked.get("approvers", 1) == approvers
        for by in ("ann", "bob")[:approvers]:
            await rt.approve("c1", by=by)
        assert (await call).output == "x"
        if approvers == 1:
            assert (await Host(rt).call("echo", {"text": "x"}, thread="t")).success, "other calls are not asked"


async def test_what_the_policy_denies_is_denied() -> None:
    async with make([echo], policy=Policy(deny=["echo"])) as rt:
        result = await Host(rt).asking("it costs").call("echo", {"text": "x"})
        assert result.error is not None
        assert result.error.code == "permission_denied"

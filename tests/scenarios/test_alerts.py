"""A tool that begins to fail, end to end: calls, minutes of the series, an alert as a notice, and its end."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from tests.kit.waiting import eventually
from tests.scenarios.cache_kit import stepped
from tests.scenarios.test_series import a_minute_later

from clicket import Runtime, tool
from clicket.testing import StepClock

SECRET = "whsec_" + b64encode(b"one secret of this test, 32 byte").decode()


def hook(*events: str) -> dict[str, Any]:
    return {
        "url": "http://127.0.0.1:9/hook", "secret": SECRET, "events": list(events), "allow_private": True, "name": "hook", "retry": [9e4]
    }  # fmt: skip


async def raised(rt: Runtime) -> list[str]:
    return [notice.type for notice in (await rt.notices.list()).items]


async def test_a_tool_that_begins_to_fail_is_announced_once_and_its_recovery_once(store: str) -> None:
    broken = False

    @tool(max_retries=0, failure_threshold=1_000)
    async def fetch(n: int) -> int:
        """Fetch."""
        if broken:
            raise ValueError("down")
        return n

    clock = StepClock(start=1_700_000_000.0 // 3600 * 3600)
    async with stepped([fetch], store, clock, webhooks=[hook("alert.raised", "alert.cleared")]) as rt:

        async def minute(calls: int) -> None:
            for number in range(calls):
                await rt.call("fetch", {"n": number}, thread="t")
            await a_minute_later(rt, clock)

        for _ in range(8):
            await minute(10)
        assert await raised(rt) == []
        broken = True
        for _ in range(3):
            await minute(15)
        await eventually(lambda: raised(rt))
        assert await raised(rt) == ["alert.raised"]
        notice = (await rt.notices.list()).items[0]
        alert = (await rt.notices.get(notice.id)).payload["data"]["alert"]  # type: ignore[index]
        assert (alert["kind"], alert["subject"]) == ("error_rate", "fetch")
        assert alert["value"] > alert["limit"] > alert["usual"]
        broken = False
        for _ in range(12):
            await minute(10)
        assert sorted(await raised(rt)) == ["alert.cleared", "alert.raised"]


async def test_without_an_endpoint_that_wants_alerts_nothing_is_looked_at(store: str) -> None:
    clock = StepClock(start=1_700_000_000.0 // 3600 * 3600)
    async with stepped([], store, clock, webhooks=[hook("call.ended")]) as rt:
        await a_minute_later(rt, clock)
        assert await rt.store.document("alerts", "open") is None

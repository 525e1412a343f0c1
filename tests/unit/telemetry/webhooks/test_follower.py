"""The follower: what it finds in the journal, in which order calls may appear there, and where it begins."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import msgspec
from tests.kit.waiting import eventually
from tests.scenarios.kit import make, sqlite_url

from clicket import Policy, Runtime, tool
from clicket.errors import StoreUnavailable
from clicket.model.ports.query import Query
from clicket.ports import Stored
from clicket.telemetry.webhooks import Outbox, endpoints_of
from clicket.telemetry.webhooks.follower import Follower

SECRET = "whsec_" + b64encode(b"a secret of this test, 32 bytes.").decode()


@tool
async def work() -> str:
    return "done"


def follower(rt: Runtime, *events: str) -> tuple[Outbox, Follower]:
    hook = {"url": "https://x.example/", "secret": SECRET, "name": "x", "events": list(events) or ["call.ended"]}
    outbox = Outbox(rt.store, rt.clock.now, endpoints_of([hook]))
    return outbox, Follower(rt.store, outbox, rt.clock.now)


async def calls_in(outbox: Outbox) -> list[str]:
    found = (await outbox.page(limit=1_000)).items
    return [((await outbox.get(notice.id)).payload or {})["data"]["call"]["id"] for notice in reversed(found)]


async def test_it_begins_at_the_end_and_misses_nothing_after_it() -> None:
    async with make([work], "memory://", policy=Policy(ask=["work"])) as rt:
        outbox, following = follower(rt)
        before = await rt.submit("work", id="before")  # it waits, and ends later
        await following.follow()
        assert await calls_in(outbox) == []
        handle = await rt.submit("work", id="after")
        await following.follow()
        for each in (before, handle):
            await rt.approve(each.id)
            await each.result()
        for _ in range(2):
            await following.follow()
        assert sorted(await calls_in(outbox)) == ["after", "before"]


async def test_a_call_that_becomes_visible_late_is_found() -> None:
    """PostgreSQL gives keys before transactions commit: a lower key may appear after a higher one."""
    async with make([work], "memory://") as rt:
        outbox, following = follower(rt)
        await following.follow()
        for name in ("one", "two", "three"):
            await rt.call("work", id=name)
        whole, hidden = rt.store.history, {"two"}

        async def history(query: Query) -> list[Stored]:
            return [stored for stored in await whole(query) if stored.id not in hidden]

        rt.store.history = history  # type: ignore[method-assign]
        await following.follow()
        assert sorted(await calls_in(outbox)) == ["one", "three"]
        hidden.clear()
        await following.follow()
        assert sorted(await calls_in(outbox)) == ["one", "three", "two"]


async def test_a_damaged_call_blocks_no_other() -> None:
    async with make([work], "memory://", policy=Policy(ask=["work"])) as rt:
        outbox, following = follower(rt)
        handles = [await rt.submit("work", id=name) for name in ("good", "damaged", "fine")]
        await following.follow()
        news, load = rt.store.news, rt.store.load

        async def broken(known: Any) -> Any:
            if any(id == "damaged" for id, _ in known.values()):
                raise StoreUnavailable("events are not what clicket wrote")
            return await news(known)

        async def loaded(id: str, *more: Any) -> list[Stored]:
            found = await load(id, *more)
            return [msgspec.structs.replace(each, damaged="yes") if id == "damaged" else each for each in found]

        for handle in handles:
            await rt.approve(handle.id)
            await handle.result()
        rt.store.news, rt.store.load = broken, loaded  # type: ignore[assignment, method-assign]
        await following.follow()
        assert sorted(await calls_in(outbox)) == ["fine", "good"]


async def test_retention_removes_no_call_whose_notice_is_missing(tmp_path: Any) -> None:
    hook = {"url": "https://x.example/", "secret": SECRET, "events": ["call.ended"], "retry": [3600]}
    async with make([work], sqlite_url(tmp_path), webhooks=[hook]) as rt:
        webhooks = rt.engine.webhooks
        assert webhooks is not None
        webhooks.on_events = lambda entry, events: None  # type: ignore[method-assign]
        rt.observers.listeners.clear()  # as if this process had died before it recorded anything
        await rt.call("work", id="lost")
        assert await calls_in(webhooks.outbox) == []
        swept = await rt.sweep(rt.retention(since=rt.clock.now() + 1))
        assert swept.calls == 1
        assert await calls_in(webhooks.outbox) == ["lost"]


async def test_unknown_outcomes_and_questions_are_facts() -> None:
    async with make([work], "memory://", policy=Policy(ask=["work"])) as rt:
        outbox, following = follower(rt, "approval.requested", "call.unknown")
        await following.follow()
        await rt.submit("work", id="asked")

        async def waits() -> bool:
            return (await rt.get("asked")).waiting_for == "approval"

        await eventually(waits)
        await following.follow()
        [notice] = (await outbox.page()).items
        assert notice.type == "approval.requested"

"""The audit log: which person decided what. It is append-only, and contains no arguments."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from tests.kit.waiting import PATIENCE, eventually
from tests.scenarios.kit import make

from clicket import Policy, Runtime, StoreUnavailable, tool
from clicket.engine.people.audit import AuditEntry, note
from clicket.errors import PermissionDenied, UsageError
from clicket.ports import SystemClock
from clicket.runtime import blocking as sync

CANARY = "canary-7f3a9c"


@tool
async def pay(amount: int, note: str = "") -> str:
    return "paid"


@tool
async def burn() -> str:
    return "ash"


POLICY = Policy(ask=["pay"], deny=["burn"])


async def logged(rt: Runtime, count: int) -> list[AuditEntry]:
    """The log, once it has so many entries: denials are written with a delay."""

    async def look() -> list[AuditEntry] | None:
        found = await rt.audit()
        return found if len(found) >= count else None

    entries: list[AuditEntry] = await eventually(look)
    assert len(entries) == count
    return entries


async def test_decisions_are_on_the_log(store: str) -> None:
    async with make([pay, burn], store, policy=POLICY) as rt:
        yes = await rt.submit("pay", {"amount": 1, "note": CANARY}, id="yes", thread="t")
        await rt.submit("pay", {"amount": 1}, id="no")
        assert await rt.approve("yes", by="Ada", reason="fine", arguments={"amount": 2, "note": CANARY})
        assert await rt.deny("no", by="Bob", reason="too dear")
        assert not await rt.deny("no", by="Eve")
        await asyncio.wait_for(yes.result(), PATIENCE)
        refused = await rt.acting_for("key1").call("burn")
        await logged(rt, 3)
        await rt.cache.clear("tool:pay")
        cleared, denial, denied, approved = await logged(rt, 4)
    assert (approved.who, approved.what) == ("Ada", "call.approved")
    assert approved.details == {
        "call": "yes", "tool": "pay", "thread": "t", "caller": "", "reason": "fine", "edited": True,
    }  # fmt: skip
    assert (denied.who, denied.what, denied.details["reason"]) == ("Bob", "call.denied", "too dear")
    assert (denial.who, denial.what) == ("key1", "policy.denied")
    assert denial.details["call"] == refused.call_id
    assert "deny = 'burn'" in denial.details["reason"]
    assert (cleared.what, cleared.details) == ("cache.cleared", {"tag": "tool:pay", "removed": 0})
    assert CANARY not in repr((cleared, denial, denied, approved))
    assert approved.number < denied.number < denial.number < cleared.number
    assert approved.at <= denied.at


async def test_the_log_is_read_in_pages_and_survives_a_restart(sqlite: str) -> None:
    async with make([pay], sqlite, policy=POLICY) as rt:
        for number in range(5):
            await rt.submit("pay", {"amount": number}, id=f"c{number}")
            assert await rt.deny(f"c{number}")
    async with make([], sqlite) as rt:
        first = await rt.audit(limit=2)
        second = await rt.audit(limit=2, before=first[-1].number)
        rest = await rt.audit(before=second[-1].number)
    assert [entry.details["call"] for entry in [*first, *second, *rest]] == ["c4", "c3", "c2", "c1", "c0"]


async def test_a_thousand_denials_are_each_on_the_log(store: str) -> None:
    async with make([burn], store, policy=POLICY) as rt:
        await asyncio.gather(*(rt.call("burn") for _ in range(1_000)))
        await eventually(lambda: _count(rt, 1_000))


async def _count(rt: Runtime, wanted: int) -> bool:
    return len(await rt.audit(limit=1_000)) == wanted


async def test_only_the_owner_of_the_runtime_reads_the_log(store: str) -> None:
    async with make([pay], store) as rt:
        for view in (rt.acting_for("key1"), rt.acting_for("")):
            with pytest.raises(PermissionDenied):
                await view.audit()
        for wrong in ({"limit": 0}, {"limit": 1_001}, {"limit": True}, {"before": "x"}, {"before": -1}):
            with pytest.raises(UsageError):
                await rt.audit(**wrong)  # type: ignore[arg-type]


async def test_a_log_that_cannot_be_written_harms_no_decision(store: str, caplog: pytest.LogCaptureFixture) -> None:
    async def broken(bodies: Any) -> None:
        raise StoreUnavailable("no room")

    async with make([pay, burn], store, policy=POLICY) as rt:
        rt.store.audit = broken
        handle = await rt.submit("pay", {"amount": 1}, id="p")
        with caplog.at_level(logging.WARNING, "clicket"):
            assert await rt.approve("p", by="Ada")
            assert (await asyncio.wait_for(handle.result(), PATIENCE)).success
            assert (await rt.call("burn")).error is not None
            await eventually(lambda: "1 lines of the audit log" in caplog.text)
        assert "call.approved by 'Ada'" in caplog.text


async def test_a_decision_is_kept_although_its_connection_closed(store: str) -> None:
    async with make([pay], store, policy=POLICY) as rt:
        await rt.submit("pay", {"amount": 1}, id="p")
        write, asked, go = rt.store.audit, asyncio.Event(), asyncio.Event()

        async def slow(bodies: Any) -> None:
            asked.set()
            await go.wait()
            await write(bodies)

        rt.store.audit = slow
        deciding = asyncio.create_task(rt.deny("p", by="Ada"))
        await asyncio.wait_for(asked.wait(), PATIENCE)
        deciding.cancel()
        await asyncio.gather(deciding, return_exceptions=True)
        go.set()
        [entry] = await logged(rt, 1)
    assert (entry.who, entry.what) == ("Ada", "call.denied")


async def test_foreign_lines_are_shown_as_such(store: str) -> None:
    async with make([pay], store) as rt:
        await rt.store.audit([b"not json", b"[]", b'{"at": "x", "who": 1, "what": 2}'])
        await note(rt.store, SystemClock(), who="a\udc00", what="key.made", id="k1", name="\ud800")
        [made, *foreign] = await rt.audit()
    assert [entry.what for entry in foreign] == ["damaged"] * 3
    assert (made.who, made.what) == ("a\\udc00", "key.made")


def test_the_blocking_face_has_it_too(store: str) -> None:
    with sync.Runtime([pay], store=store, policy=POLICY) as rt:
        handle = rt.submit("pay", {"amount": 1}, id="p")
        assert rt.approve("p", by="Ada", reason="ok", arguments={"amount": 2})
        assert handle.result().success
        assert rt.get("p").arguments == {"amount": 2}
        [entry] = rt.audit(limit=5)
    assert (entry.who, entry.what) == ("Ada", "call.approved")

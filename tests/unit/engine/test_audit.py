"""The audit log: decisions are kept, calls do not wait for it, and lost entries are counted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.unit.engine.fakes import Lower

from clicket import tool
from clicket.engine.people import audit
from clicket.engine.people.audit import AuditLog, entries, note
from clicket.engine.stages import Policy
from clicket.errors import StoreUnavailable, UsageError


@tool
async def echo() -> str:
    return "echo"


class Parts(Lower):
    def __init__(self, **options: Any) -> None:
        super().__init__(echo, **options)
        self.audit = AuditLog(self.store, self.clock, self.spawn)
        self.batches: list[int] = []
        self.broken = False
        write = self.store.audit

        async def counted(bodies: Sequence[bytes]) -> None:
            if self.broken:
                raise StoreUnavailable("away")
            self.batches.append(len(bodies))
            await write(bodies)

        self.store.audit = counted  # type: ignore[method-assign]


async def test_an_audit_line_has_actor_action_and_time_newest_first() -> None:
    parts = Parts()
    await parts.audit.note("ann", "call.approved", call="a", edited=True)
    await note(parts.store, parts.clock, who="bob", what="cache.cleared")
    newest, oldest = await entries(parts.store)
    assert (newest.who, newest.what, newest.details) == ("bob", "cache.cleared", {})
    assert (oldest.who, oldest.what, oldest.details) == ("ann", "call.approved", {"call": "a", "edited": True})
    assert oldest.at == parts.clock.now()
    assert await entries(parts.store, before=newest.number) == [oldest]


async def test_lines_that_come_together_are_written_together_without_waiting() -> None:
    parts = Parts()
    for n in range(5):
        parts.audit.jot("ann", "policy.denied", n=n)
    assert parts.batches == []
    await parts.settle()
    assert parts.batches == [5]
    parts.audit.jot("ann", "policy.denied", n=5)
    await parts.settle()
    assert [entry.details["n"] for entry in await entries(parts.store)] == [5, 4, 3, 2, 1, 0]


async def test_what_the_policy_refused_is_noted_without_arguments() -> None:
    parts = Parts(policy=Policy(deny=["echo"]))
    call = parts.made("echo", {"text": "private words"}, caller="ann")
    assert not parts.pipeline.admit(call)
    parts.audit.refused(call)
    await parts.settle()
    (entry,) = await entries(parts.store)
    assert (entry.who, entry.what) == ("ann", "policy.denied")
    assert entry.details == {"call": "a", "tool": "echo", "thread": "t", "reason": call.reason}


async def test_a_store_that_does_not_keep_up_costs_lines_and_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "_MAX_WAITING", 3)
    parts = Parts()
    for n in range(5):
        parts.audit.jot("ann", "policy.denied", n=n)
    await parts.settle()
    newest, *rest = await entries(parts.store)
    assert (newest.what, newest.details, len(rest)) == ("audit.overrun", {"lost": 2}, 3)


async def test_lines_that_could_not_be_written_are_counted_in_the_next_ones(caplog: pytest.LogCaptureFixture) -> None:
    parts = Parts()
    parts.broken = True
    parts.audit.jot("ann", "policy.denied")
    await parts.settle()
    assert "could not be written" in caplog.text
    parts.broken = False
    parts.audit.jot("ann", "policy.denied")
    await parts.settle()
    assert [(entry.what, entry.details) for entry in await entries(parts.store)] == [
        ("audit.overrun", {"lost": 1}),
        ("policy.denied", {}),
    ]


async def test_what_has_happened_is_kept_though_its_writer_leaves(caplog: pytest.LogCaptureFixture) -> None:
    parts = Parts()
    leaving = asyncio.ensure_future(parts.audit.kept("ann", "call.approved"))
    await asyncio.sleep(0)
    leaving.cancel()
    await parts.settle()
    assert [entry.what for entry in await entries(parts.store)] == ["call.approved"]
    parts.broken = True
    await parts.audit.kept("ann", "call.denied")  # the call was denied: an error about the log would hide that
    assert "call.denied" in caplog.text


async def test_a_line_of_another_program_hides_no_other() -> None:
    parts = Parts()
    await parts.audit.note("ann", "first")
    await parts.store.audit([b"not json", b"[1]"])
    await parts.audit.note("ann", "last")
    assert [entry.what for entry in await entries(parts.store)] == ["last", "damaged", "damaged", "first"]


@pytest.mark.parametrize("given", [{"limit": 0}, {"limit": 1_001}, {"limit": True}, {"before": -1}, {"before": "x"}])
async def test_bounds_of_a_listing(given: Any) -> None:
    with pytest.raises(UsageError):
        await entries(Parts().store, **given)

"""The audit log: decisions are kept, calls do not wait for it, and lost entries are counted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.unit.engine.fakes import Lower

from clicket import tool
from clicket.engine import audit
from clicket.engine.audit import AuditLog, entries, note
from clicket.errors import StoreUnavailable, UsageError
from clicket.pipeline import Policy


@tool
async def echo() -> str:
    return "echo"


class World(Lower):
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
    world = World()
    await world.audit.note("ann", "call.approved", call="a", edited=True)
    await note(world.store, world.clock, who="bob", what="cache.cleared")
    newest, oldest = await entries(world.store)
    assert (newest.who, newest.what, newest.details) == ("bob", "cache.cleared", {})
    assert (oldest.who, oldest.what, oldest.details) == ("ann", "call.approved", {"call": "a", "edited": True})
    assert oldest.at == world.clock.now()
    assert await entries(world.store, before=newest.number) == [oldest]


async def test_lines_that_come_together_are_written_together_without_waiting() -> None:
    world = World()
    for n in range(5):
        world.audit.jot("ann", "policy.denied", n=n)
    assert world.batches == []
    await world.settle()
    assert world.batches == [5]
    world.audit.jot("ann", "policy.denied", n=5)
    await world.settle()
    assert [entry.details["n"] for entry in await entries(world.store)] == [5, 4, 3, 2, 1, 0]


async def test_what_the_policy_refused_is_noted_without_arguments() -> None:
    world = World(policy=Policy(deny=["echo"]))
    call = world.made("echo", {"text": "private words"}, caller="ann")
    assert not world.pipeline.admit(call)
    world.audit.refused(call)
    await world.settle()
    (entry,) = await entries(world.store)
    assert (entry.who, entry.what) == ("ann", "policy.denied")
    assert entry.details == {"call": "a", "tool": "echo", "thread": "t", "reason": call.reason}


async def test_a_store_that_does_not_keep_up_costs_lines_and_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "_MAX_WAITING", 3)
    world = World()
    for n in range(5):
        world.audit.jot("ann", "policy.denied", n=n)
    await world.settle()
    newest, *rest = await entries(world.store)
    assert (newest.what, newest.details, len(rest)) == ("audit.overrun", {"lost": 2}, 3)


async def test_lines_that_could_not_be_written_are_counted_in_the_next_ones(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.broken = True
    world.audit.jot("ann", "policy.denied")
    await world.settle()
    assert "could not be written" in caplog.text
    world.broken = False
    world.audit.jot("ann", "policy.denied")
    await world.settle()
    assert [(entry.what, entry.details) for entry in await entries(world.store)] == [
        ("audit.overrun", {"lost": 1}),
        ("policy.denied", {}),
    ]


async def test_what_has_happened_is_kept_though_its_writer_leaves(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    leaving = asyncio.ensure_future(world.audit.kept("ann", "call.approved"))
    await asyncio.sleep(0)
    leaving.cancel()
    await world.settle()
    assert [entry.what for entry in await entries(world.store)] == ["call.approved"]
    world.broken = True
    await world.audit.kept("ann", "call.denied")  # the call was denied: an error about the log would hide that
    assert "call.denied" in caplog.text


async def test_a_line_of_another_program_hides_no_other() -> None:
    world = World()
    await world.audit.note("ann", "first")
    await world.store.audit([b"not json", b"[1]"])
    await world.audit.note("ann", "last")
    assert [entry.what for entry in await entries(world.store)] == ["last", "damaged", "damaged", "first"]


@pytest.mark.parametrize("given", [{"limit": 0}, {"limit": 1_001}, {"limit": True}, {"before": -1}, {"before": "x"}])
async def test_bounds_of_a_listing(given: Any) -> None:
    with pytest.raises(UsageError):
        await entries(World().store, **given)

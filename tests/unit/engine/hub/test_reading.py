"""Threads in use are read together, so that many of them cost a store that must be asked no more questions than one."""

from __future__ import annotations

import asyncio
from typing import Any

from clicket import tool
from clicket.engine.hub.hub import Hub
from clicket.ports import ToolHealth
from clicket.testing import StepClock
from clicket.tools import Registry

THREADS = ["a", "b", "c"]
FRESH = 0.25


class AskedStore:
    """A store that must be asked, and is shared with other processes."""

    durability = "process"

    def __init__(self) -> None:
        self.reads: list[str] = []
        self.failing: set[str] = set()
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    def tool_health_now(self, caller: str, thread: str, tool: str | None = None) -> None:
        return None

    def health_stamp(self) -> None:
        return None

    async def tool_health(self, caller: str, thread: str) -> list[ToolHealth]:
        self.reads.append(thread)
        found = [ToolHealth(tool="echo", failures=1, consecutive_failures=1)] if thread in self.failing else []
        await self.may_answer.wait()
        return found


@tool
async def echo() -> str:
    return "echo"


def parts() -> tuple[AskedStore, StepClock, Hub]:
    store, clock = AskedStore(), StepClock()
    slots: Any = None
    return store, clock, Hub(Registry([echo]), store, clock, slots, asyncio.ensure_future)  # type: ignore[arg-type]


async def check(hub: Hub, thread: str) -> None:
    """What admission does before a call."""
    if hub.needs_look("echo", thread, ""):
        await hub.look("echo", thread, "")


async def test_threads_that_calls_use_are_read_with_the_first_one_that_needs_it() -> None:
    store, clock, hub = parts()
    for thread in THREADS:
        await check(hub, thread)
    await clock.run(FRESH / 2)
    for thread in THREADS:
        await check(hub, thread)
    assert store.reads == THREADS, "what was just read is fresh"
    store.reads.clear()
    await clock.run(FRESH)
    await check(hub, "a")
    await clock.settle()
    assert sorted(store.reads) == THREADS
    for thread in THREADS:
        assert not hub.needs_look("echo", thread, "")


async def test_a_thread_without_calls_is_not_read_again() -> None:
    store, clock, hub = parts()
    for thread in THREADS:
        await check(hub, thread)
    store.reads.clear()
    for _ in range(3):
        await clock.run(2 * FRESH)
        await check(hub, "a")
        await clock.settle()
    assert store.reads == ["a", "a", "a"]


async def test_a_failure_that_was_noted_meanwhile_is_not_overwritten_by_an_earlier_read() -> None:
    store, clock, hub = parts()
    for thread in THREADS:
        await check(hub, thread)
        assert not hub.needs_look("echo", thread, "")
    await clock.run(2 * FRESH)
    store.may_answer.clear()
    looking = asyncio.ensure_future(check(hub, "a"))
    await clock.settle()
    store.failing.add("b")
    hub.degraded.add(("", "b"))  # as `Hub.ended` notes a failure of a call in this process
    store.may_answer.set()
    await looking
    await clock.settle()
    assert ("", "b") in hub.degraded
    assert hub.needs_look("echo", "b", ""), "the next call in that thread reads the failure"

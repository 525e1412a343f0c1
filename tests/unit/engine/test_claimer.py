"""Claims are limited per tool; the first tests of the claimer are in test_shared_slots.py."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.unit.engine.fakes import Recorder, around

from clicket.engine.executors import Limiter
from clicket.engine.fleet.claimer import WorkClaimer
from clicket.engine.phase import Phase
from clicket.model.ports import Store
from clicket.testing import StepClock


class Parts:
    """Calls that wait for any process, by tool, and the free slots of each tool here."""

    def __init__(self, waiting: dict[str, int], rooms: dict[str, int]) -> None:
        self.waiting, self.rooms = waiting, rooms
        self.asked: list[tuple[frozenset[str], int]] = []
        self.claimed: list[str] = []
        self.tasks: list[asyncio.Task[Any]] = []
        store: Any = Recorder(Store, claim_waiting=self._claim_waiting)
        self.limiter: Any = Recorder(Limiter, waiting_tools=set, on_free=None, used={})
        self.clock = StepClock()
        self.claimer = WorkClaimer(
            store,
            self.limiter,
            self.clock,
            Phase(),
            *around(lambda: dict(self.rooms), self._resume),
            spawn=self._spawn,
        )

    def free(self) -> None:
        """A call releases its slot."""
        if self.limiter.on_free is not None:
            self.limiter.on_free()

    def frees(self, tool: str, *, running: int) -> None:
        """A call of the tool ends, and so many of all calls still run."""
        self.rooms[tool] += 1
        self.limiter.used = {"runtime": running} if running else {}
        self.free()

    def _spawn(self, work: Any) -> None:
        self.tasks.append(asyncio.ensure_future(work))

    async def _claim_waiting(self, tools: frozenset[str], limit: int) -> list[Any]:
        self.asked.append((tools, limit))
        found = [name for name in sorted(tools) for _ in range(self.waiting.get(name, 0))][:limit]
        for name in found:
            self.waiting[name] -= 1
        return found

    async def _resume(self, claimed: Any) -> None:
        self.claimed += claimed
        for name in claimed:
            self.rooms[name] -= 1


async def test_a_tool_with_less_room_is_claimed_by_its_own_bound() -> None:
    parts = Parts({"many": 2, "few": 9}, {"many": 10, "few": 2})
    await parts.claimer.claim()
    assert (parts.claimed.count("many"), parts.claimed.count("few")) == (2, 2)
    assert parts.asked[0] == (frozenset({"many"}), 10)


async def test_a_slot_of_a_tool_that_had_more_is_a_reason_to_look_also_when_other_tools_have_room() -> None:
    parts = Parts({"few": 9}, {"many": 10, "few": 2})
    await parts.claimer.claim()
    assert parts.claimed == ["few", "few"]
    parts.rooms["few"] = 1  # a call of it has ended
    parts.free()
    await StepClock().settle()
    assert parts.claimed == ["few"] * 3, "otherwise it waits for the next poll, a quarter of a second"


async def test_tools_with_the_same_room_are_claimed_together() -> None:
    parts = Parts({}, {"a": 3, "b": 3, "c": 3})
    await parts.claimer.claim()
    assert parts.asked == [(frozenset("abc"), 3)]


async def test_an_idle_process_asks_once_for_all_tools_that_share_a_limit() -> None:
    """Agents have more room than the tools, which share the slots of the process: that must not cost a question for each tool."""
    tools = {f"tool{number}" for number in range(50)}
    parts = Parts({"agent:react": 1}, {"agent:react": 1000, **dict.fromkeys(tools, 4), "narrow": 1})
    await parts.claimer.claim()
    assert parts.asked == [(frozenset({"agent:react"}), 1000), (frozenset(tools), 4), (frozenset({"narrow"}), 1)]


async def test_of_tools_that_are_claimed_together_none_gets_more_than_its_own_limit() -> None:
    parts = Parts({"a": 5, "b": 5}, {"many": 9, "a": 2, "b": 2})
    await parts.claimer.claim()
    assert sorted(parts.claimed) == ["a", "a", "b", "b"]


async def test_nothing_is_claimed_when_nothing_could_start() -> None:
    parts = Parts({"a": 3}, {"a": 0})
    await parts.claimer.claim()
    assert (parts.asked, parts.claimer.has_more) == ([], True)


async def test_a_free_slot_is_a_reason_to_look_only_when_there_was_more() -> None:
    parts = Parts({"a": 3}, {"a": 0})
    parts.free()
    assert parts.tasks == []
    await parts.claimer.claim()
    parts.rooms["a"] = 5
    parts.free()
    await StepClock().settle()
    assert parts.claimed == ["a"] * 3
    assert not parts.claimer.has_more


async def test_two_looks_at_once_do_not_claim_for_the_same_room() -> None:
    parts = Parts({"a": 10}, {"a": 3})
    await asyncio.gather(parts.claimer.claim(), parts.claimer.claim())
    assert len(parts.claimed) == 3


async def test_slots_that_come_free_one_after_the_other_are_filled_by_one_claim() -> None:
    parts = Parts({"a": 100}, {"a": 4})
    await parts.claimer.claim()
    assert parts.asked == [(frozenset("a"), 4)]
    for running in (3, 2, 1):
        parts.frees("a", running=running)
        await parts.clock.run(0.001)
    assert len(parts.asked) == 1, "calls run here that may end in the next milliseconds"
    await parts.clock.run(0.01)
    assert parts.asked[1:] == [(frozenset("a"), 3)]


async def test_a_worker_on_which_nothing_runs_claims_at_once() -> None:
    parts = Parts({"a": 100}, {"a": 1})
    await parts.claimer.claim()
    parts.frees("a", running=0)
    await parts.clock.settle()
    assert len(parts.asked) == 2


async def test_a_slot_that_comes_free_long_after_the_last_claim_is_filled_at_once() -> None:
    parts = Parts({"a": 100}, {"a": 2})
    await parts.claimer.claim()
    await parts.clock.run(1.0)
    parts.frees("a", running=1)
    await parts.clock.settle()
    assert parts.asked[1:] == [(frozenset("a"), 1)]

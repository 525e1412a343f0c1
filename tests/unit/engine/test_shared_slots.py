"""Slots that processes share, and the pump that claims work: never more than the limit, and no needless store request."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from tests.kit.waiting import PATIENCE
from tests.unit.engine.fakes import around

from clicket.engine.fleet.claimer import WorkClaimer
from clicket.engine.phase import Phase
from clicket.engine.slots.shared_slots import SharedSlots
from clicket.errors import StoreUnavailable
from clicket.testing import StepClock


class Counter:
    """The slots of a store: ours and those of others."""

    def __init__(self, others: int = 0) -> None:
        self.others = others
        self.mine = 0
        self.asked: list[int] = []
        self.broken = False

    async def hold(self, name: str, count: int, capacity: int) -> bool:
        await asyncio.sleep(0)
        self.asked.append(count)
        if self.broken:
            raise StoreUnavailable("gone")
        if count > self.mine and self.others + count > capacity:
            return False
        self.mine = count
        return True


class Tasks:
    """Starts spawned tasks, and waits for them."""

    def __init__(self) -> None:
        self.running: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self.running.add(asyncio.ensure_future(work))

    async def rest(self) -> None:
        while self.running:
            done, self.running = await asyncio.wait(self.running)
            for task in done:
                task.result()


def slots(store: Any) -> tuple[SharedSlots, Tasks, StepClock]:
    tasks, clock = Tasks(), StepClock()
    return SharedSlots(store, clock, Phase(), tasks.spawn), tasks, clock


async def test_no_more_are_taken_than_all_together_may_have() -> None:
    store = Counter(others=1)
    ours, tasks, _ = slots(store)
    assert await ours.take("tool:a", 3)
    assert await ours.take("tool:a", 3)
    assert not await ours.take("tool:a", 3)
    assert store.mine == 2
    ours.give("tool:a")
    await tasks.rest()
    assert store.mine == 1
    assert await ours.take("tool:a", 3)
    for _ in range(2):
        ours.give("tool:a")
    await tasks.rest()
    assert store.mine == 0


async def test_concurrent_requests_are_answered_one_by_one() -> None:
    store = Counter(others=2)
    ours, tasks, _ = slots(store)
    answers = await asyncio.gather(*(ours.take("tool:a", 5) for _ in range(10)))
    assert sum(answers) == store.mine == 3
    for _ in range(3):
        ours.give("tool:a")
    await tasks.rest()
    assert store.mine == 0
    assert not ours._locks  # no lock stays for an unused name


async def test_a_slot_goes_from_call_to_call_without_a_question() -> None:
    store = Counter()
    ours, tasks, clock = slots(store)
    assert await ours.take("tool:a", 1)
    for _ in range(5):
        ours.give("tool:a")
        assert ours.take_spare("tool:a")
        await tasks.rest()
    assert store.asked == [1]
    assert not ours.take_spare("tool:a")
    clock.advance(1.5)  # the other processes' turn
    ours.give("tool:a")
    assert not ours.take_spare("tool:a")
    await tasks.rest()
    assert store.asked == [1, 0]
    assert not ours.take_spare("tool:unknown")


async def test_a_slot_that_could_not_be_given_back_is_said_again_until_the_store_answers() -> None:
    store = Counter()
    ours, tasks, clock = slots(store)
    for _ in range(2):
        assert await ours.take("tool:a", 2)
    store.broken = True
    ours.give("tool:a")
    await clock.run(5.0)
    assert store.mine == 2
    asked = len(store.asked)
    assert asked <= 15  # not at every step
    store.broken = False
    await clock.run(1.0)
    assert store.mine == 1
    ours.give("tool:a")
    await tasks.rest()
    assert store.mine == 0


async def test_a_slot_that_was_granted_while_the_answer_was_lost_is_given_back() -> None:
    store = Counter()
    ours, tasks, clock = slots(store)
    hold = store.hold

    async def lost(name: str, count: int, capacity: int) -> bool:
        await hold(name, count, capacity)
        raise StoreUnavailable("the answer was lost")

    store.hold = lost  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        await ours.take("tool:a", 1)
    assert store.mine == 1
    store.hold = hold  # type: ignore[method-assign]
    await clock.run(2.0)
    await tasks.rest()
    assert store.mine == 0
    assert await ours.take("tool:a", 1)


async def test_names_do_not_disturb_each_other() -> None:
    store = Counter()
    ours, tasks, _ = slots(store)
    assert await ours.take("tool:a", 1)
    ours.give("tool:a")
    assert not ours.take_spare("tool:b")
    await tasks.rest()


# The pump -------------------------------------------------------------------------------------------------------------

ALL = ("runtime", 3)


class Waiting:
    """A store with unowned calls: their tools' names."""

    def __init__(self, *calls: str) -> None:
        self.calls = list(calls)
        self.asked: list[tuple[frozenset[str], int]] = []
        self.error: Exception | None = None

    async def claim_waiting(self, tools: frozenset[str], limit: int) -> list[str]:
        await asyncio.sleep(0)
        self.asked.append((tools, limit))
        if self.error is not None:
            raise self.error
        claimed = [call for call in self.calls if call in tools][:limit]
        for call in claimed:
            self.calls.remove(call)
        return claimed


class Slots:
    """The part of a limiter that the pump reads."""

    def __init__(self) -> None:
        self.used: dict[Any, int] = {}
        self.lines: set[str] = set()

    def waiting_tools(self) -> set[str]:
        return self.lines


class Parts:
    def __init__(self, store: Waiting, *tools: str, fills: bool = True) -> None:
        self.slots, self.tasks, self.taken = Slots(), Tasks(), []  # type: ignore[var-annotated]
        self.fills = fills
        self.clock = StepClock()
        self.phase = Phase()
        given: Any = (store, self.slots, self.clock, self.phase)
        self.claimer = WorkClaimer(
            *given,
            *around(lambda: dict.fromkeys(tools, ALL[-1] - self.slots.used.get(ALL, 0)), self.take_up),
            spawn=self.tasks.spawn,
        )

    async def take_up(self, claimed: Any) -> None:
        self.taken += claimed
        if self.fills:
            self.slots.used[ALL] = self.slots.used.get(ALL, 0) + len(claimed)

    async def nudge(self) -> None:
        """Long after the last claim, so that it does not wait for more free slots."""
        self.clock.advance(1.0)
        self.claimer.nudge()
        await self.tasks.rest()


async def test_no_more_is_claimed_than_can_start_here() -> None:
    store = Waiting(*["a"] * 10)
    parts = Parts(store, "a")
    await parts.nudge()
    assert len(parts.taken) == 3
    await parts.nudge()
    assert len(parts.taken) == 3
    parts.slots.used[ALL] = 1
    assert parts.claimer.has_more  # from the last claim
    await parts.nudge()
    assert len(parts.taken) == 5


async def test_a_freed_slot_is_no_reason_to_look_when_there_was_no_more() -> None:
    store = Waiting("a")
    parts = Parts(store, "a")
    await parts.nudge()
    assert not parts.claimer.has_more


async def test_tools_that_are_not_here_or_have_a_line_here_are_left_to_others() -> None:
    store = Waiting("a", "b", "c")
    parts = Parts(store, "a", "b")
    parts.slots.lines = {"b"}
    await parts.nudge()
    assert parts.taken == ["a"]
    assert store.calls == ["b", "c"]
    idle = Parts(store)
    await idle.nudge()
    assert store.calls == ["b", "c"]


async def test_calls_that_take_no_slot_are_claimed_until_there_is_none() -> None:
    store = Waiting(*["a"] * 10)
    parts = Parts(store, "a", fills=False)  # for example, they wait for an approval
    await parts.nudge()
    assert len(parts.taken) == 10


async def test_a_nudge_while_it_looks_makes_it_look_again() -> None:
    store = Waiting()
    parts = Parts(store, "a")
    parts.claimer.nudge()
    for _ in range(5):
        parts.claimer.nudge()
    await asyncio.sleep(0)
    store.calls.append("a")
    parts.claimer.nudge()
    await parts.tasks.rest()
    assert parts.taken == ["a"]
    assert len(store.asked) <= 3


async def test_it_goes_on_after_an_error_and_not_after_the_end(caplog: pytest.LogCaptureFixture) -> None:
    store = Waiting("a")
    parts = Parts(store, "a")
    store.error = StoreUnavailable("gone")
    await parts.nudge()
    assert "gone" in caplog.text
    store.error = None
    await parts.nudge()
    assert parts.taken == ["a"]
    store.calls.append("a")
    parts.phase.closing = True
    await parts.nudge()
    assert parts.taken == ["a"]


async def test_a_slot_granted_to_a_cancelled_waiter_is_given_back() -> None:
    granted = asyncio.Event()

    class Slow(Counter):
        async def hold(self, name: str, count: int, capacity: int) -> bool:
            answer = await super().hold(name, count, capacity)
            if count:
                granted.set()
                await asyncio.Event().wait()
            return answer

    store = Slow()
    ours, tasks, _ = slots(store)
    leaving = asyncio.create_task(ours.take("trial", 1))
    await asyncio.wait_for(granted.wait(), PATIENCE)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    await tasks.rest()
    assert store.mine == 0

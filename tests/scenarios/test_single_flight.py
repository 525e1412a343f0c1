"""Equal calls at the same time: one leads and runs, the others get its result; no call waits for a dead leader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.kit.waiting import PATIENCE, eventually
from tests.scenarios.cache_kit import stepped
from tests.scenarios.kit import assert_sound, make, states

from clicket import Policy, Runtime, State, StoreUnavailable, tool
from clicket.testing import StepClock

Body = Callable[[int], Any]


class Gated:
    """A cached tool whose runs wait for the gate; `body(number)` decides how each run ends, the first is number 1."""

    def __init__(self, body: Body = lambda number: number, **options: Any) -> None:
        self.runs: list[Any] = []
        self.gate = asyncio.Event()

        @tool(**{"name": "work", "cache": 60, "max_retries": 0, **options})
        async def work(x: Any = None) -> Any:
            self.runs.append(x)
            number = len(self.runs)
            await self.gate.wait()
            outcome = body(number)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        self.tool = work

    async def running(self, count: int = 1) -> None:
        await eventually(lambda: len(self.runs) >= count)


def assert_at_rest(*runtimes: Runtime) -> None:
    """Finished flights leave nothing in memory."""
    for rt in runtimes:
        assert rt.engine.flights.is_idle


async def waiting(rt: Runtime, count: int, x: Any = None) -> list[Any]:
    """Handles of equal calls, each of them durable."""
    return [await rt.submit("work", {} if x is None else {"x": x}) for _ in range(count)]


async def results(handles: list[Any]) -> list[Any]:
    return list(await asyncio.wait_for(asyncio.gather(*(handle.result() for handle in handles)), PATIENCE))


# One runs -------------------------------------------------------------------------------------------------------------


async def test_a_hundred_equal_calls_at_once_run_the_tool_once(store: str) -> None:
    work = Gated()
    async with make([work.tool], store) as rt:
        calls = [asyncio.create_task(rt.call("work", {"x": 1}, thread=f"t{i}")) for i in range(100)]
        await work.running()
        work.gate.set()
        done = await asyncio.gather(*calls)
        stats = await rt.cache.stats()
        records = [await rt.get(result.call_id) for result in done]
        assert_at_rest(rt)
    assert work.runs == [1]
    assert [result.output for result in done] == [1] * 100
    assert sum(result.cached for result in done) == 99
    assert (stats.hits, stats.misses, stats.items) == (99, 1, 1)
    for record in records:
        assert_sound(record)
        assert states(record.events) == (
            ["pending", "completed"] if record.cached else ["pending", "initializing", "running", "completed"]
        )


async def test_equal_calls_of_two_runtimes_over_one_store_run_the_tool_once(sqlite: str) -> None:
    work = Gated()
    async with make([work.tool], sqlite) as one, make([work.tool], sqlite) as two:
        calls = [asyncio.create_task(rt.call("work", {"x": 1})) for _ in range(25) for rt in (one, two)]
        await work.running()
        work.gate.set()
        done = await asyncio.wait_for(asyncio.gather(*calls), PATIENCE)
        stats = await two.cache.stats()
        assert_at_rest(one, two)
    assert work.runs == [1]
    assert {result.output for result in done} == {1}
    assert (stats.hits, stats.misses) == (49, 1)


async def test_waiting_calls_hold_no_slot_and_other_keys_continue(store: str) -> None:
    work = Gated()
    async with make([work.tool], store, max_concurrency=2, max_queue=1) as rt:
        handles = await waiting(rt, 20, x="same")
        await work.running()
        other = asyncio.create_task(rt.call("work", {"x": "other"}))
        await work.running(2)
        assert sorted(work.runs) == ["other", "same"]
        for handle in handles[1:]:
            assert (await rt.get(handle.id)).state is State.PENDING
        work.gate.set()
        assert all(result.success for result in await results(handles))
        assert (await other).success
    assert len(work.runs) == 2


async def test_when_a_result_expires_under_load_one_makes_it_anew(store: str) -> None:
    clock, work = StepClock(), Gated()
    work.gate.set()
    async with stepped([work.tool], store, clock) as rt:
        for number in (1, 2, 3):
            done = await asyncio.gather(*(rt.call("work") for _ in range(100)))
            assert len(work.runs) == number
            assert {result.output for result in done} == {number}
            clock.advance(60)


# The leader is gone ---------------------------------------------------------------------------------------------------


async def test_failures_are_not_shared(store: str) -> None:
    work = Gated(lambda number: ValueError(f"run {number}"))
    async with make([work.tool], store) as rt:
        handles = await waiting(rt, 8)
        await work.running()
        work.gate.set()
        done = await results(handles)
        stats = await rt.cache.stats()
        assert_at_rest(rt)
    assert sorted(str(r.error.message) for r in done) == sorted({str(r.error.message) for r in done})
    assert len(work.runs) == 8
    assert not any(result.cached for result in done)
    assert (stats.items, stats.hits, stats.misses) == (0, 0, 8)


async def test_when_the_leader_fails_the_others_get_a_good_result(store: str) -> None:
    work = Gated(lambda number: ValueError("the first one only") if number == 1 else number)
    async with make([work.tool], store) as rt:
        handles = await waiting(rt, 8)
        await work.running()
        work.gate.set()
        first, *rest = await results(handles)
        assert (await rt.call("work")).cached
        assert_at_rest(rt)
    assert first.state is State.FAILED
    assert all(result.success for result in rest)


@pytest.mark.parametrize("how", ["cancel", "timeout", "deadline", "caller"])
async def test_when_the_leader_is_stopped_one_follower_takes_over(store: str, how: str) -> None:
    """Cancelling the leader does not cancel the followers, and does not make all of them run."""
    work = Gated(timeout=60)
    async with make([work.tool], store) as rt:
        limits: dict[str, Any] = {"timeout": {"timeout": 0.2}, "deadline": {"deadline": 0.2}}.get(how, {})
        leader = asyncio.create_task(rt.call("work", {}, id="leader", **limits))
        await work.running()
        handles = await waiting(rt, 8)
        if how == "cancel":
            assert await rt.cancel("leader")
        elif how == "caller":
            leader.cancel()
        [ended] = await asyncio.gather(leader, return_exceptions=True)
        await work.running(2)
        work.gate.set()
        done = await results(handles)
        assert_at_rest(rt)
    if how == "caller":
        assert isinstance(ended, asyncio.CancelledError)
    else:
        assert isinstance(ended, BaseException) is False
    assert [result.output for result in done] == [2] * 8
    assert len(work.runs) == 2


async def test_a_leader_whose_result_is_not_kept_leaves_no_old_one_to_the_others() -> None:
    """A result that expired long ago is not served, even if a call outside the flight once stored it."""
    clock = StepClock()
    work = Gated(lambda number: ValueError("no") if number == 1 else "x" * 2000 if number == 3 else f"run {number}",
                 max_result_size=1000)  # fmt: skip
    async with stepped([work.tool], "memory://", clock) as rt:
        handles = await waiting(rt, 2)
        work.gate.set()
        assert [result.output for result in await results(handles)] == [None, "run 2"]
        clock.advance(61)
        work.gate.clear()
        handles = await waiting(rt, 2)
        work.gate.set()
        cut, other = await results(handles)
    assert cut.truncated
    assert other.output == "run 4"


async def test_a_leader_in_another_runtime_that_fails_or_closes_is_followed_by_one_of_us(sqlite: str) -> None:
    work = Gated(lambda number: ValueError("no") if number == 1 else number, read_only=True)
    async with make([work.tool], sqlite) as ours:
        async with make([work.tool], sqlite, close_timeout=0) as theirs:
            failing = await theirs.submit("work")
            await work.running()
            handles = await waiting(ours, 5)
            work.gate.set()
            assert (await failing.result()).state is State.FAILED
            assert all(result.success for result in await results(handles))
            await ours.cache.clear()
            work.gate.clear()
            runs = len(work.runs)
            closing = await theirs.submit("work", id="closing")
            await work.running(runs + 1)
            handles = await waiting(ours, 5)
        # It was stopped, and handed back: it continues, and so do the others.
        await work.running(runs + 2)
        work.gate.set()
        assert all(result.success for result in await results(handles))
        assert (await results([await ours.handle(closing.id)]))[0].success
        assert_at_rest(ours)


async def test_a_leader_that_could_not_look_does_not_keep_the_flight(sqlite: str) -> None:
    """The store fails just after it granted the lead: the call runs, and later calls must not wait for ever."""
    work = Gated()
    work.gate.set()
    async with make([work.tool], sqlite) as rt:
        store = rt.store
        get, looks = store.cache_get, iter([False, True])

        def flaky(key: str, now: float, found: Any) -> None:
            if next(looks, False):
                found(None, StoreUnavailable("gone for a moment"))
            else:
                get(key, now, found)

        store.cache_get = flaky
        assert (await asyncio.wait_for(rt.call("work"), PATIENCE)).output == 1
        await rt.cache.clear()
        assert (await asyncio.wait_for(rt.call("work"), PATIENCE)).output == 2


async def test_a_leader_that_was_cancelled_while_the_store_failed_does_not_run(sqlite: str) -> None:
    work = Gated()
    work.gate.set()
    async with make([work.tool], sqlite) as rt:
        store, asked, answer = rt.store, asyncio.Event(), asyncio.Event()

        async def slow(name: str, count: int, capacity: int) -> bool:
            asked.set()
            await answer.wait()
            raise StoreUnavailable("gone for a moment")

        hold, store.hold = store.hold, slow
        call = asyncio.create_task(rt.call("work", id="c"))
        await asked.wait()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        store.hold = hold
        answer.set()
        assert (await rt.call("work", {"x": "another"})).success
        assert work.runs == ["another"]


# A follower leaves ----------------------------------------------------------------------------------------------------


async def test_a_follower_that_leaves_does_not_affect_others(store: str) -> None:
    work = Gated()
    async with make([work.tool], store) as rt:
        [leader, cancelled, other] = await waiting(rt, 3)
        late = await rt.submit("work", deadline=0.05)
        caller = asyncio.create_task(rt.call("work"))
        await work.running()
        assert await cancelled.cancel("enough")
        assert (await cancelled.result()).state is State.CANCELLED
        timed_out = await late.result()
        caller.cancel()
        await asyncio.gather(caller, return_exceptions=True)
        assert (await rt.get(leader.id)).state is State.RUNNING
        work.gate.set()
        assert [result.output for result in await results([leader, other])] == [1, 1]
        stats = await rt.cache.stats()
        records = (await rt.history()).items
        assert_at_rest(rt)
    assert (timed_out.state, timed_out.metadata["phase"]) == (State.TIMEOUT, "deadline")
    assert len(work.runs) == 1
    assert (stats.hits, stats.misses) == (1, 4)
    for record in records:
        assert_sound(record)
        assert record.state.is_terminal


async def test_a_follower_of_another_runtime_can_leave_too(sqlite: str) -> None:
    work = Gated()
    async with make([work.tool], sqlite) as one, make([work.tool], sqlite) as two:
        leader = await one.submit("work")
        await work.running()
        [first, second] = await waiting(two, 2)
        late = await two.submit("work", deadline=0.05)
        assert (await late.result()).metadata["phase"] == "deadline"
        assert await first.cancel()
        assert await one.cancel(second.id)  # from the other runtime
        assert [result.state for result in await results([first, second])] == [State.CANCELLED] * 2
        work.gate.set()
        assert (await leader.result()).success
        assert (await two.call("work")).cached
        assert_at_rest(one, two)
    assert len(work.runs) == 1


async def test_followers_do_not_wait_longer_than_a_queue_may(store: str) -> None:
    work = Gated()
    async with make([work.tool], store, queue_timeout=0.1) as rt:
        leader, *rest = await waiting(rt, 3)
        done = await results(rest)
        assert [(r.state, r.metadata["phase"]) for r in done] == [(State.TIMEOUT, "queue")] * 2
        work.gate.set()
        assert (await leader.result()).success


async def test_a_full_queue_refuses_new_calls_and_loses_no_follower(store: str) -> None:
    """A follower was accepted: when the leader fails, each needs a place in the queue, whatever the limit."""
    work = Gated(lambda number: ValueError("no") if number == 1 else number)
    async with make([work.tool], store, max_concurrency=1, max_queue=1) as rt:
        handles = await waiting(rt, 10)
        await work.running()
        work.gate.set()
        first, *rest = await results(handles)
    assert first.state is State.FAILED
    assert all(result.success for result in rest)


# Other processes -- ----------------------------------------------------------------------------------------------------


async def test_a_required_approval_comes_before_a_cached_result(store: str) -> None:
    work = Gated()
    work.gate.set()
    async with make([work.tool], store, policy=Policy(ask=["work"])) as rt:
        first = await rt.submit("work", id="first")
        assert not work.runs
        assert await rt.approve("first")
        assert (await first.result()).output == 1
        served, denied = await rt.submit("work", id="served"), await rt.submit("work", id="denied")
        for id in ("served", "denied"):
            record = await rt.get(id)
            assert (record.state, record.waiting_for, record.output) == (State.PENDING, "approval", None)
        assert await rt.approve("served")
        assert await rt.deny("denied")
        assert (await served.result()).cached
        refused = await denied.result()
    assert refused.error is not None
    assert refused.error.code == "approval_denied"
    assert refused.output is None
    assert len(work.runs) == 1


async def test_the_flight_is_for_one_caller_only(store: str) -> None:
    work = Gated()
    async with make([work.tool], store) as rt:
        calls = [asyncio.create_task(rt.acting_for(caller).call("work", {})) for caller in ("ada", "bob", "ada")]
        await work.running(2)
        work.gate.set()
        done = await asyncio.gather(*calls)
    assert len(work.runs) == 2
    assert [result.cached for result in done] == [False, False, True]
    assert done[0].output == done[2].output != done[1].output

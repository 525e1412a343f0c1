"""The simulation of a fleet: its queue hands out calls as a store does, and its calls keep the guarantees under failures."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from benchmarks.simulation.calls import Calls
from benchmarks.simulation.fleet import Fleet, Plan, Report
from benchmarks.simulation.waiting import WaitingCalls
from hypothesis import given
from hypothesis import strategies as st

from clicket.errors import InvalidTransition
from clicket.kernel import State
from clicket.model import Event, rows_of
from clicket.ports import Append, CallRow
from clicket.stores.memory import MemoryStore
from clicket.testing.store_kit import ALIVE

CALL = st.tuples(st.sampled_from("abcd"), st.integers(0, 2))
SMALL = Plan(seconds=2, rate=200, callers=5, submitters=2, workers=4, slots=5, body=0.05, lease=1.0, restart=0.5)


@given(st.lists(st.one_of(CALL, st.integers(1, 6)), max_size=40))
def test_calls_are_handed_out_in_the_order_of_a_store(steps: list[tuple[str, int] | int]) -> None:
    """A pair is a new call, a number a claim of so many."""

    async def compare() -> None:
        store, queue = MemoryStore(), WaitingCalls()
        await store.open(ALIVE)
        for number, step in enumerate(steps, 1):
            if isinstance(step, int):
                claimed = await store.claim_waiting(frozenset({"tool"}), step)
                assert [int(stored.events[0].call_id) for stored in claimed] == queue.claim(step)
                continue
            caller, priority = step
            created = Event(str(number), 1, 1.0, "created", State.PENDING, {"tool": "tool", "thread": "t"})
            row = CallRow(str(number), "t", caller, "tool", 1.0, priority)
            store.append(Append(row, 0, 1, rows_of([created]), State.PENDING, owned=False), lambda _, error: None)
            queue.add(caller, number, priority)

    asyncio.run(compare())


def test_a_step_that_the_table_forbids_fails() -> None:
    calls = Calls()
    call = calls.add("a", 0.0, idempotent=True)
    fence = calls.claim(call, 1)
    calls.start(call, 1.0)
    assert calls.end(call, fence, 2.0)
    with pytest.raises(InvalidTransition):
        calls.end(call, fence, 3.0)


def run(**changes: object) -> Report:
    return Fleet(msgspec.structs.replace(SMALL, **changes)).run()


@pytest.mark.parametrize("seed", range(2))
def test_nothing_is_lost_or_repeated_when_workers_die_and_stop(seed: int) -> None:
    report = run(seed=seed, kills=3, pauses=2, idempotent=0.5, body=0.2, lost_messages=0.3)
    assert report.calls > 300
    assert (report.lost, report.repeated) == (0, 0)


def test_a_worker_that_stops_for_longer_than_its_lease_is_refused() -> None:
    reports = [run(seed=seed, pauses=3, body=0.5) for seed in range(2)]
    assert sum(report.refused for report in reports) > 0
    assert all(report.lost == 0 for report in reports)


def test_the_same_seed_is_the_same_run() -> None:
    assert run(seed=7, kills=1) == run(seed=7, kills=1)
    assert run(seed=7) != run(seed=8)


def test_lost_messages_cost_time_and_nothing_else() -> None:
    delivered, lost = run(), run(lost_messages=1.0)
    assert lost.lost == lost.repeated == 0
    assert delivered.wait_p95 < 0.02 < lost.wait_p95 < 2 * SMALL.poll


def test_callers_take_turns() -> None:
    report = run(greedy=1_000, rate=50)
    assert report.others_wait_p95 < 0.3 < report.wait_p95


def test_a_slow_store_is_seen_in_the_waits() -> None:
    assert run(slow_from=0.5, slow_until=1.5, slow_factor=100.0).wait_p95 > 10 * run().wait_p95

"""The chores: configured limits, complete sweeps, and owned calls that this process does not know."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.kit.waiting import PATIENCE
from tests.scenarios.kit import make, sqlite_url
from tests.unit.engine.fakes import Lower, Recorder

from clicket import Settings, tool
from clicket.engine.cache.caching import ttl_of
from clicket.engine.cache.kept_outcomes import KeptOutcomes
from clicket.engine.fleet.claimer import WorkClaimer
from clicket.engine.lifecycle.ending import Ending
from clicket.engine.records.signals import Signals
from clicket.engine.recovery.chores import Chores, Sweeps
from clicket.engine.recovery.recovered import Recovered
from clicket.engine.recovery.recovery import Recovery
from clicket.errors import StoreUnavailable
from clicket.model.config import CacheOptions
from clicket.ports import Keep, Sweep
from clicket.testing import StepClock, memory_runtime


@tool
async def echo() -> str:
    return "echo"


async def test_the_bounds_are_those_of_the_settings() -> None:
    clock = StepClock(start=10_000.0)
    bounds: dict[str, Any] = {
        "retention_calls": 7,
        "retention_bytes": 700,
        "thread_retention_calls": 5,
        "thread_retention_bytes": 500,
    }
    async with memory_runtime(clock=clock, retention=60.0, **bounds) as rt:
        keep = rt.retention()
        week = 7 * 24 * 3600.0
        bound = Keep(since=9_940.0, calls=7, bytes=700, thread_calls=5, thread_bytes=500)
        assert keep == msgspec.structs.replace(bound, health_since=10_000.0 - week, now=10_000.0)
        assert rt.retention(since=5.0).since == 5.0
    async with memory_runtime(clock=clock) as rt:
        assert rt.retention() == Keep(since=10_000.0 - 24 * 3600, health_since=10_000.0 - week, now=10_000.0)


async def test_a_sweep_goes_on_until_there_is_no_more() -> None:
    steps = [Sweep(calls=200, bytes=10, more=True), Sweep(calls=200, bytes=10, more=True), Sweep(calls=3, artifacts=2)]

    class Store:
        async def sweep(self, keep: Keep, limit: int, *, on_remove: Any) -> Sweep:
            assert limit >= 1
            await on_remove([])
            return steps.pop(0)

    class Kept:
        swept = kept = 0

        async def keep(self, calls: list[Any]) -> None:
            self.kept += 1

        async def sweep(self) -> None:
            self.swept += 1

    store: Any = Store()
    told: list[int] = []
    kept: Any = Kept()
    low = Lower(echo)
    core = low.with_core(store=store, clock=StepClock(), costs=kept)
    sweeps = Sweeps(core, kept)
    total = await sweeps.sweep(Keep(), lambda so_far: told.append(so_far.calls))
    assert (total.calls, total.bytes, total.artifacts) == (403, 20, 2)
    assert told == [200, 400, 403]
    assert kept.swept == 1


async def test_a_call_whose_claim_reply_was_lost_is_handed_back(tmp_path: Any) -> None:
    """The store lists this process as owner, but the process does not know the call: seen twice, the call is handed back."""
    url = sqlite_url(tmp_path)
    async with make([echo], url, engine="workers") as front:
        await front.submit("echo", id="lost")
        async with make([], url) as rt:
            chores, store = rt.engine.chores, rt.store
            assert len(await store.claim_waiting(frozenset({"echo"}), 10)) == 1  # and the claim's answer is lost
            await chores.release_strays()
            assert await store.owned()  # the claim may still be in transit
            await chores.release_strays()
            assert not await store.owned()
            async with make([echo], url):
                result = await asyncio.wait_for((await front.handle("lost")).result(), PATIENCE)
    assert result.output == "echo"


def test_how_long_results_are_served() -> None:
    @tool(cache=True)
    async def deep_search() -> None: ...

    @tool(cache=True)
    async def other() -> None: ...

    @tool(cache=2)
    async def own() -> None: ...

    tools: Any = {each.name: each for each in (deep_search, other, own, echo)}
    defaults, given = CacheOptions(), Settings(cache_ttl={"other": 9.0, "own": 9.0, "default": 4.0}).cache
    assert [ttl_of(defaults, each) for each in tools.values()] == [7200.0, 300.0, 2.0, None]
    assert [ttl_of(given, each) for each in tools.values()] == [7200.0, 9.0, 2.0, None]
    assert ttl_of(CacheOptions(enabled=False), tools["own"]) is None


# Alone, with narrow fakes.


class Parts(Lower):
    def __init__(self) -> None:
        super().__init__(echo)
        self.read: list[str] = []
        self.broken: set[str] = set()
        self.claimer: Any = Recorder(WorkClaimer)

        async def append_empty(entry: Any) -> None:
            self.read.append(entry.id)
            if entry.id in self.broken:
                raise StoreUnavailable("away")

        async def recover() -> Recovered:
            self.log.append(("recover", None))
            return Recovered(rerun=2)

        kept = KeptOutcomes(self.store, self.clock, retention=0.0)
        core = self.with_core(claimer=self.claimer, signals=Recorder(Signals, append_empty=append_empty), costs=kept)
        self.recovery: Any = Recorder(Recovery, recover=recover, held=set())
        ending: Any = Recorder(Ending, lose=lambda call: self.log.append(("lost", call)))
        self.chores = Chores(core, ending, self.recovery)
        self.sweeps = Sweeps(core, kept)


async def test_only_calls_that_another_process_wrote_to_are_brought_up_to_date() -> None:
    parts = Parts()
    asked, _quiet, stopping, fenced = (parts.running("echo", id=id) for id in "abcd")
    for call in (asked, stopping, fenced):
        parts.store.write(call, "cancel_requested", reason="")
    stopping.stopping = "cancel"
    parts.journal.fence_off(fenced.entry)
    await parts.chores.read_signals()
    assert parts.read == ["a"]
    assert parts.claimer.names == ["nudge_now_and_then"], "waiting calls are looked for at the same time"


async def test_a_call_that_cannot_be_brought_up_to_date_does_not_keep_the_others() -> None:
    parts = Parts()
    for id in "ab":
        parts.store.write(parts.running("echo", id=id), "cancel_requested", reason="")
    parts.broken = {"a"}
    await parts.chores.read_signals()
    assert parts.read == ["a", "b"]


async def test_without_calls_the_store_is_not_polled_for_requests() -> None:
    parts = Parts()

    async def signals() -> list[int]:
        raise AssertionError("asked in vain")

    parts.store.signals = signals  # type: ignore[method-assign]
    await parts.chores.read_signals()


async def test_many_hints_make_one_look_and_a_closed_runtime_makes_none(caplog: pytest.LogCaptureFixture) -> None:
    parts = Parts()
    parts.store.write(parts.running("echo"), "cancel_requested", reason="")
    for _ in range(5):
        parts.chores.read_signals_soon()
    await parts.settle()
    assert parts.read == ["a"]

    async def signals() -> list[int]:
        raise StoreUnavailable("away")

    parts.store.signals = signals  # type: ignore[method-assign]
    parts.chores.read_signals_soon()
    await parts.settle()
    assert "listen: away" in caplog.text
    parts.phase.closed = True
    parts.chores.read_signals_soon()
    assert parts.spawned == []


async def test_strays_are_handed_back_on_second_sight_and_calls_that_are_known_or_held_are_not() -> None:
    parts = Parts()
    known, stray, broken = (parts.pending("echo", id=id) for id in "abc")
    parts.live.remove(stray)
    parts.live.remove(broken)
    parts.recovery.held = {broken.entry.key}
    await parts.chores.recover()
    assert parts.store.is_owned(stray), "the claim may still be in transit"
    await parts.chores.recover()
    assert [parts.store.is_owned(call) for call in (known, stray, broken)] == [True, False, True]
    assert parts.logged("recover") == [None, None]


async def test_idle_sessions_are_closed_and_those_of_live_calls_are_kept() -> None:
    parts = Parts()
    parts.running("echo", thread="t1", caller="ann")
    swept: list[frozenset[Any]] = []
    (registered,) = parts.registry

    async def sweep(in_use: frozenset[Any]) -> None:
        swept.append(in_use)

    registered.sweep = sweep  # type: ignore[method-assign]
    await parts.sweeps.sweep_all()
    assert len(swept[0]) == 1


async def test_a_call_that_waits_here_and_belongs_to_another_process_is_let_go_on_second_sight() -> None:
    parts = Parts()
    lost, ours = parts.pending("echo", id="lost"), parts.pending("echo", id="ours")
    parts.live.add(lost)
    parts.live.add(ours)
    parts.store.disown(lost)  # another process claimed it while this one slept
    await parts.chores.lose_waiting()
    assert parts.logged("lost") == [], "the write may still be in transit"
    await parts.chores.lose_waiting()
    assert parts.logged("lost") == [lost]

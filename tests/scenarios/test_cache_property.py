"""Cache and single flight under any sequence of calls, ends, cancels, clears and passing time, in two engines over one store.

No failure is served, and no result that expired, was cleared, or belongs to another caller; and no more runs than necessary.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.kit.examples import in_long_runs

from clicket import Settings, State, ToolCall, ToolContext, tool
from clicket.engine import Engine
from clicket.engine.live_call import Call, Origin
from clicket.runtime.compose import compose
from clicket.stores.liveness import this_process
from clicket.stores.memory import MemoryStore
from clicket.testing import StepClock

TTL, TIMEOUT = 10.0, 25.0
PICK = st.integers(0, 20)
SPELLINGS = ('{{"x": {0}, "y": 1}}', '{{"y": 1.0, "x": {0}.0}}', '{{ "x":{0}e0, "y":1 }}')

Key = tuple[str, int]
"""Key of equal calls: the caller and the argument."""


class Side:
    """One engine's connection to a memory store that both share; counts the slots that each holds."""

    def __init__(self, memory: MemoryStore, number: int, held: dict[tuple[str, int], int]) -> None:
        self.memory, self.number, self.held = memory, number, held
        self.durability, self.on_hint = "process", lambda kind, key: None

    async def open(self, owner: Any) -> None: ...

    def health_stamp(self) -> int | None:
        return None

    async def close(self) -> None: ...

    async def hold(self, name: str, count: int, capacity: int) -> bool:
        others = sum(held for (slot, side), held in self.held.items() if slot == name and side != self.number)
        if count > self.held.get((name, self.number), 0) and others + count > capacity:
            return False
        self.held[name, self.number] = count
        return True

    def __getattr__(self, name: str) -> Any:
        return getattr(self.memory, name)


class Run:
    """One run of the tool, and how it ended."""

    def __init__(self, number: int, call: str, key: Key, loose: bool) -> None:
        self.number, self.call, self.key, self.loose = number, call, key, loose
        self.told: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.word = ""
        self.returned: tuple[int, float] | None = None


class CacheMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = StepClock()
        self.step = 0
        self.cleared: list[int] = []
        self.runs: dict[int, Run] = {}
        self.running: list[Run] = []
        self.live: list[tuple[Call, int, Key]] = []
        self.loose: set[str] = set()
        self.served = self.ended = 0
        self.complaints: list[str] = []
        self.engines: list[Engine] = []
        self.memory = MemoryStore()
        self.do(self.open())

    def do(self, work: Coroutine[Any, Any, None]) -> None:
        self.step += 1
        self.loop.run_until_complete(work)
        self.loop.run_until_complete(self.clock.settle())

    async def open(self) -> None:
        @tool(cache=TTL, timeout=TIMEOUT, max_retries=0, max_result_size=500, failure_threshold=10**6)
        async def work(x: int, y: int, ctx: ToolContext) -> Any:
            return await self.body(ctx)

        await self.memory.open(this_process(60.0))
        held: dict[tuple[str, int], int] = {}
        given = Settings(store="memory://", max_concurrency=100, queue_timeout=1e6)
        for number in range(2):
            side: Any = Side(self.memory, number, held)
            self.engines.append(await compose([work], given, store=side, clock=self.clock))

    async def body(self, ctx: ToolContext) -> Any:
        key = next(key for call, _, key in self.live if call.id == ctx.call_id)
        run = Run(len(self.runs) + 1, ctx.call_id, key, ctx.call_id in self.loose)
        if not run.loose:
            beside = [other.number for other in self.running if other.key == key and not other.loose]
            if beside:
                self.complaints.append(f"run {run.number} of {key} began beside {beside}")
            fresh = [other.number for other in self.runs.values() if other.key == key and self.is_fresh(other)]
            if fresh:
                self.complaints.append(f"run {run.number} of {key} began though the result of {fresh} was there")
        self.runs[run.number] = run
        self.running.append(run)
        try:
            run.word = await run.told
        finally:
            self.running.remove(run)
        if run.word == "fail":
            raise ValueError(f"run {run.number}")
        run.returned = (self.step, self.clock.now())
        return {"run": run.number, "text": "x" * (600 if run.word == "big" else 6)}

    def is_fresh(self, run: Run) -> bool:
        if run.returned is None or run.word != "return":
            return False
        step, at = run.returned
        return self.clock.now() < at + TTL and not any(cleared > step for cleared in self.cleared)

    # Actions.

    @initialize(side=st.integers(0, 1))
    def begin(self, side: int) -> None:
        self.call(side=side, x=0, caller="ada", spelling=SPELLINGS[0], deadline=None, count=3)

    @rule(
        side=st.sampled_from([0, 0, 1]),
        x=st.sampled_from([0, 0, 0, 1]),
        caller=st.sampled_from(["ada", "ada", "ada", "bob"]),
        spelling=st.sampled_from(SPELLINGS),
        deadline=st.sampled_from([None, None, None, 3.0]),
        count=st.sampled_from([3, 2, 1]),
    )
    def call(self, side: int, x: int, caller: str, spelling: str, deadline: float | None, count: int) -> None:
        async def accept() -> None:
            for number in range(count):
                request = ToolCall("work", spelling.format(x), deadline=deadline, id=f"c{self.step}.{number}")
                self.live.append((self.engines[side].admission.take(request, Origin(caller)), side, (caller, x)))

        self.do(accept())

    @rule(pick=PICK, word=st.sampled_from(["return", "return", "fail", "big"]))
    def end(self, pick: int, word: str) -> None:
        if self.running:
            run = self.running[pick % len(self.running)]
            side = next(side for call, side, _ in self.live if call.id == run.call)
            if word != "return":  # nothing to share: the waiters may run the tool themselves
                self.loose |= {call.id for call, where, key in self.live if where == side and key == run.key}

            async def tell() -> None:
                if not run.told.done():
                    run.told.set_result(word)
                for _ in range(5):  # a thread works on large values; it is idle once a request queued behind it is done
                    await self.clock.settle()
                    await self.engines[side].results.run(lambda: None)

            self.do(tell())

    @rule(seconds=st.sampled_from([TTL, 0.3, 4.0, TTL - 0.01, 30.0]))
    def wait(self, seconds: float) -> None:
        self.do(self.clock.run(seconds))

    @rule(pick=PICK)
    def cancel(self, pick: int) -> None:
        if self.live:
            call, side, _ = self.live[pick % len(self.live)]

            async def stop() -> None:
                self.engines[side].stopping.cancel(call, "enough")

            self.do(stop())

    @rule(tag=st.sampled_from([None, "tool:work"]))
    def clear(self, tag: str | None) -> None:
        async def forget() -> None:
            await self.memory.cache_clear(tag)
            self.cleared.append(self.step)

        self.do(forget())

    # Invariants.

    @invariant()
    def every_end_is_honest_and_counted(self) -> None:
        assert not self.complaints
        for call, _, key in list(self.live):
            result = call.result
            if result is None:
                continue
            self.live.remove(next(entry for entry in self.live if entry[0] is call))
            self.ended += 1
            self.served += result.cached
            if result.success and result.output is not None:
                run = self.runs[result.output["run"]]
                assert run.key == key, f"{key} got the result of {run.key}"
                if not result.cached:
                    assert run.call == call.id
                    continue
                assert run.word == "return"
                assert run.returned is not None
                step, at = run.returned
                assert call.entry.ended_at is not None
                assert at <= call.entry.ended_at < at + TTL, "served after it expired"
                assert not any(step < cleared < self.step for cleared in self.cleared), "served though it was cleared"
                assert result.attempts == 0
            elif result.state is State.FAILED:
                own = [run.number for run in self.runs.values() if run.call == call.id and run.word == "fail"]
                assert result.error is not None
                assert [f"run {number}" for number in own] == [result.error.message], "another call's failure"

        stats = self.loop.run_until_complete(self.memory.cache_stats())
        assert stats.hits == self.served
        assert stats.hits + stats.misses == self.ended

    def teardown(self) -> None:
        """Every waiter gets an outcome, and finished flights leave nothing in memory."""
        try:
            for _ in range(100):
                if not self.live:
                    break
                for run in list(self.running):
                    if not run.told.done():
                        run.told.set_result("return")
                self.do(self.clock.run(0.3))
                self.every_end_is_honest_and_counted()
            assert not self.live, "calls without an end"
            for engine in self.engines:
                assert engine.flights.is_idle
        finally:
            for engine in self.engines:
                for task in engine.tasks.running:  # normally there is none; do not wait for one that hangs
                    task.cancel()
                self.loop.run_until_complete(engine.close(patience=0))
            self.loop.run_until_complete(self.memory.close())
            self.loop.close()


TestCache = CacheMachine.TestCase
TestCache.settings = settings(max_examples=in_long_runs(1500, else_=40), stateful_step_count=40)

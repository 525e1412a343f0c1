"""Shared by the scenarios: a runtime over a given store, a measure of the loop's lag, and the invariants of every record."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from clicket import Event, Policy, Record, Runtime, Settings
from clicket.kernel import CALL
from clicket.model import fold

GRACE = 0.1  # seconds a cancelled body gets in these tests


def make(
    tools: Iterable[Any] = (),
    store: str = "memory://",
    *,
    policy: Policy | None = None,
    deps: Mapping[str, Callable[[], Any]] | None = None,
    **settings: Any,
) -> Runtime:
    """A runtime with short timeouts; `settings` are those of `Settings`."""
    given = {"cancel_grace": GRACE, "close_timeout": 5.0, **settings}
    return Runtime(tools, policy=policy, deps=deps, settings=Settings(store=store, **given))


def sqlite_url(folder: Path, name: str = "calls.db") -> str:
    return f"sqlite:///{folder / name}"


def assert_sound(record: Record) -> None:
    """No gap, one end at most, every transition in the table, and the record is the fold of its events."""
    events = record.events
    assert [e.seq for e in events] == list(range(1, len(events) + 1))
    assert all(e.call_id == record.id for e in events)
    assert events[0].type == "created"
    ends = [e for e in events if e.is_terminal]
    assert len(ends) <= 1
    state = events[0].state
    for event in events[1:]:
        if event.type == "state_changed":
            assert event.data["from"] == state.value
            assert event.data["to"] == event.state.value
            assert event.state in CALL.edges[state]
        else:
            assert event.state is state
        state = event.state
    assert record.state is state
    if ends:
        assert record.ended_at == ends[0].at
        assert record.ended_at >= record.created_at
        assert all(e.type == "late_result" for e in events[ends[0].seq :])
    assert fold(events) == record


def types(record: Record) -> list[str]:
    return [event.type for event in record.events]


def states(events: Iterable[Event]) -> list[str]:
    """The states of the events, each once per entry."""
    return [event.state.value for event in events if event.type in ("created", "state_changed")]


def label(value: Any) -> str:
    """The name of a case, the same in every process: no addresses."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))[:40]


def _starved() -> dict[str, int]:
    """Nanoseconds for which each thread of this process waited for a processor so far."""
    waited = {}
    for thread in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it has ended meanwhile
            waited[thread.name] = int((thread / "schedstat").read_bytes().split()[1])
    return waited


class Lag:
    """`worst`: the longest time that the event loop was blocked."""

    worst = 0.0


class _Ticks(threading.Thread):
    """Counts, beside the loop, how often a thread of this process could run: rarely, if the machine is busy with others."""

    def __init__(self, every: float) -> None:
        super().__init__(name="ticks", daemon=True)
        self.count = 0
        self._every, self._over = every, threading.Event()

    def run(self) -> None:
        while not self._over.wait(self._every):
            self.count += 1

    def end(self) -> None:
        self._over.set()
        self.join()


@asynccontextmanager
async def measured_lag(every: float = 0.002) -> AsyncIterator[Lag]:
    """Tick on the running loop, and record the longest gap beyond the tick: at most the time for which the loop's own thread
    computed, or another thread of this process could tick. Both are short when other programs have the processor."""
    lag, beside = Lag(), _Ticks(every)

    async def tick() -> None:
        while True:
            before, starved, computed, ticks = time.perf_counter(), _starved(), time.thread_time(), beside.count
            await asyncio.sleep(every)
            waited = (
                sum(now - starved.get(id, 0) for id, now in _starved().items() if id != str(beside.native_id)) / 1e9
            )
            gap = time.perf_counter() - before - every - waited
            could = max(time.thread_time() - computed, (beside.count - ticks - 1) * every)
            lag.worst = max(lag.worst, min(gap, could))

    beside.start()
    task = asyncio.create_task(tick())
    await asyncio.sleep(0)
    try:
        yield lag
    finally:
        await asyncio.sleep(every)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        beside.end()


async def assert_loop_is_free(work: Callable[[], Awaitable[Any]], *, limit: float = 0.05, tries: int = 10) -> None:
    """`work` holds the loop up for less than `limit`, or on a slow machine for less than an eighth of the time that it takes. A busy
    machine may need another try; code that blocks holds the loop for most of its time, and fails them all."""
    worst = []
    for _ in range(tries):
        began = time.perf_counter()
        async with measured_lag() as lag:
            await work()
        worst.append(lag.worst)
        if lag.worst < max(limit, (time.perf_counter() - began) / 8):
            return
    raise AssertionError(f"the loop was held up for {min(worst):.3f} s")

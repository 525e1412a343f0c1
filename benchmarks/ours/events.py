"""Events through the journal into each store; and the resulting rows, inserted by apsw alone."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from itertools import count
from pathlib import Path
from time import perf_counter

from benchmarks import timing
from benchmarks.ours.recorded import SYNCHRONOUS, Recorded
from clicket.engine.journal import Entry, Journal
from clicket.ports import Owner, Store, SystemClock
from clicket.stores.memory import MemoryStore
from clicket.stores.sqlite import SqliteStore

_EVENTS_A_CALL = 500
_RECORDED = 5_000
_numbers = count(1)


class Pen:
    """Appends event after event, to a new call when the last one has many."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.call: Entry | None = None

    async def write(self) -> None:
        call = self.call
        if call is None or call.seq >= _EVENTS_A_CALL:
            self.call = call = Entry(f"c{next(_numbers)}", "default", "", "noop", time.time())
            self.journal.record(call, "created", {"tool": "noop", "thread": "default", "arguments": {"a": 1}})
        else:
            self.journal.record(call, "note", {"text": "a remark of middling length", "number": call.seq})
        await self.journal.flush(call)


async def open_journal(store: Store) -> Journal:
    await store.open(Owner(host="bench", boot="bench", pid=os.getpid(), started="0", lease=3600.0))
    loop = asyncio.get_running_loop()
    return Journal(store, SystemClock(), loop.create_task)


def store_for(variant: str, path: Path) -> Store:
    return MemoryStore() if variant == "memory" else SqliteStore(path, durability=variant)


async def journal(variant: str, path: Path, seconds: float) -> dict[str, float]:
    store = store_for(variant, path)
    written = await open_journal(store)
    pen = Pen(written)
    pens = [Pen(written) for _ in range(timing.AT_ONCE)]
    turns = count()

    async def next_pen() -> None:
        # As many calls as callers, in turn: events of different calls share a commit, not a row.
        await pens[next(turns) % timing.AT_ONCE].write()

    event_us = await timing.p50_async(pen.write, seconds=seconds)
    per_second = await timing.per_second(next_pen, seconds=seconds)
    await store.close()
    return {"event_us": event_us, "shared_us": 1e6 / per_second}


async def leave_rows(mode: str, path: Path) -> None:
    store = store_for(mode, path)
    pen = Pen(await open_journal(store))
    for _ in range(_RECORDED):
        await pen.write()
    await store.close()


def raw(mode: str, folder: Path, seconds: float) -> dict[str, float]:
    asyncio.run(leave_rows(mode, folder / "rows.db"))
    recorded = Recorded(folder / "rows.db")
    single: list[float] = []
    shared: list[float] = []
    end = perf_counter() + seconds
    while len(single) < 3 or perf_counter() < end:
        single.append(recorded.insert(folder / f"single-{len(single)}.db", SYNCHRONOUS[mode], _RECORDED))
        shared.append(recorded.insert(folder / f"shared-{len(shared)}.db", SYNCHRONOUS[mode], _RECORDED // 100))
    return {
        "event_us": statistics.median(single) / _RECORDED * 1e6,
        "shared_us": statistics.median(shared) / _RECORDED * 1e6,
    }


def main() -> None:
    arguments = timing.budget()
    with timing.scratch() as folder:
        if arguments.variant.startswith("raw-"):
            figures = raw(arguments.variant.removeprefix("raw-"), folder, arguments.seconds)
        else:
            figures = asyncio.run(journal(arguments.variant, folder / "events.db", arguments.seconds))
    timing.report(figures, timing.versions("apsw", "msgspec"))


main()

"""A fleet over one store and one bus: by seed, workers and the bus are killed and bus connections cut. Then the judge
checks the calls."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
from tests.cutting_proxy import cutting_proxy
from tests.nats_server import NatsServer
from tests.scenarios.fleet import Member, member
from tests.scenarios.fleet_tools import fetch, pay, traces

from clicket import Runtime, Settings, State

__all__ = ["Judged", "fleet_run"]

_LEASE = 1.0
_PATIENCE = 60.0


class Judged(msgspec.Struct, kw_only=True):
    """The outcomes of one run's acknowledged calls. `lost`, `repeated` and `doubled` must be empty."""

    calls: int = 0
    kills: int = 0
    unknown: int = 0
    lost: list[str] = []
    """Calls that did not end, or ended in a way that their tool does not allow."""
    repeated: list[str] = []
    """Bodies that ran more than once although they may not be repeated."""
    doubled: list[str] = []
    """Calls without exactly one outcome, or with a gap in their events."""

    @property
    def is_clean(self) -> bool:
        return not (self.lost or self.repeated or self.doubled)


async def fleet_run(
    seed: int, store: str, bus: NatsServer, folder: Path, *, workers: int = 2, calls: int = 30
) -> Judged:
    chance, judged = random.Random(seed), Judged()
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(cutting_proxy(bus.port))
        settings = {"notices": f"nats://127.0.0.1:{proxy.port}", "lease": _LEASE, "max_concurrency": 4}

        async def start() -> Member:
            return await stack.enter_async_context(member(store, "pay", "fetch", **settings))

        fleet = await asyncio.gather(*(start() for _ in range(workers)))
        front = Runtime([pay, fetch], settings=Settings(store=store, engine="workers", lease=_LEASE, notices=bus.url))
        rt = await stack.enter_async_context(front)
        handles = []
        faults = [chance.choice(["worker", "bus", "cut", "worker"]) for _ in range(4)]
        turns = sorted(chance.sample(range(3, calls), len(faults)))
        for number in range(calls):
            tool = chance.choice(["pay", "fetch"])
            given = {"folder": str(folder), "ms": chance.choice([0, 0, 5, 40])}
            handles.append((tool, await rt.submit(tool, given, thread=f"t{number % 4}")))
            if turns and number == turns[0]:
                turns.pop(0)
                fault = faults.pop()
                judged.kills += 1
                if fault == "worker":
                    await fleet[0].kill()
                    fleet = [*fleet[1:], await start()]
                elif fault == "bus":
                    bus.kill()
                    await asyncio.sleep(chance.uniform(0.0, 0.1))  # waits for nothing: any instant will do
                    bus.start()
                else:
                    await proxy.drop_all()
        judged.calls = len(handles)
        results = await asyncio.gather(
            *(handle.result(timeout=_PATIENCE) for _, handle in handles), return_exceptions=True
        )
        bodies = Counter(line[1] for line in traces(folder) if line[0] == "pay")
        for (tool, handle), result in zip(handles, results, strict=True):
            if isinstance(result, BaseException):
                judged.lost.append(f"{tool} {handle.id}: {result!r}")
                continue
            unknown = result.error is not None and result.error.code == "outcome_unknown"
            judged.unknown += unknown
            if not (result.state is State.COMPLETED and result.output == handle.id) and not (tool == "pay" and unknown):
                judged.lost.append(f"{tool} {handle.id}: {result.state} {result.error}")
            if bodies[handle.id] > 1 or (tool == "pay" and not unknown and bodies[handle.id] != 1):
                judged.repeated.append(f"{handle.id}: {bodies[handle.id]} bodies")
            events = (await rt.get(handle.id)).events
            ends = sum(event.type == "state_changed" and event.state.is_terminal for event in events)
            if ends != 1 or [event.seq for event in events] != list(range(1, len(events) + 1)):
                judged.doubled.append(f"{handle.id}: {ends} outcomes, {len(events)} events")
    return judged

"""A fleet over one store and one bus. By seed, processes and servers are killed, workers paused, and the network between workers
and servers cut, while the bus drops, doubles, delays and reorders messages. Then the judge checks the calls."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec
from tests.cutting_proxy import CuttingProxy, cutting_proxy
from tests.kit.waiting import PATIENCE
from tests.nats_proxy import faulty_nats
from tests.nats_server import NatsServer
from tests.scenarios.fleet import Member, member
from tests.scenarios.fleet_tools import fetch, pay, traces

from clicket import Runtime, Settings, State
from clicket.errors import ClicketError, NotFound

__all__ = ["FAULTS", "Judged", "Server", "fleet_run"]

LEASE = 1.0
BOUND = 2 * LEASE
"""Seconds after the last fault within which every call must have ended: its owner's lease, and the next look for orphans."""
SLACK = PATIENCE / 2
"""Seconds more for a busy machine: new processes, connections that are made again, and the calls themselves."""
_FAULTS = 4
"""Faults of a run."""
Start = Callable[[], Coroutine[Any, Any, Member]]


class Server(Protocol):
    """The server of a store: killed and started again on the same port, over the same data."""

    def kill(self) -> None: ...

    def start(self) -> None: ...


class Judged(msgspec.Struct, kw_only=True):
    """The outcomes of one run's calls. `lost`, `repeated`, `doubled` and `late` must be empty."""

    calls: int = 0
    """Calls that were acknowledged."""
    unknown: int = 0
    refused: int = 0
    """Submissions that were answered with an error, or whose process died before the answer."""
    slowest: float = 0.0
    """Seconds from the end of the last fault until the last call had ended."""
    faults: list[str] = []
    lost: list[str] = []
    """Acknowledged calls that did not end, or ended in a way that their tool does not allow."""
    repeated: list[str] = []
    """Bodies that ran more than once although they may not be repeated."""
    doubled: list[str] = []
    """Calls without exactly one outcome, or with a gap in their events."""
    late: list[str] = []
    """Calls that ended later than the leases explain, or not at all."""

    @property
    def is_clean(self) -> bool:
        return not (self.lost or self.repeated or self.doubled or self.late)


class _Fleet:
    """The processes and servers of one run, and the ways to harm them."""

    def __init__(
        self,
        chance: random.Random,
        store: Server,
        bus: NatsServer,
        *,
        to_store: CuttingProxy,
        to_bus: CuttingProxy,
        start_worker: Start,
        start_submitter: Start,
    ) -> None:
        self.chance, self.store, self.bus = chance, store, bus
        self.to_store, self.to_bus = to_store, to_bus
        self.start_worker, self.start_submitter = start_worker, start_submitter
        self.workers: list[Member] = []
        self.submitter: Member | None = None

    async def open(self, workers: int) -> None:
        started = [self.start_worker() for _ in range(workers)]
        *self.workers, self.submitter = await asyncio.gather(*started, self.start_submitter())

    async def kill_worker(self) -> None:
        await self.workers.pop(0).kill()
        self.workers.append(await self.start_worker())

    async def kill_submitter(self) -> None:
        killed, self.submitter = self.submitter, None
        assert killed is not None
        await killed.kill()
        self.submitter = await self.start_submitter()

    async def pause_worker(self) -> None:
        """For less or more than its lease."""
        paused = self.workers[-1]
        with suppress(ProcessLookupError):  # another fault has killed it
            paused.process.send_signal(signal.SIGSTOP)
            await self.some_time(2.5)
            paused.process.send_signal(signal.SIGCONT)

    async def kill_bus(self) -> None:
        """It stores nothing, so it starts again empty."""
        self.bus.kill()
        await self.some_time(0.5)
        self.bus.start()

    async def kill_store(self) -> None:
        await asyncio.to_thread(self.store.kill)
        await self.some_time(0.5)
        await asyncio.to_thread(self.store.start)

    async def break_bus(self) -> None:
        await self.to_bus.drop_all()

    async def break_store(self) -> None:
        await self.to_store.drop_all()

    async def cut_bus(self) -> None:
        await self._cut(self.to_bus)

    async def cut_store(self) -> None:
        """For less or more than the leases of the workers, which cannot renew them."""
        await self._cut(self.to_store)

    async def _cut(self, proxy: CuttingProxy) -> None:
        proxy.silence()
        await self.some_time(2.5)
        proxy.mend()

    async def some_time(self, leases: float) -> None:
        """Up to so many leases; waits for nothing: any instant will do."""
        await asyncio.sleep(self.chance.uniform(0.0, leases * LEASE))


FAULTS: dict[str, Callable[[_Fleet], Coroutine[Any, Any, None]]] = {
    "worker killed": _Fleet.kill_worker,
    "worker paused": _Fleet.pause_worker,
    "submitter killed": _Fleet.kill_submitter,
    "bus killed": _Fleet.kill_bus,
    "bus connections broken": _Fleet.break_bus,
    "network to bus cut": _Fleet.cut_bus,
    "store killed": _Fleet.kill_store,
    "store connections broken": _Fleet.break_store,
    "network to store cut": _Fleet.cut_store,
}
"""What a run may do to its fleet. The bus drops, doubles, delays and reorders messages in each run."""


class _Given(msgspec.Struct, kw_only=True):
    """One call that was submitted; `acknowledged`: the submission was answered with its id."""

    id: str
    tool: str
    acknowledged: bool = False
    waiting: asyncio.Future[Any] | None = None


async def fleet_run(
    seed: int,
    url: str,
    store: Server,
    bus: NatsServer,
    folder: Path,
    *,
    faults: Sequence[str] = (),
    workers: int = 2,
    calls: int = 30,
) -> Judged:
    """Submit calls from two processes. Meanwhile these faults happen, or some that the seed chooses."""
    chance = random.Random(seed)
    judged = Judged(faults=[*faults] or chance.sample([*FAULTS], _FAULTS))
    port = urlsplit(url).port
    assert port is not None
    async with AsyncExitStack() as stack:
        to_store = await stack.enter_async_context(cutting_proxy(port))
        to_bus = await stack.enter_async_context(faulty_nats(bus.port, seed))
        limits: dict[str, Any] = {"lease": LEASE, "store_timeout": 2.0}
        by_bus = seed % 2 == 1  # else the store carries messages, the urgent ones with its commits
        if by_bus:
            limits["notices"] = f"nats://127.0.0.1:{to_bus.port}"
        far = url.replace(f":{port}", f":{to_store.port}")

        def start(address: str, **settings: Any) -> Start:
            return lambda: stack.enter_async_context(member(address, "pay", "fetch", **limits, **settings))

        fleet = _Fleet(
            chance,
            store,
            bus,
            to_store=to_store,
            to_bus=to_bus,
            start_worker=start(far, max_concurrency=4),
            start_submitter=start(url, engine="workers"),
        )
        await fleet.open(workers)
        near = (
            {**limits, "notices": bus.url} if by_bus else limits
        )  # what other processes hear is altered, what this one hears is not
        here = Runtime([pay, fetch], settings=Settings(store=url, engine="workers", **near))
        rt = await stack.enter_async_context(here)
        given = await _submit(seed, rt, fleet, judged.faults, folder, calls)
        healed_at = time.time()
        completed = [call.id for call in given if await _judge(judged, rt, call, healed_at) and call.tool == "pay"]
        judged.late += [f"{record.id} has not ended" for record in (await rt.history(active=True)).items]
        bodies = Counter(line[1] for line in traces(folder) if line[0] == "pay")
        judged.repeated = [f"{id}: {count} bodies" for id, count in bodies.items() if count > 1]
        judged.lost += [f"{id} is completed, and its body did not run" for id in completed if not bodies[id]]
    return judged


async def _submit(
    seed: int, rt: Runtime, fleet: _Fleet, faults: Sequence[str], folder: Path, calls: int
) -> list[_Given]:
    """Returns when all calls were submitted, and all faults are over."""
    chance, given = fleet.chance, []
    turns = dict(zip(sorted(chance.sample(range(3, calls), len(faults))), faults, strict=True))
    async with asyncio.TaskGroup() as group:
        for number in range(calls):
            call = _Given(id=f"{seed}-{number}", tool=chance.choice(["pay", "fetch"]))
            given.append(call)
            arguments = {"folder": str(folder), "ms": chance.choice([0, 0, 5, 40, 300])}
            options = {"id": call.id, "thread": f"t{number % 4}"}
            by = fleet.submitter if chance.random() < 0.5 else None
            with suppress(ClicketError, ConnectionError):  # it was not acknowledged
                if by is None:
                    handle = await rt.submit(call.tool, arguments, **options)  # type: ignore[arg-type]
                    call.waiting = asyncio.ensure_future(handle.result(timeout=PATIENCE))
                    call.acknowledged = True
                else:
                    call.acknowledged = "value" in await by.begin("submit", call.tool, arguments, **options)
            if number in turns:
                group.create_task(FAULTS[turns[number]](fleet))
                await fleet.some_time(0.1)
    return given


async def _judge(judged: Judged, rt: Runtime, call: _Given, healed_at: float) -> bool:
    """Note what is wrong with a call. Returns whether it is completed."""
    judged.calls += call.acknowledged
    judged.refused += not call.acknowledged
    try:
        waiting = call.waiting or (await rt.handle(call.id)).result(timeout=PATIENCE)
        result, record = await waiting, await rt.get(call.id)
    except NotFound as error:
        if call.acknowledged:
            judged.lost.append(f"{call.id}: {error}")
        return False
    except Exception as error:
        judged.lost.append(f"{call.id}: {error!r}")
        return False
    unknown = result.error is not None and result.error.code == "outcome_unknown"
    judged.unknown += unknown
    if not (result.state is State.COMPLETED and result.output == call.id) and not (call.tool == "pay" and unknown):
        judged.lost.append(f"{call.tool} {call.id}: {result.state} {result.error}")
    ends = sum(event.type == "state_changed" and event.state.is_terminal for event in record.events)
    if ends != 1 or [event.seq for event in record.events] != list(range(1, len(record.events) + 1)):
        judged.doubled.append(f"{call.id}: {ends} outcomes, {len(record.events)} events")
    after = (record.ended_at or time.time()) - healed_at
    judged.slowest = max(judged.slowest, after)
    if after > BOUND + SLACK:
        judged.late.append(f"{call.tool} {call.id} ended {after:.1f} s after the last fault")
    return result.success

"""The entry of a worker in its store: renewed by one write, changed by operators, removed when it closes or is lost for an hour."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.unit.engine.fakes import Recorder

from clicket import tool
from clicket.engine.fleet.worker_entry import WORKER, Identity, Load, StoredWorker, WorkerEntry, host_name, worker_id
from clicket.engine.fleet.worker_list import (
    LOST_FOR,
    listed_workers,
    living_workers,
    set_worker_state,
    sweep_lost_workers,
)
from clicket.engine.inputs import Inputs
from clicket.errors import Conflict, NotFound, StoreUnavailable
from clicket.model.worker import WorkerRole, WorkerState
from clicket.ports import Owner, Presence
from clicket.stores.memory import MemoryStore
from clicket.testing import StepClock
from clicket.tools import Registry

ME = Owner(host="web1/pid:[1]", boot="b", pid=7, started="1", lease=3.0)
OTHER = Owner(host="web2", boot="b", pid=8, started="2", lease=3.0)


class Store(MemoryStore):
    """A shared store: owners come and go, operators write, the server becomes unavailable."""

    def __init__(self) -> None:
        super().__init__()
        self.durability = "process"
        self.alive = {ME.pid: ME, OTHER.pid: OTHER}
        self.down = False
        self.writes = 0

    async def owners(self) -> list[Presence]:
        return [Presence(id=pid, owner=owner, alive=True) for pid, owner in self.alive.items()]

    async def put_document(self, kind: str, key: str, body: bytes, expect: int | None) -> bool:
        if self.down:
            raise StoreUnavailable("down")
        self.writes += 1
        return await super().put_document(kind, key, body, expect)


class Parts:
    def __init__(self) -> None:
        self.store, self.clock = Store(), StepClock(start=1_000_000.0)
        self.states: list[WorkerState] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self.load = Load(listed=True, tools={"add": "1"}, running=2, capacity=10)

    def make(self, owner: Owner = ME, role: WorkerRole = "worker") -> WorkerEntry:
        who = Identity(owner=owner, id=worker_id(owner), role=role, labels=("gpu",))
        inputs: Any = Recorder(Inputs, worker_is=self.states.append)
        return WorkerEntry(
            self.store, self.clock, who, load=lambda: self.load, inputs=inputs,
            spawn=lambda work: self.tasks.append(asyncio.ensure_future(work)),
        )  # fmt: skip

    async def open(self, owner: Owner = ME, role: WorkerRole = "worker") -> WorkerEntry:
        await self.store.open(owner)
        entry = self.make(owner, role)
        await entry.update()
        return entry

    async def settle(self) -> None:
        await asyncio.gather(*self.tasks)
        self.tasks.clear()

    async def state(self, id: str) -> str | None:
        return next((worker.state for worker in await listed_workers(self.store) if worker.id == id), None)


async def test_it_is_renewed_by_one_write_and_has_what_the_worker_offers() -> None:
    parts = Parts()
    entry = await parts.open()
    for _ in range(3):
        await entry.renew()
    assert parts.store.writes == 4
    (worker,) = await listed_workers(parts.store)
    assert (worker.id, worker.host, worker.pid, worker.role) == (entry.id, "web1", 7, "worker")
    assert (worker.tools, worker.labels, worker.running, worker.capacity) == ({"add": "1"}, ("gpu",), 2, 10)
    await entry.remove()
    await entry.renew()
    assert await listed_workers(parts.store) == []


async def test_a_state_that_an_operator_wrote_is_found_by_the_next_renewal() -> None:
    parts = Parts()
    entry = await parts.open()
    assert await set_worker_state(parts.store, entry.id, "cordoned") == ((await listed_workers(parts.store))[0], True)
    assert parts.states == []
    await entry.renew()
    assert (entry.state, parts.states, entry.is_active) == ("cordoned", ["cordoned"], False)
    await entry.renew()
    assert (await parts.state(entry.id), parts.states) == ("cordoned", ["cordoned"])
    worker, changed = await set_worker_state(parts.store, entry.id, "cordoned")
    assert (worker.state, changed) == ("cordoned", False)


async def test_an_operator_and_the_worker_that_write_at_once_both_win() -> None:
    parts = Parts()
    entry = await parts.open()
    renewals = [asyncio.ensure_future(entry.renew()) for _ in range(10)]
    await set_worker_state(parts.store, entry.id, "cordoned")
    await asyncio.gather(*renewals)
    await entry.renew()
    assert (entry.state, await parts.state(entry.id)) == ("cordoned", "cordoned")


async def test_an_entry_that_was_removed_or_damaged_is_written_anew_in_the_same_state() -> None:
    parts = Parts()
    entry = await parts.open(role="server")
    await set_worker_state(parts.store, entry.id, "draining")
    await entry.renew()
    await parts.store.delete_document(WORKER, entry.id)
    await entry.renew()
    assert await parts.state(entry.id) == "draining"
    await parts.store.put_document(WORKER, entry.id, b"{not json", None)
    assert await listed_workers(parts.store) == [], "an unreadable entry is not listed"
    with pytest.raises(NotFound):
        await set_worker_state(parts.store, entry.id, "active")
    await entry.renew()
    assert (await parts.state(entry.id), parts.states) == ("draining", ["draining"])


async def test_a_worker_has_the_tools_that_its_entry_has() -> None:
    parts = Parts()
    await parts.store.open(ME)
    entry = parts.make()
    add, new = (Registry([tool(name="add", version=version)(lambda: None)]).find("add").tool for version in ("1", "2"))
    parts.store.down = True
    with pytest.raises(StoreUnavailable):
        await entry.update()
    assert not entry.has(add), "no other process can see it"
    parts.store.down = False
    await entry.update()
    assert (entry.has(add), entry.has(new)) == (True, False)
    writes = parts.store.writes
    await entry.update()
    assert parts.store.writes == writes, "the entry is unchanged"
    parts.load = msgspec.structs.replace(parts.load, tools={"add": "2"})
    parts.store.down = True
    entry.renew_soon()
    await parts.settle()
    assert (entry.has(add), entry.has(new)) == (True, False), "the change is not stored yet"
    parts.store.down = False
    entry.renew_soon()
    entry.renew_soon()
    assert len(parts.tasks) == 1, "concurrent changes are one write"
    await parts.settle()
    assert (entry.has(add), entry.has(new)) == (False, True)
    assert [worker.tools for worker in await living_workers(parts.store)] == [{"add": "2"}]


async def test_a_runtime_without_tools_is_no_worker_until_it_has_some() -> None:
    parts = Parts()
    parts.load = Load(listed=False, tools={}, running=0, capacity=10)
    entry = await parts.open(role="runtime")
    assert await listed_workers(parts.store) == []
    parts.load = Load(listed=True, tools={"add": "1"}, running=0, capacity=10)
    entry.renew_soon()
    await asyncio.gather(*parts.tasks)
    assert await parts.state(entry.id) == "active"


async def test_a_worker_whose_owner_is_dead_is_lost_for_an_hour() -> None:
    parts = Parts()
    mine, theirs = await parts.open(), await parts.open(OTHER)
    del parts.store.alive[OTHER.pid]
    found = {worker.id: (worker.state, worker.running) for worker in await listed_workers(parts.store)}
    assert found == {mine.id: ("active", 2), theirs.id: ("lost", 0)}
    assert [worker.id for worker in await living_workers(parts.store)] == [mine.id]
    with pytest.raises(Conflict, match="lost"):
        await set_worker_state(parts.store, theirs.id, "draining")
    (document,) = [each for each in await parts.store.documents(WORKER) if each.key == theirs.id]
    for moment, removed in ((document.updated_at + LOST_FOR - 1, 0), (document.updated_at + LOST_FOR + 1, 1)):
        assert await sweep_lost_workers(parts.store, StepClock(start=moment)) == removed
    assert [worker.id for worker in await listed_workers(parts.store)] == [mine.id]


async def test_many_workers_are_listed_in_pages() -> None:
    parts = Parts()
    entry = await parts.open()
    (document,) = await parts.store.documents(WORKER)
    stored = msgspec.json.decode(document.body, type=StoredWorker)
    for number in range(1_200):
        worker = msgspec.structs.replace(stored.worker, id=f"w-{number:04}", started_at=float(number))
        body = msgspec.json.encode(msgspec.structs.replace(stored, worker=worker))
        await parts.store.put_document(WORKER, worker.id, body, 0)
    listed = await listed_workers(parts.store)
    assert (len(listed), listed[0].id, listed[-1].id) == (1_201, "w-0000", entry.id)


def test_names() -> None:
    odd = msgspec.structs.replace(ME, host="Büro & Co./pid:[4]")
    assert host_name(odd) == "Büro & Co."
    assert worker_id(odd).startswith("B-ro-Co-7-")
    assert worker_id(msgspec.structs.replace(ME, host="///")).startswith("host-7-")
    assert worker_id(ME) != worker_id(ME)

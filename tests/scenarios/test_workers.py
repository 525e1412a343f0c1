"""Workers of a store: each is listed with its tools and labels; an operator cordons and drains them, over every store
and interface."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.kit.waiting import eventually
from tests.postgres_server import postgres_server
from tests.redis_server import redis_server
from tests.scenarios.kit import make, sqlite_url
from tests.scenarios.server_kit import key_for, served, serving_in_thread

from clicket import Conflict, Runtime, State, tool
from clicket.client import Client, SyncClient
from clicket.errors import NotFound, PermissionDenied
from clicket.model.version import version
from clicket.model.worker import WorkerInfo
from clicket.sync import Runtime as SyncRuntime

LEASE = 0.6


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("stores")
    with redis_server(folder) as redis, postgres_server() as postgres:
        yield {"redis": redis.url, "postgresql": postgres.url()}


@pytest.fixture(params=["sqlite", "redis", "postgresql"])
def shared(request: pytest.FixtureRequest, urls: dict[str, str], tmp_path: Path) -> str:
    """A store that processes share, new for each test."""
    if request.param == "sqlite":
        return sqlite_url(tmp_path)
    name = "".join(char for char in tmp_path.name if char.isalnum())
    return f"{urls[request.param]}?{'prefix' if request.param == 'redis' else 'schema'}={name}"


class Gate:
    """A tool whose calls wait until the gate opens, and which counts the running ones."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.running = 0

        @tool(version="7", read_only=True)
        async def gated() -> str:
            self.running += 1
            await self.open.wait()
            return "done"

        self.tool = gated


@asynccontextmanager
async def two(store: str, gate: Gate, **options: Any) -> AsyncIterator[tuple[Runtime, Runtime]]:
    async with (
        make([gate.tool], store, lease=LEASE, **options) as one,
        make([gate.tool], store, lease=LEASE, **options) as other,
    ):
        yield one, other


async def state_of(rt: Any, id: str) -> str | None:
    return next((worker.state for worker in await rt.workers.list() if worker.id == id), None)


async def workers_that_ran(rt: Runtime, handles: list[Any]) -> set[str]:
    return {attempt.worker for handle in handles for attempt in (await rt.get(handle.id)).attempts}


async def heeds(rt: Runtime, state: str) -> None:
    """Wait until the worker itself has read its state."""
    await eventually(lambda: rt.engine.worker_entry.state == state)


async def test_each_worker_is_listed_with_what_it_offers(shared: str) -> None:
    gate = Gate()
    async with two(shared, gate, max_concurrency=3) as (one, other):
        handle = await other.submit("gated")
        await eventually(lambda: gate.running)
        await eventually(lambda: _running(one, other.workers.id))
        first, second = await one.workers.list()
        assert (first.id, second.id) == (one.workers.id, other.workers.id)
        assert (second.version, second.tools, second.labels, second.running, second.capacity, second.state, second.role) == (
            version(), {"gated": "7"}, (), 1, 3, "active", "runtime",
        )  # fmt: skip
        assert second.id.startswith(f"{second.host}-{second.pid}-")
        assert first.started_at <= second.started_at <= second.seen_at
        gate.open.set()
        result = await handle.result()
        (attempt,) = (await one.get(result.call_id)).attempts
        assert (attempt.worker, attempt.host) == (second.id, second.host)
    async with make([], shared) as reader:
        assert await reader.workers.list() == [], "a closing worker is not listed, nor is a runtime without tools"


async def _running(rt: Runtime, id: str) -> int:
    return next(worker.running for worker in await rt.workers.list() if worker.id == id)


async def test_a_cordoned_worker_takes_nothing_new_until_it_is_uncordoned(shared: str) -> None:
    gate = Gate()
    async with two(shared, gate) as (one, other):
        held = await other.submit("gated")
        await eventually(lambda: gate.running)
        assert (await one.workers.cordon(other.workers.id)).state == "cordoned"
        await heeds(other, "cordoned")
        handles = [await other.submit("gated") for _ in range(3)]
        await eventually(lambda: gate.running == 4)
        gate.open.set()
        assert [(await handle.result()).output for handle in [held, *handles]] == ["done"] * 4
        assert await workers_that_ran(one, [held]) == {other.workers.id}, "another worker runs the call that it held"
        assert await workers_that_ran(one, handles) == {one.workers.id}, "its own program's calls run elsewhere, too"
        assert (await other.workers.uncordon(other.workers.id)).state == "active"
        await heeds(other, "active")
        later = await other.submit("gated")
        await later.result()
        assert await workers_that_ran(one, [later]) == {other.workers.id}
        assert [entry.what for entry in await one.audit.list()] == ["worker.uncordoned", "worker.cordoned"]


async def test_a_cordoned_worker_claims_nothing(shared: str) -> None:
    gate = Gate()
    gate.open.set()
    async with (
        make([gate.tool], shared, engine="workers") as submitter,
        make([gate.tool], shared, lease=LEASE) as worker,
    ):
        await submitter.workers.cordon(worker.workers.id)
        await heeds(worker, "cordoned")
        handle = await submitter.submit("gated")
        (before,) = await submitter.store.load(handle.id)
        await worker.recover()  # it looks for calls to claim
        (after,) = await submitter.store.load(handle.id)
        assert (after.claims, after.fence, after.owner) == (before.claims, before.fence, None), "it is not even tried"
        assert (await submitter.state(handle.id), gate.running) == (State.PENDING, 0)
        await submitter.workers.uncordon(worker.workers.id)
        assert (await handle.result()).success


async def test_a_drained_worker_ends_what_runs_and_hands_over_what_waits(shared: str) -> None:
    gate = Gate()
    async with make([gate.tool], shared, lease=LEASE, max_concurrency=1) as old:
        running = await old.submit("gated")
        waiting = [await old.submit("gated") for _ in range(2)]
        await eventually(lambda: gate.running)
        drained = asyncio.ensure_future(old.workers.until_drained())
        async with make([gate.tool], shared, lease=LEASE, max_concurrency=2) as new:
            await new.workers.drain(old.workers.id)
            await eventually(lambda: gate.running == 3)
            assert not drained.done(), "its running call has not ended"
            gate.open.set()
            await drained
            assert [(await handle.result()).output for handle in [running, *waiting]] == ["done"] * 3
            assert await workers_that_ran(new, [running]) == {old.workers.id}
            assert await workers_that_ran(new, waiting) == {new.workers.id}
            assert await state_of(new, old.workers.id) == "draining"
            await new.workers.uncordon(old.workers.id)
            await heeds(old, "active")


async def test_a_closing_runtime_is_listed_as_draining_while_its_calls_run(sqlite: str) -> None:
    gate = Gate()
    async with make([gate.tool], sqlite, lease=LEASE) as watcher:
        leaving = await make([gate.tool], sqlite, lease=LEASE).open()
        id = leaving.workers.id
        await leaving.submit("gated")
        await eventually(lambda: gate.running)
        closing = asyncio.ensure_future(leaving.close(patience=60))
        await eventually(lambda: _is(watcher, id, "draining"))
        gate.open.set()
        await closing
        assert await state_of(watcher, id) is None


async def _is(rt: Any, id: str, state: str) -> bool:
    return await state_of(rt, id) == state


async def test_tools_that_come_later_are_listed(sqlite: str) -> None:
    gate = Gate()
    async with make([], sqlite, lease=LEASE) as rt:
        rt.add(gate.tool)
        await eventually(lambda: _offers(rt, {"gated": "7"}))
        rt.remove("gated")
        await eventually(lambda: _offers(rt, {}))


async def _offers(rt: Runtime, tools: dict[str, str]) -> bool:
    return [worker.tools for worker in await rt.workers.list()] == [tools]


async def test_what_cannot_be_done_is_said(sqlite: str) -> None:
    gate = Gate()
    async with make([gate.tool], sqlite) as rt:
        with pytest.raises(NotFound, match="Did you mean"):
            await rt.workers.drain(rt.workers.id[:-1] + ("1" if rt.workers.id.endswith("0") else "0"))
        with pytest.raises(NotFound):
            await rt.workers.drain("no\x00\ud800 worker")
        mine = rt.acting_for("ann")
        with pytest.raises(PermissionDenied):
            await mine.workers.list()
        with pytest.raises(PermissionDenied):
            await mine.workers.cordon(rt.workers.id)
    async with make([gate.tool]) as rt:
        (worker,) = await rt.workers.list()
        assert (worker.id, worker.state) == (rt.workers.id, "active")
        with pytest.raises(Conflict, match="Close the runtime"):
            await rt.workers.drain(worker.id)


async def test_a_worker_process_that_drains_is_not_called_back(sqlite: str) -> None:
    gate = Gate()
    runtime = make([gate.tool], sqlite)
    runtime.role = "worker"
    async with runtime as rt:
        await rt.workers.drain(rt.workers.id)
        assert (await rt.workers.drain(rt.workers.id)).state == "draining", "a second time changes nothing"
        for change in (rt.workers.uncordon, rt.workers.cordon):
            with pytest.raises(Conflict, match="Start another"):
                await change(rt.workers.id)


# Other interfaces.


async def test_over_http_with_the_scope_admin(sqlite: str) -> None:
    async with served(store=sqlite) as it:
        admin = await key_for(it, "ops", "admin")
        caller = await key_for(it, "agent", "call", "read", "approve")
        assert (await it.get("/workers", headers=caller)).status_code == 403
        listed = (await it.get("/workers", headers=admin)).json()
        (worker,) = listed["items"]
        assert worker["id"] == it.runtime.workers.id
        assert "add" in worker["tools"]
        path = f"/workers/{worker['id']}"
        assert (await it.post(f"{path}/drain", headers=caller)).status_code == 403
        changed = await it.post(f"{path}/cordon", headers=admin)
        assert (changed.status_code, changed.json()["state"]) == (200, "cordoned")
        assert (await it.post(f"{path}/uncordon", headers=admin)).json()["state"] == "active"
        assert (await it.post(f"{path}/drain", headers=admin)).json()["state"] == "draining"
        assert (await it.post("/workers/nobody/drain", headers=admin)).json()["code"] == "not_found"
        assert {(entry.what, entry.who) for entry in await it.runtime.audit.list(limit=3)} == {
            ("worker.cordoned", "ops"), ("worker.uncordoned", "ops"), ("worker.drained", "ops"),
        }  # fmt: skip


async def test_by_the_client(sqlite: str) -> None:
    async with served(store=sqlite) as it, Client(it.url) as client:
        (worker,) = await client.workers.list()
        assert isinstance(worker, WorkerInfo)
        assert (await client.workers.cordon(worker.id)).state == "cordoned"
        assert (await client.workers.uncordon(worker.id)).state == "active"
        assert (await client.workers.drain(worker.id)).state == "draining"
        with pytest.raises(NotFound):
            await client.workers.drain("nobody")


def test_without_a_loop(tmp_path: Path) -> None:
    @tool
    def add(a: int, b: int) -> int:
        return a + b

    with SyncRuntime([add], store=sqlite_url(tmp_path)) as rt:
        (worker,) = rt.workers.list()
        assert rt.workers.cordon(worker.id).state == "cordoned"
        assert rt.workers.uncordon(worker.id).state == "active"
        assert rt.workers.drain(worker.id).state == "draining"
    with serving_in_thread([add]) as url, SyncClient(url) as client:
        assert [worker.tools for worker in client.workers.list()] == [{"add": "1"}]

"""Where calls run: on workers with the labels, in the version that they were accepted with, and where their session lives."""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.kit.waiting import eventually
from tests.postgres_server import PostgresServer
from tests.redis_server import RedisServer

from clicket import NativeTool, Runtime, State, ToolContext, tool
from clicket.engine.fleet.worker_entry import WORKER
from clicket.engine.fleet.worker_list import listed_workers
from clicket.errors import UsageError
from clicket.ports import QueueName, Stored
from clicket.runtime.settings import Settings
from clicket.stores.sqlite import SqliteStore
from clicket.testing import memory_runtime

LEASE = 0.6
_numbers = count(1)


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def store(request: pytest.FixtureRequest, tmp_path: Path, postgres: PostgresServer, redis: RedisServer) -> str:
    """Each store implements claims differently."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/calls.db"
    name = f"p{next(_numbers)}"
    if request.param == "postgres":
        return f"{postgres.url()}?schema={name}"
    return f"{redis.url}?prefix={name}"


@pytest.fixture
def file_store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/calls.db"


def labelled(*labels: str) -> Any:
    @tool(name="train", labels=list(labels))
    async def train() -> str:
        return "trained"

    return train


def versioned(version: str) -> Any:
    @tool(name="price", version=version)
    async def price() -> str:
        return version

    return price


class Counter(NativeTool):
    """Counts the calls of its thread."""

    def open(self, thread: str) -> None:
        self.count = 0

    def run(self, arguments: dict[str, Any], ctx: ToolContext) -> int:
        self.count += 1
        return self.count


async def backlog(rt: Runtime) -> dict[str, int]:
    return {each.queue: each.count for each in await rt.engine.store.backlog()}


# Labels.


async def test_a_worker_claims_only_what_it_has_the_labels_for(store: str) -> None:
    async with Runtime([labelled("gpu", "big")], store=store, engine="workers") as submitter:
        handle = await submitter.submit("train")
        async with Runtime([labelled("gpu", "big")], store=store, labels=["gpu"]) as without:
            await without.recover()
            assert await backlog(submitter) == {"train": 1}
            async with Runtime([labelled("gpu", "big")], store=store, labels=["big", "gpu", "fast"]):
                assert (await handle.result()).output == "trained"


async def test_a_local_runtime_without_the_label_says_what_to_do() -> None:
    async with memory_runtime([labelled("gpu")]) as rt:
        result = await rt.call("train")
        assert result.error is not None
        assert (result.state, result.error.code) == (State.FAILED, "tool_unavailable")
        assert "gpu" in result.error.message
        assert (await rt.hub("default").status("train")).consecutive_failures == 0
    async with memory_runtime([labelled("gpu")], labels=("gpu",)) as rt:
        assert (await rt.call("train")).output == "trained"


async def test_a_cancelled_call_ends_though_no_worker_has_the_label(file_store: str) -> None:
    async with (
        Runtime([labelled("gpu")], store=file_store, engine="workers") as submitter,
        Runtime([labelled("gpu")], store=file_store),
    ):
        handle = await submitter.submit("train")
        assert await submitter.cancel(handle.id)
        assert (await handle.result()).state is State.CANCELLED


def test_labels_are_a_setting() -> None:
    assert Settings.load(environ={"CLICKET_LABELS": "gpu, eu"}).labels == ("gpu", "eu")
    with pytest.raises(UsageError, match="labels"):
        tool(labels=3)(lambda: None)  # type: ignore[call-overload]


# Versions.


async def test_each_version_runs_its_own_calls_while_both_are_there(store: str) -> None:
    async with (
        Runtime([versioned("1")], store=store, engine="workers") as old,
        Runtime([versioned("2")], store=store, engine="workers") as new,
        Runtime([versioned("1")], store=store),
        Runtime([versioned("2")], store=store) as worker,
    ):
        await worker.recover()
        results = await asyncio.gather(*(rt.call("price") for _ in range(5) for rt in (old, new)))
        assert [result.output for result in results] == ["1", "2"] * 5


async def test_calls_wait_for_a_living_worker_of_their_version_and_go_to_another_when_none_is_left(store: str) -> None:
    async with Runtime([versioned("1")], store=store, engine="workers") as submitter:
        busy = Runtime([versioned("1")], store=store)
        await busy.open()
        busy.engine.claimer.stopped = True  # it lives, but is too busy to claim
        handle = await submitter.submit("price")
        async with Runtime([versioned("2")], store=store) as worker:
            await worker.recover()
            assert await backlog(submitter) == {"price": 1}
            await busy.close()
            await worker.recover()
            assert (await handle.result()).output == "2"


async def test_calls_do_not_wait_for_a_worker_of_their_version_that_takes_no_calls(file_store: str) -> None:
    async with (
        Runtime([versioned("1")], store=file_store, engine="workers") as submitter,
        Runtime([versioned("1")], store=file_store, lease=LEASE) as old,
    ):
        await submitter.workers.cordon(old.workers.id)
        await eventually(lambda: old.workers.state == "cordoned")
        handle = await submitter.submit("price")
        assert [each.served for each in (await submitter.queue()).items] == [False]
        async with Runtime([versioned("2")], store=file_store):
            assert (await handle.result()).output == "2"


async def test_a_program_that_was_upgraded_runs_what_its_last_version_left(file_store: str) -> None:
    async with Runtime([versioned("1")], store=file_store, engine="workers") as rt:
        first = await rt.submit("price")
    async with Runtime([versioned("2")], store=file_store, engine="workers") as rt:
        second = await rt.submit("price")
    async with Runtime([versioned("3")], store=file_store) as rt:
        for handle in (first, second):
            assert (await eventually(lambda handle=handle: ended(rt, handle.id))).output == "3"  # type: ignore[misc]


async def ended(rt: Runtime, id: str) -> Any:
    record = await rt.get(id)
    return record if record.state.is_terminal else None


# Sessions.


async def test_calls_of_a_thread_go_to_the_worker_that_holds_its_session(store: str) -> None:
    async with (
        Runtime([Counter], store=store, engine="workers") as submitter,
        Runtime([Counter], store=store),
        Runtime([Counter], store=store),
    ):
        for turn in range(1, 5):
            results = await asyncio.gather(*(submitter.call("counter", thread=f"t{n}") for n in range(4)))
            assert [result.output for result in results] == [turn] * 4


async def test_a_session_whose_worker_is_gone_is_reported_once(store: str) -> None:
    async with Runtime([Counter], store=store, engine="workers") as submitter:
        async with Runtime([Counter], store=store):
            assert (await submitter.call("counter", thread="t")).output == 1
        async with Runtime([Counter], store=store):
            lost = await submitter.call("counter", thread="t")
            assert lost.error is not None
            assert (lost.state, lost.error.code, lost.attempts) == (State.FAILED, "session_lost", 0)
            assert (await submitter.call("counter", thread="t")).output == 1
            assert (await submitter.call("counter", thread="other")).output == 1


async def test_a_call_that_waits_for_a_session_does_not_wait_for_a_dead_worker(store: str) -> None:
    async with Runtime([Counter], store=store, engine="workers") as submitter:
        holder = Runtime([Counter], store=store)
        await holder.open()
        assert (await submitter.call("counter", thread="t")).output == 1
        holder.engine.claimer.stopped = True
        async with Runtime([Counter], store=store) as worker:
            handle = await submitter.submit("counter", thread="t")
            await eventually(lambda: in_holders_queue(submitter))
            await holder.close()
            await worker.recover()
            result = await handle.result()
            assert result.error is not None
            assert result.error.code == "session_lost"


async def in_holders_queue(rt: Runtime) -> bool:
    return any("#" in queue for queue in await backlog(rt))


async def test_a_cordoned_worker_keeps_its_sessions(store: str) -> None:
    async with (
        Runtime([Counter], store=store, engine="workers") as submitter,
        Runtime([Counter], store=store, lease=LEASE) as holder,
    ):
        assert (await submitter.call("counter", thread="t")).output == 1
        await submitter.workers.cordon(holder.workers.id)
        await eventually(lambda: holder.workers.state == "cordoned")
        async with Runtime([Counter], store=store) as worker:
            handle = await submitter.submit("counter", thread="t")
            await eventually(lambda: in_holders_queue(submitter))
            await worker.recover()
            (waiting,) = (await submitter.queue()).items
            assert (waiting.worker, waiting.served) == (holder.workers.id, False)
            assert (await submitter.call("counter", thread="new")).output == 1, "another worker opens it"
            await submitter.workers.uncordon(holder.workers.id)
            assert (await handle.result()).output == 2


async def test_a_session_of_a_drained_worker_is_lost_when_the_worker_has_ended(file_store: str) -> None:
    async with (
        Runtime([Counter], store=file_store, engine="workers") as submitter,
        Runtime([Counter], store=file_store) as worker,
    ):
        worker.engine.claimer.stopped = True  # the other worker opens the session
        holder = Runtime([Counter], store=file_store, lease=LEASE)
        await holder.open()
        assert (await submitter.call("counter", thread="t")).output == 1
        worker.engine.claimer.stopped = False
        await submitter.workers.drain(holder.workers.id)
        await holder.workers.until_drained()
        handle = await submitter.submit("counter", thread="t")
        await eventually(lambda: in_holders_queue(submitter))
        await worker.recover()
        assert await in_holders_queue(submitter), "the worker lives"
        await holder.close()
        await worker.recover()
        result = await handle.result()
        assert result.error is not None
        assert result.error.code == "session_lost"


# The worker's entry, from which other processes read what it claims and holds.


class Watched(SqliteStore):
    """Records the worker's entry at each claim, and the worker's calls when its entry was removed."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.open_for_entries = asyncio.Event()
        self.open_for_entries.set()
        self.refused = 0
        self.unlisted: set[str] = set()
        self.claimed: set[str] = set()
        self.left: list[int] | None = None

    async def claim_waiting(self, tools: frozenset[str], limit: int) -> list[Stored]:
        listed = {name for worker in await listed_workers(self) for name in worker.tools}
        names = {QueueName.of(queue).tool for queue in tools}
        self.claimed |= names
        self.unlisted |= names - listed
        return await super().claim_waiting(tools, limit)

    async def put_document(self, kind: str, key: str, body: bytes, expect: int | None) -> bool:
        if kind == WORKER and not self.open_for_entries.is_set():
            self.refused += 1
            await self.open_for_entries.wait()
        return await super().put_document(kind, key, body, expect)

    async def delete_document(self, kind: str, key: str) -> bool:
        if kind == WORKER:
            self.left = list(await self.owned())
        return await super().delete_document(kind, key)


async def test_the_entry_is_there_before_the_first_claim_and_goes_after_the_last_call(tmp_path: Path) -> None:
    started = asyncio.Event()

    @tool(read_only=True)
    async def slow() -> None:
        started.set()
        await asyncio.Event().wait()

    store = Watched(tmp_path / "calls.db")
    async with Runtime([slow], store=store.url, engine="workers") as submitter:
        handles = [await submitter.submit("slow") for _ in range(3)]
        worker = Runtime([slow], store=store, max_concurrency=1)
        await worker.open()
        await worker.submit("slow")  # one runs, one waits
        await started.wait()
        await worker.close(patience=0)
        assert (store.claimed, store.unlisted, store.left) == ({"slow"}, set(), [])
        assert not any(each.tools for each in await submitter.workers.list())
        assert {(await submitter.state(handle.id)).is_terminal for handle in handles} == {False}


async def test_a_tool_that_came_later_is_claimed_once_the_entry_has_it(tmp_path: Path) -> None:
    store = Watched(tmp_path / "calls.db")
    async with (
        Runtime([Counter], store=store.url, engine="workers") as submitter,
        Runtime([versioned("1")], store=store, lease=60) as worker,
    ):
        handle = await submitter.submit("counter", thread="t")
        store.open_for_entries.clear()
        worker.add(Counter)
        await eventually(lambda: store.refused)
        await worker.engine.claimer.claim()
        assert store.claimed == {"price"}
        store.open_for_entries.set()
        assert (await handle.result()).output == 1
        assert store.unlisted == set()
        worker.remove("counter")
        await eventually(lambda: offers(submitter, worker.workers.id, {"price": "1"}))


async def offers(rt: Runtime, id: str, tools: dict[str, str]) -> bool:
    return [worker.tools for worker in await rt.workers.list() if worker.id == id] == [tools]

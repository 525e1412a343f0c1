"""Which queues a process claims from, by the entries of the living workers."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.engine.fakes import SharedStore

from clicket import NativeTool, ToolContext, tool
from clicket.engine.fleet.queues import Queues, is_served
from clicket.model.worker import WorkerInfo, WorkerState
from clicket.ports import Backlog, QueueName
from clicket.tools import Registry


@tool(version="2")
async def price() -> str:
    return ""


@tool(labels=["gpu"])
async def train() -> str:
    return ""


class Counter(NativeTool):
    def run(self, arguments: dict[str, Any], ctx: ToolContext) -> int:
        return 0


def worker(id: str, state: WorkerState = "active", **tools: str) -> WorkerInfo:
    return WorkerInfo(
        id=id, host="h", pid=1, version="", role="runtime", state=state, tools=tools, labels=(), running=0, capacity=1,
        started_at=0.0, seen_at=0.0,
    )  # fmt: skip


class Parts:
    def __init__(self, *labels: str, gives_away: bool = False) -> None:
        self.registry = Registry([price, train, Counter])
        self.workers: list[WorkerInfo] = []
        self.waiting: list[str] = []
        self.lists = 0
        store = SharedStore()
        store.backlog = self.backlog  # type: ignore[method-assign]
        self.queues = Queues(
            store, self.registry, worker="me", living=self.living, labels=frozenset(labels), gives_away=gives_away, shares=True
        )  # fmt: skip

    async def backlog(self) -> list[Backlog]:
        return [Backlog(queue=queue, count=1, oldest_at=0.0) for queue in self.waiting]

    async def living(self) -> list[WorkerInfo]:
        self.lists += 1
        return self.workers

    async def adopted(self, tool: str, waiting: str, *workers: WorkerInfo) -> bool:
        """Does this process claim from the queue, given these other workers?"""
        self.waiting, self.workers = [waiting], list(workers)
        await self.queues.refresh()
        return waiting in self.queues.claimed_from({tool})


def test_a_worker_offers_tools_whose_labels_it_has_and_none_if_it_gives_calls_away() -> None:
    assert Parts().queues.offered() == {"price": "2", "counter": "1"}
    assert Parts("gpu", "eu").queues.offered() == {"price": "2", "counter": "1", "train": "1"}
    assert Parts("gpu", gives_away=True).queues.offered() == {}


async def test_a_queue_of_another_version_is_left_to_a_worker_that_takes_calls() -> None:
    parts = Parts()
    assert not await parts.adopted("price", "price", worker("old", price="1"))
    assert await parts.adopted("price", "price", worker("new", price="2"))
    assert not await parts.adopted("price", "price", worker("old", price="1")), "such a worker is back"
    assert await parts.adopted("price", "price"), "all such workers have gone"


@pytest.mark.parametrize("state", ["cordoned", "draining"])
async def test_a_worker_that_takes_no_calls_serves_no_queue(state: WorkerState) -> None:
    assert await Parts().adopted("price", "price", worker("old", state, price="1"))
    assert not is_served(QueueName("price", "2"), [worker("a", state, price="2")])
    assert is_served(QueueName("price", "2"), [worker("a", state, price="2"), worker("b", price="2")])


@pytest.mark.parametrize("state", ["active", "cordoned", "draining"])
async def test_a_living_worker_holds_its_sessions(state: WorkerState) -> None:
    """Another worker that claimed such a call would open a second session while a call may still run in the first."""
    parts = Parts()
    holder, queue = worker("holder", state, counter="1"), "counter#holder"
    assert not await parts.adopted("counter", queue, holder)
    assert await parts.queues.is_held(parts.registry.find("counter").tool, "holder")
    assert is_served(QueueName.of(queue), [holder, worker("other", counter="1")]) is (state == "active")
    assert await parts.adopted("counter", queue, worker("holder", counter="2")), "the holder has another version now"
    assert await parts.adopted("counter", queue, worker("other", counter="1")), "the holder is gone"
    assert not await parts.queues.is_held(parts.registry.find("counter").tool, "holder")


async def test_the_workers_are_listed_only_if_calls_wait_that_are_not_for_this_one() -> None:
    parts = Parts()
    parts.waiting = ["price@2", "counter#me", "counter", "train", "another"]
    await parts.queues.refresh()
    assert parts.lists == 0
    assert parts.queues.all() == {"price@2", "price", "counter", "counter#me", "price#later", "counter#later"}

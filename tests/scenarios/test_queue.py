"""The queue of calls that wait for a worker: the same from every process, also from one that runs nothing, so that it
can start workers from zero."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.otel_kit import Collector
from tests.scenarios.server_kit import api
from tests.unit.telemetry.test_prometheus import promtool, samples

from clicket import Runtime, tool
from clicket.client import Client
from clicket.errors import PermissionDenied
from clicket.telemetry.prometheus import scrape
from clicket.telemetry.queue_gauges import observe_queues


@tool
async def plain() -> str:
    return "done"


@tool(version="2")
async def newer() -> str:
    return "done"


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/calls.db"


async def fill(store: str) -> None:
    async with Runtime([plain, newer], store=store, engine="workers") as submitter:
        for name in ("plain", "plain", "newer"):
            await submitter.submit(name)


async def test_metrics_have_the_queue_of_the_whole_store(store: str) -> None:
    await fill(store)
    async with Runtime(store=store) as other:  # it has no tools
        page, _ = await scrape(other)
        promtool(page)
        assert samples(page, "clicket_queue_length") == {("plain",): 2, ("newer",): 1}
        assert all(0 <= wait < 60 for wait in samples(page, "clicket_queue_oldest_seconds").values())
        own, _ = await scrape(other.acting_for("ann"))
        assert samples(own, "clicket_queue_length") == {}
    async with Runtime([plain], store=store) as worker:
        page, _ = await scrape(worker)
        assert samples(page, "clicket_queue_length")[("plain",)] == 0  # listed also when none waits


async def test_the_queue_says_which_calls_no_living_worker_has_the_version_for(store: str) -> None:
    await fill(store)
    async with Runtime(store=store) as other:
        assert [each.served for each in (await other.queue()).items] == [False, False]
        with pytest.raises(PermissionDenied):
            await other.acting_for("ann").queue()
        one = await other.queue("newer")
        assert [(each.tool, each.version, each.length, each.served) for each in one.items] == [("newer", "2", 1, False)]
        assert (one.length, (await other.queue("nothing")).length) == (1, 0)


async def test_the_server_and_the_client_have_the_queue(store: str) -> None:
    await fill(store)
    async with api([], store) as served, Client(served.url) as client:
        answer = (await served.get("/queue", params={"tool": "plain"})).json()
        assert (answer["length"], answer["items"][0]["tool"], answer["items"][0]["version"]) == (2, "plain", "1")
        assert (await client.queue()).length == 3


async def test_opentelemetry_gets_the_queue(store: str) -> None:
    await fill(store)
    collector = Collector()
    async with Runtime(store=store) as other:
        observe_queues(collector.meters, lambda: other.engine.queues.backlog, other.clock.now)
        assert points(collector, "clicket.queue.length") == {"plain": 2, "newer": 1}
        assert set(points(collector, "clicket.queue.oldest")) == {"plain", "newer"}
    assert points(collector, "clicket.queue.length") == {}


def points(collector: Collector, name: str) -> dict[str, float]:
    data: Any = collector.reader.get_metrics_data()
    found = [metric for scope in data.resource_metrics[0].scope_metrics for metric in scope.metrics] if data else []
    return {
        point.attributes["gen_ai.tool.name"]: point.value
        for metric in found
        if metric.name == name
        for point in metric.data.data_points
    }

"""Bodies on a Ray cluster, over a fake of Ray: the call's record, and what is retried."""

from __future__ import annotations

import sys
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.kit.waiting import PATIENCE, eventually
from tests.unit.engine.executors.fake_ray import FakeRay, WorkerCrashedError, fake_ray

from clicket import Runtime, State, ToolContext, tool
from clicket.errors import UsageError

__all__ = ["fake_ray"]

go_on = threading.Event()
begun: list[str] = []
"""Bodies that have started."""


@tool(isolation="ray", resources={"cpu": 2, "gpu": 0.5, "memory": "2GB"})
def double(number: int) -> int:
    return 2 * number


@tool(isolation="ray")
async def count(to: int, ctx: ToolContext) -> AsyncIterator[str]:
    for number in range(to):
        ctx.progress(number + 1, to)
        yield str(number)


@tool(isolation="ray", max_retries=0)
def fails() -> None:
    raise ValueError("wrong")


@tool(isolation="ray", timeout=600)
def pay() -> str:
    begun.append("pay")
    go_on.wait(PATIENCE)
    return "paid"


@tool(isolation="ray", timeout=600, idempotent=True, retry_delay=0.001)
def look_up() -> str:
    begun.append("look_up")
    go_on.wait(PATIENCE)
    return "found"


@tool(isolation="ray", timeout=0.05, max_retries=0)
def slow() -> None:
    go_on.wait(PATIENCE)


TOOLS = [double, count, fails, pay, look_up, slow]


@pytest.fixture(autouse=True)
def bodies_end() -> Any:
    go_on.clear()
    begun.clear()
    yield
    go_on.set()


@pytest.fixture
async def rt(fake_ray: FakeRay) -> AsyncIterator[Runtime]:
    async with Runtime(tools=TOOLS, store="memory://", ray="auto", close_timeout=0.1) as runtime:
        yield runtime
        go_on.set()  # a real worker process would be dead by now


async def test_a_body_gets_what_its_tool_asks_for(rt: Runtime, fake_ray: FakeRay) -> None:
    result = await rt.call("double", {"number": 4})
    assert (result.output, fake_ray.address) == (8, "auto")
    (options,) = fake_ray.options
    asked = {name: options[name] for name in ("num_cpus", "num_gpus", "memory", "max_retries")}
    assert asked == {"num_cpus": 2.0, "num_gpus": 0.5, "memory": 2_000_000_000, "max_retries": 0}


async def test_output_progress_and_failures_arrive(rt: Runtime) -> None:
    result = await rt.call("count", {"to": 5}, id="c")
    assert result.output == "01234"
    progress = (await rt.get("c")).progress
    assert progress is not None
    assert progress["percentage"] == 100
    failed = await rt.call("fails")
    assert failed.error is not None
    assert (failed.error.code, failed.error.type, failed.error.message) == ("tool_error", "ValueError", "wrong")


@pytest.mark.parametrize(("name", "outcome"), [("pay", "outcome_unknown"), ("look_up", "found")])
async def test_a_lost_worker(rt: Runtime, fake_ray: FakeRay, name: str, outcome: str) -> None:
    handle = await rt.submit(name)
    await eventually(lambda: begun)
    fake_ray.streams[0].fail(WorkerCrashedError("gone"))
    await eventually(lambda: name == "pay" or len(fake_ray.streams) == 2)
    go_on.set()
    result = await handle.result()
    assert outcome == (result.error.code if result.error else result.output)
    assert len(fake_ray.streams) == (1 if name == "pay" else 2)


async def test_a_payment_whose_place_is_lost_before_it_began_is_tried_again(rt: Runtime, fake_ray: FakeRay) -> None:
    fake_ray.room = False
    handle = await rt.submit("pay")
    await eventually(lambda: fake_ray.streams)
    fake_ray.room = True
    go_on.set()
    fake_ray.streams[0].fail(WorkerCrashedError("gone"))
    assert (await handle.result()).output == "paid"


@pytest.mark.parametrize("name", ["pay", "look_up"])
async def test_a_connection_that_is_lost_before_the_body_has_a_place_is_made_again(
    rt: Runtime, fake_ray: FakeRay, name: str
) -> None:
    fake_ray.lost = 2
    go_on.set()
    result = await rt.call(name)
    assert (result.success, result.attempts, begun) == (True, 1, [name])
    assert fake_ray.lost == 0


async def test_a_call_that_waits_for_a_lost_cluster_can_be_cancelled(rt: Runtime, fake_ray: FakeRay) -> None:
    fake_ray.lost = 1_000_000
    handle = await rt.submit("pay")
    await eventually(lambda: fake_ray.lost < 1_000_000)
    assert await rt.cancel(handle.id)
    assert (await handle.result()).state is State.CANCELLED
    assert begun == []


async def test_a_cluster_that_stays_lost_fails_the_call(
    rt: Runtime, fake_ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clicket.engine.executors.ray_lane.LOST_LIMIT", 0.0)
    fake_ray.lost = 1_000_000
    result = await rt.call("look_up")
    assert result.error is not None
    assert (result.state, result.error.code, begun) == (State.FAILED, "tool_unavailable", [])


async def test_a_call_without_a_place_says_what_it_waits_for(rt: Runtime, fake_ray: FakeRay) -> None:
    fake_ray.room = False
    handle = await rt.submit("double", {"number": 1}, timeout=0.01)
    events = handle.events()
    async for event in events:
        if event.type == "note":
            break
    record = await rt.get(handle.id)
    assert (record.state, record.waiting_for) == (State.INITIALIZING, "resources")
    assert "None of its 1 nodes" in event.data["text"]  # it has no GPU
    fake_ray.streams[0].place()
    assert (await handle.result()).output == 2
    assert (await rt.get(handle.id)).waiting_for is None


async def test_a_cancel_takes_back_what_waits_and_ends_what_runs(rt: Runtime, fake_ray: FakeRay) -> None:
    running = await rt.submit("pay")
    await eventually(lambda: begun)
    fake_ray.room = False
    waiting = await rt.submit("pay")
    await eventually(lambda: len(fake_ray.streams) == 2)
    for handle in (running, waiting):
        assert await rt.cancel(handle.id)
        assert (await handle.result()).state is State.CANCELLED
    assert all(stream.ended.is_set() for stream in fake_ray.streams)


async def test_a_timeout_counts_from_the_bodys_start_and_ends_it(rt: Runtime, fake_ray: FakeRay) -> None:
    result = await rt.call("slow")
    assert (result.state, result.metadata["phase"]) == (State.TIMEOUT, "attempt")
    assert fake_ray.streams[0].ended.is_set()


async def test_the_wait_for_resources_is_bounded_by_the_queues_timeout(fake_ray: FakeRay) -> None:
    fake_ray.room = False
    async with Runtime(tools=TOOLS, store="memory://", ray="auto", queue_timeout=0.05) as rt:
        result = await rt.call("double", {"number": 1})
    assert (result.state, result.metadata["phase"]) == (State.TIMEOUT, "resources")


async def test_a_cluster_that_does_not_answer_fails_the_call_and_blames_no_tool(fake_ray: FakeRay) -> None:
    fake_ray.down = True
    async with Runtime(tools=TOOLS, store="memory://", ray="host:6379") as rt:
        result = await rt.call("double", {"number": 1}, thread="t")
        status = await rt.hub("t").status("double")
    assert result.error is not None
    assert result.error.code == "tool_unavailable"
    assert "host:6379" in result.error.message
    assert status.consecutive_failures == 0


@pytest.mark.parametrize(
    ("address", "said"), [(None, "CLICKET_RAY"), ("local", "never starts")], ids=["no address", "local"]
)
async def test_a_runtime_that_could_not_run_the_tool_does_not_open(
    fake_ray: FakeRay, address: str | None, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        async with Runtime(tools=TOOLS, store="memory://", ray=address):
            pass


async def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r"clicket\[ray\]"):
        async with Runtime(tools=TOOLS, store="memory://", ray="auto"):
            pass


async def test_the_programs_own_connection_is_used_and_left_open(fake_ray: FakeRay) -> None:
    fake_ray.init("own")
    async with Runtime(tools=TOOLS, store="memory://") as rt:
        assert (await rt.call("double", {"number": 1})).output == 2
    assert fake_ray.address == "own"

"""Bodies on a real Ray cluster: started, streamed, cancelled, lost with their worker and their node."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.engines.engine_tools import RAY_TOOLS, runs
from tests.engines.programs import answers, free_port, program
from tests.kit.children import is_running
from tests.kit.waiting import eventually, eventually_sync

from clicket import Runtime, State

pytestmark = [pytest.mark.engines, pytest.mark.timeout(180)]


@pytest.fixture
async def rt(cluster: Any, tmp_path: Path) -> AsyncIterator[Runtime]:
    store = f"sqlite:///{tmp_path}/calls.db"
    async with Runtime(tools=RAY_TOOLS, store=store, ray=cluster.address, close_timeout=0.1) as runtime:
        yield runtime


async def test_a_body_runs_on_the_cluster_and_its_record_is_that_of_any_call(rt: Runtime) -> None:
    result = await rt.call("add", {"a": 1, "b": 2}, thread="t")
    assert result.output["sum"] == 3, result.error
    assert result.output["pid"] != os.getpid()
    record = await rt.get(result.call_id)
    assert [event.seq for event in record.events] == list(range(1, len(record.events) + 1))
    states = [event.state for event in record.events if event.type == "state_changed"]
    assert states == [State.INITIALIZING, State.RUNNING, State.COMPLETED]


async def test_output_and_progress_arrive(rt: Runtime) -> None:
    streamed = await rt.call("stream", {"count": 300})
    assert streamed.output == "".join(f"line {number}\n" for number in range(300))
    handle = await rt.submit("report", {"steps": 5}, thread="t")
    chunks = [event.data["content"] async for event in handle.events() if event.type == "output"]
    result, record = await handle.result(), await rt.get(handle.id)
    assert "".join(chunks) == "<0><1><2><3><4>"
    assert result.output == record.idempotency_key
    assert record.progress is not None
    assert record.progress["percentage"] == 100


async def test_failures_of_a_body_are_retried_or_described_as_in_other_lanes(rt: Runtime, tmp_path: Path) -> None:
    retried = await rt.call("flaky", {"path": str(tmp_path / "runs")})
    assert (retried.output, retried.attempts) == (3, 3)
    failed = await rt.call("broken")
    assert failed.error is not None
    assert (failed.state, failed.error.code, failed.error.type) == (State.FAILED, "tool_error", "KeyError")
    assert "no such thing" in (await rt.get(failed.call_id)).attempts[0].traceback


async def test_cancel_ends_the_worker_process(rt: Runtime, tmp_path: Path) -> None:
    path = tmp_path / "runs"
    handle = await rt.submit("charge", {"path": str(path)})
    (pid,) = await eventually(lambda: runs(path))
    assert await rt.cancel(handle.id)
    assert (await handle.result()).state is State.CANCELLED
    assert not is_running(pid)


async def test_an_attempt_that_runs_out_of_time_is_ended(rt: Runtime, tmp_path: Path) -> None:
    result = await rt.call("too_slow", {"path": str(tmp_path / "runs")})
    assert (result.state, result.metadata["phase"]) == (State.TIMEOUT, "attempt")
    assert not is_running(runs(tmp_path / "runs")[0])


async def test_what_cannot_be_placed_says_that_it_waits_and_can_be_cancelled(rt: Runtime, tmp_path: Path) -> None:
    handle = await rt.submit("huge", {"path": str(tmp_path / "runs")}, timeout=0.2)

    async def waits() -> bool:
        return (await rt.get(handle.id)).waiting_for == "resources"

    while not await waits():
        await asyncio.sleep(0.05)
    record = await rt.get(handle.id)
    assert record.state is State.INITIALIZING  # and its timeout of 0.2 s has not started
    assert "None of its 2 nodes" in record.events[-1].data["text"]
    await rt.cancel(handle.id)
    assert (await handle.result()).state is State.CANCELLED
    assert runs(tmp_path / "runs") == []
    late = await rt.call("huge", {"path": str(tmp_path / "runs")}, deadline=0.5)
    assert (late.state, late.metadata["phase"]) == (State.TIMEOUT, "deadline")


async def test_counted_resources_are_never_used_twice(rt: Runtime, tmp_path: Path) -> None:
    path = tmp_path / "gpu"
    results = await rt.call_many([("on_gpu", {"path": str(path), "seconds": 0.2}) for _ in range(4)])
    assert [result.success for result in results] == [True] * 4
    assert path.read_text().split() == ["begin", "end"] * 4


@pytest.mark.parametrize("tool", ["charge", "fetch"])
async def test_a_worker_that_is_killed(rt: Runtime, tmp_path: Path, tool: str) -> None:
    path = tmp_path / "runs"
    handle = await rt.submit(tool, {"path": str(path)})
    (pid,) = await eventually(lambda: runs(path))
    os.kill(pid, signal.SIGKILL)
    result = await handle.result()
    if tool == "fetch":
        assert (result.output, result.attempts, len(runs(path))) == (2, 2, 2)
    else:
        assert result.error is not None
        assert (result.state, result.error.code, len(runs(path))) == (State.FAILED, "outcome_unknown", 1)


@pytest.mark.parametrize("tool", ["charge", "fetch"])
async def test_a_node_that_is_lost(cluster: Any, rt: Runtime, tmp_path: Path, tool: str) -> None:
    busy = [await rt.submit("charge", {"path": str(tmp_path / f"busy{n}")}) for n in range(3)]  # all CPUs
    for n in range(3):
        await eventually(lambda n=n: runs(tmp_path / f"busy{n}"))  # type: ignore[misc]
    node = cluster.add_node(num_cpus=1)
    path = tmp_path / "runs"
    handle = await rt.submit(tool, {"path": str(path)})
    await eventually(lambda: runs(path))
    for one in busy:
        await rt.cancel(one.id)
    await asyncio.to_thread(cluster.remove_node, node, False)
    result = await handle.result()
    if tool == "fetch":
        assert (result.output, len(runs(path))) == (2, 2)
    else:
        assert result.error is not None
        assert (result.error.code, len(runs(path))) == ("outcome_unknown", 1)


async def test_a_runtime_that_is_closed_ends_its_bodies(cluster: Any, tmp_path: Path) -> None:
    path = tmp_path / "runs"
    async with Runtime(
        tools=RAY_TOOLS, store=f"sqlite:///{tmp_path}/c.db", ray=cluster.address, close_timeout=0.1
    ) as rt:
        handle = await rt.submit("charge", {"path": str(path)}, id="one")
        (pid,) = await eventually(lambda: runs(path))
    await eventually(lambda: not is_running(pid))
    async with Runtime(tools=RAY_TOOLS, store=f"sqlite:///{tmp_path}/c.db", ray=cluster.address) as rt:
        record = await rt.get(handle.id)
    assert record.error is not None
    assert (record.error.code, len(runs(path))) == ("outcome_unknown", 1)


@pytest.fixture(scope="module")
def client_address(cluster: Any) -> Iterator[str]:
    """A Ray client server of the cluster, as a `ray://` address."""
    port = free_port()
    command = [sys.executable, "-m", "ray.util.client.server", "--address", cluster.address, "--host", "127.0.0.1"]
    server = subprocess.Popen([*command, "--port", str(port), "--mode", "specific-server"])
    try:
        eventually_sync(lambda: answers(port), timeout=60)
        yield f"ray://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(30)


def test_the_same_over_rays_client(client_address: str, tmp_path: Path) -> None:
    """In its own process, because a process has one connection to Ray."""
    with program("ray_client.py", client_address, f"sqlite:///{tmp_path}/calls.db", str(tmp_path / "runs")) as running:
        assert running.stdout is not None
        results = json.loads(running.stdout.readline())
    assert results["sum"] == 3
    assert results["streamed"] == "".join(f"line {number}\n" for number in range(20))
    assert (results["killed"], results["bodies"]) == ("outcome_unknown", 1)
    assert results["cancelled"] == "cancelled"

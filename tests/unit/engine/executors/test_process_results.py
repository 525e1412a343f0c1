"""Results of tools in child processes, as a user sees them."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from tests.unit.engine.executors import process_tools as tools
from tests.unit.engine.executors.processes_kit import Listener, run

from clicket.engine.executors.processes.pool import ProcessPool, ToolProcess
from clicket.errors import InvalidInput, ResultUnserializable
from clicket.tools.context import STREAMED

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes through /proc")


# Results --------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("started")
async def test_output_comes_back_and_the_worker_stays_warm(pool: ProcessPool) -> None:
    seen = []
    for n in range(3):
        worker = await pool.acquire()
        assert await run(worker, tools.add, a=n, b=1) == n + 1
        seen.append(await run(worker, tools.count))
        pool.release(worker)
    assert seen == [[pool.pids[0], 1], [pool.pids[0], 2], [pool.pids[0], 3]]
    assert pool.pids[0] != os.getpid()


async def test_async_tools_get_a_loop_of_their_own(worker: ToolProcess) -> None:
    for name in ("ann", "bob"):
        assert await run(worker, tools.greet, name=name) == {"text": f"hello {name}", "pid": worker.pid}


async def test_context_crosses_both_ways(worker: ToolProcess) -> None:
    listener = Listener()
    output = await run(worker, tools.report, listener)
    assert output == {
        "call_id": "c1",
        "attempt": 2,
        "key": "k1",
        "metadata": {"who": "me"},
        "cancelled": False,
        "has_time": True,
    }
    assert listener.started == 1
    assert listener.heard == [
        ("emit", {"n": 1}),
        ("progress", {"step": 1, "total": 4, "text": "one of four"}),
        ("heartbeat", None),
        ("note", {"text": "a remark", "data": {"size": 3}}),
    ]


async def test_generators_stream(worker: ToolProcess) -> None:
    listener = Listener()
    assert await run(worker, tools.stream, listener, n=3) is STREAMED
    assert listener.heard == [("emit", 0), ("emit", 1), ("emit", 2)]


async def test_a_paused_worker_waits_and_loses_nothing(worker: ToolProcess, pool: ProcessPool) -> None:
    class Slow(Listener):
        def message(self, kind: str, data: Any) -> None:
            super().message(kind, data)
            if len(self.heard) == 1:
                worker.pause()

    listener = Slow()
    task = asyncio.create_task(run(worker, tools.flood, listener, n=300))
    await listener.first
    other = await pool.acquire()
    assert await run(other, tools.add, a=1, b=1) == 2
    pool.release(other)
    assert len(listener.heard) == 1, "nothing is delivered while the worker is paused"
    assert not task.done(), "20 MB do not fit into a socket: the tool waits"
    worker.resume()
    assert await task is STREAMED
    assert [int(chunk[:8]) for _, chunk in listener.heard] == list(range(300))


async def test_fifty_megabytes(worker: ToolProcess) -> None:
    assert await run(worker, tools.large, size=50_000_000) == "x" * 50_000_000
    assert await run(worker, tools.add, a=1, b=2) == 3


async def test_numbers_and_text_are_kept_exactly(worker: ToolProcess) -> None:
    assert await run(worker, tools.give, what="big") == 2**64
    assert await run(worker, tools.add, a=2**64, b=1) == 2**64 + 1
    assert await run(worker, tools.give, what="text") == "naïve ☃"
    assert await run(worker, tools.give, what="none") is None


@pytest.mark.parametrize("what", ["nan", "cycle", "generator", "bytes", "object"])
async def test_what_is_not_json_is_said_so(worker: ToolProcess, what: str) -> None:
    with pytest.raises(ResultUnserializable):
        await run(worker, tools.give, what=what)
    assert worker.free


async def test_a_chunk_that_is_not_json_fails_the_call(worker: ToolProcess) -> None:
    with pytest.raises(ResultUnserializable):
        await run(worker, tools.emit_object)
    assert await run(worker, tools.add, a=1, b=2) == 3


async def test_arguments_that_do_not_bind_never_start_the_body(worker: ToolProcess) -> None:
    listener = Listener()
    with pytest.raises(InvalidInput) as caught:
        await run(worker, tools.add, listener, a="one", b=2)
    assert [problem["path"] for problem in caught.value.problems] == ["/a"]
    assert listener.started == 0
    assert worker.free


async def test_prints_never_reach_the_wire(worker: ToolProcess, capfd: pytest.CaptureFixture[str]) -> None:
    # Its own pool, made while the descriptors are captured.
    pool = ProcessPool(size=1)
    try:
        captured = await pool.acquire()
        assert await run(captured, tools.shout) == "quiet"
        assert await run(captured, tools.add, a=1, b=2) == 3
    finally:
        await pool.close()
    out, err = capfd.readouterr()
    assert out == ""
    assert "print xxx" in err
    assert "from a child" in err
    assert "\\ud800 to stderr" in err

"""The blocking API: the same names without a loop, from any thread; inside a running loop a clear error, never a deadlock."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.kit.waiting import PATIENCE
from tests.scenarios.kit import assert_sound

import clicket
from clicket import Policy, Settings, State, ToolCall, ToolContext, tool
from clicket.errors import UsageError
from clicket.runtime import blocking as sync


@tool
def add(a: int, b: int) -> int:
    return a + b


@tool
async def later(x: int) -> int:
    await asyncio.sleep(0)
    return x


@tool
def count(n: int) -> Iterator[int]:
    yield from range(n)


class Both:
    async def run(self) -> str:
        return "run"

    def run_sync(self) -> str:
        return "run_sync"


class Either:
    async def run(self) -> str:
        return "run"


TOOLS = [add, later, count, Both, Either]


def make(tools: Any = TOOLS, store: str = "memory://", policy: Policy | None = None, **settings: Any) -> sync.Runtime:
    return sync.Runtime(tools, policy=policy, settings=Settings(store=store, **{"cancel_grace": 0.1, **settings}))


def test_a_program_without_a_loop(store: str) -> None:
    with make(store=store) as rt:
        result = rt.call("add", {"a": 1, "b": 2}, thread="t", id="x")
        assert result.output == 3
        assert rt.call("later", {"x": 5}).output == 5
        assert rt.state("x") is State.COMPLETED
        record = rt.get("x")
        assert record.thread == "t"
        assert_sound(record)
        assert [r.id for r in rt.history(thread="t").items] == ["x"]
        assert [info.name for info in rt.tools()] == ["add", "later", "count", "both", "either"]
        assert not rt.cancel("x")
        assert rt.recover().total == 0


def test_each_caller_gets_the_direct_body_of_a_class(store: str) -> None:
    with make(store=store) as rt:
        assert rt.call("both").output == "run_sync"
        assert rt.call("either").output == "run"

    async def main() -> Any:
        async with clicket.Runtime(TOOLS, store="memory://") as rt:
            return (await rt.call("both")).output

    assert asyncio.run(main()) == "run"


def test_streams_handles_batches_and_approvals(store: str) -> None:
    with make(store=store, policy=Policy(ask=["later"])) as rt:
        events = list(rt.stream("count", {"n": 3}))
        assert [e.data["content"] for e in events if e.type == "output"] == [0, 1, 2]
        assert events[-1].is_terminal
        handle = rt.submit("add", {"a": 1, "b": 1})
        assert handle.result().output == 2
        assert next(e.seq for e in handle.events(after=3)) == 4
        results = rt.call_many([ToolCall("add", {"a": i, "b": 0}) for i in range(20)])
        assert [r.output for r in results] == list(range(20))
        asked = rt.submit("later", {"x": 1})
        assert rt.get(asked.id).waiting_for == "approval"
        assert rt.approve(asked.id)
        assert asked.result().output == 1
        denied = rt.submit("later", {"x": 1})
        assert rt.deny(denied.id)
        assert rt.handle(denied.id).result().state is State.FAILED


def test_a_stream_may_be_left_early(store: str) -> None:
    with make(store=store) as rt:
        for event in rt.stream("count", {"n": 500}, id="c"):
            if event.type == "output":
                break
        assert rt.handle("c").result().success


def test_cancel_from_another_thread(store: str) -> None:
    started = threading.Event()

    @tool
    async def endless() -> None:
        started.set()
        await asyncio.Event().wait()

    with make([endless], store) as rt:
        handle = rt.submit("endless")
        started.wait(PATIENCE)
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(handle.cancel, "enough").result(10)
        assert handle.result().state is State.CANCELLED


def test_one_loop_in_one_thread_is_reused(store: str) -> None:
    seen = set()

    @tool
    async def where() -> None:
        seen.add((threading.get_ident(), id(asyncio.get_running_loop())))

    with make([where], store) as rt:
        for _ in range(10):
            assert rt.call("where").success
    assert len(seen) == 1
    assert next(iter(seen))[0] != threading.get_ident()


def test_many_threads_may_call_at_once(store: str) -> None:
    with make(store=store) as rt, ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(rt.call, "add", {"a": i, "b": 1}) for i in range(100)]
        assert [f.result(20).output for f in futures] == [i + 1 for i in range(100)]
        assert len(rt.history(limit=1_000).items) == 100


def test_a_sync_tool_may_call_the_sync_face(store: str) -> None:
    """It runs in a worker thread, where blocking is allowed."""
    with make(store=store) as rt:

        @tool
        def outer(n: int) -> int:
            return rt.call("add", {"a": n, "b": 1}).output

        rt.add(outer)
        assert rt.call("outer", {"n": 4}).output == 5


async def test_inside_a_running_loop_it_raises_instead_of_deadlocking(store: str) -> None:
    closed = make(store=store)
    with pytest.raises(UsageError, match="event loop"):
        closed.open()
    rt = await asyncio.to_thread(make(store=store).open)
    try:
        handle = await asyncio.to_thread(rt.submit, "add", {"a": 1, "b": 1})
        for use in (
            lambda: rt.call("add", {"a": 1, "b": 1}),
            lambda: rt.submit("add", {"a": 1, "b": 1}),
            lambda: rt.stream("count", {"n": 1}),
            lambda: rt.call_many([]),
            lambda: rt.get(handle.id),
            rt.history,
            handle.result,
            handle.cancel,
            handle.events,
        ):
            started = time.monotonic()
            with pytest.raises(UsageError, match=r"await.*thread|thread.*await|clicket.Runtime"):
                list(use() or ())
            assert time.monotonic() - started < PATIENCE  # for ever, if it waited for this thread
        assert (await asyncio.to_thread(rt.call, "add", {"a": 1, "b": 2})).output == 3
    finally:
        await asyncio.to_thread(rt.close)


def test_an_async_tool_that_uses_the_sync_face_gets_the_same_clear_error(store: str) -> None:
    with make(store=store) as rt:

        @tool
        async def wrong() -> Any:
            return rt.call("add", {"a": 1, "b": 1})

        rt.add(wrong)
        result = rt.call("wrong")
    assert result.state is State.FAILED
    assert result.error is not None
    assert "event loop" in result.error.message


def test_ctrl_c_stops_the_call_and_leaves_the_runtime_usable(store: str) -> None:
    started, stopped = threading.Event(), threading.Event()

    @tool
    async def endless() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    def interrupt() -> None:
        started.wait(PATIENCE)
        os.kill(os.getpid(), signal.SIGINT)

    with make([endless, add], store) as rt:
        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            rt.call("endless", id="e")
        thread.join()
        assert stopped.wait(PATIENCE)
        assert rt.handle("e").result().state is State.CANCELLED
        assert rt.call("add", {"a": 1, "b": 1}).output == 2


def test_a_sync_tool_sees_its_time_limit_and_ends_on_time(store: str) -> None:
    @tool(timeout=0.2)
    def patient(ctx: ToolContext) -> None:
        while not ctx.cancelled:
            time.sleep(0.005)

    with make([patient], store) as rt:
        started = time.monotonic()
        result = rt.call("patient")
        assert 0.2 <= time.monotonic() - started < PATIENCE
    assert result.state is State.TIMEOUT


def test_errors_and_results_are_the_same_as_on_the_other_face(store: str) -> None:
    with make(store=store) as rt:
        missing = rt.call("ad")
        assert missing.error is not None
        assert missing.error.code == "tool_not_found"
        with pytest.raises(clicket.Conflict):
            rt.call("add", {"a": 1, "b": 1}, id="x")
            rt.call("add", {"a": 2, "b": 1}, id="x")
        with pytest.raises(clicket.errors.NotFound):
            rt.get("nothing")
        with pytest.raises(UsageError):
            rt.call("add", {"a": 1, "b": 1}, timeout=-1)


def test_it_opens_closes_and_opens_again(sqlite: str) -> None:
    rt = make(store=sqlite)
    for i in range(3):
        with rt:
            assert rt.call("add", {"a": i, "b": 1}).output == i + 1
            with pytest.raises(UsageError, match="open already"):
                rt.open()
    rt.close()
    with pytest.raises(UsageError, match="not open"):
        rt.call("add", {"a": 1, "b": 1})
    with pytest.raises(UsageError, match="not open"):
        rt.stream("add", {"a": 1, "b": 1})
    for wrong in (lambda: rt.hub("t").watch(), lambda: rt.acting_for("ann")):
        with pytest.raises(UsageError, match=r"with clicket\.sync\.Runtime"):  # the message names the blocking API
            wrong()


def test_a_store_that_cannot_be_opened_leaves_no_thread(tmp_path: Any) -> None:
    bad = tmp_path / "bad.db"
    bad.write_bytes(b"this is not a database" * 100)
    with pytest.raises(clicket.StoreUnavailable):
        make(store=f"sqlite:///{bad}").open()

"""Same id, same arguments: the same call. Other arguments: a conflict. One run, for any caller, at any time, however often."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.kit.waiting import PATIENCE, eventually
from tests.scenarios.kit import assert_sound, make, sqlite_url

from clicket import Conflict, RetryableError, State, ToolContext, tool


class Counted:
    """A tool that counts its runs."""

    def __init__(self) -> None:
        self.runs: list[Any] = []
        self.gate = asyncio.Event()
        self.gate.set()
        runs, gate = self.runs, self.gate

        @tool
        async def work(a: Any = None, b: Any = None) -> Any:
            runs.append((a, b))
            await gate.wait()
            return [a, b, len(runs)]

        self.tool = work


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": 1}, {"a": 1.0}),
        ({"a": {"x": [1.0, {"y": 2}]}}, {"a": {"x": [1, {"y": 2.0}]}}),
        ({"a": 1}, '{ "a" : 1e0 }'),
        ({"a": (1, 2)}, {"a": [1, 2]}),
        ({}, None),
        ({"a": "é"}, b'{"a": "\\u00e9"}'),
        ({"a": 2**64}, f'{{"a": {2**64}}}'),
    ],
)
async def test_the_same_id_with_the_same_arguments_is_the_same_call(store: str, first: Any, second: Any) -> None:
    counted = Counted()
    async with make([counted.tool], store) as rt:
        one = await rt.call("work", first, id="x")
        two = await asyncio.wait_for(rt.call("work", second, id="x"), PATIENCE)
        handle = await asyncio.wait_for(rt.submit("work", second, id="x"), PATIENCE)
        assert handle.id == "x"
        assert await handle.result() == one
        assert len((await rt.history()).items) == 1
    assert two == one
    assert len(counted.runs) == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {"a": True}),
        ({"a": 1}, {"a": "1"}),
        ({"a": None}, {}),
        ({"a": [1, 2]}, {"a": [2, 1]}),
        ({"a": 2**64}, {"a": 2**64 + 1}),
        ({"a": 1}, {"a": 1, "wrong": 2}),
        ({"a": 1}, "{broken"),
    ],
)
async def test_the_same_id_with_other_arguments_is_a_conflict(store: str, first: Any, second: Any) -> None:
    counted = Counted()
    async with make([counted.tool], store) as rt:
        one = await rt.call("work", first, id="x")
        for ask in (rt.call, rt.submit):
            with pytest.raises(Conflict, match="'x'") as raised:
                await asyncio.wait_for(ask("work", second, id="x"), PATIENCE)
            assert raised.value.code == "conflict"
        assert (await rt.get("x")).output == one.output
        assert len((await rt.history()).items) == 1
    assert len(counted.runs) == 1


async def test_another_tool_under_the_same_id_is_a_conflict(store: str) -> None:
    counted = Counted()

    @tool
    async def other(a: Any = None) -> None: ...

    async with make([counted.tool, other], store) as rt:
        await rt.call("work", {"a": 1}, id="x")
        with pytest.raises(Conflict):
            await rt.call("other", {"a": 1}, id="x")


async def test_one_id_in_two_threads_is_two_calls(store: str) -> None:
    counted = Counted()
    async with make([counted.tool], store) as rt:
        one = await rt.call("work", {"a": 1}, id="x", thread="t1")
        two = await rt.call("work", {"a": 2}, id="x", thread="t2")
        assert (one.output[0], two.output[0]) == (1, 2)
        assert (await rt.get("x", thread="t1")).arguments == {"a": 1}
        assert (await rt.get("x", thread="t2")).arguments == {"a": 2}
        assert (await rt.get("x", thread="t1")).idempotency_key != (await rt.get("x", thread="t2")).idempotency_key
    assert len(counted.runs) == 2


async def test_many_at_once_with_one_id_run_once(store: str) -> None:
    counted = Counted()
    counted.gate.clear()
    async with make([counted.tool], store) as rt:
        asks = [asyncio.create_task(rt.call("work", {"a": 1}, id="x")) for _ in range(20)]
        handles = await asyncio.gather(*(rt.submit("work", {"a": 1.0}, id="x") for _ in range(20)))
        conflicts = await asyncio.gather(
            *(rt.submit("work", {"a": 2}, id="x") for _ in range(5)), return_exceptions=True
        )
        assert [type(c) for c in conflicts] == [Conflict] * 5
        await eventually(lambda: counted.runs)
        counted.gate.set()
        results = [*await asyncio.gather(*asks), *[await h.result() for h in handles]]
        assert_sound(await rt.get("x"))
    assert len(counted.runs) == 1
    assert all(r == results[0] for r in results)


async def test_joining_a_call_and_going_away_does_not_stop_it_for_the_others(store: str) -> None:
    counted = Counted()
    counted.gate.clear()
    async with make([counted.tool], store) as rt:
        first = await rt.submit("work", {"a": 1}, id="x")
        joined = asyncio.create_task(rt.call("work", {"a": 1}, id="x"))
        await eventually(lambda: counted.runs)
        joined.cancel()
        with pytest.raises(asyncio.CancelledError):
            await joined
        counted.gate.set()
        assert (await first.result()).state is State.COMPLETED


async def test_a_failed_call_is_not_run_again_under_its_id(store: str) -> None:
    runs = []

    @tool
    async def fails() -> None:
        runs.append(1)
        raise ValueError("once")

    async with make([fails], store) as rt:
        one = await rt.call("fails", id="x")
        assert await asyncio.wait_for(rt.call("fails", id="x"), PATIENCE) == one
    assert runs == [1]


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ({"x": 1, "wrong": 2}, {"wrong": 2, "x": 1}, True),
        ({"wrong": 1}, {"wrong": 2}, False),
        ("{broken", "{broken", True),
        ("{broken", "{broken2", False),
        ({"a": float("nan")}, {"a": float("nan")}, True),
        ({"a": "\ud800"}, {"a": "\ud800"}, True),
    ],
)
async def test_a_refused_call_keeps_its_id_too(store: str, first: Any, second: Any, same: bool) -> None:
    counted = Counted()
    async with make([counted.tool], store) as rt:
        one = await rt.call("work", first, id="x")
        assert one.error is not None
        assert one.error.code == "invalid_input"
        if same:
            assert await asyncio.wait_for(rt.call("work", second, id="x"), PATIENCE) == one
        else:
            with pytest.raises(Conflict):
                await asyncio.wait_for(rt.call("work", second, id="x"), PATIENCE)
    assert not counted.runs


async def test_the_id_is_remembered_after_a_restart(sqlite: str) -> None:
    counted = Counted()
    async with make([counted.tool], sqlite) as rt:
        one = await rt.call("work", {"a": 1, "b": 2}, id="x")
    async with make([counted.tool], sqlite) as rt:
        assert await rt.call("work", {"b": 2, "a": 1}, id="x") == one
        with pytest.raises(Conflict):
            await rt.call("work", {"a": 1}, id="x")
        assert (await rt.get("x")).output == one.output
    assert len(counted.runs) == 1


async def test_two_processes_that_submit_one_id_share_one_call(sqlite: str) -> None:
    """Two runtimes over one file: the later one, even at the same moment, gets the first one's call."""
    counted = Counted()
    async with make([counted.tool], sqlite) as one, make([counted.tool], sqlite) as two:
        for i in range(20):
            results = await asyncio.gather(
                one.call("work", {"a": i}, id=f"x{i}"),
                two.call("work", {"a": i}, id=f"x{i}"),
                two.call("work", {"a": i}, id=f"x{i}"),
            )
            assert results[0] == results[1] == results[2]
            assert_sound(await one.get(f"x{i}"))
    assert len(counted.runs) == 20


async def test_the_key_is_the_same_in_every_attempt_and_different_for_every_call(store: str) -> None:
    keys = []

    @tool(retry_delay=0.001)
    async def flaky(ctx: ToolContext) -> str:
        keys.append(ctx.idempotency_key)
        if len(keys) % 3:
            raise RetryableError("again")
        return ctx.idempotency_key

    async with make([flaky], store) as rt:
        one, two = await rt.call("flaky"), await rt.call("flaky")
        assert (await rt.get(one.call_id)).idempotency_key == one.output
    assert len(keys) == 6
    assert len(set(keys)) == 2
    assert one.output != two.output


async def test_a_call_that_another_runtime_runs_is_submitted_by_many_callers_at_once(tmp_path: Path) -> None:
    """The first of them waits for a slot that the runtimes share, and a later one makes its first commit, which the store refuses."""
    gate = asyncio.Event()

    @tool(max_concurrency=1)
    async def work() -> str:
        await gate.wait()
        return "done"

    url = sqlite_url(tmp_path)
    async with make([work], url) as one, make([work], url) as two:
        first = await one.submit("work", id="x")
        callers = [asyncio.create_task(two.call("work", id="x")) for _ in range(3)]
        handles = [await two.submit("work", id="x") for _ in range(2)]
        gate.set()
        result = await asyncio.wait_for(first.result(), PATIENCE)
        others = await asyncio.wait_for(asyncio.gather(*callers, *(handle.result() for handle in handles)), PATIENCE)
        assert others == [result] * 5
        assert_sound(await one.get("x"))

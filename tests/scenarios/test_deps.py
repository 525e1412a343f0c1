"""Deps of tools: values of the process that a runtime makes once, gives to the tools that need them, and closes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Annotated, Any

import pytest
from tests.kit.waiting import eventually
from tests.scenarios import deps_tools
from tests.scenarios.agent_kit import Gate
from tests.scenarios.deps_tools import Pool, by_process, by_process_context, connect
from tests.scenarios.kit import make

import clicket.sync
from clicket import Depends, Runtime, State, ToolContext, tool
from clicket.errors import UsageError
from clicket.model import Record

Db = Annotated[Pool, Depends("db")]


@tool
async def by_name(row: int, db: Db, ctx: ToolContext) -> str:
    """Read a row.

    Args:
        row: which one
        db: not for models
    """
    return f"{ctx.thread} {db.read(row)}"


@tool
async def by_context(row: int, ctx: ToolContext) -> str:
    return str(ctx.deps["db"].read(row))


@tool
def in_thread(row: int, db: Db) -> str:
    return db.read(row)


@tool(isolation="inline")
def on_loop(row: int, ctx: ToolContext) -> str:
    return str(ctx.deps["db"].read(row))


@tool
async def streams(db: Db) -> AsyncIterator[str]:
    yield db.read(1)
    yield db.read(2)


@tool
class Both:
    async def run(self, row: int, db: Db) -> str:
        return f"async {db.read(row)}"

    def run_sync(self, row: int, db: Db) -> str:
        return f"sync {db.read(row)}"


LOST = lambda: Pool()  # noqa: E731, PLW0108  # what a child process cannot find
EVERY = [by_name, by_context, in_thread, on_loop, streams, Both]


async def test_each_kind_of_tool_gets_what_one_call_of_the_factory_made() -> None:
    made: list[Pool] = []

    async def factory() -> Pool:
        await asyncio.sleep(0)
        made.append(Pool())
        return made[-1]

    async with make(EVERY, deps={"db": factory}) as rt:
        assert made == []
        results = await rt.call_many([(name, {"row": 7}) for name in ("by_name", "by_context", "in_thread", "on_loop")])
        assert [result.output for result in results] == ["default row 7", "row 7", "row 7", "row 7"]
        assert (await rt.call("both", {"row": 1})).output == "async row 1"
        assert (await rt.call("streams")).output == "row 1row 2"
        assert not made[0].closed
    assert len(made) == 1
    assert made[0].closed


async def test_a_dep_is_no_argument() -> None:
    assert by_name.input_schema["properties"] == {"row": {"type": "integer", "description": "which one"}}
    async with make([by_name], deps={"db": Pool}) as rt:
        refused = await rt.call("by_name", {"row": 1, "db": "mine"})
        assert refused.error is not None
        assert refused.error.code == "invalid_input"
        record = await rt.get((await rt.call("by_name", {"row": 1})).call_id)
        assert record.arguments == {"row": 1}
        assert "deps" not in record.events[0].data


def test_outside_of_a_runtime_it_is_a_parameter_as_any_other() -> None:
    assert in_thread(2, Pool()) == "row 2"


async def test_how_a_value_is_closed() -> None:
    log: list[str] = []

    class Aclose:
        async def aclose(self) -> None:
            log.append("aclose")

    class Close:
        def close(self) -> None:
            log.append("close")

        def __enter__(self) -> None:
            raise AssertionError("what has `close` is not entered")

        def __exit__(self, *_: object) -> None: ...

    class Manager:
        def __enter__(self) -> str:
            return "entered"

        def __exit__(self, *_: object) -> None:
            log.append("exit")

    class AsyncManager:
        async def __aenter__(self) -> str:
            return "async entered"

        async def __aexit__(self, *_: object) -> None:
            log.append("aexit")

    def yields() -> Iterator[str]:
        yield "yielded"
        log.append("after yield")

    async def async_yields() -> AsyncIterator[str]:
        yield "async yielded"
        log.append("after async yield")

    values: dict[str, Any] = {}

    @tool
    async def read(ctx: ToolContext) -> None:
        values.update(ctx.deps)

    factories = {
        "a": Aclose, "c": Close, "m": Manager, "am": AsyncManager, "y": yields, "ay": async_yields,
        "cm": contextmanager(yields), "acm": asynccontextmanager(async_yields), "plain": lambda: 7,
    }  # fmt: skip
    async with make([read], deps=factories) as rt:
        assert (await rt.call("read")).success
    shown = {name: value for name, value in values.items() if isinstance(value, str | int)}
    assert shown == {
        "m": "entered", "am": "async entered", "y": "yielded", "ay": "async yielded", "cm": "yielded",
        "acm": "async yielded", "plain": 7,
    }  # fmt: skip
    assert sorted(log) == sorted(["aclose", "close", "exit", "aexit", *2 * ["after yield"], *2 * ["after async yield"]])


async def test_a_dep_that_nobody_gives_is_refused_before_the_call_starts() -> None:
    async with make([by_name, by_context]) as rt:
        result = await rt.call("by_name", {"row": 1})
        assert result.error is not None
        assert result.error.code == "tool_unavailable"
        for part in (
            "'by_name' (",
            "test_deps.py",
            "the dep 'db'",
            "agent.run(…, deps={'db': …})",
            "Runtime(deps={'db': factory})",
        ):
            assert part in result.error.message
        assert (await rt.get(result.call_id)).attempts == []
        late = await rt.call("by_context", {"row": 1})
        assert late.error is not None
        assert "there is no dep 'db' here" in late.error.message
        for _ in range(5):  # it is not the tool's failure
            await rt.call("by_context", {"row": 1}, thread="t")
        assert "by_context" in await rt.hub("t").available()


async def test_a_near_name_is_named() -> None:
    async with make([by_context], deps={"dbs": Pool}) as rt:
        result = await rt.call("by_context", {"row": 1})
        assert result.error is not None
        assert "Did you mean 'dbs'?" in result.error.message


@pytest.mark.parametrize("deps", [{"db": Pool()}, {"": Pool}, {7: Pool}])
def test_what_is_not_a_factory_is_refused(deps: Any) -> None:
    with pytest.raises(UsageError, match="function without arguments"):
        Runtime(deps=deps)


def test_depends_takes_a_name() -> None:
    with pytest.raises(UsageError, match="name of a dep"):
        Depends(Pool)  # type: ignore[arg-type]  # what is tested


async def test_a_factory_that_failed_is_called_again_and_harms_only_what_needs_it() -> None:
    fails = [ValueError("no such host"), None]

    async def factory() -> Pool:
        error = fails.pop(0)
        if error is not None:
            raise error
        return Pool()

    @tool
    async def other(ctx: ToolContext) -> list[str]:
        return sorted(ctx.deps)

    async with make([by_name, other], deps={"db": factory, "seven": lambda: 7}) as rt:
        assert (await rt.call("other")).output == ["seven"]
        assert (await rt.call("by_name", {"row": 1})).output == "default row 1"
    fails = [ValueError("no such host")]
    async with make([by_name], deps={"db": factory}) as rt:
        result = await rt.call("by_name", {"row": 1})
        assert result.error is not None
        assert (result.error.code, result.attempts) == ("tool_unavailable", 1)
        assert "the factory of the dep 'db'" in result.error.message
        assert "ValueError: no such host" in result.error.message


async def test_a_factory_that_cannot_connect_is_tried_again_as_the_tool() -> None:
    fails = [ConnectionError("refused"), None]

    def factory() -> Pool:
        error = fails.pop(0)
        if error is not None:
            raise error
        return Pool()

    quick = tool(retry_delay=0.001)(by_name.fn)
    async with make([quick], deps={"db": factory}) as rt:
        result = await rt.call("by_name", {"row": 1})
        assert (result.output, result.attempts) == ("default row 1", 2)


async def test_a_call_that_waits_for_a_factory_can_be_cancelled() -> None:
    gate = Gate()

    async def factory() -> Pool:
        await gate()
        return Pool()

    async with make([by_name], deps={"db": factory}) as rt:
        first = await rt.submit("by_name", {"row": 1})
        second = await rt.submit("by_name", {"row": 2})
        await gate.reached.wait()
        assert await rt.cancel(first.id)
        assert (await first.result()).state is State.CANCELLED
        gate.open()
        assert (await second.result()).output == "default row 2"


async def test_a_runtime_that_closes_ends_a_factory_that_still_runs() -> None:
    gate = Gate()
    async with make([by_name], deps={"db": gate}, close_timeout=0.0) as rt:
        await rt.submit("by_name", {"row": 1})
        await gate.reached.wait()


# Other processes.


async def test_a_process_tool_gets_what_the_child_made() -> None:
    before = deps_tools.made
    async with make([by_process, by_process_context, by_name], deps={"db": connect}, tool_processes=1) as rt:
        seen = [(await rt.call(name, {"row": 1})).output for name in ("by_process", "by_process_context", "by_process")]
        assert seen == [["row 1", 1]] * 3, "once in the child"
        assert (await rt.call("by_name", {"row": 1})).output == "default row 1"
    assert deps_tools.made == before + 1, "the child made its own"


async def test_a_child_closes_what_it_made(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOSED_AT", str(tmp_path / "closed"))
    async with make([by_process], deps={"db": connect}, tool_processes=1) as rt:
        assert (await rt.call("by_process", {"row": 1})).success
    assert (tmp_path / "closed").read_text() == "closed"


async def test_a_child_process_cannot_find_a_lambda() -> None:
    said = r"'by_process' \(.*deps_tools.*cannot find the factory of the dep 'db'"
    with pytest.raises(UsageError, match=said):
        make([by_process], deps={"db": LOST})
    async with make(deps={"db": LOST}) as rt:
        with pytest.raises(UsageError, match=said):
            rt.add(by_process)
        assert (await rt.call("by_process", {"row": 1})).error.code == "tool_not_found"  # type: ignore[union-attr]  # it failed
    async with make([by_process]) as rt:
        refused = await rt.call("by_process", {"row": 1})
        assert refused.error is not None
        assert "runs in another process" in refused.error.message
    async with make([by_process_context], deps={"db": LOST}) as rt:
        refused = await rt.call("by_process_context", {"row": 1})
        assert refused.error is not None
        assert "there is no dep 'db' here" in refused.error.message


async def test_a_call_is_left_to_a_worker_that_makes_its_dep(sqlite: str) -> None:
    async with make([by_name], sqlite, engine="workers") as rt, make([by_name], sqlite) as without:
        handle = await rt.submit("by_name", {"row": 1})
        await without.recover()
        assert (await rt.get(handle.id)).state is State.PENDING
        async with make([by_name], sqlite, deps={"db": Pool}):
            assert (await handle.result(20)).output == "default row 1"


async def test_a_dead_owners_call_waits_for_a_process_that_makes_its_dep(sqlite: str) -> None:
    gate = Gate()

    @tool(recovery="rerun")
    async def read(row: int, db: Db) -> str:
        await gate()
        return db.read(row)

    async with make([read], sqlite, deps={"db": Pool}, close_timeout=0.0) as rt:
        id = (await rt.submit("read", {"row": 1})).id
        await gate.reached.wait()
    gate.open()

    async def record(rt: Runtime) -> Record:
        return await rt.get(id)

    async with make([read], sqlite) as rt:
        await rt.recover()
        assert (await record(rt)).state is State.RETRYING
    async with make([read], sqlite, deps={"db": Pool}) as rt:

        async def over() -> bool:
            return (await record(rt)).state is State.COMPLETED

        await eventually(over)


def test_the_sync_face() -> None:
    with clicket.sync.Runtime([Both, by_context], store="memory://", deps={"db": Pool}) as rt:
        assert rt.call("both", {"row": 1}).output == "sync row 1"
        assert rt.call("by_context", {"row": 1}).output == "row 1"

"""Read by mypy and pyright, never run: user code gets the expected types, and wrong use is an error.

Each error is marked for both checkers; both report a mark that has become unnecessary.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, assert_type

import clicket.sync
from clicket import (
    ClicketError,
    Condition,
    Event,
    Policy,
    Record,
    Rule,
    Runtime,
    State,
    ToolCall,
    ToolContext,
    ToolError,
    ToolResult,
    tool,
)
from clicket.subscription import CallEvent, Gap


@tool
def add(a: int, b: int) -> int:
    return a + b


@tool(timeout=10, max_retries=3, cache=300)
async def weather(city: str) -> dict[str, Any]:
    return {"city": city}


@tool
async def crawl(url: str, ctx: ToolContext) -> dict[str, str]:
    ctx.progress(3, 10, "page 3")
    ctx.emit("partial output")
    assert_type(ctx.idempotency_key, str)
    return {"url": url}


@tool
async def count(to: int) -> AsyncIterator[int]:
    for n in range(to):
        yield n


class Shop:
    @tool(read_only=True)
    async def price(self, item: str) -> int:
        return len(item)


async def methods() -> None:
    Runtime([Shop().price], max_concurrency=3, queue_timeout=None)
    Runtime([Shop().price], max_concurency=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    assert_type(await Shop().price("tea"), int)


async def asynchronous() -> None:
    async with Runtime(tools=[add, weather, crawl, count], store="memory://") as rt:
        result = await rt.call("add", {"a": 1, "b": 2}, thread="t1")
        assert_type(result, ToolResult)
        assert_type(result.success, bool)
        assert_type(result.state, State)
        assert_type(result.attempts, int)
        assert_type(result.content, str)
        assert_type(result.error, ToolError | None)

        handle = await rt.submit("crawl", {"url": "x"}, id="a", timeout=1.5, priority=3)
        assert_type(handle.id, str)
        assert_type(await handle.result(), ToolResult)
        assert_type(await handle.result(timeout=5), ToolResult)
        assert_type((await handle.result()).id, str)
        assert_type(await handle.cancel(), bool)
        async for event in handle.events(after=3):
            assert_type(event, Event)
            assert_type(event.seq, int)
            assert_type(event.state, State)
        async for event in rt.stream("count", {"to": 3}):
            assert_type(event, Event)

        assert_type(await rt.call_many([ToolCall("add", {"a": 1, "b": 2}, id="x")]), list[ToolResult])
        assert_type(await rt.cancel(handle.id), bool)
        assert_type(await rt.state(handle.id), State)
        record = await rt.get(handle.id, thread="t1")
        assert_type(record, Record)
        assert_type(record.error, ToolError | None)
        page = await rt.history(thread="t1", tool="add", state="failed", limit=10)
        assert_type(page.items, list[Record])
        assert_type(page.cursor, str | None)
        assert_type(await rt.artifact("name", start=0, end=10), bytes)
        assert_type(await rt.approve("a", by="ann", reason="fine", arguments={"url": "y"}), bool)
        assert_type(await rt.approve("a", grant={"uses": 2, "seconds": 60, "thread": "t", "arguments": {}}), bool)
        assert_type(await rt.respond("a", {"answer": 42}, by="ann"), bool)
        assert_type([grant.used for grant in await rt.grants.list()], list[int])
        assert_type((await rt.grants.revoke("gr_1")).revoked_by, str)
        assert_type((await rt.audit(limit=5))[0].who, str)

        await rt.approve("a", grant={"use": 2})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

        await rt.call(add)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        await rt.history(limit="10")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def blocking() -> None:
    with clicket.sync.Runtime(tools=[add]) as rt:
        assert_type(rt.call("add", {"a": 1, "b": 2}), ToolResult)
        handle = rt.submit("add", {"a": 1, "b": 2})
        assert_type(handle.result(), ToolResult)
        events: Iterator[Event] = iter(handle.events())
        assert_type(next(events).state, State)
        assert_type(rt.call_many([ToolCall("add")]), list[ToolResult])
        assert_type(rt.get("a"), Record)
        assert_type(rt.state("a"), State)
        assert_type(rt.cancel("a"), bool)
        assert_type(rt.approve("a", arguments='{"a": 1}'), bool)
        assert_type(rt.deny("a", by="ann"), bool)
        assert_type(rt.respond("a", 42), bool)
        assert_type([grant.id for grant in rt.grants.list(state="active")], list[str])
        assert_type(rt.hub("t"), clicket.sync.ThreadHub)
        assert_type(rt.hub("t").available(), list[str])
        assert_type(next(rt.subscribe()), CallEvent | Gap)
        assert_type(rt.acting_for("ann"), clicket.sync.Runtime)
        assert_type(rt.history(state="failed").items, list[Record])
        rt.history(states="failed")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def policies() -> Policy:
    big = Condition(path="/amount", op=">", value=100)
    rules = [
        Rule(verdict="ask", tools=["pay*"], scopes=("call",), when=[big], timeout=60, approvers=2),
        Rule(verdict="deny"),
    ]
    Rule(verdict="perhaps")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    return Policy(rules=rules, deny=["rm_*"], default="allow")


def wrong(result: ToolResult, call: ToolCall) -> None:
    Runtime(tool=[add])  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    ToolCall("add", {}, "id")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    result.output_text  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # noqa: B018
    result.attempts = 2  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    call.thread = "other"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


def errors(error: ClicketError) -> None:
    assert_type(error.code, str)
    assert_type(error.message, str)


assert_type(State.COMPLETED.is_terminal, bool)
assert_type(State("completed"), State)

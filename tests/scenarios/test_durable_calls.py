"""A call is durable before its body runs and before it is visible."""

from __future__ import annotations

import asyncio

from tests.scenarios.calls_kit import (
    TOOLS,
)
from tests.scenarios.kit import make, types

from clicket import State, ToolContext, tool


async def test_submit_answers_when_the_call_is_durable_and_before_it_has_ended(store: str) -> None:
    gate = asyncio.Event()

    @tool
    async def wait() -> str:
        await gate.wait()
        return "through"

    async with make([wait], store) as rt:
        handle = await rt.submit("wait", id="w", thread="t")
        record = await rt.get("w")
        assert record.events[0].type == "created"
        assert not record.state.is_terminal
        assert await rt.state("w", thread="t") in (State.INITIALIZING, State.RUNNING)
        assert [item.id for item in (await rt.history(active=True)).items] == ["w"]
        gate.set()
        assert (await handle.result()).output == "through"
        assert (await handle.result()).output == "through"
        assert await rt.state("w") is State.COMPLETED
        assert (await rt.history(active=True)).items == []


async def test_nothing_is_visible_before_the_store_has_it(sqlite: str) -> None:
    """A second runtime over the same file sees at once everything that the first one has acknowledged."""
    seen: list[tuple[int, int]] = []
    async with make(TOOLS, sqlite) as rt, make(TOOLS, sqlite) as other:
        handle = await rt.submit("letters", {"word": "abc"}, id="c")
        assert (await other.get("c")).events
        async for event in handle.events():
            stored = await other.get("c")
            seen.append((event.seq, stored.events[-1].seq))
    assert seen
    assert all(shown <= kept for shown, kept in seen)


async def test_intent_is_durable_before_the_body_runs(sqlite: str) -> None:
    found = []

    @tool
    async def look(ctx: ToolContext) -> None:
        record = await other.get(ctx.call_id)
        found.append((record.state, types(record)[-1]))

    async with make([], sqlite) as other, make([look], sqlite) as rt:
        assert (await rt.call("look")).success
    assert found == [(State.RUNNING, "attempt_started")]

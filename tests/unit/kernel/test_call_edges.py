"""Every edge of the call table is reached through a real runtime: none is unused.

`pending -> completed` is for cached results; only the journal takes that edge here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from clicket import Policy, RetryableError, Runtime, Settings, State, ToolContext, tool
from clicket.kernel import CALL
from clicket.model import Event
from clicket.testing import StepClock, memory_runtime

Edge = tuple[State, State]
FROM_CACHE = (State.PENDING, State.COMPLETED)
SCENARIOS: dict[Edge, Callable[..., Coroutine[Any, Any, list[Event]]]] = {}


def reaches(source: str, *targets: str) -> Callable[[Any], Any]:
    """The scenario takes these edges."""

    def register(scenario: Any) -> Any:
        for target in targets:
            edge = (State(source), State(target))
            assert edge not in SCENARIOS
            SCENARIOS[edge] = scenario
        return scenario

    return register


@tool(max_retries=1, retry_delay=10.0)
async def play(script: list[str], ctx: ToolContext) -> str:
    """Executes the script, one command after the other; each attempt has its own line."""
    for word in script[ctx.attempt - 1].split():
        if word == "emit":
            ctx.emit("x")
            await ctx.drain()
        elif word == "wait":
            await asyncio.Event().wait()
        elif word == "retry":
            raise RetryableError("again")
        elif word == "fail":
            raise ValueError("no")
    return "done"


def edges_of(events: list[Event]) -> list[Edge]:
    changes = [event for event in events if event.type == "state_changed"]
    return [(State(event.data["from"]), event.state) for event in changes]


@asynccontextmanager
async def playing(script: list[str], clock: StepClock, **options: Any) -> AsyncIterator[tuple[Runtime, str]]:
    """A runtime in which one call of `play` has run as far as it can without time passing."""
    async with memory_runtime([play, crunch], clock=clock, close_timeout=0.1, **options.pop("settings", {})) as rt:
        handle = await rt.submit("play", {"script": script}, **options)
        await clock.settle()
        yield rt, handle.id


async def events_of(rt: Runtime, id: str) -> list[Event]:
    return (await rt.get(id)).events


@reaches("pending", "initializing")
@reaches("initializing", "running")
@reaches("running", "completed")
async def completes(clock: StepClock, **_: Any) -> list[Event]:
    async with playing(["return"], clock) as (rt, id):
        return await events_of(rt, id)


@reaches("running", "failed")
async def fails(clock: StepClock, **_: Any) -> list[Event]:
    async with playing(["fail"], clock) as (rt, id):
        return await events_of(rt, id)


@reaches("running", "timeout")
async def runs_out_of_time(clock: StepClock, **_: Any) -> list[Event]:
    async with playing(["wait"], clock, timeout=5) as (rt, id):
        await clock.run(5.1)  # long deadlines may be a twentieth of a second late
        return await events_of(rt, id)


@reaches("running", "cancelled")
async def is_cancelled(clock: StepClock, **_: Any) -> list[Event]:
    async with playing(["wait"], clock) as (rt, id):
        assert await rt.cancel(id)
        return await events_of(rt, id)


@reaches("running", "retrying")
@reaches("retrying", "running")
async def recovers(clock: StepClock, **_: Any) -> list[Event]:
    async with playing(["retry", "return"], clock) as (rt, id):
        assert await rt.state(id) is State.RETRYING
        await clock.run(10)
        return await events_of(rt, id)


@reaches("running", "streaming")
@reaches("streaming", "completed")
async def streams(clock: StepClock, **_: Any) -> list[Event]:
    async with playing(["emit"], clock) as (rt, id):
        return await events_of(rt, id)


@reaches("streaming", "failed")
async def fails_after_output(clock: StepClock, **_: Any) -> list[Event]:
    async with playing(["emit fail"], clock) as (rt, id):
        return await events_of(rt, id)


@reaches("streaming", "timeout")
async def runs_out_of_time_after_output(clock: StepClock, **_: Any) -> list[Event]:
    async with playing(["emit wait"], clock, timeout=5) as (rt, id):
        await clock.run(5.1)  # long deadlines may be a twentieth of a second late
        return await events_of(rt, id)


@reaches("streaming", "cancelled")
async def is_cancelled_after_output(clock: StepClock, **_: Any) -> list[Event]:
    async with playing(["emit wait"], clock) as (rt, id):
        assert await rt.cancel(id)
        return await events_of(rt, id)


@reaches("streaming", "retrying")
async def tries_again_after_output(clock: StepClock, **_: Any) -> list[Event]:
    async with playing(["emit retry", "return"], clock) as (rt, id):
        await clock.run(10)
        return await events_of(rt, id)


@reaches("retrying", "timeout")
async def deadline_in_backoff(clock: StepClock, **_: Any) -> list[Event]:
    async with playing(["retry", "return"], clock, deadline=1) as (rt, id):
        await clock.run(1)
        return await events_of(rt, id)


@reaches("retrying", "cancelled")
async def cancel_in_backoff(clock: StepClock, **_: Any) -> list[Event]:
    async with playing(["retry", "return"], clock) as (rt, id):
        assert await rt.cancel(id)
        return await events_of(rt, id)


@reaches("pending", "failed")
async def is_refused(clock: StepClock, **_: Any) -> list[Event]:
    async with playing([], clock) as (rt, _):
        refused = await rt.call("play", {"script": 1})
        assert refused.error is not None
        assert refused.error.code == "invalid_input"
        return await events_of(rt, refused.call_id)


@reaches("pending", "timeout")
async def waits_too_long(clock: StepClock, **_: Any) -> list[Event]:
    async with playing(["wait"], clock, settings={"max_concurrency": 1, "queue_timeout": 3.0}) as (rt, _):
        queued = await rt.submit("play", {"script": ["return"]})
        await clock.run(3)
        return await events_of(rt, queued.id)


@reaches("pending", "cancelled")
async def is_cancelled_in_the_queue(clock: StepClock, **_: Any) -> list[Event]:
    async with playing(["wait"], clock, settings={"max_concurrency": 1}) as (rt, _):
        queued = await rt.submit("play", {"script": ["return"]})
        assert await queued.cancel()
        return await events_of(rt, queued.id)


# A call is `initializing` for longer than one commit only while a worker process starts.


@tool(isolation="process")
def crunch() -> int:
    return 1


@asynccontextmanager
async def preparing(clock: StepClock, acquire: Any, **options: Any) -> AsyncIterator[tuple[Runtime, str]]:
    async with memory_runtime([crunch], clock=clock, close_timeout=0.1) as rt:
        rt.engine.processes.acquire = acquire  # type: ignore[method-assign]
        handle = await rt.submit("crunch", **options)
        await clock.settle()
        yield rt, handle.id


async def never() -> Any:
    await asyncio.Event().wait()


async def refuse() -> Any:
    raise OSError("no more processes")


@reaches("initializing", "failed")
async def has_no_worker(clock: StepClock, **_: Any) -> list[Event]:
    async with preparing(clock, refuse) as (rt, id):
        return await events_of(rt, id)


@reaches("initializing", "timeout")
async def deadline_while_preparing(clock: StepClock, **_: Any) -> list[Event]:
    async with preparing(clock, never, deadline=2) as (rt, id):
        assert await rt.state(id) is State.INITIALIZING
        await clock.run(2)
        return await events_of(rt, id)


@reaches("initializing", "cancelled")
async def cancel_while_preparing(clock: StepClock, **_: Any) -> list[Event]:
    async with preparing(clock, never) as (rt, id):
        assert await rt.cancel(id)
        return await events_of(rt, id)


@reaches("retrying", "failed")
async def nobody_wants_it_again(clock: StepClock, tmp_path: Path) -> list[Event]:
    """The owner died in the middle; the call asks for approval to run again, and a person denies it."""

    @tool(recovery="ask")
    async def pay() -> None:
        await asyncio.Event().wait()

    settings = Settings(store=f"sqlite:///{tmp_path}/calls.db", close_timeout=0.1)
    async with Runtime([pay], settings=settings) as first, Runtime([pay], settings=settings) as second:
        handle = await first.submit("pay")
        connection = first.store._writer.connection  # type: ignore[attr-defined]
        connection.execute("UPDATE owners SET pid = 4194305, started = '' WHERE id = (SELECT owner FROM calls)")
        assert (await second.recover()).asked == 1
        assert await second.deny(handle.id, by="me")
        return await events_of(second, handle.id)


@pytest.mark.parametrize("edge", sorted(set(CALL.pairs()) - {FROM_CACHE}), ids=lambda edge: f"{edge[0]}-{edge[1]}")
async def test_edge_is_reached(edge: Edge, tmp_path: Path) -> None:
    events = await SCENARIOS[edge](clock=StepClock(), tmp_path=tmp_path)
    taken = edges_of(events)
    assert edge in taken
    assert all(step in set(CALL.pairs()) for step in taken)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert [a for a, _ in taken[1:]] == [b for _, b in taken[:-1]], "each change starts where the last one ended"


def test_no_edge_is_claimed_that_is_not_in_the_table() -> None:
    assert set(SCENARIOS) == set(CALL.pairs()) - {FROM_CACHE}


async def test_a_waiting_call_without_approval(tmp_path: Path) -> None:
    """`pending` also covers the wait for an approval: its deadline and its end use the same edges."""
    clock = StepClock()
    async with memory_runtime([play], clock=clock, policy=Policy(ask=["play"], approval_timeout=60)) as rt:
        late, denied = [await rt.submit("play", {"script": ["return"]}) for _ in range(2)]
        assert (await rt.get(late.id)).waiting_for == "approval"
        assert await rt.deny(denied.id)
        await clock.run(60)
        assert edges_of(await events_of(rt, late.id)) == [(State.PENDING, State.TIMEOUT)]
        assert edges_of(await events_of(rt, denied.id)) == [(State.PENDING, State.FAILED)]
        assert (await rt.get(late.id)).metadata["phase"] == "approval"

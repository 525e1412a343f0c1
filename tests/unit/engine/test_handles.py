"""Handles: events are replayed and then live, in order and without a gap, also when another process claims the call
meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.engine.fakes import Lower, Recorder

from clicket import tool
from clicket.engine.handles import CallHandle, Handles
from clicket.engine.kept_outcomes import KeptOutcomes
from clicket.engine.stored_calls import POLL_FIRST, Closed, StoredCalls
from clicket.errors import NotFound
from clicket.journal import Fenced
from clicket.kernel import State
from clicket.model import Event


@tool
async def echo() -> str:
    return "echo"


class World(Lower):
    def __init__(self) -> None:
        super().__init__(echo)
        self.cancelled: list[tuple[Any, ...]] = []

        async def find_live(id: str, thread: str | None, caller: str | None) -> Any:
            return self.live.find(id, thread, caller)

        async def cancel(*given: Any) -> bool:
            self.cancelled.append(given)
            if given[-1] == "broken":
                raise NotFound("gone")
            return True

        decisions: Any = Recorder(find_live=find_live, cancel=cancel)
        self.stored_calls = StoredCalls(
            self.store, self.clock, is_closing=lambda: False, hears=lambda: False, spawn=asyncio.ensure_future
        )
        kept = KeptOutcomes(self.store, self.clock, retention=0.0)
        arguments: Any = Recorder()
        self.handles = Handles(self.journal, self.live, self.ending, self.stored_calls, decisions, arguments, kept)


class Reader:
    def __init__(self, handle: CallHandle, after: int = 0) -> None:
        self.seen: list[Event] = []
        self.task = asyncio.ensure_future(self._read(handle, after))

    async def _read(self, handle: CallHandle, after: int) -> None:
        async for event in handle.events(after):
            self.seen.append(event)

    @property
    def numbers(self) -> list[int]:
        return [event.seq for event in self.seen]


async def test_events_are_replayed_and_then_live() -> None:
    world = World()
    call = world.running("echo")
    whole, rest = Reader(world.handles.of(call)), Reader(world.handles.of(call), after=6)
    await world.settle()
    assert (whole.numbers, rest.numbers) == ([1, 2, 3, 4, 5, 6, 7], [7])
    world.journal.record(call.entry, "note", {"text": "live"})
    world.journal.commit(call.entry)
    await world.settle()
    assert (whole.numbers[-1], whole.task.done()) == (8, False)
    world.finish(call)
    await world.settle()
    assert whole.task.done()
    assert whole.seen == world.store.events_of(call)
    assert rest.seen == whole.seen[6:]
    assert [event async for event in world.handles.of(call).events(after=100)] == []


async def test_nothing_is_shown_before_it_is_durable() -> None:
    world = World()
    call = world.running("echo")
    reader = Reader(world.handles.of(call))
    world.store.holding = True
    world.journal.record(call.entry, "note", {"text": "held"})
    world.journal.commit(call.entry)
    await world.settle()
    assert reader.numbers == [1, 2, 3, 4, 5, 6, 7]
    world.store.let_through()
    await world.settle()
    assert reader.numbers[-1] == 8
    world.finish(call)
    await world.settle()


async def test_a_reader_goes_on_in_the_store_when_another_process_takes_the_call() -> None:
    world = World()
    call = world.running("echo")
    handle = world.handles.of(call)
    reader, result = Reader(handle), asyncio.ensure_future(handle.result())
    await world.settle()
    stored = world.store.steal(call)
    world.ending.let_go(call, Fenced("in other hands"))
    await world.settle()
    there = world.made("echo")
    world.pipeline.find(there)
    world.journal.adopt(stored, there.entry, attempts=1, started_at=None, state=State.RUNNING)
    world.finish(there, "from there")
    await world.clock.run(1.0)
    await reader.task
    assert reader.seen == world.store.events_of(call)
    assert reader.numbers == list(range(1, len(reader.seen) + 1)), "no gap, and no event twice"
    assert (await result).output == "from there"
    assert not isinstance(handle.call, type(call)), "from now on the handle reads the store"


async def test_a_runtime_that_closes_ends_its_subscriptions() -> None:
    world = World()
    call = world.running("echo")
    reader = Reader(world.handles.of(call))
    await world.settle()
    world.ending.dismiss(call, Closed("the runtime was closed"))
    with pytest.raises(Closed):
        await reader.task


async def test_a_handle_is_found_live_or_in_the_store() -> None:
    world = World()
    call = world.running("echo", caller="ann")
    live = await world.handles.find("a", None, None)
    assert (live.call, live.thread, live.caller) == (call, "t", "ann")
    world.finish(call, "done")
    stored = await world.handles.find("a", "t", "ann")
    assert (stored.id, stored.thread, stored.caller) == ("a", "t", "ann")
    assert (await stored.result()).output == "done"
    assert [event.seq async for event in stored.events(after=9)] == [10, 11]
    with pytest.raises(NotFound):
        await world.handles.find("none", None, None)


async def test_a_cancel_names_the_whole_call_and_a_caller_that_left_need_not_hear_of_it() -> None:
    world = World()
    handle = world.handles.of(world.running("echo", caller="ann"))
    assert await handle.cancel("enough")
    assert world.cancelled == [("a", "t", "ann", "enough")]
    with pytest.raises(NotFound):
        await handle.cancel("broken")
    await handle.leave("broken")
    assert repr(handle) == "<call a>"


async def test_a_call_that_was_given_away_is_not_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that wrote it has its events: it reads only what another process wrote later."""
    world = World()
    call = world.pending("echo")
    world.journal.give_up_ownership(call.entry)
    world.journal.commit(call.entry)
    given = len(world.store.events_of(call))
    world.stored_calls.given_away(call.entry.key)
    world.ending.let_go(call, Fenced("given away"))
    reads: list[int] = []
    events = world.store.events

    async def counted(key: int, id: str, after: int) -> list[Event]:
        reads.append(after)
        return await events(key, id, after)

    async def load(*_: Any) -> Any:
        raise AssertionError("it was loaded")

    monkeypatch.setattr(world.store, "events", counted)
    monkeypatch.setattr(world.store, "load", load)
    waiting = asyncio.ensure_future(world.handles.of(call).result())
    await world.settle()
    assert reads == []
    await world.clock.run(POLL_FIRST)
    assert reads == [given - 1]
    waiting.cancel()
    await world.settle()

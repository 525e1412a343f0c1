"""Handles: events are replayed and then live, in order and without a gap, also when another process claims the call
meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.engine.fakes import Lower, Recorder

from clicket import tool
from clicket.engine.actions.cancels import Cancels
from clicket.engine.actions.handles import CallHandle, Handles
from clicket.engine.journal import Fenced
from clicket.engine.records.stored_calls import POLL_FIRST, Closed
from clicket.errors import NotFound, StoreUnavailable
from clicket.kernel import State
from clicket.model import Event


@tool
async def echo() -> str:
    return "echo"


class Parts(Lower):
    def __init__(self) -> None:
        super().__init__(echo)
        self.cancelled: list[tuple[Any, ...]] = []

        async def find_live(id: str, thread: str | None, caller: str | None) -> Any:
            return self.live.find(id, thread, caller)

        async def cancel(*given: Any) -> bool:
            self.cancelled.append(given)
            if given[-1] == "broken":
                raise NotFound("gone")
            if given[-1] == "cut off" and len(self.cancelled) < 3:
                raise StoreUnavailable("away")
            return True

        cancels: Any = Recorder(Cancels, find_live=find_live, cancel=cancel)
        self.stored_calls = self.core.stored_calls
        self.handles = Handles(self.core, self.ending, cancels)


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
    parts = Parts()
    call = parts.running("echo")
    whole, rest = Reader(parts.handles.of(call)), Reader(parts.handles.of(call), after=6)
    await parts.settle()
    assert (whole.numbers, rest.numbers) == ([1, 2, 3, 4, 5, 6, 7], [7])
    parts.journal.record(call.entry, "note", {"text": "live"})
    parts.journal.commit(call.entry)
    await parts.settle()
    assert (whole.numbers[-1], whole.task.done()) == (8, False)
    parts.finish(call)
    await parts.settle()
    assert whole.task.done()
    assert whole.seen == parts.store.events_of(call)
    assert rest.seen == whole.seen[6:]
    assert [event async for event in parts.handles.of(call).events(after=100)] == []


async def test_nothing_is_shown_before_it_is_durable() -> None:
    parts = Parts()
    call = parts.running("echo")
    reader = Reader(parts.handles.of(call))
    parts.store.holding = True
    parts.journal.record(call.entry, "note", {"text": "held"})
    parts.journal.commit(call.entry)
    await parts.settle()
    assert reader.numbers == [1, 2, 3, 4, 5, 6, 7]
    parts.store.let_through()
    await parts.settle()
    assert reader.numbers[-1] == 8
    parts.finish(call)
    await parts.settle()


async def test_a_reader_goes_on_in_the_store_when_another_process_takes_the_call() -> None:
    parts = Parts()
    call = parts.running("echo")
    handle = parts.handles.of(call)
    reader, result = Reader(handle), asyncio.ensure_future(handle.result())
    await parts.settle()
    stored = parts.store.steal(call)
    parts.ending.let_go(call, Fenced("in other hands"))
    await parts.settle()
    there = parts.made("echo")
    parts.pipeline.find(there)
    parts.journal.adopt(stored, there.entry, attempts=1, started_at=None, state=State.RUNNING)
    parts.finish(there, "from there")
    await parts.clock.run(1.0)
    await reader.task
    assert reader.seen == parts.store.events_of(call)
    assert reader.numbers == list(range(1, len(reader.seen) + 1)), "no gap, and no event twice"
    assert (await result).output == "from there"
    assert not isinstance(handle.call, type(call)), "from now on the handle reads the store"


async def test_a_runtime_that_closes_ends_its_subscriptions() -> None:
    parts = Parts()
    call = parts.running("echo")
    reader = Reader(parts.handles.of(call))
    await parts.settle()
    parts.ending.dismiss(call, Closed("the runtime was closed"))
    with pytest.raises(Closed):
        await reader.task


async def test_a_handle_is_found_live_or_in_the_store() -> None:
    parts = Parts()
    call = parts.running("echo", caller="ann")
    live = await parts.handles.find("a", None, None)
    assert (live.call, live.thread, live.caller) == (call, "t", "ann")
    parts.finish(call, "done")
    stored = await parts.handles.find("a", "t", "ann")
    assert (stored.id, stored.thread, stored.caller) == ("a", "t", "ann")
    assert (await stored.result()).output == "done"
    assert [event.seq async for event in stored.events(after=9)] == [10, 11]
    with pytest.raises(NotFound):
        await parts.handles.find("none", None, None)


async def test_a_cancel_names_the_whole_call_and_a_caller_that_left_need_not_hear_of_it() -> None:
    parts = Parts()
    handle = parts.handles.of(parts.running("echo", caller="ann"))
    assert await handle.cancel("enough")
    assert parts.cancelled == [("a", "t", "ann", "enough")]
    with pytest.raises(NotFound):
        await handle.cancel("broken")
    handle.leave("broken")
    await parts.settle()
    assert parts.cancelled[-1] == ("a", "t", "ann", "broken")
    assert repr(handle) == "<call a>"


async def test_a_call_that_was_given_away_is_not_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that wrote it has its events: it reads only what another process wrote later."""
    parts = Parts()
    call = parts.pending("echo")
    parts.journal.give_up_ownership(call.entry)
    parts.journal.commit(call.entry)
    given = len(parts.store.events_of(call))
    parts.stored_calls.given_away(call.entry.key)
    parts.ending.let_go(call, Fenced("given away"))
    reads: list[int] = []
    events = parts.store.events

    async def counted(key: int, id: str, after: int) -> list[Event]:
        reads.append(after)
        return await events(key, id, after)

    async def load(*_: Any) -> Any:
        raise AssertionError("it was loaded")

    monkeypatch.setattr(parts.store, "events", counted)
    monkeypatch.setattr(parts.store, "load", load)
    waiting = asyncio.ensure_future(parts.handles.of(call).result())
    await parts.settle()
    assert reads == []
    await parts.clock.run(POLL_FIRST)
    assert reads == [given - 1]
    waiting.cancel()
    await parts.settle()


async def test_a_call_whose_caller_has_gone_is_cancelled_once_the_store_answers() -> None:
    parts = Parts()
    call = parts.running("echo")
    parts.handles.of(call).leave("cut off")
    await parts.clock.run(1.0)
    assert len(parts.cancelled) == 2
    await parts.clock.run(5.0)
    assert len(parts.cancelled) == 3
    parts.finish(call)
    await parts.settle()

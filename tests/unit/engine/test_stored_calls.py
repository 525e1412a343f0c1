"""Calls in the store: found by name or not at all, followed to their end, read with their whole output."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from tests.unit.engine.fakes import Lower

from clicket import tool
from clicket.engine.records.stored_calls import POLL_FIRST, POLL_MOST, Closed, StoredCalls
from clicket.errors import NotFound, StoreUnavailable, UsageError
from clicket.kernel import State
from clicket.model import Event
from clicket.ports import NoBus, OutcomeStats


@tool
async def echo() -> str:
    return "echo"


def parts(*, closing: bool = False, hears: bool = False) -> tuple[Lower, StoredCalls]:
    low = Lower(echo)
    low.phase.closing = closing
    bus = NoBus()
    bus.trouble = None if hears else "it hears none"  # type: ignore[assignment]
    return low, StoredCalls(low.store, low.clock, low.phase, bus, spawn=asyncio.ensure_future)


async def test_one_call_is_found_by_as_much_as_names_it() -> None:
    low, stored = parts()
    one = low.pending("echo", id="a", thread="t1")
    assert (await stored.find("a", None, None)).key == one.entry.key
    two = low.pending("echo", id="a", thread="t2", caller="ann")
    assert (await stored.find("a", "t2", None)).key == two.entry.key
    assert (await stored.find("a", None, "")).key == one.entry.key
    with pytest.raises(UsageError, match=r"'t1', 't2'.*callers '', 'ann'"):
        await stored.find("a", None, None)
    with pytest.raises(NotFound, match="'t3'"):
        await stored.find("a", "t3", None)


async def test_a_call_that_cannot_be_read_says_so() -> None:
    low, stored = parts()
    call = low.pending("echo")
    damaged = low.store.of(call)
    damaged.damaged = "not events as clicket writes them"

    async def load(*given: Any) -> list[Any]:
        return [damaged]

    low.store.load = load  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable, match="not events as clicket writes them"):
        await stored.find("a", None, None)


class Follower:
    def __init__(self, stored: StoredCalls, key: int, after: int = 0) -> None:
        self.seen: list[Event] = []
        self.task = asyncio.ensure_future(self._follow(stored, key, after))

    async def _follow(self, stored: StoredCalls, key: int, after: int) -> None:
        async for event in stored.follow(key, "a", after):
            self.seen.append(event)


async def test_events_arrive_in_order_from_a_number_up_to_the_last() -> None:
    low, stored = parts()
    call = low.running("echo")
    all_of_it, rest = Follower(stored, call.entry.key), Follower(stored, call.entry.key, after=5)
    await low.settle()
    assert [event.seq for event in rest.seen] == [6, 7]
    low.finish(call)
    await low.clock.run(1.0)
    assert all_of_it.task.done()
    assert all_of_it.seen == low.store.events_of(call)
    assert rest.seen == low.store.events_of(call)[5:]
    assert stored.followers == {}, "a closed reader gets no more events"


async def test_news_are_looked_at_without_a_timer_and_without_news_now_and_then() -> None:
    low, stored = parts()
    call = low.running("echo")
    follower = Follower(stored, call.entry.key)
    await low.settle()
    before = len(follower.seen)
    for hinted in (call.entry.key, None):
        low.journal.record(call.entry, "note", {"text": "x"})
        low.journal.commit(call.entry)
        stored.on_news(hinted)
        stored.on_news(12345)
        await low.settle()
        before += 1
        assert len(follower.seen) == before
    low.journal.record(call.entry, "note", {"text": "no hint"})
    low.journal.commit(call.entry)
    await low.settle()
    assert len(follower.seen) == before
    await low.clock.run(POLL_FIRST)
    assert len(follower.seen) == before + 1
    follower.task.cancel()
    await low.settle()
    await low.clock.run(POLL_MOST)
    assert (stored.followers, low.clock.pending) == ({}, []), "the timer is not set again"


async def test_while_messages_arrive_a_call_is_read_when_it_was_followed_for_a_while_and_then_regularly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    low, stored = parts(hears=True)
    first, second = low.running("echo", id="a"), low.running("echo", id="b")
    read: list[int] = []
    news = low.store.news

    async def counted(known: Any) -> Any:
        read.extend(known)
        return await news(known)

    monkeypatch.setattr(low.store, "news", counted)
    early = Follower(stored, first.entry.key)
    await low.clock.run(0.75 * POLL_MOST)
    late = asyncio.ensure_future(anext(aiter(stored.follow(second.entry.key, "b", second.entry.durable))))
    assert read == [], "a message will come"
    low.finish(first)  # and its message is lost
    await low.clock.run(0.25 * POLL_MOST)
    assert early.task.done()
    assert read == [first.entry.key], "the other one is followed for too short a time"
    await low.clock.run(1.75 * POLL_MOST)
    assert read == [first.entry.key, second.entry.key, second.entry.key]
    late.cancel()
    await low.settle()


async def test_a_late_result_does_not_keep_a_follower_of_an_ended_call() -> None:
    low, stored = parts()
    call = low.running("echo")
    low.finish(call)
    await low.signals.write(low.store.of(call), "late_result", {"output": 1})
    last = low.store.events_of(call)[-1].seq
    after_the_end = [event async for event in stored.follow(call.entry.key, "a", last)]
    assert after_the_end == []


async def test_a_call_that_is_swept_while_it_is_followed() -> None:
    low, stored = parts()
    call = low.running("echo")
    follower = Follower(stored, call.entry.key)
    await low.settle()
    low.store.remove(call)
    await low.clock.run(1.0)
    with pytest.raises(NotFound):
        await follower.task


class Reads:
    """Counts the reads of new events."""

    def __init__(self, low: Lower) -> None:
        self.count = 0
        self._news, low.store.news = low.store.news, self.news  # type: ignore[method-assign]

    async def news(self, known: Any) -> dict[int, list[Event]]:
        self.count += 1
        return await self._news(known)


async def test_a_call_that_was_given_away_is_read_at_once_if_a_message_of_it_came_before_its_follower() -> None:
    low, stored = parts()
    call = low.running("echo")
    given, key = low.store.of(call), call.entry.key
    reads = Reads(low)
    stored.given_away(key)
    early = asyncio.ensure_future(stored.result(given, "a"))
    await low.settle()
    assert reads.count == 0, "a message would have brought any news"
    low.finish(call)
    stored.on_events(key, "a", low.store.events_of(call)[given.events[-1].seq :])
    await low.settle()
    assert (early.done(), reads.count) == (True, 0), "the message contained the outcome"
    late = asyncio.ensure_future(stored.result(given, "a"))
    await low.settle()  # the clock stands still
    assert (late.done(), reads.count) == (True, 1)
    assert (await late).output == (await early).output == "done"


@pytest.mark.parametrize("also", ["nothing", "a hint", "a hint of anything"])
async def test_a_message_that_comes_before_the_answer_of_the_commit_is_not_lost(also: str) -> None:
    low, stored = parts()
    call = low.running("echo")
    given, key = low.store.of(call), call.entry.key
    reads = Reads(low)
    low.finish(call)
    start, *outcome = low.store.events_of(call)[given.events[-1].seq :]
    stored.on_events(key, "a", [start])
    stored.on_events(key, "a", outcome)
    if also != "nothing":
        stored.on_news(key if also == "a hint" else None)
    stored.given_away(key)
    result = asyncio.ensure_future(stored.result(given, "a"))
    await low.settle()  # the clock stands still
    assert (result.done(), reads.count) == (True, 0 if also == "nothing" else 1)
    assert (await result).output == "done"


@pytest.mark.parametrize("source", ["hint", "any hint", "a read", "taken back", "found only"])
async def test_a_call_of_which_something_may_have_been_missed_is_read_at_once(source: str) -> None:
    low, stored = parts()
    call = low.running("echo")
    given, key = low.store.of(call), call.entry.key
    if source != "found only":
        stored.given_away(key)
    low.finish(call)
    if source == "a read":
        assert [event async for event in stored.follow(key, "a", 0)]
    elif source == "taken back":
        stored.taken_back(key)
    elif source != "found only":
        stored.on_news(None if source == "any hint" else key)
    reads = Reads(low)
    result = asyncio.ensure_future(stored.result(given, "a"))
    await low.settle()
    assert (result.done(), reads.count) == (True, 1)
    await low.clock.run(POLL_MOST)
    assert (stored.followers, low.clock.pending) == ({}, [])


async def test_followers_learn_that_the_runtime_closed_also_if_their_read_was_cancelled_before_it_began() -> None:
    low = Lower(echo)
    spawned: list[asyncio.Task[None]] = []

    def spawn(work: Coroutine[Any, Any, None]) -> None:
        spawned.append(asyncio.get_running_loop().create_task(work))

    low.phase.closing = True
    stored = StoredCalls(low.store, low.clock, low.phase, NoBus(), spawn=spawn)
    call = low.running("echo")
    followers = [Follower(stored, call.entry.key), Follower(stored, call.entry.key)]
    await low.settle()
    stored.on_news(None)
    spawned[-1].cancel()
    await low.settle()
    stored.close()
    for follower in followers:
        with pytest.raises(Closed):
            await follower.task
    await low.clock.run(POLL_MOST)
    assert (stored.followers, low.clock.pending) == ({}, [])
    with pytest.raises(Closed):
        await Follower(stored, call.entry.key).task


@pytest.mark.parametrize(("closing", "error"), [(True, Closed), (False, StoreUnavailable)])
async def test_a_store_that_is_gone_says_whether_the_runtime_closed(closing: bool, error: type[Exception]) -> None:
    low, stored = parts(closing=closing)
    call = low.running("echo")

    async def events(*given: Any) -> list[Event]:
        raise StoreUnavailable("away")

    low.store.events = events  # type: ignore[method-assign]
    waiting = asyncio.ensure_future(stored.result(low.store.of(call), "a"))
    await low.clock.run(POLL_FIRST)
    with pytest.raises(error):
        await waiting


async def test_an_output_that_was_cut_is_read_back_from_its_artifact() -> None:
    low, stored = parts()
    for id, kind, data, output in (
        ("a", "json", b'{"n":[1,2]}', {"n": [1, 2]}),
        ("b", "text", b"whole text", "whole text"),
    ):
        call = low.running("echo", id=id)
        await low.store.put_artifact(f"sha256-{id}", [data])
        outcome = {
            "duration": 1.0,
            "content": "cut",
            "truncated": True,
            "artifact": f"sha256-{id}",
            "metadata": {"artifact_type": kind},
        }
        stats = OutcomeStats("echo", "completed", "", 0, 1.0, "completed", low.clock.now())
        low.journal.end(call.entry, State.COMPLETED, outcome, low.clock.now(), {}, 0, stats, None)
        low.journal.commit(call.entry)
        assert (await stored.result(low.store.of(call), id)).output == output

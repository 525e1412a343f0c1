"""Events of a turn: each exactly once, in order, live or later, in this or another process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from tests.kit.tools import echo
from tests.kit.waiting import eventually
from tests.scenarios.agent_kit import Gate, Says, Streams, asks, assert_events_in_order, check_pairs, durable
from tests.scenarios.kit import make

from clicket import ToolContext, tool
from clicket.agents import AgentEvent, AgentState, ReActAgent
from clicket.agents.threads import Threads
from clicket.errors import UsageError
from clicket.model.chat import ChatReply, ChatRequest
from clicket.model.ids import alias_of
from clicket.testing import ScriptedModel


@tool
async def count(ctx: ToolContext, to: int = 3) -> str:
    for step in range(1, to + 1):
        ctx.progress(step, to, f"at {step}")
        await asyncio.sleep(0)
    return "counted"


async def listed(events: AsyncIterator[AgentEvent]) -> list[AgentEvent]:
    return [event async for event in events]


async def test_a_stream_yields_all_events_in_order_and_the_final_one_last(store: str) -> None:
    async with make([echo, count], store) as rt:
        model = ScriptedModel([[("count", {"to": 3}), ("echo", {"text": "x"})], "the final answer"])
        agent = ReActAgent(rt, model)
        events = await listed(agent.stream("go", thread="t"))
        assert_events_in_order(events)
        kinds = [event.type for event in events]
        assert kinds[:2] == ["state", "message"]
        assert kinds[-2:] == ["state", "final"]
        assert (
            "".join(e.data["text"] for e in events if e.type == "delta" and e.data["kind"] == "text")
            == "the final answer"
        )
        progress = [event for event in events if event.type == "tool_progress"]
        assert [event.data["step"] for event in progress if event.data["kind"] == "progress"][-1] == 3
        assert {alias_of(event.data["call_id"]) for event in progress} == {"react.1.1.1"}
        final = events[-1].data
        assert (final["text"], final["stopped"], final["steps"], final["calls"]) == (
            "the final answer",
            "finished",
            2,
            2,
        )
        assert {event.turn for event in events} == {1}
        # A reader of the final event may start the next turn at once.
        assert (await agent.look("t")).state is AgentState.FINISHED


async def test_after_the_last_event_the_next_turn_may_begin(store: str) -> None:
    async with make([echo], store) as rt:
        agent = ReActAgent(rt, Says(lambda _: "ok"))
        for turn in range(1, 6):
            async with aclosing(agent.stream("go", thread="t")) as events:  # type: ignore[type-var]
                async for event in events:
                    if event.type == "final":
                        assert (await agent.look("t")).turns == turn
                        assert agent.state("t") is AgentState.FINISHED
                        break


async def test_a_stream_that_fails_ends_with_an_error_and_raises_nothing(store: str) -> None:
    async with make([echo], store) as rt:
        agent = ReActAgent(rt, ScriptedModel([[("echo", {})], ValueError("broken"), "fine"]))
        events = await listed(agent.stream("go", thread="t"))
        assert_events_in_order(events)
        assert (events[-1].type, events[-1].data["message"]) == ("error", "ValueError: broken")
        assert agent.state("t") is AgentState.ERROR
        again = await listed(agent.stream("again", thread="t"))
        assert [(e.data["from"], e.data["to"]) for e in again if e.type == "state"] == [
            ("error", "idle"),
            ("idle", "running"),
            ("running", "finished"),
        ]
        assert_events_in_order(again)


@pytest.mark.parametrize("stopped", ["max_steps", "repeated", "budget"])
async def test_a_stream_that_stops_at_a_limit_ends_with_final(store: str, stopped: str) -> None:
    async with make([echo], store) as rt:
        limits: dict[str, Any] = {
            "max_steps": {"max_steps": 2},
            "repeated": {"max_repeats": 1},
            "budget": {"max_calls": 1},
        }
        agent = ReActAgent(rt, Says(lambda _: asks(("echo", "{}"))), **limits[stopped])
        events = await listed(agent.stream("go"))
        assert_events_in_order(events)
        assert (events[-1].data["stopped"], events[-1].data["state"]) == (stopped, "idle")


async def test_leaving_the_stream_leaves_the_turn_running(store: str) -> None:
    gate = Gate()

    async def wait(_: ChatRequest) -> str:
        await gate()
        return "done"

    async with make([echo], store) as rt:
        agent = ReActAgent(rt, Says(wait))
        async with aclosing(agent.stream("go", thread="t")) as events:  # type: ignore[type-var]
            async for _ in events:
                await gate.reached.wait()
                break
        assert agent.state("t") is AgentState.RUNNING
        gate.open()
        result = await agent.wait("t")
        assert result is not None
        assert result.text == "done"
        assert await agent.wait("t") is None
        assert rt.observers.listeners == []


async def test_recorded_events_equal_live_events(store: str) -> None:
    async with make([echo, count], store) as rt:
        agent = ReActAgent(rt, ScriptedModel([[("count", {}), ("echo", {})], [("nobody", {})], "done", "next"]))
        live = durable(await listed(agent.stream("go", thread="t")))
        assert await listed(agent.events("t")) == live
        for place, event in enumerate(live):
            assert await listed(agent.events("t", after=event.id)) == live[place + 1 :]
        more = durable(await listed(agent.stream("more", thread="t")))
        assert await listed(agent.events("t")) == more
        assert await listed(agent.events("t", after="1-0.0")) == live + more
        assert await listed(agent.events("nobody")) == []
        for wrong in ("x", "1", "1-2", "1-2.x", "-1-2.3", "1-2.3.x", "1-2.3.4.5"):
            with pytest.raises(UsageError, match="not an id of an event"):
                await listed(agent.events("t", after=wrong))


async def test_a_second_reader_that_comes_late_misses_nothing(store: str) -> None:
    gate, slow = Gate(), Gate()

    @tool
    async def hold() -> str:
        await slow()
        return "held"

    async def answer(request: ChatRequest) -> ChatReply:
        if len(request.messages) == 1:
            return asks(("hold", "{}"))
        await gate()
        return ChatReply(text="one two three")

    async with make([hold], store) as rt:
        agent = ReActAgent(rt, Streams(answer))
        first = asyncio.create_task(listed(agent.stream("go", thread="t")))
        await slow.reached.wait()
        second = asyncio.create_task(listed(agent.events("t")))
        slow.open()
        await gate.reached.wait()
        third = asyncio.create_task(listed(agent.events("t")))
        feeds = rt.host.installed("agent:react").streams.feeds
        await eventually(lambda: len(feeds["", "t"].readers) == 3)
        gate.open()
        seen = [await first, await second, await third]
        for events in seen:
            assert_events_in_order(events)
            assert durable(events) == durable(seen[0])
        assert [event.data["text"] for event in seen[2] if event.type == "delta"] == ["one", "two", "three"]


async def test_readers_that_come_at_any_moment_miss_nothing(store: str) -> None:
    """Also while an entry is being written to the store."""
    async with make([echo], store) as rt:
        seen: list[asyncio.Task[list[AgentEvent]]] = []
        agent = ReActAgent(rt, ScriptedModel([]))

        async def answer(request: ChatRequest) -> ChatReply:
            for _ in range(3):
                seen.append(asyncio.create_task(listed(agent.events("t"))))
                await asyncio.sleep(0)
            seen.append(asyncio.create_task(listed(agent.events("t"))))
            steps = sum(message.role == "assistant" for message in request.messages)
            return asks(("echo", f'{{"text": "{steps}"}}')) if steps < 5 else ChatReply(text="done")

        await ReActAgent(rt, Says(answer)).run("go", thread="t")
        everything = await listed(agent.events("t"))
        assert len(everything) > 15
        for task in seen:
            assert durable(await task) == everything


async def test_a_reader_in_another_process_gets_the_same_events(sqlite: str) -> None:
    gate = Gate()

    async def answer(request: ChatRequest) -> ChatReply:
        if len(request.messages) == 1:
            return asks(("echo", '{"text": "x"}'))
        await gate()
        return ChatReply(text="done")

    async with make([echo], sqlite) as here, make([echo], sqlite) as there:
        mine, theirs = ReActAgent(here, Says(answer)), ReActAgent(there, ScriptedModel([]))
        run = asyncio.create_task(mine.run("go", thread="t"))
        await gate.reached.wait()
        reading = asyncio.create_task(listed(theirs.events("t")))
        assert (await theirs.look("t")).state is AgentState.RUNNING
        gate.open()
        await run
        events = await reading
        assert events == await listed(mine.events("t"))
        assert_events_in_order(events)
        waited = await theirs.wait("t", turn=1)
        assert waited is not None
        assert waited.text == "done"


async def test_a_turn_that_ends_elsewhere_while_its_events_are_read_loses_none(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the reading of its events and the look whether it is over."""
    gate = Gate()

    async def answer(request: ChatRequest) -> ChatReply:
        await gate()
        return ChatReply(text="done")

    async with make([echo], sqlite) as here, make([echo], sqlite) as there:
        mine, theirs = ReActAgent(here, Says(answer)), ReActAgent(there, ScriptedModel([]))
        run = asyncio.create_task(mine.run("go", thread="t"))
        await gate.reached.wait()
        is_over = Threads.is_over

        async def ends_meanwhile(threads: Threads, *given: Any) -> bool:
            gate.open()
            await run
            return await is_over(threads, *given)

        monkeypatch.setattr(Threads, "is_over", ends_meanwhile)
        events = await listed(theirs.events("t"))
        assert events[-1].type == "final"
        assert events == await listed(mine.events("t"))


async def test_following_continues_with_later_turns(store: str) -> None:
    async with make([echo], store) as rt:
        agent = ReActAgent(rt, ScriptedModel(["one", [("echo", {})], "two", "three"]))
        await agent.run("a", thread="t")
        seen: list[AgentEvent] = []
        third = asyncio.Event()

        async def follow() -> None:
            async for event in agent.events("t", after="1-0.0", follow=True):
                seen.append(event)
                if event.turn == 3 and event.type == "final":
                    third.set()

        following = asyncio.create_task(follow())
        await eventually(lambda: seen)
        await agent.run("b", thread="t")
        await agent.run("c", thread="t")
        await third.wait()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        assert [event.data["text"] for event in seen if event.type == "final"] == ["one", "two", "three"]
        ids = [event.id for event in durable(seen)]
        assert len(ids) == len(set(ids))
        assert durable(seen) == await listed(agent.events("t", after="1-0.0"))
        assert rt.observers.listeners == []


async def test_events_begin_with_the_turn_under_way(store: str) -> None:
    gate = Gate()

    async def answer(request: ChatRequest) -> str:
        if len(request.messages) == 1:
            return "first"
        await gate()
        return "second"

    async with make([echo], store) as rt:
        agent = ReActAgent(rt, Says(answer))
        await agent.run("a", thread="t")
        number = await agent.begin("b", thread="t")
        await gate.reached.wait()
        reading = asyncio.create_task(listed(agent.events("t")))
        await eventually(lambda: rt.host.installed("agent:react").streams.feeds)
        gate.open()
        assert {event.turn for event in await reading} == {number} == {2}


async def test_waiting_for_an_earlier_turn_gives_that_turn(store: str) -> None:
    async with make([echo], store) as rt:
        agent = ReActAgent(rt, ScriptedModel([[("echo", {})], "one", "two", "three"]))
        results = [await agent.run(text, thread="t") for text in ("a", "b", "c")]
        for result in results:
            waited = await agent.wait("t", turn=result.turn)
            assert waited == result
            assert waited is not None
            check_pairs(waited.messages)
            assert waited.new_messages[0].content == "abc"[result.turn - 1]


async def test_a_feed_whose_entry_was_never_written_is_not_stuck() -> None:
    from clicket.agents.event_feed import EventFeed, FeedReader

    def event(number: int) -> AgentEvent:
        return AgentEvent(type="message", thread="t", turn=1, at=0.0, id=f"1-{number}.1")

    feed, reader = EventFeed(), FeedReader()
    feed.readers.append(reader)
    held, lost = feed.hold([event(1)]), feed.hold([event(2)])
    feed.publish(event(3))
    feed.release(lost, False)
    assert reader.take() == []
    feed.release(held)
    assert [each.id for each in reader.take()] == ["1-1.1", "1-3.1"]
    feed.publish(event(4))
    assert [each.id for each in reader.take()] == ["1-4.1"]


async def test_a_turn_that_is_resumed_voids_the_pieces_of_its_unfinished_step(sqlite: str) -> None:
    gate = Gate()

    async def stuck(request: ChatRequest) -> Any:
        if len(request.messages) > 1:
            await gate()
        return asks(("echo", '{"text": "x"}'))

    async with make([echo], sqlite, close_timeout=0.0) as rt:
        await ReActAgent(rt, Streams(stuck)).begin("go", thread="t")
        await gate.reached.wait()
    async with make([echo], sqlite) as rt:
        agent = ReActAgent(rt, Streams(lambda _: "the right words"))
        seen = await listed(agent.stream("go", thread="t"))
        assert_events_in_order(seen)
        (at,) = [place for place, event in enumerate(seen) if event.type == "restart"]
        assert (seen[at].step, bool(seen[at].id)) == (2, True)
        assert [event.data["text"] for event in seen[at:] if event.type == "delta"] == ["the", "right", "words"]
        assert [event.step for event in seen[:at] if event.type == "delta"] == []
        again = await listed(agent.events("t"))
        assert [event.type for event in again].count("restart") == 1
        assert (await agent.run("more", thread="t")).turn == 2
        assert "restart" not in [event.type for event in await listed(agent.events("t", after=again[-1].id))]

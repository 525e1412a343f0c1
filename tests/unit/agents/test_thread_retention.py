"""Idle threads are removed; threads with a running turn are not."""

from __future__ import annotations

from functools import partial

from tests.kit.tools import forever

from clicket.agents import ReActAgent
from clicket.agents.memory import HEAD, TURN, key_of
from clicket.agents.thread_retention import ThreadSweep, kept_by_threads
from clicket.model.chat import ChatReply, ChatRequest, ToolUse
from clicket.ports import Keep, Query
from clicket.runtime.agent_host import has_turn
from clicket.testing import memory_runtime

DAY = 24 * 3600.0


class Model:
    name = "model"

    async def chat(self, request: ChatRequest) -> ChatReply:
        if request.messages[-1].content == "wait":
            return ChatReply(uses=(ToolUse(id="w", name="forever"),))
        return ChatReply(text="yes")


async def test_threads_go_when_their_time_is_over_and_running_ones_stay() -> None:
    async with memory_runtime([forever], memory_retention=1.0, retention=1.0) as rt:
        agent = ReActAgent(rt, Model())
        await agent.run("hello", thread="old")
        await agent.run("hello", thread="busy")
        await agent.begin("wait", thread="busy")
        await rt.engine.background._chores["threads"][1]()
        assert (await agent.look("old")).turns == 1
        later = rt.clock.now() + DAY
        assert await ThreadSweep().step(rt.store, later, partial(has_turn, rt.store, later)) == 0, "its turns are there"
        await rt.store.sweep(Keep(since=later + DAY), 100)
        assert await ThreadSweep().step(rt.store, later, partial(has_turn, rt.store, later)) == 1
        assert [document.key for document in await rt.store.documents(HEAD)] == ["/react/busy"]
        assert [document.key for document in await rt.store.documents(TURN)] == ["/react/busy/0000000001"]
        assert (await agent.look("busy")).state == "running"
        await agent.stop("busy")


async def test_a_turn_that_has_just_ended_keeps_its_calls_before_its_document_is_written() -> None:
    async with memory_runtime([forever]) as rt:
        await ReActAgent(rt, Model()).run("hello", thread="t")
        since, calls = rt.clock.now() - DAY, await rt.store.history(Query())
        key = key_of("", "t", "react")
        for kind in (HEAD, TURN):
            for document in await rt.store.documents(kind):
                await rt.store.delete_document(kind, document.key)
        assert await rt.store.document(HEAD, key) is None
        for before, kept in ((since, {calls[0].key}), (since + 2 * DAY, set())):
            found = await kept_by_threads(rt.store, before, lambda *_: None, partial(has_turn, rt.store, before), calls)
            assert found == kept


async def test_many_threads_are_looked_at_a_few_at_a_time() -> None:
    async def never(caller: str, agent: str, thread: str) -> bool:
        return False

    async with memory_runtime([]) as rt:
        agent, sweep = ReActAgent(rt, Model()), ThreadSweep()
        for number in range(250):
            await agent.run("hello", thread=f"t{number:03d}")
        later = rt.clock.now() + DAY
        await rt.store.sweep(Keep(since=later + DAY), 1_000)
        assert [await sweep.step(rt.store, later, never) for _ in range(3)] == [200, 50, 0]
        assert await rt.store.documents(TURN) == []

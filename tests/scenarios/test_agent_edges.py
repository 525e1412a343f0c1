"""Edge cases of agents: readers of missing turns, plans that end on the last step, names in use."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec
import pytest
from tests.kit.tools import echo
from tests.kit.waiting import eventually
from tests.scenarios.agent_kit import Says, check_pairs
from tests.scenarios.kit import make

from clicket import tool
from clicket.agents import AgentEvent, AgentState, PlanExecuteAgent, ReActAgent
from clicket.agents.threads import Threads
from clicket.errors import UsageError
from clicket.model.chat import ChatMessage, ChatRequest, Usage
from clicket.testing import ScriptedModel


@contextmanager
def looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The numbers of the turns whose records were read meanwhile. A reader that never stops is an error."""
    asked: list[int] = []
    record = Threads.record

    async def counted(self: Threads, thread: str, number: int) -> Any:
        asked.append(number)
        if len(asked) > 200:
            raise AssertionError("the store is asked again and again")
        return await record(self, thread, number)

    with monkeypatch.context() as patched:
        patched.setattr(Threads, "record", counted)
        yield asked


async def follow(agent: ReActAgent, seen: list[AgentEvent], after: str = "", slow: int = 0) -> None:
    async for event in agent.events("t", after=after, follow=True):
        seen.append(event)
        for _ in range(slow):
            await asyncio.sleep(0)


def heard(seen: list[list[AgentEvent]], turn: int) -> bool:
    return all(mine and (mine[-1].turn, mine[-1].type) == (turn, "final") for mine in seen)


async def test_waiting_for_the_next_turn_does_not_poll_more_than_needed(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make([echo], store) as rt:
        agent = ReActAgent(rt, ScriptedModel([[("echo", {"text": "x"})], "a long enough answer"] * 20))
        seen: list[list[AgentEvent]] = [[] for _ in range(4)]
        readers = [asyncio.ensure_future(follow(agent, mine, slow=place)) for place, mine in enumerate(seen)]
        for turn in range(1, 6):
            await agent.run("go", thread="t")
            await eventually(partial(heard, seen, turn))
            with looks(monkeypatch) as asked:
                for _ in range(300):
                    await asyncio.sleep(0)
            assert len(asked) < 30
        assert all([event.type for event in mine].count("final") == 5 for mine in seen)
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)


async def test_a_turn_whose_call_ended_without_a_document_has_ended_for_readers_too(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make([echo], store) as rt:
        agent = ReActAgent(rt, Says(lambda _: "ok"))
        await agent.run("go", thread="t")

        async def lost(*_: Any, **__: Any) -> Any:
            raise RuntimeError("lost")

        with monkeypatch.context() as patched:
            patched.setattr("clicket.agents.agent.TurnTool.run", lost)
            assert await agent.begin("go", thread="t") == 2
            await eventually(lambda: not rt.host.lives("turn-2", "agent:react/t"))
        seen: list[AgentEvent] = []
        with looks(monkeypatch) as asked:
            reader = asyncio.ensure_future(follow(agent, seen))
            for _ in range(300):
                await asyncio.sleep(0)
            assert len(asked) < 30
        view = await agent.look("t")
        assert (view.state, view.turns, "lost" in view.error) == (AgentState.ERROR, 2, True)
        assert (await agent.run("go", thread="t")).turn == 3
        await eventually(lambda: bool(seen) and seen[-1].type == "final")
        assert {event.turn for event in seen} == {3}
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)


async def test_looking_is_enough_to_see_that_a_turn_was_lost(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with make([echo], store) as rt:
        agent = ReActAgent(rt, Says(lambda _: "ok"))

        async def lost(*_: Any, **__: Any) -> Any:
            raise RuntimeError("lost")

        monkeypatch.setattr("clicket.agents.agent.TurnTool.run", lost)
        await agent.begin("go", thread="t")
        await eventually(lambda: not rt.host.lives("turn-1", "agent:react/t"))
        view = await agent.look("t")
        assert (view.state, view.turns) == (AgentState.ERROR, 1)
        assert agent.state("t") is AgentState.ERROR


async def test_a_reader_that_comes_back_from_another_store_hears_the_next_turn() -> None:
    async with make([echo], "memory://") as rt:
        agent = ReActAgent(rt, Says(lambda _: "ok"))
        seen: list[AgentEvent] = []
        reader = asyncio.ensure_future(follow(agent, seen, after="7-5.2"))
        for _ in range(10):
            await asyncio.sleep(0)
        await agent.run("go", thread="t")
        await eventually(lambda: bool(seen) and seen[-1].type == "final")
        assert {event.turn for event in seen} == {1}
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)


# Plans.


def planned(*steps: str) -> list[tuple[str, dict[str, Any]]]:
    return [("plan", {"command": "create", "title": "Work", "steps": list(steps)})]


async def test_a_plan_that_is_completed_on_the_last_step_is_finished(store: str) -> None:
    async with make([echo], store) as rt:
        agent = PlanExecuteAgent(rt, ScriptedModel([planned("one", "two"), "did one", "did two", "more"]), max_steps=3)
        r = await agent.run("go", thread="t")
        assert (r.state, r.stopped, r.steps) == (AgentState.FINISHED, "finished", 3)
        assert r.text == "did one\n\ndid two"
        assert r.plan is not None
        assert [step["status"] for step in r.plan["steps"]] == ["completed"] * 2
        check_pairs(r.messages)
        assert (await agent.run("go on", thread="t")).text == "more"


async def test_a_plan_that_is_not_completed_on_the_last_step_is_not_finished(store: str) -> None:
    async with make([echo], store) as rt:
        agent = PlanExecuteAgent(rt, ScriptedModel([planned("one", "two"), "did one", "never asked"]), max_steps=2)
        r = await agent.run("go", thread="t")
        assert (r.state, r.stopped, r.steps) == (AgentState.IDLE, "max_steps", 2)


async def test_a_plan_that_is_finished_without_an_answer_gives_the_notes_of_its_steps(store: str) -> None:
    async with make([echo], store) as rt:
        finish = [("plan", {"command": "finish"})]
        agent = PlanExecuteAgent(rt, ScriptedModel([planned("one"), "did one", finish]))
        r = await agent.run("go", thread="t")
        assert (r.stopped, r.text) == ("finished", "did one")


# Names.


async def test_read_result_is_ours_whatever_came_first() -> None:
    @tool
    async def read_result(artifact: str) -> str:
        return "not ours"

    @tool
    async def log() -> str:
        return "line\n" * 1_000

    async with make([log], "memory://") as rt:
        with pytest.raises(UsageError, match="'read_result' is a name of clicket's own"):
            rt.add(read_result)
        model = ScriptedModel([[("log", {})], [("read_result", {"artifact": "x"})], "done"])
        agent = ReActAgent(rt, model, max_observation=500, tools=["log"])
        with pytest.raises(UsageError, match="'read_result' is a name of clicket's own"):
            rt.add(read_result)
        r = await agent.run("go")
        assert r.messages[-2].content.startswith("invalid_input: (arguments): there is no artifact 'x'")
        assert [sorted(offer.name for offer in request.tools) for request in model.requests] == [
            ["log"], ["log", "read_result"], ["log", "read_result"]
        ]  # fmt: skip


async def test_tools_may_be_given_as_they_are() -> None:
    @tool
    async def other() -> str:
        return "other"

    async with make([echo, other], "memory://") as rt:
        model = ScriptedModel([[("other", {}), ("echo", {"text": "x"})], "done"])
        r = await ReActAgent(rt, model, tools=[echo]).run("go")
        assert [offer.name for offer in model.requests[0].tools] == ["echo"]
        assert [message.content for message in r.messages if message.role == "tool"][1] == "x"
        assert r.messages[2].failed
        wrong: Any
        for wrong in ("echo", echo, [len]):
            with pytest.raises(UsageError, match="tools"):
                ReActAgent(rt, ScriptedModel([]), tools=wrong)


# Messages.


async def test_a_script_that_ends_with_an_error_keeps_failing() -> None:
    async with make([], "memory://") as rt:
        model = ScriptedModel([ConnectionError("the model is down")])
        agent = ReActAgent(rt, model, model_retries=2, retry_delay=0.001)
        for _ in range(2):
            with pytest.raises(ConnectionError, match="the model is down"):
                await agent.run("go")
        assert len(model.requests) == 6


async def test_messages_as_json_have_the_usual_names() -> None:
    async with make([echo], "memory://") as rt:
        model = ScriptedModel([[("echo", {})], "done"])
        r = await ReActAgent(rt, model).run("go")
        said = msgspec.to_builtins(r.messages)
        [call] = said[1]["tool_calls"]
        assert (said[1]["content"], call["name"], call["arguments"]) == ("", "echo", "{}")
        assert (said[2]["role"], said[2]["tool_call_id"], said[2]["content"]) == ("tool", call["id"], "")
        assert msgspec.to_builtins(Usage()) == {"input_tokens": 0, "output_tokens": 0}
        assert msgspec.convert(said, list[ChatMessage]) == r.messages


# Memory.


async def test_the_cache_of_threads_is_bounded_by_number_and_size(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clicket.agents.memory._MAX_THREADS", 4)
    async with make([echo], store) as rt:
        agent = ReActAgent(rt, Says(lambda _: "ok"))
        await asyncio.gather(*(agent.run("go", thread=f"t{number}") for number in range(20)))
        memory = rt.host.installed("agent:react").memory
        assert len(memory.cached) == 4
        monkeypatch.setattr("clicket.agents.memory._MAX_KEPT", 1_000)
        for number in range(20):
            await agent.run("x" * 400, thread=f"t{number}")
        assert len(memory.cached) == 2
        assert [len(await agent.messages(f"t{number}")) for number in range(20)] == [4] * 20
        assert memory.size == sum(known.size for known in memory.cached.values()) < 1_000


# Agents that call each other.


@pytest.mark.parametrize("thread", ["t", "t" * 510])
async def test_agents_that_ask_each_other_in_a_circle_come_to_an_end(store: str, thread: str) -> None:
    async with make([echo], store) as rt:
        asked: list[str] = []

        def asks(other: str) -> Says:
            def answer(request: ChatRequest) -> Any:
                last = request.messages[-1]
                if last.role == "tool":
                    return last.content
                asked.append(other)
                return [(f"ask_{other}", '{"task": "and you?"}')]

            return Says(answer)

        ann = ReActAgent(rt, asks("bob"), name="ann")
        bob = PlanExecuteAgent(
            rt, ScriptedModel([planned("ask"), "asked"]), executor=asks("ann"), name="bob", max_steps=9
        )
        rt.add(ann.as_tool("ask_ann"))
        rt.add(bob.as_tool("ask_bob"))
        r = await ann.run("go", thread=thread)
        assert (r.stopped, r.text) == ("finished", "asked")
        assert asked == ["bob", "ann"]
        [refused] = (await rt.history(tool="ask_ann")).items
        assert refused.error is not None
        assert (refused.error.type, "'ann'" in refused.error.message) == ("ProgramFailed", True)

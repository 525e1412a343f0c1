"""A turn that a crash or a close interrupted: `run`, `stream`, `begin`, `resume` continue it with the same message, and let it end first
with another one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.kit.tools import echo
from tests.kit.waiting import eventually
from tests.scenarios.agent_kit import Gate, Joins, Says, asks
from tests.scenarios.kit import make

from clicket import Policy, Runtime, tool
from clicket.agents import AgentBusy, AgentEvent, ReActAgent
from clicket.model.chat import ChatReply, ChatRequest
from clicket.testing import ScriptedModel

FIRST, SECOND, OTHER = "What do tea and milk cost?", "And twice that?", "And three times?"


def texts(request: ChatRequest) -> list[str]:
    return [message.content for message in request.messages if message.role == "user"]


def answering(request: ChatRequest) -> str:
    return f"answer to {texts(request)[-1]}"


async def interrupted(store: str, **settings: Any) -> None:
    """Turn 1 has ended, turn 2 was handed back in the middle of its first request."""
    gate = Gate()

    async def answer(request: ChatRequest) -> str:
        if texts(request)[-1] == SECOND:
            await gate()
        return answering(request)

    rt = make([echo], store, close_timeout=0.0, **settings)
    async with rt:
        agent = ReActAgent(rt, Says(answer))
        await agent.run(FIRST, thread="t")
        assert await agent.begin(SECOND, thread="t") == 2
        await gate.reached.wait()


async def sent(agent: ReActAgent, way: str, message: str) -> tuple[int, str]:
    """The number and the text of the turn that a message began or continued."""
    if way == "run":
        result = await agent.run(message, thread="t")
        return result.turn, result.text
    if way == "begin":
        number = await agent.begin(message, thread="t")
        ended = await agent.wait("t", number)
        assert ended is not None
        return number, ended.text
    events = [event async for event in agent.stream(message, thread="t")]
    assert [event.type in ("final", "error") for event in events] == [False] * (len(events) - 1) + [True]
    return events[-1].turn, events[-1].data["text"]


async def turns(agent: ReActAgent) -> list[tuple[str, str]]:
    return [(turn.messages[0].content, turn.text) for turn in (await agent.history("t")).turns]


@pytest.mark.parametrize("way", ["run", "begin", "stream"])
@pytest.mark.parametrize("made", ["before", "after"])
@pytest.mark.parametrize("message", [SECOND, OTHER, FIRST])
async def test_a_second_turn_that_was_interrupted(sqlite: str, way: str, made: str, message: str) -> None:
    """`before`: the agent is made before the runtime opens, so that the recovery has claimed the turn before the message comes."""
    await interrupted(sqlite)
    rt = make([echo], sqlite)
    agent = ReActAgent(rt, Says(answering)) if made == "before" else None
    async with rt:
        agent = agent or ReActAgent(rt, Says(answering))
        number = 2 if message == SECOND else 3
        assert await sent(agent, way, message) == (number, f"answer to {message}")
        asked = [FIRST, SECOND] if message == SECOND else [FIRST, SECOND, message]
        assert await turns(agent) == [(each, f"answer to {each}") for each in asked]


@pytest.mark.parametrize("made", ["before", "after"])
async def test_resume_takes_up_a_turn_that_the_recovery_has_claimed(sqlite: str, made: str) -> None:
    await interrupted(sqlite)
    rt = make([echo], sqlite)
    agent = ReActAgent(rt, Says(answering)) if made == "before" else None
    async with rt:
        agent = agent or ReActAgent(rt, Says(answering))
        result = await agent.resume("t")
        assert result is not None
        assert (result.turn, result.text) == (2, f"answer to {SECOND}")
        assert await agent.resume("t") is None


@pytest.mark.parametrize("message", [SECOND, OTHER, None])
async def test_a_turn_that_is_claimed_and_has_not_run_yet(
    sqlite: str, message: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the claim on it counts as one that no caller waits for, not from the first line of its body."""
    await interrupted(sqlite)
    rt, gate, joins = make([echo], sqlite), Gate(), Joins(monkeypatch)
    agent = ReActAgent(rt, Says(answering))
    turn_tool: Any = rt.host.installed("agent:react")
    run = turn_tool.run

    async def later(*given: Any) -> Any:
        await gate()
        return await run(*given)

    turn_tool.run = later
    async with rt:
        await gate.reached.wait()
        sending = asyncio.create_task(agent.resume("t") if message is None else agent.run(message, thread="t"))
        await joins.next()
        gate.open()
        result = await sending
        assert result is not None
        assert (result.turn, result.text) == (
            (3, f"answer to {OTHER}") if message == OTHER else (2, f"answer to {SECOND}")
        )


@pytest.mark.parametrize("way", ["run", "begin", "stream"])
@pytest.mark.parametrize("message", [SECOND, OTHER, None])
async def test_another_process_has_taken_the_turn_up(
    sqlite: str, way: str, message: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turn goes on there, and no caller there waits for it: a message here continues it, or waits for its end."""
    await interrupted(sqlite)
    gate = Gate()

    async def slowly(request: ChatRequest) -> str:
        await gate()
        return answering(request)

    async with make([echo], sqlite) as rt, make([echo], sqlite) as here:
        there = ReActAgent(rt, Says(slowly))
        await rt.recover()
        await gate.reached.wait()
        agent = ReActAgent(here, Says(answering))
        with pytest.raises(AgentBusy, match="another process"):
            await agent.take_up("t")
        joins = Joins(monkeypatch)
        if message is None:
            resumed = asyncio.create_task(agent.resume("t"))
            await joins.next()
            gate.open()
            result = await resumed
            assert result is not None
            assert result.turn == 2
            return
        sending = asyncio.create_task(sent(agent, way, message))
        await joins.next()
        gate.open()
        assert await sending == (2 if message == SECOND else 3, f"answer to {message}")
        assert len(await turns(there)) == (2 if message == SECOND else 3)


async def test_a_caller_that_joined_and_was_cancelled_makes_room_for_the_next_one(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a request that is sent again after its client timed out."""
    await interrupted(sqlite)
    gate, joins = Gate(), Joins(monkeypatch)

    async def slowly(request: ChatRequest) -> str:
        await gate()
        return answering(request)

    async with make([echo], sqlite) as rt:
        agent = ReActAgent(rt, Says(slowly))
        first = asyncio.ensure_future(agent.run(SECOND, thread="t"))
        await joins.next()
        await gate.reached.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        second = asyncio.ensure_future(agent.run(SECOND, thread="t"))
        await joins.next()
        gate.open()
        assert (await second).turn == 2


async def test_a_second_caller_of_a_turn_that_was_taken_up_is_refused(sqlite: str) -> None:
    await interrupted(sqlite)
    gate = Gate()

    async def slowly(request: ChatRequest) -> str:
        await gate()
        return answering(request)

    async with make([echo], sqlite) as rt:
        agent = ReActAgent(rt, Says(slowly))
        first = asyncio.create_task(agent.run(SECOND, thread="t"))
        await gate.reached.wait()
        for message in (SECOND, OTHER):
            with pytest.raises(AgentBusy, match="one turn at a time"):
                await agent.run(message, thread="t")
        gate.open()
        assert (await first).turn == 2


@pytest.mark.parametrize("way", ["run", "begin", "stream"])
async def test_an_interrupted_turn_that_waits_for_a_person_says_so_at_once(
    sqlite: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    @tool
    async def pay(cents: int) -> str:
        return f"paid {cents}"

    def answer(request: ChatRequest) -> ChatReply | str:
        asks_for = texts(request)[-1] == SECOND and request.messages[-1].role == "user"
        return asks(("pay", '{"cents": 5}')) if asks_for else answering(request)

    def runtime() -> Runtime:
        return make([pay], sqlite, policy=Policy(ask=["pay"]), close_timeout=0.0)

    async with runtime() as rt:
        agent = ReActAgent(rt, Says(answer))
        await agent.begin(SECOND, thread="t")
        await eventually(lambda: _waiting(agent))
    async with runtime() as rt:
        agent = ReActAgent(rt, Says(answer))
        with pytest.raises(AgentBusy, match=r"waits for an approval of 'pay' \(call .*react\.1\.1\.1.*\)"):
            await sent(agent, way, OTHER)
        (call,) = (await agent.look("t")).waiting_for
        joins = Joins(monkeypatch)
        same = asyncio.create_task(sent(agent, way, SECOND))
        await joins.next()
        await rt.approve(call, thread="t")
        assert await same == (1, f"answer to {SECOND}")
        assert await sent(agent, way, OTHER) == (2, f"answer to {OTHER}")


async def _waiting(agent: ReActAgent) -> list[str]:
    return (await agent.look("t")).waiting_for


async def test_the_readme_script_starts_again_after_a_crash_in_its_second_turn(sqlite: str) -> None:
    """Without ids its first message is another one: the interrupted turn ends first, and both messages are sent again."""
    await interrupted(sqlite)
    async with make([echo], sqlite) as rt:
        agent = ReActAgent(rt, ScriptedModel(["two", "three", "four"]))
        assert (await agent.run(FIRST, thread="t")).turn == 3
        assert [event async for event in agent.stream(SECOND, thread="t")][-1].turn == 4
        assert [text for _, text in await turns(agent)] == [f"answer to {FIRST}", "two", "three", "four"]


async def test_calls_that_the_interrupted_turn_does_not_wait_for_do_not_matter(sqlite: str) -> None:
    """A call of the same thread waits for a person: another message still lets the turn end first."""

    @tool
    async def pay(cents: int) -> str:
        return f"paid {cents}"

    await interrupted(sqlite)
    async with make([pay], sqlite, policy=Policy(ask=["pay"])) as rt:
        await rt.submit("pay", {"cents": 5}, thread="t")
        agent = ReActAgent(rt, Says(answering))
        assert await sent(agent, "run", OTHER) == (3, f"answer to {OTHER}")


@pytest.mark.parametrize("store", ["memory://", "sqlite"])
async def test_all_that_wait_for_a_turn_raise_closed_if_the_runtime_is_closed_meanwhile(
    store: str, sqlite: str
) -> None:
    gate, asked = Gate(), []

    async def answer(request: ChatRequest) -> str:
        asked.append(request)
        await gate()
        return "never"

    async def read(events: AsyncIterator[AgentEvent]) -> list[str]:
        return [event.type async for event in events]

    async with make([], sqlite if store == "sqlite" else store, close_timeout=0.0) as rt:
        agent = ReActAgent(rt, Says(answer))
        await agent.begin(FIRST, thread="t")
        await gate.reached.wait()
        waiting = [
            asyncio.ensure_future(each)
            for each in (
                read(agent.events("t")),
                read(agent.events("t", follow=True)),
                read(agent.events("nobody", follow=True)),
                agent.wait("t"),
                agent.run(FIRST, thread="other"),
            )
        ]
        streamed = asyncio.create_task(read(agent.stream(FIRST, thread="another")))
        await eventually(lambda: len(asked) == 3)
        await eventually(lambda: len(agent._streams.feeds) == 4)
    assert [type(each).__name__ for each in await asyncio.gather(*waiting, return_exceptions=True)] == ["Closed"] * 5
    assert (await streamed)[-1] == "error"


async def test_a_caller_that_joined_a_turn_and_is_cancelled_after_the_runtime_was_closed_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def forever(*given: Any) -> Any:
        await asyncio.Event().wait()

    async with make([]) as rt:
        agent = ReActAgent(rt, ScriptedModel(["hello"]))
        monkeypatch.setattr(agent._threads, "ended", forever)
        joined = asyncio.create_task(agent._threads.joined("t", 1))
        await asyncio.sleep(0)
    joined.cancel()
    with pytest.raises(asyncio.CancelledError):
        await joined

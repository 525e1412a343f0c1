"""`turn=` and `id=`: the same line sent again, at any time and from any process, is one turn, and gives its recorded result."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.kit.tools import echo
from tests.scenarios.agent_kit import Gate, Says, asks
from tests.scenarios.kit import make

from clicket import Runtime, tool
from clicket.agents import AgentBusy, ReActAgent
from clicket.agents.memory import ID
from clicket.errors import ClicketError, Conflict, UsageError
from clicket.model.chat import ChatRequest
from clicket.ports import Keep
from clicket.testing import ScriptedModel

WAYS = ["run", "begin", "stream"]


def answering(request: ChatRequest) -> str:
    return f"answer to {request.messages[-1].content}"


async def sent(agent: ReActAgent, way: str, message: str, **named: Any) -> tuple[int, str]:
    """The number and the text of the turn; its error is raised."""
    if way == "run":
        result = await agent.run(message, thread="t", **named)
        return result.turn, result.text
    if way == "begin":
        number = await agent.begin(message, thread="t", **named)
        ended = await agent.wait("t", number)
        assert ended is not None
        return number, ended.text
    events = [event async for event in agent.stream(message, thread="t", **named)]
    last = events[-1]
    assert [event.type in ("final", "error") for event in events] == [False] * (len(events) - 1) + [True]
    if last.type == "error":
        raise ClicketError(last.data["message"])
    return last.turn, last.data["text"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("named", [{"id": "order 7"}, {"turn": 1}, {"id": "order 7", "turn": 1}])
async def test_the_same_line_again_is_the_same_turn(store: str, way: str, named: dict[str, Any]) -> None:
    async with make([echo], store) as rt:
        model = Says(answering)
        agent = ReActAgent(rt, model)
        for _ in range(2):
            assert await sent(agent, way, "go", **named) == (1, "answer to go")
        await agent.run("something else", thread="t")
        assert await sent(agent, way, "go", **named) == (1, "answer to go")
        assert (await agent.look("t")).turns == 2
        assert model.asked == 2
        with pytest.raises(Conflict):
            await sent(agent, way, "another message", **named)
        assert (await agent.look("t")).turns == 2


@pytest.mark.parametrize("way", WAYS)
async def test_a_turn_that_failed_raises_its_error_again(store: str, way: str) -> None:
    async with make([echo], store) as rt:
        agent = ReActAgent(rt, ScriptedModel([ValueError("no such bill")]), model_retries=0)
        for _ in range(2):
            with pytest.raises(Exception, match="no such bill"):
                await sent(agent, way, "go", id="a")
        assert (await agent.look("t")).turns == 1


async def test_ids_belong_to_a_thread_and_a_number_must_fit(store: str) -> None:
    async with make([echo], store) as rt:
        agent = ReActAgent(rt, Says(answering))
        assert await sent(agent, "run", "go", id="a") == (1, "answer to go")
        assert (await agent.run("go", thread="u", id="a")).turn == 1
        assert await sent(agent, "run", "go", id="b") == (2, "answer to go")
        for turn in (1, 2, 4):
            with pytest.raises(Conflict):
                await sent(agent, "run", "and then?", turn=turn)
        with pytest.raises(Conflict, match="the id 'a' is that of turn 1 of thread 't', not of turn 2"):
            await sent(agent, "run", "go", id="a", turn=2)
        with pytest.raises(Conflict):
            await sent(agent, "run", "go", id="c", turn=2)
        assert await sent(agent, "run", "and then?", turn=3) == (3, "answer to and then?")
        for wrong in ({"turn": 0}, {"turn": True}, {"turn": "1"}, {"id": ""}, {"id": "a\x00"}, {"id": 7}):
            with pytest.raises(UsageError):
                await sent(agent, "run", "go", **wrong)


@pytest.mark.parametrize("way", WAYS)
async def test_a_turn_that_runs_is_followed_by_its_id_and_refuses_other_ids(sqlite: str, way: str) -> None:
    gate = Gate()

    async def slowly(request: ChatRequest) -> str:
        await gate()
        return answering(request)

    async with make([echo], sqlite) as rt, make([echo], sqlite) as other:
        here, there = ReActAgent(rt, Says(slowly)), ReActAgent(other, Says(answering))
        first = asyncio.create_task(here.run("go", thread="t", id="a"))
        await gate.reached.wait()
        again = [asyncio.create_task(sent(agent, way, "go", id="a")) for agent in (here, there)]
        for agent in (here, there):
            with pytest.raises(Conflict, match="another message"):
                await agent.run("not this", thread="t", id="a")
            with pytest.raises(Conflict, match="another message"):
                await agent.run("not this", thread="t", turn=1)
            with pytest.raises(AgentBusy):
                await agent.run("go", thread="t", id="b")
            with pytest.raises(AgentBusy):
                await agent.run("go", thread="t")
        gate.open()
        assert (await first).turn == 1
        assert await asyncio.gather(*again) == [(1, "answer to go")] * 2


async def test_many_processes_that_send_one_id_make_one_turn(sqlite: str) -> None:
    async with make([echo], sqlite) as rt, make([echo], sqlite) as other:
        agents = [ReActAgent(each, Says(answering)) for each in (rt, other)]
        lines = [sent(agents[number % 2], WAYS[number % 3], "go", id="a") for number in range(12)]
        assert await asyncio.gather(*lines) == [(1, "answer to go")] * 12
        assert (await agents[0].look("t")).turns == 1


@pytest.mark.parametrize("way", WAYS)
async def test_an_interrupted_turn_has_its_id(sqlite: str, way: str) -> None:
    gate = Gate()

    async def stuck(_: ChatRequest) -> str:
        await gate()
        return "never"

    async with make([echo], sqlite, close_timeout=0.0) as rt:
        await ReActAgent(rt, Says(stuck)).begin("go", thread="t", id="a")
        await gate.reached.wait()
    async with make([echo], sqlite) as rt:
        agent = ReActAgent(rt, Says(answering))
        with pytest.raises(Conflict):
            await sent(agent, way, "not this", id="a")
        # The same message with another id is another turn, which begins when the interrupted one has ended.
        assert await sent(agent, way, "go", id="b") == (2, "answer to go")
        assert await sent(agent, way, "go", id="a") == (1, "answer to go")


async def test_ids_outlive_the_calls_and_go_with_the_thread(sqlite: str) -> None:
    async with make([echo], sqlite) as rt:
        model = Says(answering)
        agent = ReActAgent(rt, model)
        for number in range(1, 4):
            await agent.run(f"message {number}", thread="t", id=f"id {number}")
        await rt.store.sweep(
            Keep(since=rt.clock.now() + 60), 1_000
        )  # the runtime's own sweep keeps them with their thread
        assert not (await rt.history(thread="agent:react/t")).items
        for way in WAYS:
            assert await sent(agent, way, "message 2", id="id 2") == (2, "answer to message 2")
        with pytest.raises(Conflict):
            await agent.run("another", thread="t", id="id 2")
        assert model.asked == 3
        assert len(await rt.store.documents(ID, after="", limit=10)) == 3
        await agent.forget("t")
        assert await rt.store.documents(ID, after="", limit=10) == []
        assert (await agent.run("another", thread="t", id="id 2")).turn == 4


async def test_an_id_is_looked_up_without_reading_the_turns(sqlite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with make([echo], sqlite) as rt:
        agent = ReActAgent(rt, Says(answering))
        for number in range(5):
            await agent.run(f"message {number}", thread="t", id=str(number))
        read: list[str] = []
        document = rt.store.document

        async def counted(kind: str, key: str) -> Any:
            read.append(kind)
            return await document(kind, key)

        monkeypatch.setattr(rt.store, "document", counted)
        assert await agent.begin("message 2", thread="t", id="2") == 3
        assert (read.count(ID), read.count("agent.turn")) == (1, 1)


async def test_a_message_with_a_masked_value_is_the_same_message(sqlite: str) -> None:
    @tool(sensitive=["pin"])
    async def unlock(pin: str) -> str:
        return "open"

    def answer(request: ChatRequest) -> Any:
        return asks(("unlock", '{"pin": "4711-x"}')) if len(request.messages) == 1 else "done"

    async with make([unlock], sqlite) as rt:
        agent = ReActAgent(rt, Says(answer))
        for _ in range(2):
            assert (await agent.run("my pin is 4711-x, open it", thread="t", id="a")).turn == 1
        await rt.sweep(rt.retention(rt.clock.now() + 60))
        assert (await agent.run("my pin is 4711-x, open it", thread="t", id="a")).turn == 1
        with pytest.raises(Conflict):
            await agent.run("my pin is 4711-x, close it", thread="t", id="a")


# Killed between the last answer and the use of the result.


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("named", [{"id": "a"}, {"turn": 1}])
async def test_a_process_that_dies_before_the_call_of_a_saved_turn_ends(
    sqlite: str, way: str, named: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turn's document is in the store, and its call has an owner that is alive as far as the store knows: no wait for its lease."""
    saved = Gate()

    async with make([echo], sqlite) as rt, make([echo], sqlite) as other:
        dying = ReActAgent(rt, Says(answering))
        save = dying._memory.save

        async def save_and_stop(*given: Any) -> Any:
            kept = await save(*given)
            await saved()
            return kept

        monkeypatch.setattr(dying._memory, "save", save_and_stop)
        first = asyncio.create_task(dying.run("go", thread="t", id="a"))
        await saved.reached.wait()
        model = Says(answering)
        assert await sent(ReActAgent(other, model), way, "go", **named) == (1, "answer to go")
        assert not model.asked
        saved.open()
        assert (await first).turn == 1


async def test_the_readme_script_with_ids(sqlite: str) -> None:
    """Started again after a crash in its second turn it returns the first result, and continues the second turn."""
    gate = Gate()

    def model(rt: Runtime, stops: bool) -> ReActAgent:
        async def answer(request: ChatRequest) -> str:
            if stops and request.messages[-1].content == "second":
                await gate()
            return answering(request)

        return ReActAgent(rt, Says(answer))

    async with make([echo], sqlite, close_timeout=0.0) as rt:
        agent = model(rt, stops=True)
        await agent.run("first", thread="t", id="first")
        await agent.begin("second", thread="t", id="second")
        await gate.reached.wait()
    for _ in range(2):
        async with make([echo], sqlite) as rt:
            agent = model(rt, stops=False)
            assert await sent(agent, "run", "first", id="first") == (1, "answer to first")
            assert await sent(agent, "stream", "second", id="second") == (2, "answer to second")
            assert (await agent.look("t")).turns == 2


@pytest.mark.parametrize("named", [{"id": "one"}, {"turn": 1}], ids=["id", "turn"])
async def test_a_message_that_holds_a_secret_is_the_same_message_without_a_key_to_seal_it(
    sqlite: str, named: dict[str, Any]
) -> None:
    message, gate = "use sk-proj-" + "A1b2C3d4E5f6G7h8" * 3, Gate()

    async def slowly(request: ChatRequest) -> str:
        await gate()
        return "done"

    async with make([echo], sqlite) as rt:
        agent = ReActAgent(rt, Says(slowly))
        assert await agent.begin(message, thread="t", **named) == 1
        await gate.reached.wait()
        assert await agent.begin(message, thread="t", **named) == 1
        gate.open()
        assert (await agent.run(message, thread="t", **named)).turn == 1
        assert (await agent.run(message, thread="t", **named)).turn == 1
        with pytest.raises(Conflict):
            await agent.run("another", thread="t", **named)

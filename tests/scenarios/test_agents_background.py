"""Background calls of agents: the conversation goes on, and each result enters a later step or turn, once, also after a crash."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from tests.kit.tools import echo
from tests.kit.waiting import eventually
from tests.scenarios.agent_kit import Gate, Says, asks, check_pairs
from tests.scenarios.kit import make

from clicket import Runtime, State, ToolContext, tool
from clicket.agents import ReActAgent
from clicket.model.chat import ChatMessage, ChatReply, ChatRequest


def news(request: ChatRequest) -> list[str]:
    return [m.content for m in request.messages if m.role == "user" and m.content.startswith("[The background call")]


def answers(request: ChatRequest) -> list[ChatMessage]:
    return [message for message in request.messages if message.role == "tool"]


def slow(gate: Gate, ran: list[str]) -> Any:
    @tool(background=True, timeout=None)
    async def report(topic: str) -> str:
        ran.append(topic)
        await gate()
        if topic == "bad":
            raise ValueError("no such topic")
        return f"the report on {topic}"

    return report


async def ended(rt: Runtime, tool: str) -> bool:
    return all(call.state.is_terminal for call in (await rt.history(tool=tool)).items)


async def test_the_conversation_goes_on_and_the_result_enters_a_later_step(store: str) -> None:
    gate, ran = Gate(), list[str]()

    async def answer(request: ChatRequest) -> ChatReply | str:
        if not answers(request):
            return asks(("report", '{"topic": "ferries"}'), ("echo", '{"text": "x"}'))
        if len(answers(request)) == 2:
            started = next(m for m in answers(request) if "background" in m.content)
            assert "Started in the background as call" in started.content
            assert not news(request)
            gate.open()
            await eventually(lambda: ended(rt, "report"))
            return asks(("echo", '{"text": "y"}'))
        assert "the report on ferries" in news(request)[0]
        return "done"

    async with make([slow(gate, ran), echo], store) as rt:
        model = Says(answer)
        result = await ReActAgent(rt, model).run("go", thread="t")
        assert (result.text, result.steps, ran) == ("done", 3, ["ferries"])
        check_pairs(result.messages)
        assert len(news(model.requests[-1])) == 1


async def test_the_result_enters_the_next_turn_once(store: str) -> None:
    gate, ran = Gate(), list[str]()
    seen: list[list[str]] = []

    def answer(request: ChatRequest) -> ChatReply | str:
        seen.append(news(request))
        return asks(("report", '{"topic": "bad"}')) if not answers(request) else "it runs"

    async with make([slow(gate, ran), echo], store) as rt:
        agent = ReActAgent(rt, Says(answer))
        assert (await agent.run("one", thread="t")).text == "it runs"
        assert (await agent.run("two", thread="t")).text == "it runs"
        assert seen == [[], [], []], "it still runs"
        gate.open()
        await eventually(lambda: ended(rt, "report"))
        await agent.run("three", thread="t")
        await agent.run("four", thread="t")
        assert ["no such topic" in text for text in seen[3]] == [True]
        assert seen[4] == seen[3], "it is in the transcript, and was not told twice"
        assert ran == ["bad"]
        check_pairs(await agent.messages("t"))


async def test_a_refused_call_is_reported_at_once(store: str) -> None:
    def answer(request: ChatRequest) -> ChatReply | str:
        return asks(("report", '{"wrong": 1}')) if not answers(request) else answers(request)[0].content

    async with make([slow(Gate(), []), echo], store) as rt:
        assert "invalid_input" in (await ReActAgent(rt, Says(answer)).run("go", thread="t")).text


async def test_after_a_restart_the_transcript_is_the_same(sqlite: str) -> None:
    """A turn is interrupted after a background result entered it: the next process continues with the same messages."""
    gate, hold, ran = Gate(), Gate(), list[str]()
    gate.open()

    async def answer(request: ChatRequest) -> ChatReply | str:
        if not answers(request):
            return asks(("report", '{"topic": "a"}'))
        if len(answers(request)) == 1:
            await eventually(lambda: ended(current[-1], "report"))
            return asks(("echo", '{"text": "x"}'))
        assert len(news(request)) == 1
        if len(current) == 1:
            await hold()
        return news(request)[0]

    current: list[Runtime] = []
    tools = [slow(gate, ran), echo]
    async with make(tools, sqlite, close_timeout=0.0) as rt:
        current.append(rt)
        run = asyncio.ensure_future(ReActAgent(rt, Says(answer)).run("go", thread="t"))
        await hold.reached.wait()
        await rt.close(patience=0)
        await asyncio.wait({run})
    async with make(tools, sqlite) as rt:
        current.append(rt)
        result = await ReActAgent(rt, Says(answer)).run("go", thread="t")
        assert "the report on a" in result.text
        assert ran == ["a"]
        check_pairs(result.messages)


async def test_with_a_result_from_outside(store: str) -> None:
    tokens: list[str] = []

    @tool(background=True, external=True, timeout=600.0)
    async def render(ctx: ToolContext) -> None:
        tokens.append(ctx.pending().token)

    def answer(request: ChatRequest) -> ChatReply | str:
        if not answers(request):
            return asks(("render", "{}"))
        return news(request)[-1] if news(request) else "it renders"

    async with make([render], store) as rt:
        agent = ReActAgent(rt, Says(answer))
        assert (await agent.run("render it", thread="t")).text == "it renders"
        (call,) = (await rt.history(tool="render")).items
        await eventually(lambda: bool(tokens))
        await rt.complete(tokens[0], "a film")
        await eventually(lambda: _is(rt, call.id, State.COMPLETED))
        assert "a film" in (await agent.run("is it there?", thread="t")).text


async def _is(rt: Runtime, id: str, state: State) -> bool:
    return await rt.state(id, thread="t") is state


async def test_a_result_that_comes_while_the_turn_waits_for_a_budget_is_read_by_the_next_request(store: str) -> None:
    gate, ran = Gate(), list[str]()

    def answer(request: ChatRequest) -> ChatReply | str:
        return asks(("report", '{"topic": "a"}')) if not answers(request) else "done"

    # The first request fits, the second one does not.
    given = {"scope": "all", "period": "month", "limit_tokens": 450, "on_reached": "ask"}
    async with make([slow(gate, ran), echo], store=store, budgets=[given]) as rt:
        model = Says(answer)
        run = asyncio.create_task(ReActAgent(rt, model, max_answer_tokens=50).run("go", thread="t"))
        asked = await eventually(lambda: _question(rt))
        assert (len(model.requests), ran) == (1, ["a"])
        gate.open()
        await eventually(lambda: ended(rt, "report"))
        more = {**asked.arguments, "add_tokens": 10_000}
        assert await rt.approve(asked.id, thread="t", by="ann", arguments=more)
        assert (await run).stopped == "finished"
        assert ["the report on a" in text for text in news(model.requests[-1])] == [True]


async def _question(rt: Runtime) -> Any:
    found = (await rt.history(tool="raise_budget", active=True)).items
    return found[0] if found and found[0].waiting_for == "approval" else None


async def test_the_model_lists_and_cancels_its_background_calls(store: str) -> None:
    gate, ran = Gate(), list[str]()
    calls: list[str] = []

    async def answer(request: ChatRequest) -> ChatReply | str:
        names = [offer.name for offer in request.tools]
        read = answers(request)
        if not read:
            assert names == ["report", "echo"], "nothing goes on yet"
            return asks(("report", '{"topic": "a"}'), ("report", '{"topic": "b"}'))
        if len(read) == 2:
            assert names == ["report", "echo", "background_calls", "cancel_background_call"]
            return asks(("background_calls", "{}"), ("cancel_background_call", '{"call": "turn-1"}'))
        if len(read) == 4:
            listed = msgspec.json.decode(read[2].content)
            assert [each["arguments"] for each in listed] == [{"topic": "a"}, {"topic": "b"}]
            assert read[3].failed, "its own turn is not one of them"
            calls.append(listed[0]["call"])
            return asks(("cancel_background_call", f'{{"call": "{calls[0]}"}}'))
        if not news(request):
            await eventually(lambda: has_ended(rt, calls[0]))
            return asks(("echo", '{"text": "x"}'))
        assert [text for text in news(request) if calls[0] in text and "failed" in text]
        return "done"

    async with make([slow(gate, ran), echo], store) as rt:
        result = await ReActAgent(rt, Says(answer)).run("go", thread="t")
        assert result.text == "done"
        assert (await rt.get(calls[0], thread="t")).state is State.CANCELLED
        open_calls = (await rt.history(tool="report", active=True)).items
        assert len(open_calls) == 1, "the other one goes on"
        gate.open()


async def test_an_agent_works_in_the_background_and_can_be_cancelled(store: str) -> None:
    gate = Gate()

    async def answer(request: ChatRequest) -> ChatReply | str:
        read = answers(request)
        if not read:
            return asks(("research", '{"task": "find it"}'))
        if len(read) == 1:
            await gate.reached.wait()
            return asks(("background_calls", "{}"))
        if len(read) == 2:
            (listed,) = msgspec.json.decode(read[1].content)
            assert listed["tool"] == "research"
            return asks(("cancel_background_call", msgspec.json.encode({"call": listed["call"]}).decode()))
        return "cancelled"

    async with make([echo], store) as rt:
        helper = ReActAgent(rt, Says(lambda _: gate()), name="helper")
        rt.add(helper.as_tool("research", "Finds things out.", background=True))
        agent = ReActAgent(rt, Says(answer), name="boss", tools=["research"])
        assert (await agent.run("go", thread="t")).text == "cancelled"
        await eventually(lambda: ended(rt, "research"))
        (call,) = (await rt.history(tool="research")).items
        assert call.state is State.CANCELLED
        (turn,) = (await rt.history(tool="agent:helper")).items
        assert turn.state is State.CANCELLED, "the agent was stopped with its call"


async def has_ended(rt: Runtime, id: str) -> bool:
    return (await rt.get(id, thread="t")).state.is_terminal

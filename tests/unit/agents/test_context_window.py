"""Requests are shortened to the context window: references for old results, a summary for old messages; calls keep their results."""

from __future__ import annotations

import asyncio
import re
from hashlib import sha256
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.scenarios.agent_kit import check_pairs

from clicket import tool
from clicket.agents import ReActAgent
from clicket.agents.context_window import ContextWindow, estimated
from clicket.agents.sensitive_values import SensitiveValues
from clicket.agents.turn_limits import Spent
from clicket.errors import UsageError
from clicket.model.chat import ChatMessage, ChatReply, ChatRequest, ToolUse, Usage
from clicket.testing import ScriptedModel, memory_runtime


class Unlimited:
    """Spending without budgets."""

    async def reserve(self, *request: Any) -> None:
        return None

    def note(self, *reply: Any) -> dict[str, Any]:
        return {"nano": None}

    async def settle(self, *reply: Any) -> None: ...


class Host:
    """The part of a host that a window uses."""

    caller = ""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.documents: dict[str, bytes] = {}
        self.records = self
        self.spending = Unlimited()

    async def keep(self, data: bytes) -> str:
        name = f"sha256-{sha256(data).hexdigest()}"
        self.kept[name] = data
        return name

    async def document(self, kind: str, key: str) -> Any:
        body = self.documents.get(key)
        return None if body is None else SimpleNamespace(body=body)

    async def put_document(self, kind: str, key: str, body: bytes, expect: int | None) -> bool:
        self.documents[key] = body
        return True

    def protect(self, kind: str, key: str, body: bytes) -> bytes:
        return body

    def reveal(self, kind: str, key: str, body: bytes) -> bytes:
        return body


def turn(host: Host) -> Any:
    spent = Spent()

    def record_summary(usage: Usage, spend: dict[str, Any]) -> None:
        spent.usage = spent.usage + usage

    return SimpleNamespace(
        host=host,
        thread="t",
        mark="react.1",
        spending=host.spending,
        spender=None,
        branch="",
        steps=0,
        spent=spent,
        lost=False,
        record_summary=record_summary,
        wait_for=lambda what, text: None,
        refers=False,
        messages=[None],
        begins=0,
        sensitive=SensitiveValues(lambda tool: frozenset()),
    )


class Summarises:
    name = "summarises"

    def __init__(self, answer: Any = "they spoke") -> None:
        self.answer = answer
        self.requests: list[ChatRequest] = []

    async def chat(self, request: ChatRequest) -> Any:
        self.requests.append(request)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return ChatReply(text=self.answer, usage=Usage(input_tokens=5)) if isinstance(self.answer, str) else self.answer


SIZES = st.sampled_from([0, 1, 10, 300, 1_500, 6_000])


@st.composite
def transcripts(draw: st.DrawFn) -> list[ChatMessage]:
    messages = [ChatMessage(role="system", content="Be brief.")] if draw(st.booleans()) else []
    for place in range(draw(st.integers(0, 6))):
        messages.append(ChatMessage(role="user", content="q" * max(draw(SIZES), 1)))
        for step in range(draw(st.integers(0, 3))):
            ids = [f"{place}.{step}.{n}" for n in range(draw(st.integers(1, 3)))]
            arguments = "a" * draw(SIZES)
            uses = tuple(ToolUse(id=id, name="x", arguments=arguments) for id in ids)
            messages.append(ChatMessage(role="assistant", content="t" * draw(SIZES), uses=uses))
            messages += [ChatMessage(role="tool", use_id=id, content="r" * draw(SIZES)) for id in ids]
        messages.append(ChatMessage(role="assistant", content="a" * draw(SIZES)))
    messages.append(ChatMessage(role="user", content="n" * max(draw(SIZES), 1)))
    return messages


@given(
    messages=transcripts(), most=st.sampled_from([100, 400, 1_000, 5_000]), keep=st.integers(0, 4), seen=st.booleans()
)
def test_whatever_was_said_pairs_stay_together_and_the_question_stays(
    messages: list[ChatMessage], most: int, keep: int, seen: bool
) -> None:
    window = ContextWindow(most, keep_steps=keep, max_reference=50, summarize=Summarises() if seen else None)
    host = Host()
    request = ChatRequest(messages=tuple(messages))
    fits = asyncio.run(window.before_model(turn(host), request)).messages
    check_pairs(fits)
    assert fits[-1] == messages[-1]
    if messages[0].role == "system":
        assert fits[0] == messages[0]
    sizes = [
        sum(estimated(m.content) + 4 + sum(estimated(u.arguments) + 9 for u in m.uses) for m in some)
        for some in (messages, fits)
    ]
    if sizes[0] <= most:
        assert fits == request.messages
    assert sizes[1] <= max(sizes[0], 40)
    # The whole result behind a reference can be read.
    whole = {message.use_id: message.content for message in messages if message.role == "tool"}
    for message in fits:
        if message.role == "tool" and (named := re.search(r"sha256-[0-9a-f]{64}", message.content)):
            assert host.kept[named[0]].decode() == whole[message.use_id]


async def test_a_request_that_fits_is_left_alone() -> None:
    request = ChatRequest(messages=(ChatMessage(role="user", content="hi"),))
    assert await ContextWindow(100).before_model(turn(Host()), request) is request


async def test_a_question_that_is_too_long_by_itself_is_still_sent() -> None:
    system, question = ChatMessage(role="system", content="Be brief."), ChatMessage(role="user", content="q" * 9_000)
    for messages in ((question,), (system, question), (*long_talk(), question)):
        fits = await ContextWindow(400, summarize=Summarises()).before_model(
            turn(Host()), ChatRequest(messages=messages)
        )
        assert fits.messages[-1] == question


def long_talk(turns: int = 12) -> tuple[ChatMessage, ...]:
    messages: list[ChatMessage] = []
    for n in range(turns):
        messages.append(ChatMessage(role="user", content=f"question {n} " + "q" * 200))
        messages.append(ChatMessage(role="assistant", content=f"answer {n} " + "a" * 200))
    return (*messages, ChatMessage(role="user", content="and now?"))


async def test_a_summary_is_written_once_and_gone_on_with() -> None:
    model, host = Summarises("they asked much"), Host()
    window = ContextWindow(600, summarize=model)
    now = turn(host)
    request = ChatRequest(messages=long_talk())
    fits = await window.before_model(now, request)
    assert any("they asked much" in message.content for message in fits.messages)
    assert len(model.requests) == 1
    assert now.spent.usage.input_tokens == 5  # the run pays for it
    assert await window.before_model(now, request) == fits
    assert len(model.requests) == 1
    # Another process finds it in the store.
    assert await ContextWindow(600, summarize=model).before_model(turn(host), request) == fits
    assert len(model.requests) == 1
    longer = ChatRequest(messages=long_talk(20))
    await window.before_model(turn(host), longer)
    assert "they asked much" in model.requests[-1].messages[0].content
    assert not any("question 0 " in message.content for message in model.requests[-1].messages)


async def test_a_summary_of_another_conversation_is_not_used() -> None:
    model, host = Summarises(), Host()
    window = ContextWindow(600, summarize=model)
    await window.before_model(turn(host), ChatRequest(messages=long_talk()))
    other = tuple(ChatMessage(role=m.role, content=f"other {m.content}") for m in long_talk())
    await window.before_model(turn(host), ChatRequest(messages=other))
    assert len(model.requests) == 2
    assert "other question 0" in model.requests[1].messages[0].content


@pytest.mark.parametrize("answer", [ValueError("down"), ConnectionError("gone"), None, 7, "", "  "])
async def test_a_summary_that_fails_leaves_an_agent_that_can_answer(answer: Any) -> None:
    fits = await ContextWindow(600, summarize=Summarises(answer)).before_model(
        turn(Host()), ChatRequest(messages=long_talk())
    )
    assert "left out" in fits.messages[0].content
    assert fits.messages[-1].content == "and now?"


async def test_a_damaged_summary_is_written_anew() -> None:
    model, host = Summarises(), Host()
    await ContextWindow(600, summarize=model).before_model(turn(host), ChatRequest(messages=long_talk()))
    (key,) = host.documents
    host.documents[key] = b"{"
    await ContextWindow(600, summarize=model).before_model(turn(host), ChatRequest(messages=long_talk()))
    assert len(model.requests) == 2


async def test_an_agent_reads_on_in_a_result_that_became_a_reference() -> None:
    @tool
    async def book(n: int) -> str:
        return f"begin {n} " + "x" * 6_000 + f" the end {n}"

    found: list[str] = []

    def read_on(request: ChatRequest) -> Any:
        named = [m.content for m in request.messages if m.role == "tool" and "read_result" in m.content]
        assert named
        assert "read_result" in {offer.name for offer in request.tools}
        artifact = re.findall(r"artifact (\S+?)\]", named[0])[0]
        found.append(artifact)
        return [("read_result", {"artifact": artifact, "start": 6_000, "length": 100})]

    async with memory_runtime([book]) as rt:
        script = [[("book", {"n": n})] for n in range(6)]
        model = ScriptedModel([*script, read_on, "done"])
        agent = ReActAgent(rt, model, window=ContextWindow(4_000, keep_steps=1))
        result = await agent.run("read", thread="t")
        assert result.stopped == "finished"
        assert "the end 0" in result.messages[-2].content
        check_pairs(result.messages)
        for request in model.requests:
            check_pairs(request.messages)
        # The thread's own memory keeps all messages.
        assert result.messages[2].content.startswith("begin 0 ")


def test_windows_that_make_no_sense_are_refused() -> None:
    for wrong in ({"max_tokens": 99}, {"max_tokens": 1_000, "keep_steps": -1}, {"max_tokens": True}):
        with pytest.raises(UsageError):
            ContextWindow(**wrong)  # type: ignore[arg-type]


async def test_what_the_turn_is_about_stays_however_long_it_takes() -> None:
    asked: list[ChatRequest] = []

    class Reader:
        name = "reader"

        async def chat(self, request: ChatRequest) -> ChatReply:
            asked.append(request)
            if len(asked) == 12:
                return ChatReply(text="done")
            return ChatReply(uses=(ToolUse(id=f"r{len(asked)}", name="page", arguments=f'{{"n": {len(asked)}}}'),))

    @tool
    async def page(n: int) -> str:
        return f"{n} " + "word " * 300

    async with memory_runtime([page]) as rt:
        agent = ReActAgent(rt, Reader(), window=ContextWindow(800, keep_steps=1))
        await agent.run("Which page names the ferry?")
    for request in asked:
        assert "Which page names the ferry?" in [message.content for message in request.messages]
        check_pairs(request.messages)


@pytest.mark.parametrize("words", [10, 60, 300], ids=["short results", "results", "long results"])
@pytest.mark.parametrize("summarises", [True, False])
async def test_requests_of_a_long_turn_begin_alike(words: int, summarises: bool) -> None:
    """So vendors can take them from their caches, and few summaries are paid for."""
    model, host = Summarises(), Host()
    talk = [ChatMessage(role="system", content="Be brief."), ChatMessage(role="user", content="go")]
    window = ContextWindow(2_000, summarize=model if summarises else None)
    before: tuple[ChatMessage, ...] = ()
    changed = shortened = 0
    for step in range(80):
        request = ChatRequest(messages=tuple(talk))
        made = (await window.before_model(turn(host), request)).messages
        # A process that takes the turn over asks the same.
        assert (
            await ContextWindow(2_000, summarize=model if summarises else None).before_model(turn(host), request)
        ).messages == made
        shortened += len(made) != len(talk) or made != tuple(talk)
        changed += made[: len(before)] != before
        before = made
        talk.append(ChatMessage(role="assistant", content="", uses=(ToolUse(id=f"u{step}", name="x", arguments="{}"),)))
        talk.append(ChatMessage(role="tool", use_id=f"u{step}", content="word " * words))
    assert shortened >= 10
    assert changed <= shortened // 2, (changed, shortened)
    assert len(model.requests) <= shortened // 5, "a summary serves many requests"

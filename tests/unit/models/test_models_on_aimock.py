"""Our models against aimock, a third-party server: replies are read completely, failures are reported, requests are
accepted."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.models_kit.aimock import Aimock, answer, calls, failure, serving
from tests.models_kit.transcripts import anthropic_model, openai_model, responses_model, taken_by_both
from tests.models_kit.vendor_rules import accepted

from clicket.errors import ClicketError, RetryableError
from clicket.model.chat import ChatMessage, ChatReply, ChatRequest, Delta, ToolOffer, ToolUse

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
TOOLS = (ToolOffer(name="math.add one", description="Adds.", input_schema=SCHEMA), ToolOffer(name="now"))
ASKED = ChatRequest(messages=(ChatMessage(role="user", content="What is 1 + 1?"),), tools=TOOLS)

MAKES: dict[str, Callable[[Aimock], Any]] = {
    "openai": openai_model,
    "anthropic": anthropic_model,
    "responses": responses_model,
}
Ask = Callable[[ChatRequest], Any]


@pytest.fixture(scope="module")
def server() -> Iterator[Aimock]:
    with serving() as made:
        yield made


class Asking:
    """Calls a model at once or in a stream, whose pieces must add up to the reply."""

    def __init__(self, model: Any, stream: bool) -> None:
        self.model = model
        self.stream = stream
        self.deltas: list[Delta] = []

    async def __call__(self, request: ChatRequest) -> ChatReply:
        if not self.stream:
            reply: ChatReply = await self.model.chat(request)
            return reply
        self.deltas = []
        reply = await self.model.stream(request, self.deltas.append)
        assert "".join(one.text for one in self.deltas if one.kind == "text") == reply.text
        assert "".join(one.text for one in self.deltas if one.kind == "thought") == reply.thought
        for number, use in enumerate(reply.uses):
            own = [one for one in self.deltas if one.use == number]
            assert "".join(one.text for one in own if one.kind == "name") == use.name
            assert "".join(one.text for one in own if one.kind == "arguments") == use.arguments
        return reply


@pytest.fixture(params=["openai", "anthropic", "responses", "openai-stream", "anthropic-stream", "responses-stream"])
async def ask(request: pytest.FixtureRequest, server: Aimock) -> AsyncIterator[Asking]:
    vendor, _, stream = request.param.partition("-")
    made = MAKES[vendor](server)
    yield Asking(made, bool(stream))
    await made.close()


def wire_name(server: Aimock, own: int) -> str:
    """The name that the vendor got for a tool."""
    tool = server.asked[-1].body["tools"][own]
    return str((tool.get("function") or tool)["name"])


def went_on(asked: ChatRequest, reply: ChatReply) -> tuple[ChatMessage, ...]:
    message = ChatMessage(role="assistant", content=reply.text, uses=reply.uses, vendor=reply.vendor)
    results = [
        ChatMessage(role="tool", use_id=use.id, content="2", failed=bool(at)) for at, use in enumerate(reply.uses)
    ]
    return (*asked.messages, message, *results)


async def test_a_text_and_its_cost(server: Aimock, ask: Asking) -> None:
    server.script(answer("It is 2, I think.", chunkSize=5, usage={"prompt_tokens": 11, "completion_tokens": 7}))
    reply = await ask(ASKED)
    assert (reply.text, reply.uses, reply.ended) == ("It is 2, I think.", (), "stop")
    assert reply.usage.output_tokens == 7
    accepted(server.asked[0].path, server.asked[0].body)


async def test_tool_calls_and_what_is_said_next(server: Aimock, ask: Asking) -> None:
    server.script(answer("first, to learn the names"))
    await ask(ASKED)
    name = wire_name(server, 0)
    server.script(calls((name, {"a": 1}, "c1"), ("now", {}, "c2"), text="Let me see.", chunkSize=3), answer("It is 2."))
    reply = await ask(ASKED)
    assert reply.text == "Let me see."
    assert [(use.id, use.name, json.loads(use.arguments)) for use in reply.uses] == [
        ("c1", "math.add one", {"a": 1}),
        ("c2", "now", {}),
    ]
    if ask.stream:
        assert len(ask.deltas) > 6
    then = await ask(ChatRequest(messages=went_on(ASKED, reply), tools=TOOLS))
    assert then.text == "It is 2."
    for one in server.asked:
        accepted(one.path, one.body)
    last = server.asked[-1].body
    assert name in json.dumps(last.get("messages") or last["input"])


@pytest.mark.parametrize(
    "wrong",
    [
        calls(("now", "{oops"), ("now", "null"), ("now", "[1]"), ("now", '"text"'), ("now", "")),
        calls(("", {}), ("no such tool", {}), ("x" * 300, {}), ("naïve", {})),
        calls(("now", {}, "same"), ("now", {}, "same")),
        calls(("now", {}, ""), ("now", {}, "a.b c"), ("now", {}, "ü" * 300)),
        calls(("now", '{"a": 1, "a": 2}'), ("now", '{"a": NaN}'), ("now", '{"a": "\\ud800"}'), ("now", "[" * 5_000)),
        calls(("now", json.dumps({"a": "x" * 200_000}))),
        calls(),
        answer(""),
        answer(" \n"),
        answer("lone \ud800 half"),
        calls(("now", {}), text=""),
    ],
    ids=lambda one: json.dumps(one)[:60],
)
async def test_odd_answers_are_read_and_can_be_gone_on_with(server: Aimock, ask: Asking, wrong: dict[str, Any]) -> None:
    server.script(wrong, answer("And so on."))
    try:
        reply = await ask(ASKED)
    except RetryableError:  # of an invalid answer, for example a stream without a block
        return
    assert len({use.id for use in reply.uses}) == len(reply.uses)
    reply.text.encode()
    again = ChatMessage(role="user", content="Go on.")
    then = await ask(ChatRequest(messages=(*went_on(ASKED, reply), again), tools=TOOLS))
    assert then.text == "And so on."
    for one in server.asked:
        accepted(one.path, one.body)


@pytest.mark.parametrize(
    ("failed", "wait"),
    [
        (failure(429, "slow down", retry_after=7), 7.0),
        (failure(503, "not now"), None),
        (failure(529, "overloaded"), None),
        (answer("never read", chaos={"disconnectRate": 1}), None),
        (answer("never read", chaos={"dropRate": 1}), None),
        (answer("never read", chaos={"rateLimitRate": 1}), 1.0),
    ],
    ids=["429", "503", "529", "disconnect", "drop", "rate limit"],
)
async def test_what_may_be_tried_again(server: Aimock, ask: Asking, failed: dict[str, Any], wait: float | None) -> None:
    server.script(failed, answer("Here I am."))
    with pytest.raises(RetryableError) as raised:
        await ask(ASKED)
    assert raised.value.retry_after == wait
    assert (await ask(ASKED)).text == "Here I am."


async def test_a_body_that_is_no_json(server: Aimock, ask: Asking) -> None:
    server.script(answer("never read", chaos={"malformedRate": 1}), answer("Here I am."))
    with pytest.raises(ClicketError):
        await ask(ASKED)
    assert (await ask(ASKED)).text == "Here I am."


@pytest.mark.parametrize("after", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    "cut", [answer("It is 2, I think.", chunkSize=2), calls(("now", {"a": 123456}), chunkSize=2)], ids=["text", "call"]
)
async def test_a_stream_that_is_cut_is_no_answer(server: Aimock, ask: Asking, cut: dict[str, Any], after: int) -> None:
    if not ask.stream:
        return
    server.script({**cut, "truncateAfterChunks": after}, answer("Here I am."))
    with pytest.raises(RetryableError):
        await ask(ASKED)
    assert server.journal[0]["response"]["interrupted"] is True
    assert (await ask(ASKED)).text == "Here I am."


@pytest.mark.parametrize("stream", [False, True])
async def test_thoughts_are_sent_back_to_their_vendor(server: Aimock, stream: bool) -> None:
    """Here the server checks, too: with `thinking` on it refuses a request that goes on after calls without a signed thought, such as those
    that another model asked for. So that request is sent without `thinking`."""
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    thought = calls(("now", {}, "c1"), reasoning="Hm, what time is it?", reasoningSignature="signed")
    server.script(thought, answer("Noon."), answer("Still noon."))
    model = anthropic_model(server, options=thinking)
    ask = Asking(model, stream)
    try:
        reply = await ask(ASKED)
        assert reply.thought == "Hm, what time is it?"
        assert (await ask(ChatRequest(messages=went_on(ASKED, reply), tools=TOOLS))).text == "Noon."
        bare = ChatReply(text=reply.text, uses=reply.uses)
        assert (await ask(ChatRequest(messages=went_on(ASKED, bare), tools=TOOLS))).text == "Still noon."
    finally:
        await model.close()
    assert ["thinking" in one.body for one in server.asked] == [True, True, False]
    for one in server.asked:
        accepted(one.path, one.body)


TEXTS = st.text(max_size=12) | st.sampled_from(["", " ", "\n", "\x00", "ok", "Error: no"])
IDS = st.sampled_from(["a", "b", "call_0", "", "x.y", "é", "long" * 100]) | st.text(max_size=5)
NAMES = st.sampled_from(["now", "math.add one", "", "gone", "a b", "a_b", "x" * 80]) | st.text(max_size=5)
ARGUMENTS = st.sampled_from(["{}", '{"a": 1}', "", "null", "[1]", "{oops", '"a"', "1e999", "[" * 900]) | st.text(
    max_size=8
)
USES = st.builds(ToolUse, id=IDS, name=NAMES, arguments=ARGUMENTS)


@st.composite
def conversations(draw: st.DrawFn) -> list[ChatMessage]:
    """As agents keep them: each call is answered right after it. Everything else is arbitrary."""
    made = [ChatMessage(role="system", content=draw(TEXTS))] if draw(st.booleans()) else []
    for _ in range(draw(st.integers(1, 4))):
        made.append(ChatMessage(role="user", content=draw(TEXTS)))
        for _ in range(draw(st.integers(0, 3))):
            uses = draw(st.lists(USES, max_size=3, unique_by=lambda use: use.id))
            made.append(ChatMessage(role="assistant", content=draw(TEXTS), uses=tuple(uses)))
            made += [
                ChatMessage(role="tool", use_id=use.id, content=draw(TEXTS), failed=draw(st.booleans()))
                for use in draw(st.permutations(uses))
            ]
    return made


@given(messages=conversations())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
async def test_any_conversation_is_taken_by_both(server: Aimock, messages: list[ChatMessage]) -> None:
    await taken_by_both(server, messages, TOOLS)

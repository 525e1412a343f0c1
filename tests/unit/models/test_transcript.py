"""Any conversation becomes a request that both vendors accept, by their own types and rules."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.adapters.provider import Chat, Messages, check_calls
from tests.adapters.provider import Responses as ResponsesServer
from tests.models_kit.vendor_rules import accepted
from tests.unit.models.kit import ADD, READ, assistant, result, user

from clicket.model.chat import ChatMessage, ChatRequest, ToolOffer, ToolUse
from clicket.models.anthropic import _Messages
from clicket.models.connection import Capabilities
from clicket.models.openai import _Chat
from clicket.models.responses import Responses
from clicket.models.transcript import AssistantStep, Names, as_object, as_object_text, in_steps

ANY = st.sampled_from(["", " ", "a", "\ud800 half a character"]) | st.text(st.characters(codec=None), max_size=8)
IDS = st.sampled_from(["c1", "c2", "", "a.b", "x" * 70]) | ANY
NAMES = st.sampled_from(["add", "files.read", "", "a b", "y" * 80]) | ANY
ARGUMENTS = st.sampled_from(["{}", '{"a": 1}', "", "null", "[]", "{", '{"a":1,"a":2}', "NaN", '"{}"', "[" * 500]) | ANY
USES = st.lists(st.builds(ToolUse, id=IDS, name=NAMES, arguments=ARGUMENTS), max_size=3).map(tuple)
KEPT = st.lists(
    st.sampled_from(
        [
            {"type": "thinking", "thinking": "Hm", "signature": "s"},
            {"type": "redacted_thinking", "data": "d"},
            {"type": "text", "length": 1},
            {"type": "tool_use"},
        ]
    ),
    max_size=4,
)
ITEMS = st.lists(
    st.sampled_from(
        [
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "g"},
            {"type": "reasoning", "id": "rs_2", "summary": []},
            {"type": "message", "id": "msg_1", "length": 1},
            {"type": "message", "length": 1, "phase": "commentary"},
            {"type": "function_call", "id": "fc_1"},
        ]
    ),
    max_size=4,
)
VENDOR = st.builds(lambda blocks, items: {"anthropic": blocks, "openai": items}, KEPT, ITEMS)
MESSAGES = st.one_of(
    st.builds(ChatMessage, role=st.just("user"), content=ANY),
    st.builds(ChatMessage, role=st.just("system"), content=ANY),
    st.builds(ChatMessage, role=st.just("assistant"), content=ANY, uses=USES, vendor=st.none() | VENDOR),
    st.builds(ChatMessage, role=st.just("tool"), content=ANY, use_id=IDS, failed=st.booleans()),
)


@st.composite
def conversations(draw: Any) -> list[ChatMessage]:
    """Mostly as an agent keeps them, with every call answered; sometimes with a message that does not belong there."""
    made: list[ChatMessage] = []
    for message in draw(st.lists(MESSAGES, max_size=6)):
        made.append(message)
        answered = [use for use in message.uses if draw(st.integers(0, 5))]
        made += [result(use.id, draw(ANY), failed=draw(st.booleans())) for use in answered]
    return made


@given(
    messages=conversations(),
    tools=st.sampled_from([(), (ADD,), (ADD, READ), (ToolOffer(name="y" * 80),)]),
    choice=st.sampled_from(["auto", "none", "required"]),
    form=st.none() | st.integers(0, 2),
)
def test_every_request_is_one_that_the_vendors_take(messages: Any, tools: Any, choice: Any, form: int | None) -> None:
    schema = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    request = ChatRequest(
        messages=(user("Begin."), *messages), tools=tools, tool_choice=choice, schema=None if form is None else schema
    )
    caps = Capabilities(form=form or 0)
    body = _Messages("m", None, {}).body(request, caps, Names(request))
    accepted("/v1/messages", body)
    Messages.check(body)
    json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    body = _Chat("m", None, {}).body(request, caps, Names(request))
    accepted("/v1/chat/completions", body)
    Chat.check(body)
    check_calls(call for message in body["messages"] for call in message.get("tool_calls") or ())
    json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    for store in (False, True):
        body = Responses("m", None, {"store": store}).body(request, caps, Names(request))
        accepted("/v1/responses", body)
        ResponsesServer.check(body)
        json.dumps(body, ensure_ascii=False, allow_nan=False).encode()


@given(arguments=ARGUMENTS)
def test_arguments_that_were_good_go_back_as_they_were(arguments: str) -> None:
    use = ToolUse(id="c", name="n", arguments=arguments)
    value = as_object(use)
    if "invalid_arguments" not in value and arguments.strip() not in ("", "null", '"{}"'):
        assert as_object_text(use) == arguments


def test_an_id_that_two_calls_have_is_answered_in_their_order() -> None:
    spoken = [
        assistant(("c", "add", "1"), ("c", "add", "2")),
        result("c", "one"),
        result("c", "two"),
        result("d", "what"),
    ]
    step, stray = in_steps(spoken, re.compile(r"\w+"))
    assert isinstance(step, AssistantStep)
    assert [one.content for one in step.results] == ["one", "two"]
    assert step.ids[0] == "c"
    assert step.ids[1] != "c"
    assert isinstance(stray, ChatMessage)
    assert "what" in stray.content


def test_a_lost_result_is_said_to_be_lost() -> None:
    (step,) = in_steps([assistant(("c", "add", "{}"))], re.compile(r"\w+"))
    assert isinstance(step, AssistantStep)
    assert step.results[0].failed


def test_the_same_conversation_has_the_same_ids() -> None:
    """A vendor's prompt cache matches only identical text."""
    spoken = [assistant(("a.b", "add", "{}")), result("a.b", "1")]
    fits = re.compile(r"\w+")
    first, again = in_steps(spoken, fits)[0], in_steps([*spoken, user("Go on."), *spoken], fits)
    assert isinstance(first, AssistantStep)
    assert isinstance(again[0], AssistantStep)
    assert isinstance(again[2], AssistantStep)
    assert first.ids == again[0].ids != again[2].ids

"""The validator of requests accepts what the vendors accept, and names each error in other requests."""

from __future__ import annotations

from typing import Any

import pytest
from tests.models_kit.vendor_rules import NotAccepted, accepted, accepted_by_anthropic, accepted_by_openai


def call(id: str, name: str = "add", arguments: str = "{}") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def use(id: str, name: str = "add", input: Any = None) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": {} if input is None else input}


def result(id: str, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": "1", **more}


ASKED = {"role": "user", "content": "What is 1 + 1?"}
BOTH = {"role": "assistant", "content": None, "tool_calls": [call("a"), call("b")]}
SAID_A = {"role": "tool", "tool_call_id": "a", "content": "1"}
SAID_B = {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "2"}]}
USED = {"role": "assistant", "content": [{"type": "text", "text": "So:"}, use("a"), use("b")]}
TOLD = {
    "role": "user",
    "content": [result("b"), result("a", is_error=True, content=[{"type": "text", "text": "no"}])],
}
DONE = {"role": "assistant", "content": "2"}


def test_what_the_vendors_take() -> None:
    openai = [{"role": "system", "content": "Be brief."}, ASKED, BOTH, SAID_B, SAID_A, DONE, ASKED]
    function = {"name": "add", "description": "Adds.", "parameters": {"type": "object", "properties": {}}}
    tools: list[Any] = [{"type": "function", "function": function}]
    accepted_by_openai(openai)
    accepted("/v1/chat/completions", {"model": "m", "messages": openai, "tools": tools, "max_tokens": 9})

    thought = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    anthropic = [ASKED, {**USED, "content": [thought, *USED["content"]]}, TOLD, DONE, ASKED]
    tools = [{"name": "add", "description": "Adds.", "input_schema": {"type": "object", "properties": {}}}]
    accepted_by_anthropic(anthropic)
    body = {"model": "m", "messages": anthropic, "tools": tools, "max_tokens": 9, "system": "Be brief."}
    accepted("/v1/messages?beta=true", {**body, "stream": True})


@pytest.mark.parametrize(
    ("messages", "wrong"),
    [
        ([], "none"),
        ([ASKED, BOTH, SAID_A], "no result: .'b'"),
        ([ASKED, BOTH, SAID_A, DONE, SAID_B], "no result before it: .'b'"),
        ([ASKED, BOTH, SAID_A, ASKED, SAID_B], "no result before it"),
        ([ASKED, BOTH, SAID_A, SAID_A], "answers no call"),
        ([ASKED, SAID_A], "answers no call"),
        ([ASKED, {**BOTH, "tool_calls": []}], "empty list"),
        ([ASKED, {"role": "assistant"}], "neither"),
        ([ASKED, {**BOTH, "tool_calls": [call("a"), call("a")]}, SAID_A, SAID_A], "one id"),
        ([ASKED, {**BOTH, "tool_calls": [call("a", "wx.now")]}, SAID_A], "wire"),
        ([ASKED, {**BOTH, "tool_calls": [call("a", arguments="{oops")]}, SAID_A], "no JSON"),
        ([ASKED, {**BOTH, "tool_calls": [{**call("a"), "id": 1}]}, SAID_A], "valid string"),
        ([ASKED, {**DONE, "reasoning": "Hm."}], "unknown fields: ..reasoning"),
        ([{"role": "user", "content": [{"type": "text", "text": 3}]}], "valid string"),
        ([{"role": "user", "content": [{"type": "text", "text": "", "more": 3}]}], r"content.0.: unknown fields"),
        ([{"role": "wizard", "content": ""}], "role"),
    ],
)
def test_what_openai_refuses(messages: list[Any], wrong: str) -> None:
    with pytest.raises(NotAccepted, match=wrong):
        accepted_by_openai(messages)


@pytest.mark.parametrize(
    ("messages", "wrong"),
    [
        ([], "first"),
        ([DONE], "first"),
        ([ASKED, USED], "no result: .'a', 'b'"),
        ([ASKED, USED, {"role": "user", "content": [result("a")]}], "calls before"),
        ([ASKED, USED, ASKED, TOLD], "calls before"),
        ([ASKED, USED, {"role": "user", "content": [*TOLD["content"], result("a")]}], "calls before"),
        ([ASKED, TOLD], "calls before"),
        ([ASKED, USED, {"role": "user", "content": [{"type": "text", "text": "Hm."}, *TOLD["content"]]}], "first"),
        ([ASKED, USED, TOLD, USED, TOLD], "another call has"),
        ([ASKED, {"role": "assistant", "content": [use("a", input=[1])]}], "dictionary|object"),
        ([ASKED, {"role": "assistant", "content": [use("a.b")]}], "other letters"),
        ([ASKED, {"role": "assistant", "content": [use("a", "wx now")]}], "wire"),
        ([ASKED, {"role": "assistant", "content": ""}, ASKED], "no content"),
        ([ASKED, {"role": "assistant", "content": [{"type": "text", "text": " "}]}, ASKED], "empty text"),
        ([ASKED, USED, {"role": "user", "content": [result("a", content=[{"type": "text", "text": 3}])]}], "string"),
        ([ASKED, {"role": "tool", "content": "1"}], "role"),
        ([{"role": "user", "content": [{"type": "text", "text": "a", "more": 3}]}], r"content.0.: unknown fields"),
    ],
)
def test_what_anthropic_refuses(messages: list[Any], wrong: str) -> None:
    with pytest.raises(NotAccepted, match=wrong):
        accepted_by_anthropic(messages)


@pytest.mark.parametrize("name", ["wx.now", "", "x" * 65])
def test_tools_that_no_vendor_takes(name: str) -> None:
    schema = {"type": "object", "properties": {}}
    tools: list[Any] = [{"type": "function", "function": {"name": name, "parameters": schema}}]
    with pytest.raises(NotAccepted, match="wire"):
        accepted("/v1/chat/completions", {"model": "m", "messages": [ASKED], "tools": tools})
    with pytest.raises(NotAccepted, match="wire"):
        tools = [{"name": name, "input_schema": schema}]
        accepted("/v1/messages", {"model": "m", "max_tokens": 1, "messages": [ASKED], "tools": tools})


def test_the_whole_request_is_read() -> None:
    with pytest.raises(NotAccepted, match="max_tokens"):
        accepted("/v1/messages", {"model": "m", "messages": [ASKED]})
    with pytest.raises(NotAccepted, match="system"):
        accepted("/v1/messages", {"model": "m", "max_tokens": 1, "messages": [ASKED], "system": ""})
    with pytest.raises(NotAccepted, match="tool_choice"):
        accepted("/v1/chat/completions", {"model": "m", "messages": [ASKED], "tool_choice": "sometimes"})

"""Checks whether the vendors accept a request, by the types of their SDKs and by rules that types cannot express.

Both vendors answer with 400 if a rule is broken: each tool call has one result, directly after it, and each result has a call; names
and ids use the allowed characters; texts that must not be empty are not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError
from tests.models_kit.prompt_cache import wrong_marks

__all__ = ["NotAccepted", "accepted", "accepted_by_anthropic", "accepted_by_openai", "accepted_by_responses"]

Message = Mapping[str, Any]
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ID = re.compile(r"[a-zA-Z0-9_-]+")  # Anthropic's


class NotAccepted(AssertionError):
    """The vendor would refuse the request. The message names the place and the error."""


def accepted(path: str, body: Mapping[str, Any]) -> None:
    """Check a request that was sent to this path."""
    if path.split("?", maxsplit=1)[0].endswith("/responses"):
        accepted_by_responses(body)
        return
    judges: dict[str, Callable[..., None]] = {"completions": accepted_by_openai, "messages": accepted_by_anthropic}
    judges[path.split("?", maxsplit=1)[0].rsplit("/", 1)[-1]](body["messages"], body=body)


def accepted_by_openai(messages: Sequence[Message], *, body: Mapping[str, Any] | None = None) -> None:
    """Chat completions. Raises `NotAccepted`."""
    from openai.types.chat import ChatCompletionMessageParam, completion_create_params

    if body is not None:
        stream = body.get("stream") is True
        whole = "CompletionCreateParamsStreaming" if stream else "CompletionCreateParamsNonStreaming"
        _request("openai", getattr(completion_create_params, whole), body, ChatCompletionMessageParam)
        _offered("openai", [one["function"] for one in body.get("tools", ())], "parameters")
    if body is None or body["messages"] is not messages:
        _each("openai", ChatCompletionMessageParam, messages)
    _need(bool(messages), "openai: messages", "there is none")
    waiting: list[str] = []
    for place, message in enumerate(messages):
        where = f"openai: messages[{place}]"
        if message["role"] == "tool":
            _need(message["tool_call_id"] in waiting, where, f"answers no call that waits: {message['tool_call_id']!r}")
            waiting.remove(message["tool_call_id"])
            continue
        _need(not waiting, where, f"these tool calls have no result before it: {waiting}")
        if message["role"] == "assistant":
            waiting = _openai_calls(message, where)
    _need(not waiting, "openai: messages", f"these tool calls have no result: {waiting}")


def _request(vendor: str, whole: Any, body: Mapping[str, Any], part: Any) -> None:
    """A request with its messages. If it is refused for one of them, the error names that one."""
    try:
        _typed(whole, body, f"{vendor}: request")
    except NotAccepted:
        _each(vendor, part, body.get("messages", ()))
        raise


def _each(vendor: str, part: Any, messages: Sequence[Message]) -> None:
    for place, message in enumerate(messages):
        _typed(part, message, f"{vendor}: messages[{place}]")


def _openai_calls(message: Message, where: str) -> list[str]:
    calls = message.get("tool_calls")
    _need(calls is None or bool(calls), where, "tool_calls is an empty list")
    _need(bool(calls) or message.get("content") is not None, where, "neither content nor tool_calls")
    ids = [one["id"] for one in calls or ()]
    _need(len(set(ids)) == len(ids), where, f"two tool calls have one id: {ids}")
    for one in calls or ():
        _need(bool(one["id"]), where, "a tool call has an empty id")
        _named(one["function"]["name"], where)
        _json(one["function"]["arguments"], where)
    return ids


def accepted_by_responses(body: Mapping[str, Any]) -> None:
    """OpenAI's Responses API. Raises `NotAccepted`."""
    from openai.types.responses import ResponseInputItemParam, response_create_params

    stream = body.get("stream") is True
    whole = "ResponseCreateParamsStreaming" if stream else "ResponseCreateParamsNonStreaming"
    items: Sequence[Message] = body["input"]
    for place, item in enumerate(items):
        _typed(ResponseInputItemParam, item, f"openai: input[{place}]")
    _typed(getattr(response_create_params, whole), {**body, "input": []}, "openai: request")
    _offered("openai", body.get("tools", ()), "parameters")
    _need(bool(items), "openai: input", "there is none")
    waiting: list[str] = []
    called: set[str] = set()
    for place, item in enumerate(items):
        where, kind = f"openai: input[{place}]", item.get("type")
        if kind == "function_call_output":
            _need(item["call_id"] in waiting, where, f"answers no call that waits: {item['call_id']!r}")
            waiting.remove(item["call_id"])
            continue
        if kind == "function_call":
            _named(item["name"], where)
            _json(item["arguments"], where)
            _need(1 <= len(item["call_id"]) <= 64, where, "an id of another length")
            _need(item["call_id"] not in called, where, f"an id that another call has: {item['call_id']!r}")
            waiting.append(item["call_id"])
            called.add(item["call_id"])
            continue
        if kind == "reasoning":
            after = items[place + 1].get("type") if place + 1 < len(items) else None
            _need(after in ("reasoning", "message", "function_call"), where, "reasoning without its following item")
            _need(body.get("store") is not False or bool(item.get("encrypted_content")), where, "is not stored")
            continue
        _need(kind == "message" or not waiting, where, f"these tool calls have no result before it: {waiting}")
    _need(not waiting, "openai: input", f"these tool calls have no result: {waiting}")


def accepted_by_anthropic(messages: Sequence[Message], *, body: Mapping[str, Any] | None = None) -> None:
    """Messages. Raises `NotAccepted`."""
    from anthropic.types import MessageParam, message_create_params

    if body is not None:
        stream = body.get("stream") is True
        whole = "MessageCreateParamsStreaming" if stream else "MessageCreateParamsNonStreaming"
        _request("anthropic", getattr(message_create_params, whole), body, MessageParam)
        _offered("anthropic", body.get("tools", ()), "input_schema")
        wrong = wrong_marks(body)
        _need(wrong is None, "anthropic: request", str(wrong))
        for text in _texts(body.get("system", "-")):
            _need(bool(text.strip()), "anthropic: system", "an empty text")
    if body is None or body["messages"] is not messages:
        _each("anthropic", MessageParam, messages)
    _need(bool(messages) and messages[0]["role"] == "user", "anthropic: messages", "the first must be the user's")
    seen: set[str] = set()
    waiting: list[str] = []
    for place, message in enumerate(messages):
        where = f"anthropic: messages[{place}]"
        blocks = message["content"] if isinstance(message["content"], list) else []
        _filled(message["content"], where)
        results = [one["tool_use_id"] for one in blocks if one["type"] == "tool_result"]
        _need(sorted(results) == sorted(waiting), where, f"results of {results}, but the calls before are {waiting}")
        kinds = [one["type"] for one in blocks]
        _need("tool_result" not in kinds[len(results) :], where, f"tool results must come first: {kinds}")
        _need(not results or message["role"] == "user", where, "a result that is not the user's")
        waiting = [one["id"] for one in blocks if one["type"] == "tool_use"]
        _need(not waiting or message["role"] == "assistant", where, "a call that is not the assistant's")
        for one in blocks:
            if one["type"] == "tool_use":
                _need(bool(_ID.fullmatch(one["id"])), where, f"an id of other letters: {one['id']!r}")
                _need(one["id"] not in seen, where, f"an id that another call has: {one['id']!r}")
                _need(isinstance(one["input"], dict), where, "an input that is not an object")
                _named(one["name"], where)
                seen.add(one["id"])
    _need(not waiting, "anthropic: messages", f"these tool calls have no result: {waiting}")


def _filled(content: Any, where: str) -> None:
    _need(bool(content), where, "no content")
    for text in _texts(content):
        _need(bool(text.strip()), where, "an empty text")


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
        return
    for block in content:
        if block["type"] == "text":
            yield block["text"]
        elif block["type"] == "tool_result" and isinstance(block.get("content"), list):
            yield from _texts(block["content"])


def _offered(vendor: str, tools: Sequence[Mapping[str, Any]], schema: str) -> None:
    names = [one["name"] for one in tools]
    _need(len(set(names)) == len(names), f"{vendor}: tools", f"two have one name: {names}")
    for one in tools:
        _named(one["name"], f"{vendor}: tools")
        top = one.get(schema, {"type": "object"})
        _need(top.get("type") == "object", f"{vendor}: tool {one['name']}", f"a schema of no object: {top}")


def _named(name: str, where: str) -> None:
    _need(bool(_NAME.fullmatch(name)), where, f"a name that the wire does not take: {name!r}")


def _json(text: str, where: str) -> None:
    try:
        json.loads(text)
    except ValueError:  # servers that render calls by a template parse it
        raise NotAccepted(f"{where}: arguments that are no JSON: {text[:200]!r}") from None


def _need(held: bool, where: str, wrong: str) -> None:
    if not held:
        raise NotAccepted(f"{where}: {wrong}")


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _typed(kind: Any, value: Any, where: str) -> None:
    """By the SDK's own type. A field that the type does not know is dropped in the round trip, and the vendor would
    refuse it."""
    try:
        read = _whole(_adapter(kind).validate_python(value, strict=True))
    except ValidationError as wrong:
        raise NotAccepted(f"{where}: {wrong}") from None
    _same(read, value, where)


def _whole(value: Any) -> Any:
    """`Iterable`s are validated lazily: their parts are checked only when iterated."""
    if isinstance(value, dict):
        return {name: _whole(one) for name, one in value.items()}
    if isinstance(value, Iterator | list | tuple):
        return [_whole(one) for one in value]
    return value


def _same(read: Any, value: Any, where: str) -> None:
    if read == value:  # usually equal; only else is the difference searched
        return
    if isinstance(read, dict) and isinstance(value, Mapping):
        _need(not set(value) - set(read), where, f"unknown fields: {sorted(set(value) - set(read))}")
        for name, one in value.items():
            _same(read[name], one, f"{where}.{name}")
    elif isinstance(read, list) and isinstance(value, list | tuple):
        for place, (one, other) in enumerate(zip(read, value, strict=True)):
            _same(one, other, f"{where}[{place}]")
    else:
        _need(False, where, f"read as {read!r}, not as {value!r}")

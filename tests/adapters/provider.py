"""A fake provider on loopback, for the real SDKs: it implements both vendors' protocols and refuses what they refuse.

Tests set the model's answers; the server turns them into bodies or server-sent events, and checks every request: names of
tools, their schemas, and above all that each tool call of an assistant's turn is answered once, in the next turn.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Any

from tests.models_kit.prompt_cache import wrong_marks

NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")


class Refused(Exception):
    """A request that the vendor would answer with a 400."""


class Provider:
    """`answers` are used in turn; `requests` are the received bodies, `heads` their headers.

    An answer with an HTTP `status` is sent as it is: `status`, `headers` and `body`, a value or a text. `refuses` may return why a
    request is refused, as a server would that knows less than the vendor's. With `keeps_alive` a connection serves more
    than one request; `connections` counts them. One that `is_picky` parses the arguments of earlier calls, as templates do.
    Without `checks` requests are taken as they are.
    """

    def __init__(self) -> None:
        self.answers: list[dict[str, Any]] = []
        self.requests: list[dict[str, Any]] = []
        self.heads: list[str] = []
        self.refuses: Callable[[dict[str, Any]], str | None] = lambda _body: None
        self.pauses: dict[str, asyncio.Event] = {}
        self.keeps_alive = False
        self.is_picky = False
        self.checks = True
        self.connections = 0
        self.url = ""

    def next(self) -> dict[str, Any]:
        return self.answers.pop(0)


@asynccontextmanager
async def serving() -> AsyncIterator[Provider]:
    provider = Provider()
    tasks: set[asyncio.Task[Any]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        provider.connections += 1
        try:
            await _exchange(provider, reader, writer)
            while provider.keeps_alive:
                await _exchange(provider, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):  # no caller waits for it
            pass
        finally:
            writer.close()
            tasks.discard(task)

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    provider.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield provider
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


async def _exchange(provider: Provider, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    path = head.split(" ", 2)[1]
    length = int(re.search(r"content-length: (\d+)", head, re.IGNORECASE)[1])  # type: ignore[index]
    body = json.loads(await reader.readexactly(length))
    provider.requests.append(body)
    provider.heads.append(head)
    kind = {"/v1/messages": Messages, "/v1/chat/completions": Chat, "/v1/responses": Responses}[path.split("?")[0]]
    try:
        if provider.checks:
            kind.check(body)
        if provider.is_picky and kind is Chat:
            check_calls(call for message in body["messages"] for call in message.get("tool_calls") or ())
        if (why_not := provider.refuses(body)) is not None:
            raise Refused(why_not)
    except Refused as why:
        text = json.dumps({"type": "error", "error": {"type": "invalid_request_error", "message": str(why)}}).encode()
        writer.write(_head(400, "application/json", len(text), alive=provider.keeps_alive) + text)
        await writer.drain()
        return
    given = provider.next()
    if isinstance(given.get("status"), int):
        await _send_as_it_is(writer, given)
        return
    answer = kind.answer(given)
    if not body.get("stream"):
        text = json.dumps(answer).encode()
        writer.write(_head(200, "application/json", len(text), alive=provider.keeps_alive) + text)
        await writer.drain()
        return
    writer.write(_head(200, "text/event-stream", None))
    for name, event in kind.events(answer):
        pause = provider.pauses.get(name)
        if pause is not None:
            await pause.wait()
        lines = (f"event: {name}\n" if kind is not Chat else "") + f"data: {json.dumps(event)}\n\n"
        writer.write(lines.encode())
        await writer.drain()
    if kind is Chat:
        writer.write(b"data: [DONE]\n\n")
    await writer.drain()


async def _send_as_it_is(writer: asyncio.StreamWriter, given: dict[str, Any]) -> None:
    body = given.get("body", {})
    text = (body if isinstance(body, str) else json.dumps(body)).encode()
    headers = {"content-type": "application/json", "content-length": len(text), **given.get("headers", {})}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"HTTP/1.1 {given['status']} X\r\n{lines}connection: close\r\n\r\n".encode() + text)
    await writer.drain()


def _head(status: int, type: str, length: int | None, *, alive: bool = False) -> bytes:
    size = f"content-length: {length}\r\n" if length is not None else ""
    ends = "" if alive else "connection: close\r\n"
    return f"HTTP/1.1 {status} X\r\ncontent-type: {type}\r\n{size}{ends}\r\n".encode()


def pieces(text: str, size: int = 7) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def check_schema(schema: Any) -> None:
    if schema.get("type") != "object" or {"anyOf", "oneOf", "allOf", "enum", "not"} & set(schema):
        raise Refused("the schema must be a plain object at its top")


def check_names(names: Iterable[str]) -> None:
    listed = list(names)
    if len(set(listed)) != len(listed):
        raise Refused("tool names must be unique")
    for name in listed:
        if not NAME.match(name):
            raise Refused(f"name {name!r} does not match")


def check_blocks(messages: list[dict[str, Any]], *, has_tools: bool) -> None:
    """Blocks as the Messages API accepts them: no empty text, results first, inputs that are objects, ids used once."""
    if not messages or messages[0]["role"] != "user":
        raise Refused("messages: first message must use the user role")
    ids: list[str] = []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not blocks:
            raise Refused("messages: all messages must have non-empty content")
        kinds = [block["type"] for block in blocks]
        if any(kind in ("tool_use", "tool_result") for kind in kinds) and not has_tools:
            raise Refused("Requests which include `tool_use` or `tool_result` blocks must define tools")
        if "tool_result" in kinds[kinds.count("tool_result") :]:
            raise Refused("tool_result blocks must come first")
        for block in blocks:
            if block["type"] == "text" and not block["text"].strip():
                raise Refused("text content blocks must contain non-whitespace text")
            if block["type"] == "tool_use":
                if not isinstance(block["input"], dict):
                    raise Refused("tool_use.input: Input should be a valid dictionary")
                check_names([block["name"]])
                if not re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"]) or block["id"] in ids:
                    raise Refused(f"tool_use ids must be unique and fit the pattern: {block['id']!r}")
                ids.append(block["id"])
            if block["type"] == "thinking" and not block["signature"]:
                raise Refused("Invalid `signature` in `thinking` block")


class Messages:
    """An answer is `{"content": [blocks]}`; a tool_use block may have `raw`, the text of its input as it is streamed."""

    @staticmethod
    def check(body: dict[str, Any]) -> None:
        check_names(tool["name"] for tool in body.get("tools", ()))
        for tool in body.get("tools", ()):
            check_schema(tool["input_schema"])
        if (wrong := wrong_marks(body)) is not None:
            raise Refused(wrong)
        form = (body.get("output_config") or {}).get("format")
        if form is not None:
            check_bound(form["schema"])
        chosen = body.get("tool_choice", {})
        if chosen.get("type") == "tool" and chosen["name"] not in [tool["name"] for tool in body.get("tools", ())]:
            raise Refused(f"tool_choice: there is no tool {chosen['name']!r}")
        if not isinstance(body.get("max_tokens"), int):
            raise Refused("max_tokens: Field required")
        if any(message["role"] not in ("user", "assistant") for message in body["messages"]):
            raise Refused("messages: role must be user or assistant")
        messages = body["messages"]
        for place, message in enumerate(messages):
            blocks = message["content"] if isinstance(message["content"], list) else []
            used = [block["id"] for block in blocks if block["type"] == "tool_use"]
            if not used:
                continue
            following = messages[place + 1] if place + 1 < len(messages) else {"role": "", "content": []}
            answered = [b["tool_use_id"] for b in following["content"] if b["type"] == "tool_result"]
            if following["role"] != "user" or answered != used:
                raise Refused(f"tool_use ids were found without tool_result blocks immediately after: {used}")
        check_blocks(messages, has_tools=bool(body.get("tools")))

    @staticmethod
    def answer(given: dict[str, Any]) -> dict[str, Any]:
        uses_tools = any(block["type"] == "tool_use" for block in given["content"])
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "stop_reason": "tool_use" if uses_tools else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
            **given,
        }

    @staticmethod
    def events(answer: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        def made(name: str, **data: Any) -> tuple[str, dict[str, Any]]:
            return name, {"type": name, **data}

        yield made("message_start", message={**answer, "content": [], "stop_reason": None})
        for index, block in enumerate(answer["content"]):
            if block["type"] == "text":
                yield made("content_block_start", index=index, content_block={"type": "text", "text": ""})
                delta = {"type": "text_delta", "text": block["text"]}
                yield made("content_block_delta", index=index, delta=delta)
            elif block["type"] == "redacted_thinking":
                yield made("content_block_start", index=index, content_block=block)
            elif block["type"] == "thinking":
                start = {"type": "thinking", "thinking": "", "signature": ""}
                yield made("content_block_start", index=index, content_block=start)
                for piece in pieces(block["thinking"]):
                    delta = {"type": "thinking_delta", "thinking": piece}
                    yield made("content_block_delta", index=index, delta=delta)
                delta = {"type": "signature_delta", "signature": block["signature"]}
                yield made("content_block_delta", index=index, delta=delta)
            else:
                raw = block.get("raw", json.dumps(block["input"], ensure_ascii=False) if block["input"] else "")
                start = {"type": "tool_use", "id": block["id"], "name": block["name"], "input": {}}
                yield made("content_block_start", index=index, content_block=start)
                for piece in ["", *pieces(raw)]:
                    delta = {"type": "input_json_delta", "partial_json": piece}
                    yield made("content_block_delta", index=index, delta=delta)
            yield made("content_block_stop", index=index)
        delta = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
        yield made("message_delta", delta=delta, usage={**answer["usage"], "output_tokens": 1})
        yield made("message_stop")


def check_calls(calls: Iterable[dict[str, Any]]) -> None:
    """Calls as chat completions accept them, also for servers that render the arguments by a template."""
    for call in calls:
        check_names([call["function"]["name"]])
        if not 1 <= len(call["id"]) <= 40:
            raise Refused("Invalid 'tool_calls[0].id': string too long. Expected a maximum length of 40")
        try:
            given = json.loads(call["function"]["arguments"])
        except ValueError as error:
            raise Refused(f"arguments must be valid JSON: {error}") from None
        if not isinstance(given, dict):
            raise Refused("Can only get item pairs from a mapping.")


class Chat:
    """An answer is `{"tool_calls": [...], "content": ...}`: the assistant's message."""

    @staticmethod
    def check(body: dict[str, Any]) -> None:
        functions = [tool["function"] for tool in body.get("tools", ())]
        check_names(function["name"] for function in functions)
        for function in functions:
            check_schema(function["parameters"])
            check_strict(function)
        form = body.get("response_format", {})
        if form.get("type") == "json_schema":
            check_names([form["json_schema"]["name"]])
            check_strict({"strict": form["json_schema"].get("strict"), "parameters": form["json_schema"]["schema"]})
        if form.get("type") == "json_object" and "json" not in json.dumps(body["messages"]).lower():
            raise Refused("'messages' must contain the word 'json' in some form, to use 'response_format'")
        messages = body["messages"]
        for place, message in enumerate(messages):
            if message.get("content") is None and not message.get("tool_calls"):
                raise Refused("Invalid value for 'content': expected a string, got null.")
            asked = [call["id"] for call in message.get("tool_calls") or ()]
            following = messages[place + 1 : place + 1 + len(asked)]
            if [m.get("tool_call_id") for m in following if m["role"] == "tool"] != asked:
                raise Refused(f"'tool_calls' must be followed by tool messages responding to each: {asked}")

    @staticmethod
    def answer(given: dict[str, Any]) -> dict[str, Any]:
        message = {"role": "assistant", "content": None, "refusal": None, **given}
        reason = message.pop("finish_reason", "tool_calls" if given.get("tool_calls") else "stop")
        id = message.pop("response_id", "chatcmpl-1")
        usage = message.pop("usage", None)
        choice = {"index": 0, "finish_reason": reason, "logprobs": None, "message": message}
        whole = {"id": id, "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        return whole if usage is None else {**whole, "usage": usage}

    @staticmethod
    def events(answer: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        message = answer["choices"][0]["message"]
        top = {key: value for key, value in answer.items() if key != "usage"} | {"object": "chat.completion.chunk"}

        def made(delta: dict[str, Any], reason: str | None = None) -> tuple[str, dict[str, Any]]:
            choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
            name = (
                "finish" if reason else f"call_{delta['tool_calls'][0]['index']}" if "tool_calls" in delta else "text"
            )
            return name, {**top, "choices": [choice]}

        for key in ("reasoning_content", "reasoning"):
            for piece in pieces(message.get(key) or ""):
                yield made({key: piece})
        yield made({"role": "assistant", "content": message["content"]})
        if message.get("refusal"):
            yield made({"refusal": message["refusal"]})
        for index, call in enumerate(message.get("tool_calls") or ()):
            function = call["function"]
            first = {"index": index, "id": call["id"], "type": "function"}
            yield made({"tool_calls": [{**first, "function": {"name": function["name"], "arguments": ""}}]})
            for piece in pieces(function["arguments"]):
                yield made({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        yield made({}, answer["choices"][0]["finish_reason"])
        usage = answer.get("usage") or {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        yield "usage", {**top, "choices": [], "usage": usage}


class Responses:
    """An answer is `{"output": [items]}`."""

    @staticmethod
    def check(body: dict[str, Any]) -> None:
        check_names(tool["name"] for tool in body.get("tools", ()))
        for tool in body.get("tools", ()):
            check_schema(tool["parameters"])
            check_strict(tool)
        form = (body.get("text") or {}).get("format", {})
        if form.get("type") == "json_schema":
            check_names([form["name"]])
            check_strict({"strict": form.get("strict"), "parameters": form["schema"]})
        if form.get("type") == "json_object" and "json" not in json.dumps(body["input"]).lower():
            raise Refused("Response input messages must contain the word 'json' in some form, to use 'text.format'")
        items = body["input"] if isinstance(body["input"], list) else []
        asked = [item["call_id"] for item in items if item.get("type") in ("function_call", "custom_tool_call")]
        done = [i["call_id"] for i in items if i.get("type") in ("function_call_output", "custom_tool_call_output")]
        if asked != done:
            raise Refused(f"No tool output found for function call: {asked} and {done}")
        for item, after in zip(items, [*items[1:], {}], strict=False):
            if item.get("type") != "reasoning":
                continue
            id = item["id"]
            if after.get("type") not in ("reasoning", "message", "function_call"):
                raise Refused(f"Item {id!r} of type 'reasoning' was provided without its required following item.")
            if body.get("store") is False and not item.get("encrypted_content"):
                raise Refused(f"Item with id {id!r} not found. Items are not persisted when `store` is set to false.")

    @staticmethod
    def answer(given: dict[str, Any]) -> dict[str, Any]:
        items = [{"status": "completed", **item} for item in given["output"]]
        fixed = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "status": "completed"}
        return {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", **fixed, **given, "output": items}

    @staticmethod
    def events(answer: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        number = 0

        def made(name: str, **data: Any) -> tuple[str, dict[str, Any]]:
            nonlocal number
            number += 1
            return name, {"type": name, "sequence_number": number, **data}

        begun = {**answer, "output": [], "status": "in_progress", "error": None, "usage": None}
        yield made("response.created", response=begun)
        yield made("response.in_progress", response=begun)
        for index, item in enumerate(answer["output"]):
            empty = {name: [] for name in ("content", "summary") if name in item}
            empty |= {"arguments": ""} if "arguments" in item else {}
            yield made(
                "response.output_item.added", output_index=index, item={**item, **empty, "status": "in_progress"}
            )
            at = {"output_index": index, "item_id": item.get("id", "")}
            for place, part in enumerate(item.get("summary") or ()):
                here = {**at, "summary_index": place}
                yield made("response.reasoning_summary_part.added", **here, part={**part, "text": ""})
                for piece in pieces(part["text"]):
                    yield made("response.reasoning_summary_text.delta", **here, delta=piece)
                yield made("response.reasoning_summary_text.done", **here, text=part["text"])
                yield made("response.reasoning_summary_part.done", **here, part=part)
            for place, part in enumerate(item.get("content") or ()):
                here, kind = {**at, "content_index": place}, part["type"]
                text = part.get("text", part.get("refusal", ""))
                yield made("response.content_part.added", **here, part={**part, "text": ""})
                for piece in pieces(text):
                    yield made(f"response.{kind}.delta", **here, delta=piece)
                yield made(f"response.{kind}.done", **here, text=text)
                yield made("response.content_part.done", **here, part=part)
            for piece in pieces(item.get("arguments", "")):
                yield made("response.function_call_arguments.delta", **at, delta=piece)
            if "arguments" in item:
                yield made("response.function_call_arguments.done", **at, arguments=item["arguments"])
            yield made("response.output_item.done", output_index=index, item=item)
        yield made(f"response.{answer['status']}", response=answer)


def check_bound(schema: Any) -> None:
    """Anthropic's rules for the schema of an answer: closed objects, no limits of numbers and lengths, no definition that holds itself."""
    if isinstance(schema, dict):
        if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
            raise Refused("output_config.format.schema: 'additionalProperties' must be explicitly set to false")
        wrong = [word for word in ("minLength", "minimum", "maximum", "pattern", "oneOf") if word in schema]
        if wrong and not isinstance(schema[wrong[0]], dict):
            raise Refused(f"output_config.format.schema: property '{wrong[0]}' is not supported")
        for name, one in schema.get("$defs", {}).items():
            if f"#/$defs/{name}" in json.dumps(one):
                raise Refused("output_config.format.schema: Circular reference detected in schema definitions")
    for one in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        check_bound(one)


def check_strict(function: dict[str, Any]) -> None:
    """OpenAI's rules for strict schemas: closed objects, every field required."""

    def walk(schema: Any) -> None:
        if isinstance(schema, dict):
            if schema.get("type") == "object":
                if schema.get("additionalProperties") is not False:
                    raise Refused("'additionalProperties' is required to be supplied and to be false")
                if set(schema.get("required", ())) != set(schema.get("properties", ())):
                    raise Refused("'required' must include every key in properties")
            if "default" in schema and not isinstance(schema["default"], dict):
                raise Refused("'default' is not permitted")
            for value in schema.values():
                walk(value)
        elif isinstance(schema, list):
            for value in schema:
                walk(value)

    if function.get("strict"):
        walk(function["parameters"])

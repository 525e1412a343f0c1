"""The `openai` SDK over clicket, chat completions and Responses alike: one result for each call of a function.

    completion = await client.chat.completions.create(..., tools=await tool_params(rt, thread))
    messages += [completion.choices[0].message, *await run(rt, completion, thread)]

    response = await client.responses.create(..., tools=await tool_params(rt, thread, api="responses"))
    items += [*response.output, *await run(rt, response, thread)]

`run` takes a completion, a response, a message, a stream of the SDK, or dictionaries of their shape. A response that is run
again, after a crash too, finds the calls that it made: none runs twice. Its id makes that so; for a message without one, or
from a provider that uses ids again, give the turn a name of your own (`turn=`). Of several choices the first is run. The
API has no mark for a failed call: its text starts with `Error: `. A blocking runtime (`clicket.sync`) needs no `await`.
The SDK's own stream helpers raise when a strict tool's arguments are no JSON; `create(stream=True)` does not.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, overload

from clicket.adapters.openai_calls import Reader, read_items, read_message
from clicket.adapters.response_run import Answer, Turn, Watch, options_of, results_of
from clicket.adapters.runtime_access import Offer, face, offers
from clicket.adapters.tool_request import Asked
from clicket.errors import UsageError
from clicket.model.foreign import clean, field
from clicket.ports import Caller
from clicket.sync import Runtime as SyncRuntime
from clicket.tools.provider_schema import shown
from clicket.tools.provider_schema import strict as strict_schema

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionFunctionToolParam
    from openai.types.responses import FunctionToolParam

__all__ = ["run", "tool_params", "watch"]

Api = Literal["chat", "responses"]
_MAX_DESCRIPTION = 1_024


@overload
def tool_params(
    rt: SyncRuntime, thread: str, *, api: Literal["chat"] = ..., strict: bool = ...
) -> list[ChatCompletionFunctionToolParam]: ...
@overload
def tool_params(
    rt: SyncRuntime, thread: str, *, api: Literal["responses"], strict: bool = ...
) -> list[FunctionToolParam]: ...
@overload
def tool_params(
    rt: Caller, thread: str, *, api: Literal["chat"] = ..., strict: bool = ...
) -> Coroutine[Any, Any, list[ChatCompletionFunctionToolParam]]: ...
@overload
def tool_params(
    rt: Caller, thread: str, *, api: Literal["responses"], strict: bool = ...
) -> Coroutine[Any, Any, list[FunctionToolParam]]: ...
def tool_params(rt: Any, thread: str, *, api: Api = "chat", strict: bool = False) -> Any:
    """`tools=` of a request: only those that the thread may use now. `strict` where a tool's schema can be said so."""
    if api not in ("chat", "responses"):
        raise UsageError(f"api must be 'chat' or 'responses', not {api!r}.")

    async def list_them(caller: Caller) -> list[Any]:
        functions = [_function(offer, strict) for offer in await offers(caller, thread)]
        if api == "responses":
            return [{"type": "function", **function} for function in functions]
        return [{"type": "function", "function": function} for function in functions]

    return face(rt, list_them)


def _function(offer: Offer, strict: bool) -> dict[str, Any]:
    narrow = strict_schema(offer.input_schema, "openai") if strict else None
    text = offer.description
    described = {"description": text if len(text) <= _MAX_DESCRIPTION else f"{text[: _MAX_DESCRIPTION - 1]}…"}
    return {
        "name": offer.wire,
        **(described if text else {}),
        "parameters": narrow or shown(offer.input_schema),
        "strict": narrow is not None,  # always said: the Responses API takes silence for yes
    }


@overload
def run(
    rt: SyncRuntime, response: Any, thread: str, *, turn: str | None = ..., max_concurrency: int = ..., **options: Any
) -> list[Any]: ...
@overload
def run(
    rt: Caller, response: Any, thread: str, *, turn: str | None = ..., max_concurrency: int = ..., **options: Any
) -> Coroutine[Any, Any, list[Any]]: ...
def run(
    rt: Any, response: Any, thread: str, *, turn: str | None = None, max_concurrency: int = 5, **options: Any
) -> Any:
    """Run every tool call of a response, side by side; one result for each, in order, whatever failed.

    Role `tool` messages for a chat completion, `function_call_output` items for a response. `options` are `timeout`,
    `deadline` and `priority` of each call.
    """

    async def work(caller: Caller) -> list[Any]:
        made = Turn(caller, thread, turn=turn, max_concurrency=max_concurrency, options=options_of(options))
        return await results_of(made, response, _read, Reader(), _shape)

    return face(rt, work)


def watch(
    rt: Caller, stream: Any, thread: str, *, turn: str | None = None, max_concurrency: int = 5, **options: Any
) -> Watch[Any]:
    """Follow a stream of either API and run each tool call as soon as it is whole.

    async with watch(rt, stream, thread) as events:
        async for event in events: ...
        results = await events.results()
    """
    made = Turn(rt, thread, turn=turn, max_concurrency=max_concurrency, options=options_of(options))
    return Watch(made, stream, Reader(), _shape)


def _shape(answer: Answer) -> Any:
    asked, text = answer.asked, f"Error: {answer.text}" if answer.failed else answer.text
    match asked.kind:
        case "function_call" | "custom_tool_call":
            return {"type": f"{asked.kind}_output", "call_id": asked.id, "output": text, **asked.extra}
        case "legacy":
            return {"role": "function", "name": asked.name, "content": text}
        case _:
            return {"role": "tool", "tool_call_id": asked.id, "content": text}


_MISSING = object()


def _read(response: Any) -> tuple[str | None, list[Asked]]:
    """The response's id and its tool calls."""
    if isinstance(response, list | tuple):
        # A list of one API's items or of the other's calls: each says itself what it is.
        return None, read_items(response, whole=True)
    id = field(response, "id")
    name = clean(id) or None
    if (choices := field(response, "choices", _MISSING)) is not _MISSING:
        first = choices[0] if isinstance(choices, list | tuple) and choices else None
        return name, read_message(field(first, "message"), field(first, "finish_reason"))
    if (output := field(response, "output", _MISSING)) is not _MISSING:
        return name, read_items(output)
    if (message := field(response, "message", _MISSING)) is not _MISSING:
        return None, read_message(message, field(response, "finish_reason"))
    if field(response, "tool_calls", _MISSING) is not _MISSING or field(response, "role") == "assistant":
        return None, read_message(response)
    if isinstance(response, Iterable) and not isinstance(response, str | bytes | Mapping):
        reader = Reader()
        calls = [asked for event in response for asked in reader.feed(event)]
        return reader.response_id, [*calls, *reader.close()]
    raise UsageError(
        f"{type(response).__name__} is no answer of OpenAI's APIs. Pass the completion, the response, or the stream."
    )

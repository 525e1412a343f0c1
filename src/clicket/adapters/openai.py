"""The `openai` SDK over clicket, for the chat completions and the Responses API: one result for each function call.

    completion = await client.chat.completions.create(..., tools=await tool_params(rt, thread))
    messages += [completion.choices[0].message, *await run(rt, completion, thread)]

    response = await client.responses.create(..., tools=await tool_params(rt, thread, api="responses"))
    items += [*response.output, *await run(rt, response, thread)]

`run` takes a completion, a response, a message, a stream of the SDK, or dictionaries of the same form. Running a response again,
also after a crash, finds its calls by the response's id, and none runs twice. For a message without an id, or from a provider
that reuses ids, pass an id for the response (`response_id=`). Of several choices the first is run. The API has no field that marks a failed
call: its text starts with `Error: `. With a blocking runtime (`clicket.sync`) no `await` is needed. The SDK's stream helpers raise
when a strict tool's arguments are not JSON; `create(stream=True)` does not.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Literal, overload

from clicket.adapters.openai_calls import Reader, read_items, read_message
from clicket.adapters.response_run import Answer, ResponseRun, WatchedStream, options_of, results_of
from clicket.adapters.runtime_access import Offer, sync_or_async
from clicket.adapters.tool_request import ToolRequest
from clicket.adapters.tool_search import chosen_offers
from clicket.errors import UsageError
from clicket.model.foreign import clean, field
from clicket.model.ports import Caller
from clicket.runtime.blocking_base import BlockingRuntime
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
    rt: BlockingRuntime[Any],
    thread: str,
    *,
    api: Literal["chat"] = ...,
    strict: bool = ...,
    max_offered: int | None = ...,
    message: str = ...,
) -> list[ChatCompletionFunctionToolParam]: ...
@overload
def tool_params(
    rt: BlockingRuntime[Any],
    thread: str,
    *,
    api: Literal["responses"],
    strict: bool = ...,
    max_offered: int | None = ...,
    message: str = ...,
) -> list[FunctionToolParam]: ...
@overload
def tool_params(
    rt: Caller,
    thread: str,
    *,
    api: Literal["chat"] = ...,
    strict: bool = ...,
    max_offered: int | None = ...,
    message: str = ...,
) -> Coroutine[Any, Any, list[ChatCompletionFunctionToolParam]]: ...
@overload
def tool_params(
    rt: Caller,
    thread: str,
    *,
    api: Literal["responses"],
    strict: bool = ...,
    max_offered: int | None = ...,
    message: str = ...,
) -> Coroutine[Any, Any, list[FunctionToolParam]]: ...
def tool_params(
    rt: Any,
    thread: str,
    *,
    api: Api = "chat",
    strict: bool = False,
    max_offered: int | None = None,
    message: str = "",
) -> Any:
    """`tools=` of a request: the tools that the thread may use now. `strict`: strict schemas, for the tools that allow them.

    `max_offered`: if there are more tools, that many and `find_tools`: those that the thread found or used last, and those that suit
    `message`, the user's.
    """
    if api not in ("chat", "responses"):
        raise UsageError(f"api must be 'chat' or 'responses', not {api!r}.")

    async def list_them(caller: Caller) -> list[Any]:
        choice = await chosen_offers(caller, thread, max_offered=max_offered, message=message)
        functions = [_function(offer, strict) for offer in choice.shown]
        if api == "responses":
            return [{"type": "function", **function} for function in functions]
        return [{"type": "function", "function": function} for function in functions]

    return sync_or_async(rt, list_them)


def _function(offer: Offer, strict: bool) -> dict[str, Any]:
    narrow = strict_schema(offer.input_schema, "openai") if strict else None
    text = offer.description
    described = {"description": text if len(text) <= _MAX_DESCRIPTION else f"{text[: _MAX_DESCRIPTION - 1]}…"}
    return {
        "name": offer.wire,
        **(described if text else {}),
        "parameters": narrow or shown(offer.input_schema),
        "strict": narrow is not None,  # always set: the default of the Responses API is true
    }


@overload
def run(
    rt: BlockingRuntime[Any],
    response: Any,
    thread: str,
    *,
    response_id: str | None = ...,
    max_concurrency: int = ...,
    **options: Any,
) -> list[Any]: ...
@overload
def run(
    rt: Caller, response: Any, thread: str, *, response_id: str | None = ..., max_concurrency: int = ..., **options: Any
) -> Coroutine[Any, Any, list[Any]]: ...
def run(
    rt: Any, response: Any, thread: str, *, response_id: str | None = None, max_concurrency: int = 5, **options: Any
) -> Any:
    """Run the tool calls of a response concurrently; returns one result for each, in order, also for failed ones.

    Role `tool` messages for a chat completion, `function_call_output` items for a response; these have the images of results, too, which a
    `tool` message cannot have. `options` are `timeout`,
    `deadline` and `priority` of each call.
    """

    async def work(caller: Caller) -> list[Any]:
        made = ResponseRun(
            caller, thread, response_id=response_id, max_concurrency=max_concurrency, options=options_of(options)
        )
        return await results_of(made, response, _read, Reader(), _shape, "OpenAI's APIs")

    return sync_or_async(rt, work)


def watch(
    rt: Caller, stream: Any, thread: str, *, response_id: str | None = None, max_concurrency: int = 5, **options: Any
) -> WatchedStream[Any]:
    """Follow a stream of either API and run each tool call as soon as it is complete.

    async with watch(rt, stream, thread) as events:
        async for event in events: ...
        results = await events.results()
    """
    made = ResponseRun(
        rt, thread, response_id=response_id, max_concurrency=max_concurrency, options=options_of(options)
    )
    return WatchedStream(made, stream, Reader(), _shape)


def _shape(answer: Answer) -> Any:
    request = answer.request
    text = f"Error: {answer.text}" if answer.failed else answer.text
    match request.kind:
        case "function_call" | "custom_tool_call":
            output: Any = text
            if answer.pictures:
                shown = [{"type": "input_image", "image_url": each.url, "detail": "auto"} for each in answer.pictures]
                output = [{"type": "input_text", "text": text}, *shown]
            return {"type": f"{request.kind}_output", "call_id": request.id, "output": output, **request.extra}
        case "legacy":
            return {"role": "function", "name": request.name, "content": text}
        case _:
            return {"role": "tool", "tool_call_id": request.id, "content": text}


_MISSING = object()


def _read(response: Any) -> tuple[str | None, list[ToolRequest]] | None:
    """The id and the tool calls of a response of either API; None for anything else."""
    if isinstance(response, list | tuple):
        # A list of items of the Responses API, or of calls of the chat API: each item shows which.
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
    return None

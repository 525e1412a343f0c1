"""The `anthropic` SDK over clicket: the tools that a thread may use now, and one `tool_result` for each `tool_use`.

    message = await client.messages.create(..., tools=await tool_params(rt, thread))
    messages += [
        {"role": "assistant", "content": message.content},
        {"role": "user", "content": await run(rt, message, thread)},
    ]

`run` takes a message, a stream of the SDK, or dictionaries of the same form. Running a response again, also after a crash, finds
its calls by the response's id, and none runs twice. For a response without an id, or from a provider that reuses ids, pass a
id for the response (`response_id=`). With a blocking runtime (`clicket.sync`) no `await` is needed. The SDK's helper `messages.stream()`
raises when an input is not JSON; `messages.create(stream=True)` does not.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, Any, cast, overload

from clicket.adapters.response_run import Answer, ResponseRun, WatchedStream, options_of, results_of
from clicket.adapters.runtime_access import Offer, sync_or_async
from clicket.adapters.tool_request import INCOMPLETE, ToolRequest
from clicket.adapters.tool_search import chosen_offers
from clicket.model.foreign import clean, field
from clicket.model.ports import Caller
from clicket.runtime.blocking_base import BlockingRuntime
from clicket.tools.provider_schema import shown
from clicket.tools.provider_schema import strict as strict_schema

if TYPE_CHECKING:
    from anthropic.types import ToolParam, ToolResultBlockParam

__all__ = ["run", "tool_params", "watch"]

_CUT = (
    "invalid_input: the answer reached its token limit while this call was being written, so it was not run. "
    "Make the call again, with shorter arguments or in parts."
)
_MISSING = object()


@overload
def tool_params(
    rt: BlockingRuntime[Any],
    thread: str,
    *,
    strict: bool = ...,
    max_offered: int | None = ...,
    message: str = ...,
    defer_loading: bool = ...,
) -> list[ToolParam]: ...
@overload
def tool_params(
    rt: Caller,
    thread: str,
    *,
    strict: bool = ...,
    max_offered: int | None = ...,
    message: str = ...,
    defer_loading: bool = ...,
) -> Coroutine[Any, Any, list[ToolParam]]: ...
def tool_params(
    rt: Any,
    thread: str,
    *,
    strict: bool = False,
    max_offered: int | None = None,
    message: str = "",
    defer_loading: bool = False,
) -> Any:
    """`tools=` of a request: the tools that the thread may use now. `strict`: strict schemas, for the tools that allow them.

    `max_offered`: if there are more tools, that many and `find_tools`: those that the thread found or used last, and those that suit
    `message`, the user's. `defer_loading`: the other tools are listed, too, marked so that the API keeps them out of the prompt until
    a search tool refers to them.
    """

    async def list_them(caller: Caller) -> list[ToolParam]:
        choice = await chosen_offers(caller, thread, max_offered=max_offered, message=message)
        params = [_param(offer, strict) for offer in choice.shown]
        if defer_loading:
            params += [{**_param(offer, strict), "defer_loading": True} for offer in choice.rest]
        return params

    return sync_or_async(rt, list_them)


def _param(offer: Offer, strict: bool) -> ToolParam:
    narrow = strict_schema(offer.input_schema, "anthropic") if strict else None
    param: ToolParam = {"name": offer.wire, "input_schema": narrow or shown(offer.input_schema)}
    if offer.description:
        param["description"] = offer.description
    if narrow:
        param["strict"] = True
    return param


@overload
def run(
    rt: BlockingRuntime[Any],
    response: Any,
    thread: str,
    *,
    response_id: str | None = ...,
    max_concurrency: int = ...,
    **options: Any,
) -> list[ToolResultBlockParam]: ...
@overload
def run(
    rt: Caller, response: Any, thread: str, *, response_id: str | None = ..., max_concurrency: int = ..., **options: Any
) -> Coroutine[Any, Any, list[ToolResultBlockParam]]: ...
def run(
    rt: Any, response: Any, thread: str, *, response_id: str | None = None, max_concurrency: int = 5, **options: Any
) -> Any:
    """Run the tool calls of a response concurrently; returns one `tool_result` block for each, in order, also for failed ones.

    `options` are `timeout`, `deadline` and `priority` of each call.
    """

    async def work(caller: Caller) -> list[ToolResultBlockParam]:
        made = ResponseRun(
            caller, thread, response_id=response_id, max_concurrency=max_concurrency, options=options_of(options)
        )
        return await results_of(made, response, _read, _Reader(), _shape, "the Messages API")

    return sync_or_async(rt, work)


def watch(
    rt: Caller, stream: Any, thread: str, *, response_id: str | None = None, max_concurrency: int = 5, **options: Any
) -> WatchedStream[ToolResultBlockParam]:
    """Follow a stream and run each tool call as soon as it is complete.

    async with watch(rt, stream, thread) as events:
        async for event in events: ...
        results = await events.results()
    """
    made = ResponseRun(
        rt, thread, response_id=response_id, max_concurrency=max_concurrency, options=options_of(options)
    )
    return WatchedStream(made, stream, _Reader(), _shape)


def _shape(answer: Answer) -> ToolResultBlockParam:
    block = {
        "type": "tool_result",
        "tool_use_id": answer.request.id,
        "content": _content(answer),
        "is_error": answer.failed,
        **answer.request.extra,
    }
    return cast("ToolResultBlockParam", block)


def _content(answer: Answer) -> str | list[dict[str, Any]]:
    if not answer.pictures:
        return answer.text
    shown = [
        {"type": "image", "source": {"type": "base64", "media_type": each.media_type, "data": each.base64}}
        for each in answer.pictures
    ]
    return [*([{"type": "text", "text": answer.text}] if answer.text else []), *shown]


def _read(response: Any) -> tuple[str | None, list[ToolRequest]] | None:
    """The id and the tool calls of a message or a list of blocks; None for anything else."""
    if isinstance(response, list | tuple):
        return None, list(_blocks(response, None))
    content, id = field(response, "content", _MISSING), field(response, "id")
    if content is _MISSING:
        return None
    return (clean(id) or None) if id is not None else None, list(_blocks(content, field(response, "stop_reason")))


def _blocks(content: Any, stop_reason: Any) -> Iterator[ToolRequest]:
    blocks = content if isinstance(content, list | tuple) else []
    for place, block in enumerate(blocks, 1):
        if field(block, "type") == "tool_use":
            # Only the last block can be incomplete when the token limit is reached.
            cut = stop_reason == "max_tokens" and place == len(blocks)
            yield _request(block, field(block, "input"), _CUT if cut else "")


def _request(block: Any, arguments: Any, refusal: str = "") -> ToolRequest:
    name, id, toolset = field(block, "name"), field(block, "id"), field(block, "toolset_name")
    return ToolRequest(
        id=id if isinstance(id, str) else clean(id),
        name=name if isinstance(name, str) else clean(name),
        arguments=arguments,
        refusal=refusal,
        extra={"toolset_name": toolset} if isinstance(toolset, str) else {},
    )


class _Reader:
    """Assembles tool calls from the events of a stream, raw ones or those of the SDK's helper."""

    def __init__(self) -> None:
        self.response_id: str | None = None
        self._open: dict[Any, tuple[Any, list[str]]] = {}
        # A block without input deltas has no input, or was cut before the first delta: the next event shows which.
        self._held: Any = None

    def feed(self, event: Any) -> Iterator[ToolRequest]:
        kind = field(event, "type")
        index = field(event, "index")
        if kind == "message_start":
            self.response_id = clean(field(field(event, "message"), "id")) or None
        elif kind == "content_block_start":
            yield from self._release()
            if field(field(event, "content_block"), "type") == "tool_use":
                self._open[index] = (field(event, "content_block"), [])
        elif kind == "content_block_delta" and index in self._open:
            piece = field(field(event, "delta"), "partial_json")
            if isinstance(piece, str):
                self._open[index][1].append(piece)
        elif kind == "content_block_stop" and index in self._open:
            block, pieces = self._open.pop(index)
            arguments = "".join(pieces) or field(block, "input")
            if arguments:
                yield _request(block, arguments)
            else:
                self._held = block
        elif kind == "message_delta":
            yield from self._release(_CUT if field(field(event, "delta"), "stop_reason") == "max_tokens" else "")

    def close(self) -> Iterator[ToolRequest]:
        yield from self._release(INCOMPLETE)
        for block, _ in self._open.values():
            yield _request(block, None, INCOMPLETE)
        self._open.clear()

    def _release(self, refusal: str = "") -> Iterator[ToolRequest]:
        block, self._held = self._held, None
        if block is not None:
            yield _request(block, None, refusal)

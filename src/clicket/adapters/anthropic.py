"""The `anthropic` SDK over clicket: the tools that a thread may use now, and one `tool_result` for each `tool_use`.

    message = await client.messages.create(..., tools=await tool_params(rt, thread))
    messages += [
        {"role": "assistant", "content": message.content},
        {"role": "user", "content": await run(rt, message, thread)},
    ]

`run` takes a message, a stream of the SDK, or dictionaries of their shape. A response that is run again, after a crash too,
finds the calls that it made: none runs twice. Its id makes that so; for a response without one, or from a provider that uses
ids again, give the turn a name of your own (`turn=`). A blocking runtime (`clicket.sync`) gets the results without `await`.
The SDK's helper `messages.stream()` raises by itself when an input is no JSON; `messages.create(stream=True)` does not.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast, overload

from clicket.adapters.response_run import Answer, Turn, Watch, options_of, results_of
from clicket.adapters.runtime_access import face, offers
from clicket.adapters.tool_request import Asked
from clicket.errors import UsageError
from clicket.model.foreign import clean, field
from clicket.ports import Caller
from clicket.sync import Runtime as SyncRuntime
from clicket.tools.provider_schema import shown
from clicket.tools.provider_schema import strict as strict_schema

if TYPE_CHECKING:
    from anthropic.types import ToolParam, ToolResultBlockParam

__all__ = ["run", "tool_params", "watch"]

_CUT = (
    "invalid_input: the answer reached its token limit while this call was being written, so it was not run. "
    "Make the call again, with shorter arguments or in parts."
)
_BROKEN = "invalid_input: the stream ended before this call was whole, so it was not run. Make the call again."


@overload
def tool_params(rt: SyncRuntime, thread: str, *, strict: bool = ...) -> list[ToolParam]: ...
@overload
def tool_params(rt: Caller, thread: str, *, strict: bool = ...) -> Coroutine[Any, Any, list[ToolParam]]: ...
def tool_params(rt: Any, thread: str, *, strict: bool = False) -> Any:
    """`tools=` of a request: only those that the thread may use now. `strict` where a tool's schema can be said so."""

    async def list_them(caller: Caller) -> list[ToolParam]:
        params: list[ToolParam] = []
        for offer in await offers(caller, thread):
            narrow = strict_schema(offer.input_schema, "anthropic") if strict else None
            param: ToolParam = {"name": offer.wire, "input_schema": narrow or shown(offer.input_schema)}
            if offer.description:
                param["description"] = offer.description
            if narrow:
                param["strict"] = True
            params.append(param)
        return params

    return face(rt, list_them)


@overload
def run(
    rt: SyncRuntime, response: Any, thread: str, *, turn: str | None = ..., max_concurrency: int = ..., **options: Any
) -> list[ToolResultBlockParam]: ...
@overload
def run(
    rt: Caller, response: Any, thread: str, *, turn: str | None = ..., max_concurrency: int = ..., **options: Any
) -> Coroutine[Any, Any, list[ToolResultBlockParam]]: ...
def run(
    rt: Any, response: Any, thread: str, *, turn: str | None = None, max_concurrency: int = 5, **options: Any
) -> Any:
    """Run every tool call of a response, side by side; one `tool_result` block for each, in order, whatever failed.

    `options` are `timeout`, `deadline` and `priority` of each call.
    """

    async def work(caller: Caller) -> list[ToolResultBlockParam]:
        made = Turn(caller, thread, turn=turn, max_concurrency=max_concurrency, options=options_of(options))
        return await results_of(made, response, _read, _Reader(), _shape)

    return face(rt, work)


def watch(
    rt: Caller, stream: Any, thread: str, *, turn: str | None = None, max_concurrency: int = 5, **options: Any
) -> Watch[ToolResultBlockParam]:
    """Follow a stream and run each tool call as soon as it is whole.

    async with watch(rt, stream, thread) as events:
        async for event in events: ...
        results = await events.results()
    """
    made = Turn(rt, thread, turn=turn, max_concurrency=max_concurrency, options=options_of(options))
    return Watch(made, stream, _Reader(), _shape)


def _shape(answer: Answer) -> ToolResultBlockParam:
    block = {
        "type": "tool_result",
        "tool_use_id": answer.asked.id,
        "content": answer.text,
        "is_error": answer.failed,
        **answer.asked.extra,
    }
    return cast("ToolResultBlockParam", block)


def _read(response: Any) -> tuple[str | None, list[Asked]]:
    """The response's id and its tool calls, from a message, a list of blocks, or the events of a blocking stream."""
    if isinstance(response, list | tuple):
        return None, list(_blocks(response, None))
    missing = object()
    content = field(response, "content", missing)
    if content is not missing:
        id = field(response, "id")
        return (clean(id) or None) if id is not None else None, list(_blocks(content, field(response, "stop_reason")))
    if isinstance(response, Iterable) and not isinstance(response, str | bytes | Mapping):
        reader = _Reader()
        calls = [asked for event in response for asked in reader.feed(event)]
        return reader.response_id, [*calls, *reader.close()]
    raise UsageError(
        f"{type(response).__name__} is no response of the Messages API. Pass the message, its content, or its stream."
    )


def _blocks(content: Any, stop_reason: Any) -> Iterator[Asked]:
    blocks = content if isinstance(content, list | tuple) else []
    for place, block in enumerate(blocks, 1):
        if field(block, "type") == "tool_use":
            # Only the block that was being written when the tokens ran out can be a part of itself.
            cut = stop_reason == "max_tokens" and place == len(blocks)
            yield _asked(block, field(block, "input"), _CUT if cut else "")


def _asked(block: Any, arguments: Any, refusal: str = "") -> Asked:
    name, id, toolset = field(block, "name"), field(block, "id"), field(block, "toolset_name")
    return Asked(
        id=id if isinstance(id, str) else clean(id),
        name=name if isinstance(name, str) else clean(name),
        arguments=arguments,
        refusal=refusal,
        extra={"toolset_name": toolset} if isinstance(toolset, str) else {},
    )


class _Reader:
    """Joins the pieces of tool calls in a stream's events, raw ones and those of the SDK's helper alike."""

    def __init__(self) -> None:
        self.response_id: str | None = None
        self._open: dict[Any, tuple[Any, list[str]]] = {}
        # A block without a piece of input has none, or was cut before the first one: what comes next tells.
        self._held: Any = None

    def feed(self, event: Any) -> Iterator[Asked]:
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
                yield _asked(block, arguments)
            else:
                self._held = block
        elif kind == "message_delta":
            yield from self._release(_CUT if field(field(event, "delta"), "stop_reason") == "max_tokens" else "")

    def close(self) -> Iterator[Asked]:
        yield from self._release(_BROKEN)
        for block, _ in self._open.values():
            yield _asked(block, None, _BROKEN)
        self._open.clear()

    def _release(self, refusal: str = "") -> Iterator[Asked]:
        block, self._held = self._held, None
        if block is not None:
            yield _asked(block, None, refusal)

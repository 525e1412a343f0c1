"""Runs the tool calls of one response, each as soon as it is complete. Each gets exactly one answer, in order.

A mistake of the model never raises. A mistake of the program does: a runtime that is not open, an invalid name of a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar, cast

import msgspec

from clicket.adapters.pictures import Picture, pictures_of
from clicket.adapters.runtime_access import ToolCatalog
from clicket.adapters.tool_request import ToolRequest, call_id, local_key
from clicket.errors import ClicketError, UsageError
from clicket.model import CallOptions, ToolResult
from clicket.model.codec import without_notes
from clicket.model.foreign import clean
from clicket.model.ports import Caller
from clicket.runtime.blocking_base import BlockingRuntime
from clicket.tools.model_arguments import tidy
from clicket.tools.search import FIND_TOOLS

__all__ = ["Answer", "ResponseRun", "StreamReader", "WatchedStream", "answer", "options_of", "results_of"]

R = TypeVar("R")
_NAMES_TOOLS = ("tool_not_found", "tool_unavailable", "invalid_input", "permission_denied")
"""Codes of errors whose text names tools."""


class Answer(msgspec.Struct, frozen=True):
    """What the model reads of a call; `result` is None if no call was made. `pictures`: for models that can look at them; the text names
    them, too."""

    request: ToolRequest
    text: str
    failed: bool
    result: ToolResult | None = None
    pictures: tuple[Picture, ...] = ()


async def answer(
    rt: Caller,
    catalog: ToolCatalog,
    request: ToolRequest,
    *,
    thread: str,
    response_id: str | None,
    key: str,
    options: CallOptions | None = None,
) -> Answer:
    """Make one call. Mistakes of the model and refusals of the runtime are returned, not raised.

    `response_id` identifies the response: with it, the call gets the same id when the response is run again.
    """
    if request.refusal:
        return Answer(request, clean(request.refusal), True)
    name, schema = catalog.find(request.name)
    made: CallOptions = {**(options or {}), "thread": thread, "metadata": {"tool_call_id": clean(request.id, 512)}}
    if response_id:
        made["id"] = call_id(thread, response_id, key, request.id)
        made["request_id"] = clean(response_id, 512)
    arguments = tidy(request.arguments, schema)
    try:
        result = await rt.call(name, arguments, **made)
    except UsageError as error:
        if isinstance(arguments, Mapping):
            raise
        # Arguments that are no object are the model's mistake, but a client may raise `UsageError` for them.
        return Answer(request, clean(f"invalid_input: {error.message}"), True)
    except Exception as error:
        return Answer(request, _why(error), True)
    if result.success:
        text = clean(result.content)
        text = catalog.in_wire_names(text) if name == FIND_TOOLS else text
        return Answer(request, text, False, result, await pictures_of(rt, result))
    refusal = result.error
    text = without_notes(clean(result.content))
    if refusal is not None and refusal.code in _NAMES_TOOLS:
        text = catalog.in_wire_names(text)
    return Answer(request, text, True, result)


def _why(error: Exception) -> str:
    if isinstance(error, ClicketError):
        return clean(f"{error.code}: {error.message}")
    # A client of a remote runtime may raise other errors; the model gets an answer all the same.
    return clean(f"tool_error: the call could not be made: {type(error).__name__}: {error}")


class ResponseRun:
    """`async with ResponseRun(...) as run: run.start(...); answers = await run.answers()`. Leaving early cancels running calls."""

    def __init__(
        self, rt: Caller, thread: str, *, response_id: str | None, max_concurrency: int, options: CallOptions
    ) -> None:
        if type(max_concurrency) is not int or max_concurrency < 1:
            raise UsageError(f"max_concurrency must be a whole number of at least 1, not {max_concurrency!r}.")
        if isinstance(rt, BlockingRuntime):
            raise UsageError(
                "a stream is watched with an async runtime; with clicket.sync use run(rt, stream, thread)."
            )
        self.name = response_id
        self._rt = rt
        self._thread = thread
        self._options = options
        self._room = asyncio.Semaphore(max_concurrency)
        self._catalog: ToolCatalog | Exception | None = None
        self._requests: list[tuple[ToolRequest, asyncio.Task[Answer | UsageError]]] = []
        self._tasks: dict[str, asyncio.Task[Answer | UsageError]] = {}

    async def __aenter__(self) -> Self:
        try:
            self._catalog = await ToolCatalog.of(self._rt)
        except UsageError:
            raise
        except Exception as error:  # the runtime cannot list its tools: every call gets this error as its answer
            self._catalog = error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def start(self, request: ToolRequest) -> None:
        """Run a call. A second request with the same id and arguments shares the answer of the first."""
        key = local_key(request, len(self._requests))
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.create_task(self._work(request, key, self.name))
        self._requests.append((request, task))

    async def answers(self) -> list[Answer]:
        answers: list[Answer] = []
        for request, task in self._requests:
            done = await task
            if isinstance(done, UsageError):
                raise done
            answers.append(msgspec.structs.replace(done, request=request))
        return answers

    async def _work(self, request: ToolRequest, key: str, response_id: str | None) -> Answer | UsageError:
        assert self._catalog is not None, "a response is entered before its calls start"
        if isinstance(self._catalog, Exception):
            return Answer(request, _why(self._catalog), True)
        async with self._room:
            try:
                return await answer(
                    self._rt,
                    self._catalog,
                    request,
                    thread=self._thread,
                    response_id=response_id,
                    key=key,
                    options=self._options,
                )
            except UsageError as error:
                return error


async def results_of(
    run: ResponseRun,
    response: Any,
    read: Callable[[Any], tuple[str | None, Iterable[ToolRequest]] | None],
    reader: StreamReader,
    shape: Callable[[Answer], R],
    api: str,
) -> list[R]:
    """Run the tool calls of a response of `api`; one result for each, in order. `read` reads a whole response, `reader` a stream."""
    if isinstance(response, AsyncIterable):
        async with WatchedStream(run, response, reader, shape) as watched:
            return await watched.results()
    whole = read(response)
    if whole is not None:
        response_id, calls = whole
    elif isinstance(response, Iterable) and not isinstance(response, str | bytes | Mapping):  # a blocking stream
        calls = [*(call for event in response for call in reader.feed(event)), *reader.close()]
        response_id = reader.response_id
    else:
        raise UsageError(f"{type(response).__name__} is not a response of {api}. Pass a whole response or a stream.")
    run.name = run.name or response_id
    async with run:
        for request in calls:
            run.start(request)
        return [shape(answer) for answer in await run.answers()]


class StreamReader(Protocol):
    """Finds tool calls in the events of a stream."""

    response_id: str | None

    def feed(self, event: Any) -> Iterable[ToolRequest]:
        """The calls that are complete with this event."""
        ...

    def close(self) -> Iterable[ToolRequest]:
        """The stream has ended: the calls that are incomplete."""
        ...


class WatchedStream(Generic[R]):
    """Passes the events of a provider's stream on, and runs each tool call as soon as it is complete."""

    def __init__(self, run: ResponseRun, stream: Any, reader: StreamReader, shape: Callable[[Answer], R]) -> None:
        self._run = run
        self._stream = stream
        self._reader = reader
        self._shape = shape
        self._ended = False
        self._events = self._follow()

    async def __aenter__(self) -> Self:
        await self._run.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._events.aclose()  # type: ignore[attr-defined]  # it is an async generator
        await self._run.__aexit__(kind, error, trace)

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._events

    async def _follow(self) -> AsyncIterator[Any]:
        async for event in self._stream:
            for request in self._reader.feed(event):
                if self._run.name is None:
                    self._run.name = self._reader.response_id
                self._run.start(request)
            yield event
        self._ended = True
        for request in self._reader.close():
            self._run.start(request)

    async def results(self) -> list[R]:
        """Read the rest of the stream; returns one result for each tool call, in order."""
        async for _ in self._events:
            pass
        if not self._ended:
            raise UsageError("the stream was left before its end, so its tool calls are not all known.")
        return [self._shape(answer) for answer in await self._run.answers()]


def options_of(given: Mapping[str, Any]) -> CallOptions:
    """Checks the options of a call that may be set for all calls of a response."""
    allowed = ("timeout", "deadline", "priority")
    for key in given:
        if key not in allowed:
            raise UsageError(f"{key!r} cannot be set for the calls of a response. Known: {', '.join(allowed)}.")
    return cast("CallOptions", dict(given))

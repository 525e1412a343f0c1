"""The tool calls of one response: each runs as soon as it is whole, and each gets exactly one answer, in order.

What the model wrote never raises. A program's own mistake does: a runtime that is not open, a thread's name that cannot be.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar, cast

import msgspec

from clicket.adapters.runtime_access import Book
from clicket.adapters.tool_request import Asked, call_id, local_key
from clicket.errors import ClicketError, UsageError
from clicket.model import CallOptions, ToolResult
from clicket.model.codec import without_notes
from clicket.model.foreign import clean
from clicket.ports import Caller
from clicket.sync import Runtime as SyncRuntime
from clicket.tools.model_arguments import tidy

__all__ = ["Answer", "Reader", "Turn", "Watch", "answer", "answer_all", "options_of", "results_of"]

R = TypeVar("R")
_NAMING = ("tool_not_found", "tool_unavailable", "invalid_input", "permission_denied")
"""Errors whose text names tools."""


class Answer(msgspec.Struct, frozen=True):
    """What the model reads of a call; `result` is None when no call was made."""

    asked: Asked
    text: str
    failed: bool
    result: ToolResult | None = None


async def answer(
    rt: Caller, book: Book, asked: Asked, *, thread: str, turn: str | None, key: str, options: CallOptions | None = None
) -> Answer:
    """Make one call, and never raise for what the model wrote or the runtime refused.

    `turn` names the response that the call is part of: with it the call has the same id whenever it is made again.
    """
    if asked.refusal:
        return Answer(asked, clean(asked.refusal), True)
    name, schema = book.find(asked.name)
    made: CallOptions = {**(options or {}), "thread": thread, "metadata": {"tool_call_id": clean(asked.id, 512)}}
    if turn:
        made["id"] = call_id(thread, turn, key, asked.id)
        made["request_id"] = clean(turn, 512)
    arguments = tidy(asked.arguments, schema)
    try:
        result = await rt.call(name, arguments, **made)
    except UsageError as error:
        if isinstance(arguments, Mapping):
            raise
        # What is no object is the model's doing; a door that cannot even send it may call that wrong use.
        return Answer(asked, clean(f"invalid_input: {error.message}"), True)
    except Exception as error:
        return Answer(asked, _why(error), True)
    if result.success:
        return Answer(asked, clean(result.content), False, result)
    refusal = result.error
    text = without_notes(clean(result.content))
    if refusal is not None and refusal.code in _NAMING:
        text = book.in_wire_names(text)
    return Answer(asked, text, True, result)


def _why(error: Exception) -> str:
    if isinstance(error, ClicketError):
        return clean(f"{error.code}: {error.message}")
    # A door to a runtime elsewhere may break in its own ways; the model gets its answer all the same.
    return clean(f"tool_error: the call could not be made: {type(error).__name__}: {error}")


class Turn:
    """`async with Turn(...) as turn: turn.start(...); answers = await turn.answers()`. Leaving early stops what runs."""

    def __init__(
        self, rt: Caller, thread: str, *, turn: str | None, max_concurrency: int, options: CallOptions
    ) -> None:
        if type(max_concurrency) is not int or max_concurrency < 1:
            raise UsageError(f"max_concurrency must be a whole number of at least 1, not {max_concurrency!r}.")
        if isinstance(rt, SyncRuntime):
            raise UsageError(
                "a stream is watched with an async runtime; with clicket.sync use run(rt, stream, thread)."
            )
        self.name = turn
        self._rt = rt
        self._thread = thread
        self._options = options
        self._room = asyncio.Semaphore(max_concurrency)
        self._book: Book | Exception | None = None
        self._asked: list[tuple[Asked, asyncio.Task[Answer | UsageError]]] = []
        self._tasks: dict[str, asyncio.Task[Answer | UsageError]] = {}

    async def __aenter__(self) -> Self:
        try:
            self._book = await Book.of(self._rt)
        except UsageError:
            raise
        except Exception as error:  # a runtime that cannot be asked for its tools: that is every call's answer
            self._book = error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def start(self, asked: Asked) -> None:
        """Run a call. One that was asked for already, by the same id with the same arguments, runs once and is answered twice."""
        key = local_key(asked, len(self._asked))
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.create_task(self._work(asked, key, self.name))
        self._asked.append((asked, task))

    async def answers(self) -> list[Answer]:
        answers: list[Answer] = []
        for asked, task in self._asked:
            done = await task
            if isinstance(done, UsageError):
                raise done
            answers.append(msgspec.structs.replace(done, asked=asked))
        return answers

    async def _work(self, asked: Asked, key: str, turn: str | None) -> Answer | UsageError:
        assert self._book is not None, "a turn is entered before its calls start"
        if isinstance(self._book, Exception):
            return Answer(asked, _why(self._book), True)
        async with self._room:
            try:
                return await answer(
                    self._rt, self._book, asked, thread=self._thread, turn=turn, key=key, options=self._options
                )
            except UsageError as error:
                return error


async def answer_all(turn: Turn, calls: Iterable[Asked]) -> list[Answer]:
    """Run the calls of a response that is all here."""
    async with turn:
        for asked in calls:
            turn.start(asked)
        return await turn.answers()


async def results_of(
    turn: Turn,
    response: Any,
    read: Callable[[Any], tuple[str | None, Iterable[Asked]]],
    reader: Reader,
    shape: Callable[[Answer], R],
) -> list[R]:
    """Run every tool call of a response, streamed or whole; one result for each, in order."""
    if isinstance(response, AsyncIterable):
        async with Watch(turn, response, reader, shape) as watched:
            return await watched.results()
    response_id, calls = read(response)
    turn.name = turn.name or response_id
    return [shape(answer) for answer in await answer_all(turn, calls)]


class Reader(Protocol):
    """Finds whole tool calls in the events of a stream."""

    response_id: str | None

    def feed(self, event: Any) -> Iterable[Asked]:
        """The calls that this event made whole."""
        ...

    def close(self) -> Iterable[Asked]:
        """The stream has ended: the calls that were begun and are not whole."""
        ...


class Watch(Generic[R]):
    """A provider's stream, passed on event by event while the tool calls that are whole run already."""

    def __init__(self, turn: Turn, stream: Any, reader: Reader, shape: Callable[[Answer], R]) -> None:
        self._turn = turn
        self._stream = stream
        self._reader = reader
        self._shape = shape
        self._ended = False
        self._events = self._follow()

    async def __aenter__(self) -> Self:
        await self._turn.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._events.aclose()  # type: ignore[attr-defined]  # it is an async generator
        await self._turn.__aexit__(kind, error, trace)

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._events

    async def _follow(self) -> AsyncIterator[Any]:
        async for event in self._stream:
            for asked in self._reader.feed(event):
                if self._turn.name is None:
                    self._turn.name = self._reader.response_id
                self._turn.start(asked)
            yield event
        self._ended = True
        for asked in self._reader.close():
            self._turn.start(asked)

    async def results(self) -> list[R]:
        """One result for each tool call of the stream, in order. What is left of the stream is read first."""
        async for _ in self._events:
            pass
        if not self._ended:
            raise UsageError("the stream was left before its end, so its tool calls are not all known.")
        return [self._shape(answer) for answer in await self._turn.answers()]


def options_of(given: Mapping[str, Any]) -> CallOptions:
    """The keywords of a call that a program may set for all calls of a response."""
    allowed = ("timeout", "deadline", "priority")
    for key in given:
        if key not in allowed:
            raise UsageError(f"{key!r} cannot be set for the calls of a response. Known: {', '.join(allowed)}.")
    return cast("CallOptions", dict(given))

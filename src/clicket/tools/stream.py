"""A streamed response of an HTTP service: NDJSON or server-sent events, read as output, progress and outcome by a declared mapping."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec

from clicket.errors import UsageError, did_you_mean
from clicket.model.text.server_sent_events import EventParser, LineParser
from clicket.tools.context import STREAMED, ToolContext
from clicket.tools.response import RestError, excerpt

if TYPE_CHECKING:
    import httpx2

__all__ = ["CutStream", "StreamMapping", "StreamReader", "mapping_of"]

Role = Literal["output", "progress", "result", "error", "ignore"]
_NDJSON = frozenset(
    {
        "application/x-ndjson",
        "application/ndjson",
        "application/jsonl",
        "application/x-jsonlines",
        "application/json-lines",
    }
)
_SSE = "text/event-stream"
_POINTERS = ("output", "step", "total", "text", "result", "error")
_ABSENT = object()


class CutStream(Exception):
    """The stream ended before what ends it came."""


class StreamMapping(msgspec.Struct, frozen=True, kw_only=True):
    """What the records of a stream mean. Values are JSON pointers into a record (`/delta/text`); empty: the whole record.

    A record that is not JSON is text. `done`: the text of a record that ends the stream, such as `[DONE]`.
    """

    output: str | None = None
    """A piece of output."""
    step: str | None = None
    """Progress: the step, of `total` steps, with a `text`."""
    total: str | None = None
    text: str | None = None
    result: str | None = None
    """The output of the whole call. If it is declared, a stream that ends without it was cut."""
    error: str | None = None
    """The call failed, and this is why."""
    done: str | None = None
    events: Mapping[str, Role] = {}
    """Server-sent events by their names: only what the name stands for is read from such a record; others are ignored. Without it
    every record is looked at for everything."""


def mapping_of(where: str, given: Any) -> StreamMapping | None:
    """The mapping that a tool declares, checked."""
    if given is None or isinstance(given, StreamMapping):
        mapping = given
    elif isinstance(given, Mapping):
        known = StreamMapping.__struct_fields__
        for name in given:
            if name not in known:
                raise UsageError(
                    f"{where}: stream has no {name!r}.{did_you_mean(str(name), known)} Known: {', '.join(known)}."
                )
        mapping = StreamMapping(**given)
    else:
        raise UsageError(f"{where}: stream takes a mapping, such as {{'output': '/text'}}, not {type(given).__name__}.")
    if mapping is None:
        return None
    for name in _POINTERS:
        pointer = getattr(mapping, name)
        if pointer is not None and (not isinstance(pointer, str) or (pointer and not pointer.startswith("/"))):
            raise UsageError(f"{where}: stream.{name} must be a JSON pointer such as '/delta/text', not {pointer!r}.")
    for event, role in mapping.events.items():
        if role not in get_args(Role):
            raise UsageError(
                f"{where}: stream.events[{event!r}] must be one of {', '.join(get_args(Role))}, not {role!r}."
            )
    return mapping


class StreamReader:
    """Reads one streamed response into the context of its call."""

    def __init__(self, mapping: StreamMapping, ctx: ToolContext, max_size: int) -> None:
        self._mapping = mapping
        self._ctx = ctx
        self._max_size = max_size
        self._result: Any = _ABSENT

    @staticmethod
    def reads(content_type: str) -> bool:
        """Is it a stream, by its type?"""
        kind = content_type.partition(";")[0].strip().lower()
        return kind == _SSE or kind in _NDJSON

    async def read(self, response: httpx2.Response) -> Any:
        """The output of the call. `CutStream`: the stream ended too soon."""
        ended = False
        async with aclosing(self._records(response)) as records:
            async for name, text in records:
                ended = self._take(name, text)
                if ended:
                    break
                await self._ctx.drain()
        if (self._mapping.done is not None and not ended) or (
            self._mapping.result is not None and self._result is _ABSENT
        ):
            raise CutStream("the stream ended before its result came")
        return STREAMED if self._result is _ABSENT else self._result

    async def _records(self, response: httpx2.Response) -> AsyncGenerator[tuple[str, str], None]:
        """The records with the names of their events. An event that no empty line ended was cut, and is left out; a last row counts."""
        is_sse = response.headers.get("content-type", "").partition(";")[0].strip().lower() == _SSE
        events, rows = EventParser(), LineParser()
        size = 0
        async for part in response.aiter_bytes():
            size += len(part)
            if size > self._max_size:
                raise RestError(
                    f"The stream is larger than {self._max_size} bytes. Ask for less, or raise max_response_size."
                )
            self._ctx.heartbeat()
            if is_sse:
                for event in events.feed(part):
                    yield event.type or "message", event.data
            else:
                for text in filter(None, map(_row, rows.feed(part))):
                    yield "", text
        for text in filter(None, map(_row, rows.feed(b"\n"))):
            yield "", text

    def _take(self, name: str, text: str) -> bool:
        """Read one record. True: it ends the stream."""
        mapping = self._mapping
        if mapping.done is not None and text == mapping.done:
            return True
        if mapping.events and name not in mapping.events:
            return False
        role = mapping.events.get(name)
        record = _value(text)
        if role in (None, "error") and mapping.error is not None:
            failure = _at(record, mapping.error)
            if failure is not _ABSENT and failure is not None:
                shown = failure if isinstance(failure, str) else json.dumps(failure, ensure_ascii=False)
                raise RestError(f"The service reported an error in its stream: {shown[:2_000]}")
        if role in (None, "progress") and mapping.step is not None:
            step, total, said = (_at(record, pointer) for pointer in (mapping.step, mapping.total, mapping.text))
            if _is_number(step):
                self._ctx.progress(step, total if _is_number(total) else None, said if isinstance(said, str) else "")
        if role in (None, "output") and mapping.output is not None:
            piece = _at(record, mapping.output)
            if piece is not _ABSENT and piece is not None:
                self._ctx.emit(piece)
        if role in (None, "result") and mapping.result is not None:
            result = _at(record, mapping.result)
            if result is not _ABSENT:
                self._result = result
                return mapping.done is None
        return False


def _row(line: str) -> str:
    return line.strip().removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")


def _value(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        if text[:1] in ("{", "["):
            raise RestError(
                "A record of the stream is not JSON.", body=excerpt(text.encode("utf-8", "replace"))
            ) from None
        return text


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _at(record: Any, pointer: str | None) -> Any:
    """The value that a JSON pointer names; `_ABSENT`: there is none."""
    if pointer is None:
        return _ABSENT
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(record, dict) and key in record:
            record = record[key]
        elif isinstance(record, list) and key.isascii() and key.isdecimal() and int(key) < len(record):
            record = record[int(key)]
        else:
            return _ABSENT
    return record


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) != float("inf")

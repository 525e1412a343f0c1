"""Reads request bodies, with limits of size and time. JSON must be declared as such and unambiguous."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, TypeVar

import msgspec

from clicket.errors import InvalidInput
from clicket.model.arguments import parse_arguments
from clicket.model.codec import msgspec_problem
from clicket.server.problems import Refused
from clicket.server.request import Request

__all__ = ["BodyReader", "ClientDisconnected", "decode_body", "too_large"]

T = TypeVar("T")
_WHOLE = "(body)"
_SYNTAX = ("(arguments): not valid JSON", "(arguments): not UTF-8 text")


class ClientDisconnected(Refused):
    """The client disconnected before it had sent the whole request. No response can be sent."""

    def __init__(self) -> None:
        super().__init__("request_timeout", "the connection was closed before the request was complete.")


class BodyReader:
    """`max_size` of JSON in bytes; `timeout` in seconds, for a whole JSON body or for one chunk of an upload."""

    def __init__(self, *, max_size: int, timeout: float) -> None:
        self._max_size = max_size
        self._timeout = timeout

    async def json(self, request: Request, model: type[T]) -> T:
        """Read and decode a JSON body. Raises an error that names the field that is wrong."""
        return self.decoded(await self.read(request), model)

    async def optional_json(self, request: Request, model: type[T]) -> T:
        """A JSON body that may be left out: then all fields have their defaults."""
        if request.header(b"content-type") is None:
            if await self._whole(request):
                raise _not_declared_json()
            return model()
        body = await self.read(request)
        return self.decoded(body, model) if body else model()

    async def read(self, request: Request) -> bytes:
        """The bytes of a JSON body."""
        kind = request.header(b"content-type") or ""
        if kind.partition(";")[0].strip().lower() != "application/json":
            raise _not_declared_json()
        return await self._whole(request)

    def decoded(self, body: bytes, model: type[T]) -> T:
        value = decode_body(body, model)
        self.refuse_ambiguous(body)
        return value

    def refuse_ambiguous(self, body: bytes) -> None:
        """Refuse JSON that two parsers may read differently: duplicate keys, NaN, lone surrogates."""
        _strict(body, self._max_size)

    async def chunks(self, request: Request, limit: int) -> AsyncIterator[bytes]:
        """The chunks of a body of up to `limit` bytes. The timeout is for each chunk."""
        _check_length(request, limit)
        size, more = 0, True
        while more:
            try:
                async with asyncio.timeout(self._timeout):
                    message = await request.receive()
            except TimeoutError:
                raise _too_slow(self._timeout) from None
            if message["type"] == "http.disconnect":
                raise ClientDisconnected
            body, more = message.get("body", b""), message.get("more_body", False)
            size += len(body)
            if size > limit:
                raise too_large(limit)
            if body:
                yield body

    async def _whole(self, request: Request) -> bytes:
        _check_length(request, self._max_size)
        if request.scope.get("clicket.whole"):  # it has arrived completely: no timeout is needed
            return await _gathered(request.receive, self._max_size)
        try:
            async with asyncio.timeout(self._timeout):
                return await _gathered(request.receive, self._max_size)
        except TimeoutError:
            raise _too_slow(self._timeout) from None


async def _gathered(receive: Any, limit: int) -> bytes:
    message = await receive()
    body: bytes = message.get("body", b"")
    if message.get("more_body"):
        parts = [body]
        size = len(body)
        while message.get("more_body"):
            if size > limit:
                raise too_large(limit)
            message = await receive()
            parts.append(message.get("body", b""))
            size += len(parts[-1])
        body = b"".join(parts)
    if message["type"] == "http.disconnect":
        raise ClientDisconnected
    if len(body) > limit:
        raise too_large(limit)
    return body


def _check_length(request: Request, limit: int) -> None:
    """Refuse a body whose declared length is too large, without reading it."""
    declared = request.header(b"content-length")
    if declared is not None and declared.isdecimal() and int(declared[:20]) > limit:
        raise too_large(limit)


def too_large(limit: int) -> Refused:
    # The rest of the body is not read, so the connection cannot be used again.
    return Refused("too_large", f"the body is over the limit of {limit:,} bytes. Send less.", (b"connection", b"close"))


def _too_slow(seconds: float) -> Refused:
    text = f"the body did not arrive within {seconds:g} s. Send it faster, or in smaller requests."
    return Refused("request_timeout", text, (b"connection", b"close"))


def _not_declared_json() -> Refused:
    return Refused("unsupported_media_type", "send JSON with the header Content-Type: application/json.")


def decode_body(body: bytes, model: type[T]) -> T:
    """Decode a JSON body. Raises an error that names the field that is wrong."""
    try:
        return msgspec.json.decode(body, type=model)
    except msgspec.ValidationError as error:
        raise InvalidInput([msgspec_problem(error)], whole=_WHOLE) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        _strict(body, len(body) + 1)
        raise _not_json(error) from None


def _not_json(why: object) -> Refused:
    reason = str(why).removeprefix("not valid JSON: ").removesuffix("Send one JSON object.").rstrip(". ")
    return Refused("invalid_json", f"the body is not valid JSON: {reason}. Send one JSON object in UTF-8.")


def _strict(body: bytes, max_size: int) -> None:
    try:
        parse_arguments(body, max_size=max_size)
    except InvalidInput as error:
        if error.message.startswith(_SYNTAX):
            raise _not_json(error.message.partition(": ")[2]) from None
        raise InvalidInput(error.problems, whole=_WHOLE) from None

"""Request bodies: bounded in size and time, JSON by name, and JSON without tricks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, TypeVar

import msgspec

from clicket.errors import InvalidInput
from clicket.model.arguments import parse_arguments
from clicket.server.operations import Asked
from clicket.server.problems import Refused

__all__ = ["Gone", "no_tricks", "optional_json", "pieces", "read", "shaped"]

T = TypeVar("T")
_WHOLE = "(body)"
_SYNTAX = ("(arguments): not valid JSON", "(arguments): not UTF-8 text")


class Gone(Refused):
    """The client left before its request was whole: nobody is there to be answered."""

    def __init__(self) -> None:
        super().__init__("request_timeout", "the connection was closed before the request was whole.")


async def read(asked: Asked) -> bytes:
    """The whole of a JSON body."""
    kind = asked.header(b"content-type") or ""
    if kind.partition(";")[0].strip().lower() != "application/json":
        raise Refused("unsupported_media_type", "send JSON, and say so: Content-Type: application/json.")
    return await _whole(asked)


async def _whole(asked: Asked) -> bytes:
    options = asked.context.options
    limit = options.max_body_size
    _check_length(asked, limit)
    if asked.scope.get("clicket.whole"):  # all of it is there, and nothing to wait for
        return await _gathered(asked.receive, limit)
    try:
        async with asyncio.timeout(options.body_timeout):
            return await _gathered(asked.receive, limit)
    except TimeoutError:
        raise _too_slow(options.body_timeout) from None


async def _gathered(receive: Any, limit: int) -> bytes:
    message = await receive()
    body: bytes = message.get("body", b"")
    if message.get("more_body"):
        parts, size = [body], len(body)
        while message.get("more_body"):
            if size > limit:
                raise _too_large(limit)
            message = await receive()
            parts.append(message.get("body", b""))
            size += len(parts[-1])
        body = b"".join(parts)
    if message["type"] == "http.disconnect":
        raise Gone
    if len(body) > limit:
        raise _too_large(limit)
    return body


async def pieces(asked: Asked, limit: int) -> AsyncIterator[bytes]:
    """A big body, piece by piece, each in its time."""
    _check_length(asked, limit)
    patience, size, more = asked.context.options.body_timeout, 0, True
    while more:
        try:
            async with asyncio.timeout(patience):
                message = await asked.receive()
        except TimeoutError:
            raise _too_slow(patience) from None
        if message["type"] == "http.disconnect":
            raise Gone
        body, more = message.get("body", b""), message.get("more_body", False)
        size += len(body)
        if size > limit:
            raise _too_large(limit)
        if body:
            yield body


def _check_length(asked: Asked, limit: int) -> None:
    """A body that says that it is too large need not be read."""
    said = asked.header(b"content-length")
    if said is not None and said.isdecimal() and int(said[:20]) > limit:
        raise _too_large(limit)


def _too_large(limit: int) -> Refused:
    # The rest of the body is not read: the connection cannot be used again.
    return Refused("too_large", f"the body is over the limit of {limit:,} bytes. Send less.", (b"connection", b"close"))


def _too_slow(seconds: float) -> Refused:
    text = f"the body did not arrive within {seconds:g} s. Send it faster, or in smaller requests."
    return Refused("request_timeout", text, (b"connection", b"close"))


async def optional_json(asked: Asked, decoder: msgspec.json.Decoder[T], empty: T) -> T:
    """A JSON body that may be left out."""
    body = b""
    if asked.header(b"content-type") is None:
        body = await _whole(asked)
        if body:
            raise Refused("unsupported_media_type", "send JSON, and say so: Content-Type: application/json.")
        return empty
    body = await read(asked)
    if not body:
        return empty
    value = shaped(body, decoder)
    no_tricks(body, asked.context.options.max_body_size)
    return value


def shaped(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """The body as its model says, or a problem that names the place."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        raise InvalidInput([{"path": _pointer(path.rstrip("`")), "message": message}], whole=_WHOLE) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        no_tricks(body, len(body) + 1)
        raise _not_json(error) from None


def _not_json(why: object) -> Refused:
    said = str(why).removeprefix("not valid JSON: ").removesuffix("Send one JSON object.").rstrip(". ")
    return Refused("invalid_json", f"the body is not valid JSON: {said}. Send one JSON object in UTF-8.")


def _pointer(path: str) -> str:
    """`.items[0].name` as a JSON pointer."""
    return path.replace("[", "/").replace("]", "").replace(".", "/")


def no_tricks(body: bytes, max_size: int) -> dict[str, Any]:
    """What a lenient reader would take, and another would read differently, is refused: keys twice, NaN, lone surrogates."""
    try:
        return parse_arguments(body, max_size=max_size)
    except InvalidInput as error:
        if error.message.startswith(_SYNTAX):
            raise _not_json(error.message.partition(": ")[2]) from None
        raise InvalidInput(error.problems, whole=_WHOLE) from None

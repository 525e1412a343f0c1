"""A tool's output as plain JSON. Well-known types are converted; other ones are refused with a typed error, never printed."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from os import PathLike, fspath
from typing import Any
from uuid import UUID

import msgspec

from clicket.errors import ResultUnserializable
from clicket.model.codec import decode, encode, has_surrogate, is_small, json_pointer
from clicket.model.files import File, WithFiles

__all__ = ["HoldsFiles", "encode_output", "plain_output", "plain_pieces", "without_files"]

_MAX_BITS = 14_283  # 4,300 digits: Python's own limit for the conversion to text
_MAX_DEPTH = 500
_PIECE = 256 * 1024
_BATCH = 4_000
_FLAT = frozenset({int, float, bool, type(None)})


class HoldsFiles(ResultUnserializable):
    """There is an `Image` or a `File` in it, and this is not a place where files are kept."""


Take = Callable[[File], Any]


def without_files(value: Any, take: Take) -> Any:
    """A plain copy of an output, with what `take` returns in the place of each file, in order."""
    return _plain(value, (), set(), take)


def encode_output(value: Any) -> bytes:
    """A tool's output as JSON text, or `ResultUnserializable` that says which part of it cannot be kept."""
    return plain_output(value)[1]


def plain_output(value: Any) -> tuple[Any, bytes]:
    """A plain copy of a tool's output and its JSON text; what the tool does to its own object later changes nothing."""
    try:
        text = encode(value)
        plain = decode(text)
        if plain == value:
            return plain, text
    except (TypeError, ValueError, OverflowError, RecursionError):
        pass  # the walk converts it, or names what is wrong with it
    try:
        plain = _plain(value, (), set())
        return plain, encode(plain)
    except ResultUnserializable:
        raise
    except RecursionError:
        raise _unserializable((), "it is cyclic or nested too deeply; return a plain, finite structure") from None
    except Exception as error:  # an object of the tool's own may run any code while it is read
        raise _unserializable((), f"{type(error).__name__}: {error}") from error


def plain_pieces(value: Any) -> tuple[Any, list[bytes]]:
    """Like `plain_output`, for big values: the text comes in pieces, and no step holds the interpreter for long.

    A text is not quoted: it is kept as plain UTF-8.
    """
    pieces: list[bytes] = []
    if type(value) is str:
        try:
            pieces += [value[at : at + _PIECE].encode() for at in range(0, len(value), _PIECE)]
        except UnicodeEncodeError:
            raise _unserializable((), "text with a lone surrogate cannot be stored as UTF-8") from None
        return value, pieces
    try:
        return _piecewise(value, (), pieces), pieces
    except RecursionError:
        raise _unserializable((), "it is cyclic or nested too deeply; return a plain, finite structure") from None


def _batch_end(items: Any, at: int) -> int:
    """How far a batch of small items reaches from `at`; `at` itself when that item alone is too big for one."""
    nodes, size = _BATCH, _PIECE
    for end in range(at, min(at + _BATCH, len(items))):
        item = items[end]
        if type(item) is str:
            size -= len(item)
            nodes -= 1
        elif type(item) in _FLAT:
            nodes -= 1
        elif is_small(item, nodes, size):
            nodes -= 64  # a guess: what matters is that no batch takes long
        else:
            return end
        if nodes < 0 or size < 0:
            return max(end, at)
    return min(at + _BATCH, len(items))


def _piecewise(value: Any, path: tuple[str | int, ...], pieces: list[bytes]) -> Any:
    if type(value) is dict and all(type(key) is str for key in value) and not is_small(value, _BATCH, _PIECE):
        copy: dict[str, Any] = {}
        pieces.append(b"{")
        for key, item in value.items():
            name, text = plain_output(key)
            pieces.append((b"," if copy else b"") + text + b":")
            copy[name] = _piecewise(item, (*path, name), pieces)
        pieces.append(b"}")
        return copy
    if type(value) in (list, tuple) and not is_small(value, _BATCH, _PIECE):
        items: list[Any] = []
        pieces.append(b"[")
        at = 0
        while at < len(value):
            if at:
                pieces.append(b",")
            end = _batch_end(value, at)
            if end > at:
                plain, text = plain_output(list(value[at:end]))
                items += plain
                pieces.append(text[1:-1])
                at = end
            else:
                items.append(_piecewise(value[at], (*path, at), pieces))
                at += 1
        pieces.append(b"]")
        return items
    plain, text = plain_output(value)
    pieces.append(text)
    return plain


def _plain(value: Any, path: tuple[str | int, ...], above: set[int], take: Take | None = None) -> Any:
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is int:
        if value.bit_length() > _MAX_BITS:
            raise _unserializable(path, "a number of more than 4,300 digits; return it as text")
        return value
    if kind is float:
        if not math.isfinite(value):
            raise _unserializable(path, f"{value} is not a JSON number; return None or text instead")
        return value
    if kind is str:
        if has_surrogate(value):
            raise _unserializable(path, "text with a lone surrogate cannot be stored as UTF-8")
        return value
    if isinstance(value, Enum):
        return _plain(value.value, path, above, take)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, UUID | Decimal):
        return str(value)
    if isinstance(value, PathLike | File | WithFiles):
        return _file(value, path, take)
    if id(value) in above:
        raise _unserializable(path, "the result contains itself")
    if len(path) > _MAX_DEPTH:
        raise _unserializable(path, "nested too deeply")
    return _plain_container(value, path, above | {id(value)}, take)


def _file(value: PathLike[str] | File | WithFiles, path: tuple[str | int, ...], take: Take | None) -> Any:
    if isinstance(value, PathLike):
        return str(fspath(value))
    if take is None or isinstance(value, WithFiles):
        what = f"{type(value).__name__} is kept only as a part of what a tool returns; put_artifact keeps a file here"
        raise HoldsFiles(_problem(path, what))
    return take(value)


def _plain_container(value: Any, path: tuple[str | int, ...], above: set[int], take: Take | None) -> Any:
    if isinstance(value, Mapping):
        copy: dict[str, Any] = {}
        for key, item in value.items():
            name = key.value if isinstance(key, Enum) else key
            if type(name) is int or type(name) is bool or name is None:
                name = json.dumps(name)
            if not isinstance(name, str):
                raise _unserializable(path, f"a key of type {type(name).__name__} is not JSON")
            name = _plain(str.__str__(name), path, above, take)
            if name in copy:
                raise _unserializable(path, f"two keys are {name!r} as text")
            copy[name] = _plain(item, (*path, name), above, take)
        return copy
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, (*path, index), above, take) for index, item in enumerate(value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain({f.name: getattr(value, f.name) for f in dataclasses.fields(value)}, path, above, take)
    if isinstance(value, msgspec.Struct):
        return _plain(msgspec.structs.asdict(value), path, above, take)
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return _plain(dump(), path, above, take)
    if isinstance(value, str):
        return _plain(str.__str__(value), path, above, take)
    if isinstance(value, int | float):
        return _plain(value.real, path, above, take)
    advice = (
        "return Image(data) or File(data, media_type) of clicket, or base64 text"
        if isinstance(value, bytes | bytearray | memoryview)
        else ("return plain JSON values, a dataclass or a pydantic model")
    )
    raise _unserializable(path, f"{type(value).__name__} is not JSON; {advice}")


def _unserializable(path: tuple[str | int, ...], why: str) -> ResultUnserializable:
    return ResultUnserializable(_problem(path, why))


def _problem(path: tuple[str | int, ...], why: str) -> str:
    return f"the tool ran, but its result cannot be kept: {json_pointer(path) or '(result)'}: {why}."

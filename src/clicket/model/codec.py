"""JSON in, JSON out, nothing else: no class names are read back, nothing is revived, no value is silently altered.

Speed comes from one observation: a value that survives encode and decode unchanged was plain JSON. Only a value that
did not is walked, to name what is wrong with it or to convert what is well known (dates, enums, dataclasses, models).
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from hashlib import sha256
from os import PathLike, fspath
from typing import Any
from uuid import UUID

import msgspec

from clicket.errors import InvalidInput, ResultUnserializable

__all__ = [
    "as_text",
    "canonical",
    "decode",
    "encode",
    "encode_output",
    "fingerprint",
    "json_pointer",
    "parse_arguments",
    "plain_output",
]

MAX_DEPTH = 100
_PIECE = 256 * 1024
_FLAT = frozenset({int, float, bool, type(None)})
_BATCH = 4_000
_MAX_BITS = 14_283  # 4,300 digits: what Python turns into text without being asked twice

_encoder = msgspec.json.Encoder()
_sorted_encoder = msgspec.json.Encoder(order="sorted")
_decoder = msgspec.json.Decoder()

encode = _encoder.encode
decode = _decoder.decode


def json_pointer(path: list[str | int] | tuple[str | int, ...]) -> str:
    """A path as RFC 6901 writes it: `/items/0/name`; the whole document is an empty string."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


# Arguments -----------------------------------------------------------------------------------------------------------


def parse_arguments(given: Any, *, max_size: int, max_depth: int = MAX_DEPTH) -> dict[str, Any]:
    """Plain JSON arguments from a mapping or JSON text, the caller's object left alone; `InvalidInput` otherwise."""
    if type(given) is not dict:
        if isinstance(given, str | bytes | bytearray):
            return _refuse_or_copy(_parse_text(given, max_size, max_depth), max_depth)
        if given is None:
            return {}
    if not isinstance(given, Mapping):
        hint = "Pass a mapping of parameter names to values, or JSON text."
        raise InvalidInput(f"arguments must be an object, not {_kind(given)}", hint)
    try:
        return _parse_mapping(given, max_size, max_depth)
    except InvalidInput:
        raise
    except RecursionError:
        raise _too_deep(max_depth) from None
    except Exception as error:  # a mapping is foreign code, and may do anything while it is read
        raise InvalidInput(f"the arguments could not be read: {type(error).__name__}: {error}") from None


def _parse_mapping(given: Mapping[str, Any], max_size: int, max_depth: int) -> dict[str, Any]:
    for value in given.values():
        if type(value) is str and len(value) > max_size:
            raise _too_large(len(value), max_size)
    try:
        text = encode(given if type(given) is dict else dict(given))
        plain: dict[str, Any] | None = decode(text)
    except (TypeError, ValueError):  # something JSON does not know: the walk below finds it and says where
        text, plain = b"", None
    if plain is None or plain != given:
        plain = _refuse_or_copy(given, max_depth)
        text = encode(plain)
    if len(text) > max_size:
        raise _too_large(len(text), max_size)
    if (text.count(b"{") + text.count(b"[") > max_depth and _depth(text) > max_depth) or b"\\u0000" in text:
        return _refuse_or_copy(plain, max_depth)
    return plain


def _parse_text(given: str | bytes | bytearray, max_size: int, max_depth: int) -> dict[str, Any]:
    if len(given) > max_size:
        raise _too_large(len(given), max_size)
    try:
        text = given if isinstance(given, str) else bytes(given).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"not UTF-8 text: byte {error.start} cannot be read") from None
    raw = text.encode("utf-8", "replace")
    if len(raw) > max_size:
        raise _too_large(len(raw), max_size)
    if _depth(raw) > max_depth:
        raise _too_deep(max_depth)
    duplicated = False

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal duplicated
        found = dict(items)
        duplicated = duplicated or len(found) < len(items)
        return found

    try:
        value = json.loads(text or "{}", object_pairs_hook=pairs, parse_constant=_refuse_constant, parse_float=_finite)
        if duplicated:
            raise InvalidInput(_duplicates(json.loads(text, object_pairs_hook=_Pairs), ()))
    except InvalidInput:
        raise
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"not valid JSON: {error}", "Send one JSON object.") from None
    if not isinstance(value, dict):
        inside = "It looks like JSON inside a JSON string: decode it once."
        hint = inside if isinstance(value, str) else "Send one JSON object."
        raise InvalidInput(f"arguments must be an object, not {_kind(value)}", hint)
    return value


class _Pairs(list[tuple[str, Any]]):
    """An object as it was written, with every key that it had."""


def _duplicates(value: Any, path: tuple[str | int, ...]) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    if isinstance(value, _Pairs):
        counts = Counter(key for key, _ in value)
        message = "the key appears more than once"
        found += [{"path": json_pointer((*path, k)), "message": message} for k, n in counts.items() if n > 1]
        for key, item in value:
            found += _duplicates(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += _duplicates(item, (*path, index))
    return found


def _refuse_constant(name: str) -> Any:
    raise InvalidInput(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise InvalidInput(f"the number {text[:40]} is out of range")
    return value


def _refuse_or_copy(given: Mapping[str, Any], max_depth: int) -> dict[str, Any]:
    problems: list[dict[str, str]] = []
    plain = _walk(given, (), problems, max_depth)
    if problems:
        raise InvalidInput(problems)
    assert isinstance(plain, dict)
    return plain


def _walk(value: Any, path: tuple[str | int, ...], problems: list[dict[str, str]], depth: int) -> Any:
    """A plain copy of `value`, every complaint collected with its path. Arguments convert nothing but tuples."""
    if depth < 0:
        problems.append({"path": json_pointer(path), "message": "nested too deeply"})
        return None
    if isinstance(value, Mapping):
        copy: dict[str, Any] = {}
        for key, item in value.items():
            bad = f"keys must be text, not {_kind(key)}" if type(key) is not str else _bad_text(key)
            if bad:
                problems.append({"path": json_pointer(path), "message": f"a key: {bad}"})
            else:
                copy[key] = _walk(item, (*path, key), problems, depth - 1)
        return copy
    if isinstance(value, list | tuple):
        return [_walk(item, (*path, index), problems, depth - 1) for index, item in enumerate(value)]
    plain, complaint = _scalar(value)
    if complaint:
        problems.append({"path": json_pointer(path), "message": complaint})
    return plain


def _scalar(value: Any) -> tuple[Any, str]:
    """The plain value, and what is wrong with it."""
    if value is None or value is True or value is False:
        return value, ""
    if isinstance(value, str):
        text = str.__str__(value.value if isinstance(value, Enum) else value)
        return text, _bad_text(text)
    if isinstance(value, int):
        plain = int(value)
        return plain, "a number of more than 4,300 digits is refused" if plain.bit_length() > _MAX_BITS else ""
    if isinstance(value, float):
        return float(value), "" if math.isfinite(value) else f"{float(value)} is not a JSON number"
    return None, f"{_kind(value)} is not JSON"


def _bad_text(text: str) -> str:
    if "\x00" in text:
        return "text with a NUL character is refused"
    return "text with a lone surrogate is refused" if _has_surrogate(text) else ""


def _has_surrogate(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _depth(text: bytes) -> int:
    """How deep brackets nest; strings skipped. Only run on texts with many brackets."""
    deepest = level = 0
    in_string = escaped = False
    for byte in text:
        if in_string:
            if escaped:
                escaped = False
            elif byte == 0x5C:
                escaped = True
            elif byte == 0x22:
                in_string = False
        elif byte == 0x22:
            in_string = True
        elif byte in b"[{":
            level += 1
            deepest = max(deepest, level)
        elif byte in b"]}":
            level -= 1
    return deepest


def _too_large(size: int, limit: int) -> InvalidInput:
    return InvalidInput(
        f"arguments of {size:,} bytes or more are over the limit of {limit:,}",
        "Send a reference (a path, a URL, an artifact name) instead, or raise max_arguments_size.",
    )


def _too_deep(limit: int) -> InvalidInput:
    return InvalidInput(f"nested deeper than {limit} levels", "Flatten the arguments.")


def _kind(value: Any) -> str:
    names = {
        type(None): "null",
        bool: "a boolean",
        int: "a number",
        float: "a number",
        str: "text",
        list: "an array",
        dict: "an object",
    }
    return names.get(type(value), type(value).__name__)


# Outputs -------------------------------------------------------------------------------------------------------------


def as_text(output: Any) -> str:
    """An output as a model reads it: text as it is, everything else as JSON."""
    return output if type(output) is str else encode(output).decode()


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
        pass  # the walk says what is wrong with it, or converts it
    try:
        plain = _plain(value, (), set())
        return plain, encode(plain)
    except ResultUnserializable:
        raise
    except RecursionError:
        raise _unserializable((), "it is cyclic or nested too deeply; return a plain, finite structure") from None
    except Exception as error:  # an object of the tool's own may do anything while it is read
        raise _unserializable((), f"{type(error).__name__}: {error}") from error


def is_small(value: Any, nodes: int = 2_000, size: int = 256 * 1024) -> bool:
    """Can the value be encoded in a blink? Looks at no more of it than it takes to say no."""
    if type(value) is str:
        return len(value) <= size
    if type(value) is dict and len(value) <= 8 and _FLAT.issuperset(map(type, value.values())):
        return True
    rest = [value]
    while rest:
        item = rest.pop()
        nodes -= 1
        if type(item) is dict:
            rest.extend(item.values())
        elif type(item) is list or type(item) is tuple:
            rest.extend(item)
        elif type(item) is str:
            size -= len(item)
        if nodes < len(rest) or size < 0:
            return False
    return True


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


def _plain(value: Any, path: tuple[str | int, ...], above: set[int]) -> Any:
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
        if _has_surrogate(value):
            raise _unserializable(path, "text with a lone surrogate cannot be stored as UTF-8")
        return value
    if isinstance(value, Enum):
        return _plain(value.value, path, above)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, UUID | Decimal):
        return str(value)
    if isinstance(value, PathLike):
        return str(fspath(value))
    if id(value) in above:
        raise _unserializable(path, "the result contains itself")
    if len(path) > MAX_DEPTH * 5:
        raise _unserializable(path, "nested too deeply")
    return _plain_container(value, path, above | {id(value)})


def _plain_container(value: Any, path: tuple[str | int, ...], above: set[int]) -> Any:
    if isinstance(value, Mapping):
        copy: dict[str, Any] = {}
        for key, item in value.items():
            name = key.value if isinstance(key, Enum) else key
            if type(name) is int or type(name) is bool or name is None:
                name = json.dumps(name)
            if not isinstance(name, str):
                raise _unserializable(path, f"a key of type {type(name).__name__} is not JSON")
            name = _plain(str.__str__(name), path, above)
            if name in copy:
                raise _unserializable(path, f"two keys are {name!r} as text")
            copy[name] = _plain(item, (*path, name), above)
        return copy
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, (*path, index), above) for index, item in enumerate(value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain({f.name: getattr(value, f.name) for f in dataclasses.fields(value)}, path, above)
    if isinstance(value, msgspec.Struct):
        return _plain(msgspec.structs.asdict(value), path, above)
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return _plain(dump(), path, above)
    if isinstance(value, str):
        return _plain(str.__str__(value), path, above)
    if isinstance(value, int | float):
        return _plain(value.real, path, above)
    advice = (
        "encode it as base64 text or write it to a file"
        if isinstance(value, bytes | bytearray | memoryview)
        else ("return plain JSON values, a dataclass or a pydantic model")
    )
    raise _unserializable(path, f"{type(value).__name__} is not JSON; {advice}")


def _unserializable(path: tuple[str | int, ...], why: str) -> ResultUnserializable:
    return ResultUnserializable(
        f"the tool ran, but its result cannot be kept: {json_pointer(path) or '(result)'}: {why}."
    )


# Sameness ------------------------------------------------------------------------------------------------------------


def canonical(value: Any) -> bytes:
    """One spelling for equal JSON: keys sorted, 1.0 written as 1. True and 1 stay apart."""
    return _sorted_encoder.encode(_one_spelling(value))


def _one_spelling(value: Any) -> Any:
    if type(value) is float and value.is_integer():
        return int(value)
    if type(value) is dict:
        return {key: _one_spelling(item) for key, item in value.items()}
    if type(value) is list:
        return [_one_spelling(item) for item in value]
    return value


def fingerprint(given: Any) -> dict[str, Any]:
    """What is kept of refused arguments: their size and hash, never their content."""
    if isinstance(given, str):
        raw = given.encode("utf-8", "surrogatepass")
    elif isinstance(given, bytes | bytearray):
        raw = bytes(given)
    else:
        try:
            raw = _sorted_encoder.encode(given)
        except (TypeError, ValueError, RecursionError):
            raw = _roughly(given)
    return {"size": len(raw), "sha256": sha256(raw).hexdigest()}


def _roughly(given: Any) -> bytes:
    """Bytes for what JSON cannot say: foreign objects count by their type, what nests too deeply by its outside."""
    try:
        text = json.dumps(given, default=lambda value: f"<{type(value).__name__}>", skipkeys=True)
    except (TypeError, ValueError, RecursionError):
        text = f"<{type(given).__name__} of {len(given) if isinstance(given, Mapping | list) else '?'}>"
    return text.encode("utf-8", "surrogatepass")

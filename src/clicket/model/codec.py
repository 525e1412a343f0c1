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
    if isinstance(given, str | bytes | bytearray):
        return _refuse_or_copy(_parse_text(given, max_size, max_depth), max_depth)
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidInput(
            f"arguments must be an object, not {_kind(given)}",
            "Pass a mapping of parameter names to values, or JSON text.",
        )
    for value in given.values():
        if isinstance(value, str | bytes) and len(value) > max_size:
            raise _too_large(len(value), max_size)
    try:
        text = encode(given if type(given) is dict else dict(given))
        if len(text) > max_size:
            raise _too_large(len(text), max_size)
        plain: dict[str, Any] = decode(text)
    except RecursionError:
        raise _too_deep(max_depth) from None
    except (TypeError, ValueError):
        # Something JSON does not know (a surrogate, an object, an odd key): the walk finds it and says where.
        plain = _refuse_or_copy(given, max_depth)
        text = encode(plain)
    if plain != given:
        plain = _refuse_or_copy(given, max_depth)
        text = encode(plain)
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
    if _depth(text.encode("utf-8", "replace")) > max_depth:
        raise _too_deep(max_depth)
    duplicates: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) < len(items):
            counts = Counter(key for key, _ in items)
            duplicates.extend(key for key, count in counts.items() if count > 1)
        return found

    try:
        value = json.loads(text or "{}", object_pairs_hook=pairs, parse_constant=_refuse_constant, parse_float=_finite)
    except InvalidInput:
        raise
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"not valid JSON: {error}", "Send one JSON object.") from None
    if duplicates:
        raise InvalidInput(
            [{"path": json_pointer([key]), "message": "the key appears more than once"} for key in duplicates]
        )
    if not isinstance(value, dict):
        hint = (
            "It looks like JSON inside a JSON string: decode it once."
            if isinstance(value, str)
            else "Send one JSON object."
        )
        raise InvalidInput(f"arguments must be an object, not {_kind(value)}", hint)
    return value


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

    def complain(message: str) -> None:
        problems.append({"path": json_pointer(path), "message": message})

    if depth < 0:
        complain("nested too deeply")
        return None
    kind = type(value)
    if value is None or kind is bool or kind is int:
        return value
    if kind is float:
        if not math.isfinite(value):
            complain(f"{value} is not a JSON number")
        return value
    if isinstance(value, str):
        text = str(value.value) if isinstance(value, Enum) else value
        if "\x00" in text:
            complain("text with a NUL character is refused")
        elif _has_surrogate(text):
            complain("text with a lone surrogate is refused")
        return text
    if isinstance(value, Mapping):
        copy: dict[str, Any] = {}
        for key, item in value.items():
            if type(key) is not str:
                complain(f"keys must be text, not {_kind(key)}")
            elif "\x00" in key or _has_surrogate(key):
                complain("a key with a NUL character or a lone surrogate is refused")
            else:
                copy[key] = _walk(item, (*path, key), problems, depth - 1)
        return copy
    if isinstance(value, list | tuple):
        return [_walk(item, (*path, index), problems, depth - 1) for index, item in enumerate(value)]
    if isinstance(value, int | float):
        return _walk(value.real, path, problems, depth)
    complain(f"{_kind(value)} is not JSON")
    return None


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
    except RecursionError:
        raise ResultUnserializable(
            "the result is cyclic or nested too deeply; return a plain, finite structure."
        ) from None
    except (TypeError, ValueError, OverflowError):
        pass
    plain = _plain(value, (), set())
    return plain, encode(plain)


def _plain(value: Any, path: tuple[str | int, ...], above: set[int]) -> Any:
    kind = type(value)
    if value is None or kind is bool or kind is int:
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
            copy[_plain(str(name), path, above)] = _plain(item, (*path, str(name)), above)
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
        return _plain(str(value), path, above)
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

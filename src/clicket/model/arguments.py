"""Arguments as callers send them: a mapping or JSON text. What is not plain, finite, bounded JSON is refused, with its path.

A few short scalars are proved plain by their types alone. Everything else is encoded and decoded: a value that comes back unchanged
was plain JSON. Only a value that did not is walked, to name what is wrong with it.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from enum import Enum
from itertools import accumulate, islice
from typing import Any

import msgspec

from clicket.errors import MAX_PROBLEMS, InvalidInput
from clicket.model.codec import canonical, decode, decode_big, encode, has_surrogate, is_small, json_pointer

__all__ = ["object_in", "parse_arguments", "weigh"]

MAX_DEPTH = 100
MAX_BITS = 14_283  # 4,300 digits: Python's own limit for the conversion to text
_MAX_HASHED = 1024 * 1024
_SMALL_NODES = 20_000
_FEW = 32
_SHORT = 512
_BIG = 2**63

_sorted_encoder = msgspec.json.Encoder(order="sorted")
_STRING = re.compile(rb'"[^"\\]*+(?>(?:\\.[^"\\]*+)*)"?', re.DOTALL)
"""A JSON string. One without an end reaches to the end of the text: otherwise each quote in it would be tried as a beginning."""
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


def parse_arguments(given: Any, *, max_size: int, max_depth: int = MAX_DEPTH) -> dict[str, Any]:
    """A plain JSON copy of the arguments; the caller's object is not changed. Raises `InvalidInput`."""
    if type(given) is dict:
        if len(given) <= _FEW and _is_flat(given, max_size):
            return given.copy()
    else:
        if isinstance(given, str | bytes | bytearray):
            return _parse_text(given, max_size, max_depth)
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
    except Exception as error:  # a mapping of the caller's may run any code while it is read
        raise InvalidInput(f"the arguments could not be read: {type(error).__name__}: {error}") from None


def object_in(text: str) -> dict[str, Any] | None:
    """The object in a short text. If its values are scalars without NUL it is what `parse_arguments` returns. None: parse it."""
    if len(text) > _SHORT or not text.isascii():
        return None
    try:
        value = decode(text)
    except ValueError:  # msgspec's errors are ValueErrors
        return None
    # Fewer pairs than colons: a key appears twice, or a text has a colon.
    return value if type(value) is dict and text.count(":") == len(value) else None


def _is_flat(given: dict[Any, Any], max_size: int) -> bool:
    """Is it surely plain JSON: ASCII text, finite floats, whole numbers of 64 bits? False: look more closely."""
    size = 0
    for key, value in given.items():
        if type(key) is not str or not key.isascii() or "\x00" in key:
            return False
        size += len(key)
        kind = type(value)
        if kind is str:
            if not value.isascii() or "\x00" in value:
                return False
            size += len(value)
        elif kind is int:
            if not -_BIG < value < _BIG:
                return False
        elif kind is float:
            if not -math.inf < value < math.inf:
                return False
        elif kind is not bool and value is not None:
            return False
    # A character takes six bytes at most, a number with its punctuation less than 32.
    return 6 * size + 32 * len(given) + 2 <= max_size


def _parse_mapping(given: Mapping[str, Any], max_size: int, max_depth: int) -> dict[str, Any]:
    for value in given.values():
        if type(value) is str:
            if len(value) > max_size:
                raise _too_large(len(value), max_size)
        elif type(value) in (list, dict) and not is_small(value, max_size // 2, max_size):
            raise _too_deep(max_depth) if _goes_deeper(value, max_depth) else _too_large(max_size + 1, max_size)
    try:
        text = encode(given if type(given) is dict else dict(given))
        plain: dict[str, Any] | None = decode_big(text)
    except (TypeError, ValueError):  # not JSON: the walk below finds the place
        text, plain = b"", None
    if plain is None or plain != given:
        plain = _refuse_or_copy(given, max_depth)
        text = encode(plain)
    if len(text) > max_size:
        raise _too_large(len(text), max_size)
    if (text.count(b"{") + text.count(b"[") > max_depth and _is_deep(text, max_depth)) or b"\\u0000" in text:
        return _refuse_or_copy(plain, max_depth)
    return plain


def _goes_deeper(value: Any, levels: int) -> bool:
    """Is there a container in a container and so on, this many times? It follows the first one only: that finds what holds itself."""
    for _ in range(levels):
        value = next((item for item in _items(value) if type(item) in (list, dict)), None)
        if value is None:
            return False
    return True


def _items(value: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if type(value) is dict else value


def _parse_text(given: str | bytes | bytearray, max_size: int, max_depth: int) -> dict[str, Any]:
    if len(given) > max_size:
        raise _too_large(len(given), max_size)
    try:
        raw = given.encode("utf-8", "surrogatepass") if isinstance(given, str) else bytes(given)
        text = given if isinstance(given, str) else raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"not UTF-8 text: byte {error.start} cannot be read") from None
    if len(raw) > max_size:
        raise _too_large(len(raw), max_size)
    if _is_deep(raw, max_depth):
        raise _too_deep(max_depth)
    try:
        value = decode_big(raw or b"{}")
    except (ValueError, RecursionError):
        value = None
    # Fewer pairs than were written: a key appears twice.
    if type(value) is not dict or b"\\u0000" in raw or not _has_all_pairs(raw, value):
        return _parse_slowly(text, max_depth)
    return value


def _parse_slowly(text: str, max_depth: int) -> dict[str, Any]:
    """Parse with the standard library, which tells what is wrong and where."""
    try:
        value = json.loads(text or "{}", parse_constant=_refuse_constant, parse_float=_finite)
        duplicates = _duplicates(json.loads(text or "{}", object_pairs_hook=_Pairs))
    except InvalidInput:
        raise
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"not valid JSON: {error}", "Send one JSON object.") from None
    if duplicates:
        raise InvalidInput(duplicates)
    if not isinstance(value, dict):
        inside = "It looks like JSON inside a JSON string: decode it once."
        hint = inside if isinstance(value, str) else "Send one JSON object."
        raise InvalidInput(f"arguments must be an object, not {_kind(value)}", hint)
    return _refuse_or_copy(value, max_depth)


def _has_all_pairs(raw: bytes, value: dict[str, Any]) -> bool:
    return raw.count(b":") == len(value) or _pairs_in(raw) == _pairs_in(encode(value))


def _pairs_in(text: bytes) -> int:
    """How many keys a JSON text writes."""
    return _STRING.sub(b"", text).count(b":")


def _is_deep(text: bytes, limit: int) -> bool:
    """Do brackets nest deeper than the limit? Whether they fit together is left to the parser."""
    if text.count(b"[") + text.count(b"{") <= limit:
        return False
    brackets = _STRING.sub(b"", text).translate(None, _NOT_BRACKETS)
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > limit


class _Pairs(list[tuple[str, Any]]):
    """An object as it was written, with every key that it had."""


def _duplicates(value: Any) -> list[dict[str, str]]:
    """A problem for each key that an object writes twice; no more of them than an error lists."""
    found: list[dict[str, str]] = []
    _find_duplicates(value, (), found)
    return found


def _find_duplicates(value: Any, path: tuple[str | int, ...], found: list[dict[str, str]]) -> None:
    if len(found) > MAX_PROBLEMS:
        return
    if isinstance(value, _Pairs):
        counts = Counter(key for key, _ in value)
        message = "the key appears more than once"
        twice = islice((key for key, count in counts.items() if count > 1), MAX_PROBLEMS + 1)
        found += [{"path": json_pointer((*path, key)), "message": message} for key in twice]
        for key, item in value:
            if isinstance(item, list):
                _find_duplicates(item, (*path, key), found)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, list):
                _find_duplicates(item, (*path, index), found)


def _refuse_constant(name: str) -> Any:
    raise InvalidInput(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise InvalidInput(f"the number {text[:40]} is out of range")
    return value


def _refuse_or_copy(given: Mapping[str, Any], max_depth: int) -> dict[str, Any]:
    problems: list[dict[str, str]] = []
    plain = _walk(given, None, problems, max_depth)
    if problems:
        raise InvalidInput(problems)
    assert isinstance(plain, dict)
    return plain


_Path = tuple[Any, str | int] | None
"""The path of the parent and the own key: making it costs the same at every depth."""


def _pointer(path: _Path) -> str:
    keys: list[str | int] = []
    while path is not None:
        path, key = path
        keys.append(key)
    return json_pointer(reversed(keys))


def _walk(value: Any, path: _Path, problems: list[dict[str, str]], depth: int) -> Any:
    """A plain copy of `value`, `depth` levels deep at most; problems are collected with their paths, up to the number that an error
    lists. Nothing but tuples and enums is converted."""
    if len(problems) > MAX_PROBLEMS:
        return None
    if type(value) is list or isinstance(value, list | tuple):
        if depth == 0:
            raise InvalidInput([{"path": _pointer(path), "message": "nested too deeply"}])
        return [_walk(item, (path, index), problems, depth - 1) for index, item in enumerate(value)]
    if type(value) is dict or isinstance(value, Mapping):
        if depth == 0:
            raise InvalidInput([{"path": _pointer(path), "message": "nested too deeply"}])
        copy: dict[str, Any] = {}
        for key, item in value.items():
            bad = f"keys must be text, not {_kind(key)}" if type(key) is not str else _bad_text(key)
            if bad:
                problems.append({"path": _pointer(path), "message": f"a key: {bad}"})
            else:
                copy[key] = _walk(item, (path, key), problems, depth - 1)
        return copy
    plain, complaint = _scalar(value)
    if complaint:
        problems.append({"path": _pointer(path), "message": complaint})
    return plain


def _scalar(value: Any) -> tuple[Any, str]:
    """The plain value, and what is wrong with it (empty: nothing)."""
    if value is None or value is True or value is False:
        return value, ""
    if isinstance(value, str):
        text = str.__str__(value.value if isinstance(value, Enum) else value)
        return text, _bad_text(text)
    if isinstance(value, int):
        plain = int(value)
        return plain, "a number of more than 4,300 digits is refused" if plain.bit_length() > MAX_BITS else ""
    if isinstance(value, float):
        return float(value), "" if math.isfinite(value) else f"{float(value)} is not a JSON number"
    return None, f"{_kind(value)} is not JSON"


def _bad_text(text: str) -> str:
    if "\x00" in text:
        return "text with a NUL character is refused"
    return "text with a lone surrogate is refused" if has_surrogate(text) else ""


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


def weigh(given: Any) -> tuple[int, bytes]:
    """The size of arguments, and the bytes that stand for them in a hash: the same for equal JSON, as text or as a mapping.

    What is not valid, or has too many values to be parsed here, stands for itself. Of a big text that is the beginning; the size of a big
    object is an estimate, as writing it out would take too long.
    """
    plain = _small_arguments(given)
    if plain is not None:
        raw = canonical(plain)
        return len(raw), raw
    if isinstance(given, str):
        raw = given[:_MAX_HASHED].encode("utf-8", "surrogatepass")
        return len(given) if len(given) > _MAX_HASHED else len(raw), raw
    if isinstance(given, bytes | bytearray):
        return len(given), bytes(given[:_MAX_HASHED])
    raw = _outline(given)
    return len(raw) if is_small(given, _SMALL_NODES, _MAX_HASHED) else _weight(given), raw


def _small_arguments(given: Any) -> dict[str, Any] | None:
    """Arguments that are valid, and can be parsed and encoded quickly; else None."""
    if not (
        is_small(given) if isinstance(given, str | bytes | bytearray) else is_small(given, _SMALL_NODES, _MAX_HASHED)
    ):
        return None
    try:
        plain = parse_arguments(given, max_size=_MAX_HASHED)
    except InvalidInput:
        return None
    return plain if is_small(plain, _SMALL_NODES, _MAX_HASHED) else None


def _outline(given: Any, *, inside: bool = False) -> bytes:
    """Bytes for any object: its JSON if that is small and valid; foreign or big parts are replaced by their type and length."""
    try:
        if is_small(given, _SMALL_NODES, _MAX_HASHED):
            return _sorted_encoder.encode(given)
        if isinstance(given, Mapping) and not inside and len(given) < 1_000:
            return b"\n".join(repr(key).encode() + _outline(value, inside=True) for key, value in given.items())
    except (TypeError, ValueError, RecursionError):
        pass
    try:
        if is_small(given, _SMALL_NODES, _MAX_HASHED):
            text = json.dumps(given, default=lambda value: f"<{type(value).__name__}>", skipkeys=True)
            return text.encode("utf-8", "surrogatepass")
        return f"<{type(given).__name__} of {len(given)}>".encode()
    except Exception:  # the caller's objects may run any code
        return f"<{type(given).__name__}>".encode()


def _weight(given: Any, depth: int = 4) -> int:
    """An estimate of an object's size as JSON, from its outer levels and first members."""
    if isinstance(given, str):
        return len(given) + 2
    if depth == 0 or not isinstance(given, Mapping | list | tuple) or not given:
        return 8
    members = list(islice(given.values() if isinstance(given, Mapping) else given, 100))
    return 2 + sum(_weight(member, depth - 1) + 2 for member in members) * len(given) // len(members)

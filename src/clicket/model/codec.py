"""JSON encoding and decoding: no class names are read back, no objects are revived, no value is silently changed."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterable
from typing import Any

import msgspec

__all__ = [
    "CUT_NOTE",
    "as_text",
    "canonical",
    "clean",
    "decode",
    "decode_big",
    "encode",
    "has_surrogate",
    "is_small",
    "json_pointer",
    "msgspec_problem",
    "without_notes",
]

_FLAT = frozenset({int, float, bool, type(None)})
_TEXTS = frozenset({str, bytes, bytearray})

_encoder = msgspec.json.Encoder()
_sorted_encoder = msgspec.json.Encoder(order="sorted")
_decoder = msgspec.json.Decoder()

encode = _encoder.encode
decode = _decoder.decode

_BIG = 64 * 1024
_MAX_LEVELS = 1_000
_MAYBE_WHOLE = re.compile(rb"\.0|[0-9]e")
"""In the JSON of every float that is a whole number."""


def decode_big(text: bytes) -> Any:
    """`decode` for text of any size. The garbage collector would look at the growing value again and again."""
    if len(text) < _BIG or not gc.isenabled():
        return decode(text)
    gc.disable()
    try:
        return decode(text)
    finally:
        gc.enable()


def json_pointer(path: Iterable[str | int]) -> str:
    """A path as RFC 6901 writes it: `/items/0/name`; the whole document is an empty string."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def msgspec_problem(error: msgspec.ValidationError) -> dict[str, str]:
    """An error of msgspec's as a problem of `InvalidInput`: it ends in a path such as `$.items[0].name`."""
    message, _, path = str(error).partition(" - at `$")
    return {"path": path.rstrip("`").replace("[", "/").replace("]", "").replace(".", "/"), "message": message}


CUT_NOTE = "[clicket: cut; "
"""Begins the note under a text that was cut. No other text that a model reads contains it."""


def as_text(output: Any) -> str:
    """An output as a model reads it: text as it is, everything else as JSON, without notes that look like ours."""
    return without_notes(output if type(output) is str else encode(output).decode())


def without_notes(text: str) -> str:
    """A tool's text in which what looks like a note of ours is marked: it is part of the text, and the text is not cut."""
    return text.replace(CUT_NOTE, f"[not {CUT_NOTE[1:]}") if CUT_NOTE in text else text


def clean(text: Any) -> str:
    """Text that can be stored: what is not UTF-8 is written as an escape."""
    return str(text).encode("utf-8", "backslashreplace").decode()


def has_surrogate(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def is_small(value: Any, nodes: int = 2_000, size: int = 256 * 1024) -> bool:
    """Can the value be encoded quickly? Stops as soon as it is found too big, or too deep: a value that holds itself has no end."""
    if type(value) in _TEXTS:
        return len(value) <= size
    if type(value) is dict and len(value) <= 8 and _FLAT.issuperset(map(type, value.values())):
        return True
    level = [value]
    depth = 0
    while level:
        depth += 1
        if depth > _MAX_LEVELS:
            return False
        below: list[Any] = []
        for item in level:
            nodes -= 1
            if type(item) is dict:
                if len(item) > nodes:
                    return False
                below.extend(item.values())
            elif type(item) is list or type(item) is tuple:
                if len(item) > nodes:
                    return False
                below.extend(item)
            elif type(item) is str:
                size -= len(item)
            if nodes < len(below) or size < 0:
                return False
        level = below
    return True


def canonical(value: Any) -> bytes:
    """One spelling for equal JSON: keys sorted, 1.0 written as 1. True and 1 stay apart."""
    text = _sorted_encoder.encode(value)
    return text if _MAYBE_WHOLE.search(text) is None else _sorted_encoder.encode(_one_spelling(value))


def _one_spelling(value: Any) -> Any:
    if type(value) is float and value.is_integer():
        return int(value)
    if type(value) is dict:
        return {key: _one_spelling(item) for key, item in value.items()}
    if type(value) is list:
        return [_one_spelling(item) for item in value]
    return value

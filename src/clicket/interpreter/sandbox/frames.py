"""Frames between host and program: four bytes of length, big-endian, then one JSON object in UTF-8. This is the blocking side,
for the sandboxed child; the host uses its own strict decoder."""

# The C accelerator of `json` is used directly: the package imports `re` and `enum`, which takes longer than the rest of a
# program's start. Where the accelerator is missing or has changed, the package is used.

from __future__ import annotations

import builtins
from os import read as _read_some
from os import write as _write_some

TYPE_CHECKING = False  # type checkers treat this name as true; `typing` is not imported for the same reason
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["MAX_FRAME", "BadFrame", "decode", "encode", "pack", "read", "write"]

# The program may break `os` and the builtins, and frames must still work: the functions below use a copy of the builtins.
globals()["__builtins__"] = dict(vars(builtins))

MAX_FRAME = 32 * 1024 * 1024


class BadFrame(ValueError):
    """The data is not a valid frame: incomplete, too long, or not one JSON object."""


def pack(value: dict[str, Any], *, strict: bool = False) -> bytes:
    """One frame. `strict`: lone surrogates raise `UnicodeEncodeError`."""
    body = _to_text(value).encode() if strict else encode(value)
    if len(body) > MAX_FRAME:
        raise BadFrame(f"a frame may have {MAX_FRAME} bytes, this one has {len(body)}; send less, or in pieces.")
    return len(body).to_bytes(4, "big") + body


def write(fd: int, value: dict[str, Any]) -> None:
    """Write the whole frame; blocks while the pipe is full."""
    data = memoryview(pack(value))
    while data:
        data = data[_write_some(fd, data) :]


def read(fd: int) -> dict[str, Any] | None:
    """The next frame; None when the other side has closed between two frames."""
    head = _read_exactly(fd, 4)
    if not head:
        return None
    size = int.from_bytes(head, "big") if len(head) == 4 else -1
    if size > MAX_FRAME:
        raise BadFrame(f"a frame may have {MAX_FRAME} bytes, this one announces {size}.")
    body = _read_exactly(fd, size) if size >= 0 else b""
    if size < 0 or len(body) < size:
        raise BadFrame("the other side closed in the middle of a frame.")
    value = decode(body)
    if not isinstance(value, dict):
        raise BadFrame(f"a frame is one JSON object, not a {type(value).__name__}.")
    return value


def encode(value: Any) -> bytes:
    # Lone surrogates, which UTF-8 cannot encode, become "?". Callers that want to show them escape them first.
    return _to_text(value).encode("utf-8", "replace")


def decode(body: bytes) -> Any:
    try:
        text = body.decode("utf-8")
        value, end = _from_text(text)
    except (ValueError, StopIteration, RecursionError) as error:
        raise BadFrame(f"a frame is one JSON object in UTF-8: {error}.") from error
    if end != len(text):
        raise BadFrame(f"a frame is one JSON object, but {len(text) - end} characters follow it.")
    return value


def _read_exactly(fd: int, size: int) -> bytes:
    """`size` bytes, or fewer if the other side has closed."""
    piece = _read_some(fd, size) if size else b""
    if len(piece) == size or not piece:
        return piece
    pieces = bytearray(piece)
    while len(pieces) < size and (piece := _read_some(fd, min(size - len(pieces), 1 << 20))):
        pieces += piece
    return bytes(pieces)


def _not_json(value: object) -> Any:
    raise TypeError(f"{type(value).__name__} cannot be sent in a frame.")


def _quick() -> tuple[Callable[[Any], str], Callable[[str], tuple[Any, int]]]:
    import _json

    class Options:
        strict = True
        object_hook = object_pairs_hook = None
        parse_float, parse_int, parse_constant = float, int, float

    options: Any = Options()
    scan = _json.make_scanner(options)
    # markers, default, encoder, indent, separators, sort_keys, skipkeys, allow_nan
    pieces = _json.make_encoder(None, _not_json, _json.encode_basestring, None, ":", ",", False, False, False)

    def to_text(value: Any) -> str:
        return "".join(pieces(value, 0))

    def from_text(text: str) -> tuple[Any, int]:
        value, end = scan(text, 0)
        return value, end

    return to_text, from_text


def plain_codec() -> tuple[Callable[[Any], str], Callable[[str], tuple[Any, int]]]:
    import json

    encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_not_json)
    return encoder.encode, json.JSONDecoder().raw_decode


def _choose() -> tuple[Callable[[Any], str], Callable[[str], tuple[Any, int]]]:
    sample: dict[str, Any] = {"a": [1, 2.5, None, True, "é\n\U0001f600"], "b": {}}
    try:
        to_text, from_text = _quick()
        if from_text(text := to_text(sample)) == (sample, len(text)):
            return to_text, from_text
    except (ImportError, AttributeError, TypeError, ValueError):
        pass
    return plain_codec()


_to_text, _from_text = _choose()

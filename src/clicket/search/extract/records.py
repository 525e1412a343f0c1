"""Files of documents: JSON Lines, plain or gzipped, and JSON arrays. They are read line by line, so their size is no matter.

A line that is no document is counted and passed over. What unpacks to more than a text could is not read to its end.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any

import msgspec

from clicket.search.extract.failing import Unreadable
from clicket.search.extract.guessing import decode_text

__all__ = ["Record", "Wrong", "decode_json", "read_lines", "read_list"]

MAX_LINE = 8 * 1024 * 1024
_MAX_BLANK = 100_000
_MAX_VALUES = 2_000_000
_MAX_RATIO, _FREE = 200, 64 * 1024 * 1024
"""How much more than its size a file may unpack to, once it is this long."""
_TEXTS = ("text", "content", "contents", "body", "passage", "paragraph", "paragraphs", "sentences")
_TITLES = ("title", "name", "heading", "subject")
_URLS = ("url", "link", "uri", "href")
_IDS = ("id", "_id", "docid", "doc_id", "key")


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One document of a file. `id` is its own, or empty; `number` is its line, or its place, counted from 1."""

    number: int
    id: str
    title: str
    text: str
    url: str


class Wrong(msgspec.Struct, frozen=True):
    """A line that is no document."""

    number: int
    reason: str


def read_lines(file: IO[bytes], size: int, *, packed: bool) -> Iterator[Record | Wrong]:
    """The documents of JSON Lines. `size` is that of the file."""
    stream: IO[bytes] = gzip.GzipFile(fileobj=file) if packed else file  # type: ignore[assignment]  # reads as a file does
    total = blank = number = 0
    try:
        while line := stream.readline(MAX_LINE):
            number += 1
            total += len(line)
            if len(line) == MAX_LINE and not line.endswith(b"\n"):
                raise Unreadable(f"line {number} is longer than {MAX_LINE // 2**20} MiB; it was read up to there")
            if packed and total > max(_FREE, size * _MAX_RATIO):
                raise Unreadable(
                    f"it unpacks to more than {_MAX_RATIO} times its size; it was read up to line {number}"
                )
            if not line.strip():
                blank += 1
                if blank > _MAX_BLANK:
                    raise Unreadable(f"it is mostly empty lines; it was read up to line {number}")
                continue
            blank = 0
            yield _record(number, line)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise Unreadable(f"damaged: {_plain(error)}; it was read up to line {number}") from None


def read_list(data: bytes) -> Iterator[Record | Wrong] | None:
    """The documents of a JSON array, or None when it is no array of documents."""
    try:
        value = decode_json(data)
    except (Unreadable, RecursionError):
        return None
    if isinstance(value, dict):
        lists = [one for one in value.values() if isinstance(one, list)]
        value = lists[0] if len(lists) == 1 else None
    if not isinstance(value, list):
        return None
    first = [isinstance(one, dict) and _text_of(one) is not None for one in value[:20]]
    if 2 * sum(first) < max(len(first), 1):
        return None
    return (_of(number, one) for number, one in enumerate(value, start=1))


def decode_json(data: bytes) -> Any:
    """A whole file of JSON, unless it would take much more memory than it is long."""
    if data.count(b"[") + data.count(b"{") > _MAX_VALUES or data.count(b",") > 4 * _MAX_VALUES:
        raise Unreadable("it has more values than are read at once; write one document on a line, and name it .jsonl")
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Unreadable("damaged: not JSON") from None


def _record(number: int, line: bytes) -> Record | Wrong:
    if number == 1 and line.startswith(b"\xef\xbb\xbf"):
        line = line[3:]
    try:
        value = msgspec.json.decode(line)
    except UnicodeDecodeError:
        return Wrong(number, "not UTF-8")
    except RecursionError:
        return Wrong(number, "nested too deeply")
    except msgspec.DecodeError:
        try:  # a few writers use another encoding, or half a surrogate pair
            value = _lenient(line)
        except (ValueError, RecursionError):
            return Wrong(number, "not JSON")
    return _of(number, value)


def _lenient(line: bytes) -> Any:
    import json

    return json.loads(decode_text(line))


def _of(number: int, value: Any) -> Record | Wrong:
    if not isinstance(value, Mapping):
        return Wrong(number, "not an object")
    text = _text_of(value)
    if text is None:
        return Wrong(number, "no text: a document has {id, title, text}")
    return Record(
        number=number, id=_first(value, _IDS), title=_first(value, _TITLES), text=text, url=_first(value, _URLS)
    )


def _text_of(value: Mapping[str, Any]) -> str | None:
    for name in _TEXTS:
        found = value.get(name)
        if isinstance(found, str):
            return _sound(found)
        if isinstance(found, list) and all(isinstance(one, str) for one in found):
            return _sound("\n\n".join(found) if name == "paragraphs" else " ".join(found))
    return None


def _first(value: Mapping[str, Any], names: Iterable[str]) -> str:
    for name in names:
        found = value.get(name)
        if isinstance(found, str) and found:
            return _sound(found)
        if isinstance(found, int) and not isinstance(found, bool):
            return str(found)
    return ""


def _sound(text: str) -> str:
    """Without halves of surrogate pairs, which nothing could print."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def _plain(error: BaseException) -> str:
    return str(error) or type(error).__name__

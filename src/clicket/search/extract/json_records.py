"""Files of many documents: JSON Lines, plain or gzipped, read line by line at any size, and JSON arrays.

A record that is not a document is skipped and reported. A gzip file that unpacks to more than text could is not read to its end.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any

import msgspec

from clicket.model.text.charset import decode_text
from clicket.model.text.surrogates import clean
from clicket.search.extract.extracted_text import Unreadable

__all__ = ["InvalidRecord", "Record", "decode_json", "read_lines", "read_list"]

MAX_LINE = 8 * 1024 * 1024
MAX_BLANK = 100_000
_MAX_VALUES = 2_000_000
_MAX_RATIO, RATIO_FROM = 200, 64 * 1024 * 1024
"""The compression ratio that a file may have once it has unpacked to `RATIO_FROM` bytes."""
_TEXTS = ("text", "content", "contents", "body", "passage", "paragraph", "paragraphs", "sentences")
_TITLES = ("title", "name", "heading", "subject")
_URLS = ("url", "link", "uri", "href")
_IDS = ("id", "_id", "docid", "doc_id", "key")


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One document of a file. `id` may be empty; `number` is its line or its position in the array, from 1."""

    number: int
    id: str
    title: str
    text: str
    url: str


class InvalidRecord(msgspec.Struct, frozen=True):
    """A line or item that is not a document."""

    number: int
    reason: str


def read_lines(file: IO[bytes], size: int, *, packed: bool) -> Iterator[Record | InvalidRecord]:
    """The documents of JSON Lines. `size` is the size of the file; `packed`: it is gzipped."""
    stream: IO[bytes] = gzip.GzipFile(fileobj=file) if packed else file  # type: ignore[assignment]  # it has the methods of a binary file
    total = blank = number = 0
    try:
        while line := stream.readline(MAX_LINE):
            number += 1
            total += len(line)
            if len(line) == MAX_LINE and not line.endswith(b"\n"):
                raise Unreadable(f"line {number} is longer than {MAX_LINE // 2**20} MiB; it was read up to there")
            if packed and total > max(RATIO_FROM, size * _MAX_RATIO):
                raise Unreadable(
                    f"it unpacks to more than {_MAX_RATIO} times its size; it was read up to line {number}"
                )
            if not line.strip():
                blank += 1
                if blank > MAX_BLANK:
                    raise Unreadable(f"it is mostly empty lines; it was read up to line {number}")
                continue
            blank = 0
            yield _decoded(number, line)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise Unreadable(f"damaged: {str(error) or type(error).__name__}; it was read up to line {number}") from None


def read_list(data: bytes) -> Iterator[Record | InvalidRecord] | None:
    """The documents of a JSON array, or of the only array of a JSON object; None when there are none."""
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
    return (_validated(number, item) for number, item in enumerate(value, start=1))


def decode_json(data: bytes) -> Any:
    """A whole file of JSON. Raises `Unreadable` when it has too many values: each takes far more memory than its text."""
    if data.count(b"[") + data.count(b"{") > _MAX_VALUES or data.count(b",") > 4 * _MAX_VALUES:
        raise Unreadable("it has more values than are read at once; write one document on a line, and name it .jsonl")
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Unreadable("damaged: not JSON") from None


def _decoded(number: int, line: bytes) -> Record | InvalidRecord:
    if number == 1 and line.startswith(b"\xef\xbb\xbf"):
        line = line[3:]
    try:
        value = msgspec.json.decode(line)
    except UnicodeDecodeError:
        return InvalidRecord(number, "not UTF-8")
    except RecursionError:
        return InvalidRecord(number, "nested too deeply")
    except msgspec.DecodeError:
        try:  # some writers use another encoding, or write lone surrogates
            value = json.loads(decode_text(line))
        except (ValueError, RecursionError):
            return InvalidRecord(number, "not JSON")
    return _validated(number, value)


def _validated(number: int, value: Any) -> Record | InvalidRecord:
    if not isinstance(value, Mapping):
        return InvalidRecord(number, "not an object")
    text = _text_of(value)
    if text is None:
        return InvalidRecord(number, "no text: a document has {id, title, text}")
    return Record(
        number=number, id=_first(value, _IDS), title=_first(value, _TITLES), text=text, url=_first(value, _URLS)
    )


def _text_of(value: Mapping[str, Any]) -> str | None:
    for name in _TEXTS:
        found = value.get(name)
        if isinstance(found, str):
            return clean(found)
        if isinstance(found, list) and all(isinstance(one, str) for one in found):
            return clean("\n\n".join(found) if name == "paragraphs" else " ".join(found))
    return None


def _first(value: Mapping[str, Any], names: Iterable[str]) -> str:
    for name in names:
        found = value.get(name)
        if isinstance(found, str) and found:
            return clean(found)
        if isinstance(found, int) and not isinstance(found, bool):
            return str(found)
    return ""

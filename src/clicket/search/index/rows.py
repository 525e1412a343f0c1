"""The documents that a caller adds, checked. The error for a bad row names its number and the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from clicket.errors import UsageError
from clicket.model.document import Document

__all__ = ["Row", "decoded", "encoded", "row_of"]

_FIELDS = ("title", "text", "url", "source")


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A document to be added. `headings` are offsets in its text, each with the headings that hold from there."""

    document: Document
    headings: tuple[tuple[int, str], ...] = ()

    def hash(self) -> bytes:
        one = self.document
        parts = [*map(encoded, (one.title, one.text, one.url, one.source)), repr(self.headings).encode()]
        sizes = ",".join(str(len(part)) for part in parts).encode()
        return blake2b(b"\0".join((sizes, *parts)), digest_size=16).digest()


def row_of(number: int, given: object) -> Row:
    """A mapping {id, title?, text, url?, source?, headings?} or a Document, as a row. `number` counts from 1."""
    if isinstance(given, Document):
        if not given.id:
            raise UsageError(f"row {number}: the document has an empty id. Every document needs one of its own.")
        return Row(document=given)
    if not isinstance(given, Mapping):
        raise UsageError(
            f"row {number} is {type(given).__name__}, not a mapping or a Document. "
            "Give rows such as {'id': '1', 'title': '…', 'text': '…'}."
        )
    key = given.get("id")
    if isinstance(key, int) and not isinstance(key, bool):
        key = str(key)
    if not isinstance(key, str) or not key:
        raise UsageError(f"row {number} has no id (got {key!r}). Give every document an 'id', a string of its own.")
    values = []
    for name in _FIELDS:
        value = given.get(name)
        if value is None and name == "text":
            value = given.get("content")
            if value is None:
                raise UsageError(f"row {number} (id {key!r}) has no 'text'. An empty text is allowed, none is not.")
        if value is not None and not isinstance(value, str):
            raise UsageError(f"row {number} (id {key!r}): {name!r} is {type(value).__name__}, and must be a string.")
        values.append(value or "")
    title, text, url, source = values
    document = Document(id=key, title=title, text=text, url=url, source=source)
    return Row(document=document, headings=_headings(number, key, given.get("headings")))


def _headings(number: int, key: str, given: Any) -> tuple[tuple[int, str], ...]:
    if given is None:
        return ()
    if isinstance(given, Sequence) and all(
        isinstance(one, Sequence) and len(one) == 2 and isinstance(one[0], int) and isinstance(one[1], str)
        for one in given
    ):
        return tuple(sorted((one[0], one[1]) for one in given))
    raise UsageError(f"row {number} (id {key!r}): 'headings' must be pairs of an offset in the text and a heading.")


def encoded(text: str) -> bytes:
    """As UTF-8. A lone surrogate, which a page may have, is kept."""
    return text.encode("utf-8", "surrogatepass")


def decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")

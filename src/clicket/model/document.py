"""Documents that a search finds, and citations of them. A citation is a verbatim span of the document."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256

import msgspec

__all__ = ["Citation", "Document", "Span"]

Span = tuple[int, int]
"""Character offsets in a text: from, and up to."""


class Document(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One document as an engine found it. `spans` are the parts of its text that were found; none means all of it."""

    id: str
    title: str = ""
    text: str = ""
    url: str = ""
    source: str = ""
    """Which engine found it, or the file that it is from."""
    score: float = 0.0
    spans: tuple[Span, ...] = ()

    @property
    def content(self) -> str:
        return self.text

    @property
    def relevance_score(self) -> float:
        return self.score

    def cite(self, start: int, end: int) -> Citation:
        """The span from `start` up to `end`, as it is in the text."""
        return Citation.of(self, start, end)


class Citation(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A span of a document, word for word. `sha256` is the hex digest of `text` as UTF-8."""

    doc: str
    start: int
    end: int
    sha256: str
    text: str

    @classmethod
    def of(cls, document: Document, start: int, end: int) -> Citation:
        if not 0 <= start < end <= len(document.text):
            raise ValueError(f"document {document.id!r} has no span {start}:{end}")
        text = document.text[start:end]
        return cls(doc=document.id, start=start, end=end, sha256=digest(text), text=text)

    def holds(self, document: Document) -> bool:
        """Does the document have this text at this place?"""
        return (
            self.doc == document.id
            and 0 <= self.start < self.end <= len(document.text)
            and document.text[self.start : self.end] == self.text
            and digest(self.text) == self.sha256
        )


@lru_cache(maxsize=32)  # a citation is made, and then checked
def digest(text: str) -> str:
    """Lone surrogates are hashed as they are: a page may have them, and a hash must not fail."""
    return sha256(text.encode(errors="surrogatepass")).hexdigest()

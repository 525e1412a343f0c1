"""An engine over a tantivy index, for many documents. Its terms are those of the local index, so that all scripts work.

Documents are found as soon as `add` has returned. Documents with equal scores are ordered by id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Self

import msgspec

from clicket.bridge import Workers
from clicket.errors import UsageError
from clicket.model.document import Document
from clicket.private_files import make_folder
from clicket.search.text.terms import terms

__all__ = ["Tantivy"]

_TITLE_WEIGHT = 2.0
"""The weight of a term in the title; in the text it is 1."""
_HEAP = 64_000_000


class Tantivy:
    """A `SearchEngine` over the documents added to it. One process writes at a time. Without `path` it is in memory."""

    name = "tantivy"

    def __init__(self, path: str | Path | None = None) -> None:
        try:
            self._tantivy: Any = import_module("tantivy")
        except ImportError:
            raise UsageError(
                "This engine needs tantivy, which is not installed. Install it with: pip install 'clicket[tantivy]'."
            ) from None
        builder = self._tantivy.SchemaBuilder()
        builder.add_text_field("id", tokenizer_name="raw", index_option="basic")
        for field in ("title", "text"):
            builder.add_text_field(field, tokenizer_name="whitespace", index_option="freq")
        builder.add_bytes_field("document", stored=True, indexed=False)
        if path is not None:
            make_folder(Path(path))
        try:
            self._index = self._tantivy.Index(builder.build(), path=None if path is None else str(path))
        except (OSError, ValueError) as error:
            raise UsageError(f"{path} cannot be opened as a tantivy index: {error}") from None
        analyzer = self._tantivy.TextAnalyzerBuilder(self._tantivy.Tokenizer.whitespace()).build()
        self._index.register_tokenizer("whitespace", analyzer)
        self._workers = Workers(1, "clicket-tantivy")

    @property
    def count(self) -> int:
        """Documents in all."""
        return int(self._index.searcher().num_docs)

    def add(self, documents: Iterable[Document | Mapping[str, Any]]) -> int:
        """Add or replace documents by id, and return their number. When it raises, none of them was added."""
        count = 0
        with self._transaction() as writer:
            for one in documents:
                document = _document(one)
                writer.delete_documents_by_term("id", document.id)
                writer.add_document(self._entry(document))
                count += 1
        return count

    def remove(self, ids: Iterable[str]) -> None:
        with self._transaction() as writer:
            for one in ids:
                writer.delete_documents_by_term("id", one)

    async def search(self, query: str, *, k: int = 10, deadline: float | None = None) -> Sequence[Document]:
        """The best `k`. It takes milliseconds and cannot be interrupted, so `deadline` is not used."""
        return await self._workers.run(lambda: self._find(query, k))

    def close(self) -> None:
        self._workers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _find(self, query: str, k: int) -> list[Document]:
        query_terms = list(dict.fromkeys(terms(query)))
        if not query_terms or k < 1:
            return []
        make, should = self._tantivy.Query, self._tantivy.Occur.Should
        parts = []
        for term in query_terms:
            parts.append(
                (should, make.boost_query(make.term_query(self._index.schema, "title", term, "freq"), _TITLE_WEIGHT))
            )
            parts.append((should, make.term_query(self._index.schema, "text", term, "freq")))
        searcher = self._index.searcher()
        wanted, limit = make.boolean_query(parts), k + 1
        # Ask for more until the last one scores less than the k-th: of equal ones the ids decide, so all must be read.
        while len(hits := searcher.search(wanted, limit, count=False).hits) == limit and hits[-1][0] == hits[k - 1][0]:
            limit *= 2
        found = [
            msgspec.structs.replace(
                msgspec.json.decode(bytes(searcher.doc(place)["document"][0]), type=Document), score=round(score, 6)
            )
            for score, place in hits
        ]
        return sorted(found, key=lambda one: (-one.score, one.id))[:k]

    def _entry(self, document: Document) -> Any:
        return self._tantivy.Document(
            id=document.id,
            title=" ".join(terms(document.title)),
            text=" ".join(terms(document.text)),
            document=msgspec.json.encode(document),
        )

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        """A writer whose changes are all committed or, when the block raises, none.

        One thread writes: with more, the order of the documents would be random.
        """
        try:
            writer = self._index.writer(_HEAP, 1)
        except ValueError as error:
            raise UsageError(f"the tantivy index cannot be written to now: {error}") from None
        try:
            yield writer
        except BaseException:
            writer.rollback()
            raise
        writer.commit()
        writer.wait_merging_threads()
        self._index.reload()


def _document(given: Document | Mapping[str, Any]) -> Document:
    if isinstance(given, Document):
        document = given
    else:
        try:
            document = msgspec.convert({"text": given.get("content", ""), **given}, Document)
        except msgspec.ValidationError as error:
            raise UsageError(
                f"this is no document: {error}. It needs an id and may have title, text, url, source."
            ) from None
    if not document.id:
        raise UsageError("a document needs an id that is not empty")
    return msgspec.structs.replace(document, source=document.source or "tantivy")

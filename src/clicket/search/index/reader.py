"""Answers searches and lookups. Each is answered from one snapshot of the file, while other connections may write.

What was read and computed is cached until the file changes, through this connection or through another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import apsw
import msgspec

from clicket.model.document import Document, Span
from clicket.model.ports.services import Embedder
from clicket.model.text.terms import all_terms, identifiers
from clicket.search.index.postings import Postings, listed
from clicket.search.index.rows import decoded, encoded
from clicket.search.index.vectors import Vectors
from clicket.search.ranking.profiles import remember_packed

__all__ = ["IndexReader"]

_DOCUMENTS = """SELECT d.key, d.id, d.title, d.text, d.url, d.source, d.page
    FROM json_each(?) j CROSS JOIN documents d ON d.key = j.value"""
_IDS = """SELECT d.key, d.id FROM json_each(?) j CROSS JOIN documents d INDEXED BY documents_ids ON d.key = j.value"""
_SPANS = "SELECT p.key, p.start, p.stop FROM json_each(?) j CROSS JOIN passages p ON p.key = j.value"
"""Joined and not `IN (SELECT …)`, for which SQLite makes a sorted table of the values first."""
_NAMED = """SELECT j.key, (SELECT json_group_array(json_array(rank, document)) FROM
        (SELECT rank, document FROM names WHERE name = j.value ORDER BY rank, document LIMIT 32))
    FROM json_each(?) j WHERE EXISTS (SELECT 1 FROM names n WHERE n.name = j.value)"""
"""For each text that is a name: its number, and the documents with their ranks. A bound limit would be planned for anew each time."""
_SIMILAR = """SELECT term, sum(size) AS passages FROM posting_lists
    WHERE term >= ? AND term < ? AND length(term) BETWEEN ? AND ? GROUP BY term HAVING passages >= ?"""
_DATA_VERSION = "PRAGMA data_version"
_BEGIN = f"BEGIN; {_DATA_VERSION}"
_pairs = msgspec.json.Decoder(list[tuple[int, int]]).decode
_MAX_NAMES = 100_000
_MAX_TEXT = 20_000_000
"""Characters of documents in memory."""
_MAX_QUERY, _MAX_TERMS = 20_000, 64
"""Characters and terms of a query. Of more terms the rarest are used."""
_FUSED = 100
"""Passages of each order, by terms and by vectors, that are fused."""
_RRF = 60
_DEEPER = 4
"""The factor by which more passages are ranked when the best ones are of too few documents."""
_MAX_SPANS = 4
_Ranked = dict[int, tuple[float, list[int]]]
"""By key of the document: its score, and the passages that were found, the best first."""


class IndexReader:
    """Reads through one connection. The caller holds a lock: it is not for two threads at once."""

    def __init__(self, connection: apsw.Connection, embedder: Embedder | None) -> None:
        self._connection = connection
        self._embedder = embedder
        self._version: int | None = None
        self._names: dict[str, tuple[str, ...]] = {}
        self._documents: dict[int, Document] = {}
        self._spans: dict[int, Span] = {}
        self._keys: dict[str, int | None] = {}
        self._ids: dict[int, str] = {}
        self._characters = 0
        self._query_vectors: dict[str, Any] = {}

    @property
    def size(self) -> int:
        """Passages at the last read; -1 when there was none since the last change."""
        return -1 if self._version is None else self._postings.size

    def invalidate(self) -> None:
        """The index was changed through this connection."""
        self._version = None

    def _is_current(self) -> bool:
        """Is what was read still the state of the file? Cheaper than a snapshot, for what needs no further statement."""
        return self._version is not None and self._connection.execute(_DATA_VERSION).get == self._version

    @contextmanager
    def snapshot(self) -> Iterator[Postings]:
        """One state of the file, until the block ends."""
        version = self._connection.execute(_BEGIN).get
        try:
            if version != self._version:
                self._postings = Postings(self._connection)
                self._vectors: Vectors | None = None
                for cache in (self._names, self._documents, self._spans, self._keys, self._ids):
                    cache.clear()
                self._characters = 0
                self._version = version
            yield self._postings
        finally:
            if self._connection.in_transaction:  # an error may have ended it
                self._connection.execute("COMMIT")

    def find(self, query: str, k: int) -> list[Document]:
        """The best documents. Passages are ranked, and the score of a document is that of its best passage."""
        query = query[:_MAX_QUERY]
        query_terms: dict[str, int] = {}
        for term in all_terms(query) + identifiers(query):  # few: a Counter takes longer to be made
            query_terms[term] = query_terms.get(term, 0) + 1
        with self.snapshot() as postings:
            if k < 1 or not postings.size:
                return []
            if len(query_terms) > _MAX_TERMS:
                query_terms = _rarest(query_terms, postings)
            if self._embedder is None:
                ranked: _Ranked = {}
                depth = k
                more = True
                while more:
                    scores, more = postings.best(query_terms, depth)
                    ranked = self._by_document(scores)
                    more, depth = more and len(ranked) < k, depth * _DEEPER
            else:
                depth = max(_FUSED, k)
                near = self._loaded_vectors().best(self._query_vector(query), depth)
                ranked = _fused(self._by_document(postings.best(query_terms, depth)[0]), self._by_document(dict(near)))
            return self._best(ranked, k)

    def _by_document(self, scores: dict[int, float]) -> _Ranked:
        """Scores of passages as scores of documents."""
        document_of = self._postings.document_of
        if self._postings.size == self._postings.documents:
            return {document_of[key]: (score, [key]) for key, score in scores.items()}
        found: _Ranked = {}
        for key in sorted(scores, key=lambda one: (-scores[one], one)):
            document = document_of[key]
            if document in found:
                found[document][1].append(key)
            else:
                found[document] = (scores[key], [key])
        return found

    def _best(self, ranked: _Ranked, k: int) -> list[Document]:
        scores = sorted((score for score, _ in ranked.values()), reverse=True)
        threshold = scores[k - 1] if len(scores) > k else float("-inf")
        chosen = [(key, score, passages) for key, (score, passages) in ranked.items() if score >= threshold]
        if len(chosen) > 4 * k:  # many are equal: compare their ids before reading their texts
            id_of = self._ids_of([one[0] for one in chosen])
            chosen.sort(key=lambda one: (-one[1], id_of[one[0]]))
            del chosen[k:]
        documents = self._load([key for key, _, _ in chosen])
        spans_of = self._passage_spans([one[2][:_MAX_SPANS] for one in chosen])
        found = [
            msgspec.structs.replace(documents[key], score=score, spans=spans)
            for (key, score, _), spans in zip(chosen, spans_of, strict=True)
        ]
        found.sort(key=lambda one: (-one.score, one.id))
        return found[:k]

    def _passage_spans(self, passages: list[list[int]]) -> list[tuple[Span, ...]]:
        """The spans of the passages of each document; none if every document is one passage."""
        if self._postings.size == self._postings.documents:
            return [()] * len(passages)
        if len(self._spans) > _MAX_NAMES:
            self._spans.clear()
        known = self._spans
        missing = [key for each in passages for key in each if key not in known]
        if missing:
            rows: list[Any] = self._connection.execute(_SPANS, (listed(missing),)).fetchall()
            known.update({key: (start, stop) for key, start, stop in rows})
        return [(known[each[0]],) if len(each) == 1 else tuple([known[key] for key in each]) for each in passages]

    def _load(self, keys: Sequence[int]) -> dict[int, Document]:
        known = self._documents
        found = {key: known[key] for key in keys if key in known}
        missing = [key for key in keys if key not in found] if len(found) < len(keys) else []
        rows: list[Any] = self._connection.execute(_DOCUMENTS, (listed(missing),)).fetchall() if missing else []
        for key, *row, page in rows:
            one, title, text, url, source = [str(data, "utf-8", "surrogatepass") for data in row]
            found[key] = Document(id=one, title=title, text=text, url=url, source=source)
            remember_packed(found[key], page)
            self._characters += len(text)
            if self._characters > _MAX_TEXT:
                known.clear()
                self._characters = len(text)
            known[key] = found[key]
        return found

    def _ids_of(self, keys: Sequence[int]) -> dict[int, str]:
        known = self._ids
        missing = [key for key in keys if key not in known]
        if missing:
            if len(known) > _MAX_NAMES:
                known.clear()
                missing = list(keys)
            rows: list[Any] = self._connection.execute(_IDS, (listed(missing),)).fetchall()
            known.update({key: decoded(one) for key, one in rows})
        return known

    def _key(self, one: str) -> int | None:
        if one not in self._keys:
            if len(self._keys) > _MAX_NAMES:
                self._keys.clear()
            self._keys[one] = self._connection.execute("SELECT key FROM documents WHERE id = ?", (encoded(one),)).get
        return self._keys[one]

    def fetch(self, ids: Iterable[str]) -> list[Document]:
        with self.snapshot():
            keys = [key for one in ids if (key := self._key(one)) is not None]
            documents = self._load(keys)
            return [documents[key] for key in keys]

    def frequencies(self, wanted: Sequence[str]) -> list[int]:
        if self._version is not None and self._postings.has_counted(wanted) and self._is_current():
            return self._postings.frequencies(wanted)
        with self.snapshot() as postings:
            return postings.frequencies(wanted)

    def passages(self) -> int:
        """Passages in all."""
        if self._is_current():
            return int(self._postings.size)
        return int(self._connection.execute("SELECT passages FROM totals").get)

    def similar_terms(self, term: str, min_count: int) -> list[tuple[str, int]]:
        first = term[:1]
        size = len(term)
        with self.snapshot():
            rows = self._connection.execute(_SIMILAR, (first, chr(ord(first) + 1), size - 2, size + 2, min_count))
            return [(str(one), int(count)) for one, count in rows] if first else []

    def named(self, names: Sequence[str]) -> list[tuple[str, ...]]:
        known = self._names
        if all(map(known.__contains__, names)) and self._is_current():
            return [known[name] for name in names]
        with self.snapshot():
            if len(known) > _MAX_NAMES:
                known.clear()
            new = [name for name in dict.fromkeys(names) if name not in known]
            if new:
                known.update(dict.fromkeys(new, ()))
                asked = [name if name.isascii() else name.encode(errors="replace").decode() for name in new]
                rows: list[Any] = self._connection.execute(_NAMED, (listed(asked),)).fetchall()
                found = [(new[at], _pairs(of_name)) for at, of_name in rows]
                id_of = self._ids_of([key for _, pairs in found for _, key in pairs])
                for name, pairs in found:
                    known[name] = tuple(
                        dict.fromkeys([one for _, one in sorted([(rank, id_of[key]) for rank, key in pairs])])
                    )
            return [known[name] for name in names]

    def similarities(self, text: str, ids: Sequence[str]) -> list[float] | None:
        with self.snapshot():
            vectors = self._loaded_vectors() if self._embedder is not None else None
            if vectors is None or not len(vectors.keys):
                return None
            vector = self._query_vector(text)
            found = []
            for one in ids:
                rows: list[Any] = self._connection.execute(
                    "SELECT key FROM passages WHERE document = ?", (self._key(one),)
                ).fetchall()
                near = vectors.similarities(vector, [key for (key,) in rows]) if rows else []
                found.append(max((each for each in near if each is not None), default=0.0))
            return found

    def _loaded_vectors(self) -> Vectors:
        assert self._embedder is not None
        if self._vectors is None:
            self._vectors = Vectors(self._connection, self._embedder.dimensions)
        return self._vectors

    def _query_vector(self, text: str) -> Any:
        assert self._embedder is not None
        if text not in self._query_vectors:
            if len(self._query_vectors) > 256:
                self._query_vectors.clear()
            self._query_vectors[text] = self._embedder.embed([text])[0]
        return self._query_vectors[text]


def _rarest(wanted: Mapping[str, int], postings: Postings) -> dict[str, int]:
    counts = zip(postings.frequencies(list(wanted)), wanted, strict=True)
    found = sorted((frequency, term) for frequency, term in counts if frequency)
    return {term: wanted[term] for _, term in found[:_MAX_TERMS]}


def _fused(words: _Ranked, near: _Ranked) -> _Ranked:
    """Reciprocal rank fusion. Equal scores share their best rank, so that the order of keys has no influence."""
    fused: _Ranked = {}
    for ranked in (words, near):
        places: dict[float, int] = {}
        for place, (score, _) in enumerate(sorted(ranked.values(), key=lambda one: -one[0])):
            places.setdefault(score, place)
        for key, (score, passages) in ranked.items():
            before, seen = fused.get(key, (0.0, []))
            worth = before + 1 / (_RRF + 1 + places[score])
            fused[key] = (round(worth, 9), [*seen, *(one for one in passages if one not in seen)])
    return fused

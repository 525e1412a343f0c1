"""The messages of a running search: plain dicts, numbered from 1 without gaps. Texts of documents are cut to `max_page_size`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clicket import system
from clicket.kernel import SearchState
from clicket.model.document import Document
from clicket.search.findings import STOP_REASONS, Round, SearchResult

__all__ = ["Message", "MessageBuilder"]

Message = dict[str, Any]


class MessageBuilder:
    """Builds the messages of one search. `seq` is the number of the last one."""

    def __init__(self, request_id: str, question: str, max_page_size: int) -> None:
        self.seq = 0
        self._request_id = request_id
        self._question = question
        self._max_page_size = max_page_size

    def state(self, state: SearchState, loop: int, text: str, **more: Any) -> Message:
        return self._message("state", state, loop, text, **more)

    def extend(self, loop: int, queries: Sequence[str]) -> Message:
        """The new queries of a round, without those that were asked before."""
        text = f"Round {loop}: {len(queries)} new {'query' if len(queries) == 1 else 'queries'}"
        result = {"query": list(queries), "docs": [[] for _ in queries]}
        return self._message("extend", SearchState.DECOMPOSING, loop, text, searchResult=result)

    def search(self, done: Round, documents: Mapping[str, Document]) -> Message:
        """The documents of each query, in the order of the queries; `failed` has the error of each query, or None."""
        failed = [one.error for one in done.found]
        docs = [
            [self.document(documents[key], score) for key, score in zip(one.documents, one.scores, strict=True)]
            for one in done.found
        ]
        count = len(done.documents)
        text = f"Round {done.number}: {count} {'document' if count == 1 else 'documents'}"
        if broken := sum(error is not None for error in failed):
            text += f", {broken} of {len(failed)} searches failed"
        result = {"query": list(done.queries), "docs": docs, "failed": failed}
        return self._message("search", SearchState.SEARCHING, done.number, text, searchResult=result)

    def final_result(self, result: SearchResult) -> Message:
        plain = result.to_json()
        plain["documents"] = [self.document(one, one.score) for one in result.documents]
        plain.pop("question")
        return self._message(
            "final_result",
            SearchState.COMPLETED,
            len(result.rounds),
            f"The search ended because {STOP_REASONS.get(result.stopped, result.stopped)}",
            final=True,
            result=plain.pop("answer"),
            **plain,
        )

    def error(self, loop: int, text: str) -> Message:
        return self._message("error", SearchState.ERROR, loop, text, final=True, error=text)

    def document(self, document: Document, score: float) -> dict[str, Any]:
        """A document with at most `max_page_size` characters of its text: from the passage that was found first."""
        size = self._max_page_size
        start = document.spans[0][0] if document.spans and len(document.text) > size else 0
        return {
            "id": document.id,
            "title": document.title,
            "content": document.text[start : start + size],
            "url": document.url,
            "source": document.source,
            "relevance_score": score,
        }

    def _message(
        self, type: str, state: SearchState, loop: int, text: str, *, final: bool = False, **more: Any
    ) -> Message:
        self.seq += 1
        return {
            "requestId": self._request_id,
            "seq": self.seq,
            "messageType": type,
            "state": str(state),
            "message": text,
            "loop": loop,
            "timestamp": system.now(),
            "query": self._question,
            "isFinal": final,
            **more,
        }

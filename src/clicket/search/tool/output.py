"""The output of a search as a call, and its messages as events: the answer and its sources first, and only the best documents."""

from __future__ import annotations

from typing import Any

from clicket.model.codec import encode
from clicket.search.findings import SearchResult
from clicket.search.run.messages import Message

__all__ = ["event_of", "output_of"]

_LARGE = 64 * 1024
"""Bytes: a larger message keeps only its best documents, because every reader of events gets all messages."""


def output_of(final: Message, result: SearchResult, max_documents: int) -> dict[str, Any]:
    """The output of a call. Texts of documents are cut as in messages; citations are whole."""
    plain = result.to_json()
    documents = [
        {"id": one["id"], "title": one["title"], "score": one["relevance_score"], **one}
        for one in final["documents"][:max_documents]
    ]
    return {
        "answer": plain["answer"],
        "citations": plain["citations"],
        "documents": documents,
        "documents_found": len(result.documents),
        "rounds": plain["rounds"],
        "stopped": plain["stopped"],
        "notes": plain["notes"],
        "unsupported": plain["unsupported"],
        "usage": plain["usage"],
        "question": plain["question"],
    }


def event_of(message: Message, max_documents: int) -> Message:
    """The message as an event of the call."""
    if message["messageType"] not in ("search", "final_result") or len(encode(message)) <= _LARGE:
        return message
    if message["messageType"] == "final_result":
        return {**message, "documents": message["documents"][:max_documents], "cut": True}
    found = message["searchResult"]
    each = max(max_documents // max(len(found["docs"]), 1), 1)
    return {**message, "searchResult": {**found, "docs": [docs[:each] for docs in found["docs"]]}, "cut": True}

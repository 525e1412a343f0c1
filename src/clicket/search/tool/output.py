"""What a model and the journal are given of a search: the answer and its sources first, and of many documents the best."""

from __future__ import annotations

from typing import Any

from clicket.model.codec import encode
from clicket.search.dossier import SearchResult
from clicket.search.run.messages import Message

__all__ = ["output_of", "shown"]

_LARGE = 64 * 1024
"""Bytes of a message from which on its documents are cut to the best: readers of the events get them all."""


def output_of(final: Message, result: SearchResult, max_documents: int) -> dict[str, Any]:
    """The output of a call. Texts of documents are cut as they are in messages; citations are whole."""
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


def shown(message: Message, max_documents: int) -> Message:
    """A message as it is journaled."""
    if message["messageType"] not in ("search", "final_result") or len(encode(message)) <= _LARGE:
        return message
    if message["messageType"] == "final_result":
        return {**message, "documents": message["documents"][:max_documents], "cut": True}
    found = message["searchResult"]
    each = max(max_documents // max(len(found["docs"]), 1), 1)
    return {**message, "searchResult": {**found, "docs": [docs[:each] for docs in found["docs"]]}, "cut": True}

"""What a tool does to its thing, and what a request wants done: reading, creating, updating or deleting.

A tool that does another of these than the request wants is seldom the right one, whatever words they share.
"""

from __future__ import annotations

from functools import lru_cache

from clicket.text.terms import stem
from clicket.tool_search.meanings import ASKING_VERBS, POLITE, QUESTIONS, TOOL_VERBS
from clicket.tool_search.words import RequestText, plain_terms

__all__ = ["operation_of", "wanted_operations"]

_READING = frozenset(["read"])


def operation_of(name: str) -> str | None:
    """`create`, `read`, `update` or `delete`; None: the name has no verb for one of them."""
    verbs = _table(TOOL_VERBS)
    for term in plain_terms(name):
        found = verbs.get(term)
        if found is not None:
            return min(found)
    return None


def wanted_operations(request: RequestText) -> frozenset[str]:
    """What a request may want; empty: it does not say."""
    words = [] if request.passes_on else [word.folded for word in request.words]
    at = 0
    while at < len(words) and words[at] in POLITE:
        at += 1
    if at == len(words):
        return frozenset()
    first, second = words[at], words[at + 1] if at + 1 < len(words) else ""
    if first in QUESTIONS and second != "you":
        return _READING
    return _table(ASKING_VERBS).get(stem(first), frozenset())


@lru_cache(maxsize=4)
def _table(text: str) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for line in text.split(";"):
        operation, _, verbs = line.partition(":")
        for verb in verbs.split():
            found.setdefault(stem(verb), set()).add(operation.strip())
    return {verb: frozenset(operations) for verb, operations in found.items()}

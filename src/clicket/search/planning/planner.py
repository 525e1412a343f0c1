"""The built-in planner: first the question and the names in it, then bridges, each with the words that are still unanswered.

No query is asked twice. If there is nothing new to ask, the plan is empty and the rounds end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from clicket.model.text.terms import terms, terms_of_each
from clicket.search.findings import Findings
from clicket.search.planning.bridges import MIN_BRIDGE_SCORE, MIN_SHARE, BridgeFinder
from clicket.search.protocols import Collection
from clicket.search.text.names import is_cjk, name_key
from clicket.search.text.queries import fresh

__all__ = ["BridgePlanner"]

_MAX_WORDS = 8
"""Words of the question that a query has beside the name."""
_FUNCTION_WORDS = re.compile(
    "什么|怎[么样]|如何|为何|何时|多少|哪[里儿些位个年一]?"
    "|[的了是在有谁吗呢和与或被把从到为由于以之其这那个位座所条些种几第，。、；：？！（）《》“”「」]+"
)
"""Chinese question words, particles and punctuation, which separate the content words."""


class BridgePlanner:
    """The built-in `Planner`. With a collection it prefers names that are names of documents."""

    def __init__(self, collection: Collection | None = None, *, finder: BridgeFinder | None = None) -> None:
        self._finder = finder or BridgeFinder(collection)

    async def plan(self, findings: Findings) -> Sequence[str]:
        return fresh(self._planned(findings), findings.searched, self._finder.needed)

    def _planned(self, findings: Findings) -> Iterator[str]:
        yield findings.question  # also in later rounds: another planner may have run before
        if not findings.documents:
            yield from self._finder.question_names(findings.question)
            return
        found = self._finder.bridges(findings)
        known = {one.key: one for one in found}
        for gap in findings.gaps:
            if name_key(gap) not in known:
                yield gap
        from_gaps = dict.fromkeys(key for gap in findings.gaps if (key := name_key(gap)) in known)
        best = found[0].score if found else 0.0
        least = max(MIN_SHARE * best, MIN_BRIDGE_SCORE if len(findings.rounds) > 1 else 0.0)
        for one in [*map(known.__getitem__, from_gaps), *found]:
            if one.score >= least:
                yield _query(findings.question, one.name, one.missing_terms)


@lru_cache(maxsize=64)
def _words(question: str) -> tuple[tuple[str, frozenset[str]], ...]:
    """The words of a question that have terms, with their terms."""
    words = [word.strip("\"'“”‘’.,;:?!()[]") for word in question.split()]
    words = [part for word in words for part in (_FUNCTION_WORDS.split(word) if is_cjk(word) else (word,))]
    return tuple([(word, frozenset(found)) for word, found in zip(words, terms_of_each(words), strict=True) if found])


def _query(question: str, name: str, missing: Sequence[str]) -> str:
    """The name, and the words of the question whose terms are missing in the document that mentions the name."""
    own, wanted = frozenset(terms(name)), frozenset(missing)
    open_words = [word for word, found in _words(question) if found <= wanted and own.isdisjoint(found)]
    return " ".join([name, *dict.fromkeys(open_words[:_MAX_WORDS])])

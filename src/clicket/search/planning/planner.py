"""What to ask next: first the question and the names in it, then the names that lead on, with what is still unanswered.

No query is asked twice, and when there is nothing new to ask the plan is empty, which ends the search.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from clicket.search.dossier import Dossier
from clicket.search.parts import Collection
from clicket.search.planning.bridges import bridges, question_names
from clicket.search.ranking.statistics import Statistics
from clicket.search.text.names import is_cjk, name_key
from clicket.search.text.queries import fresh
from clicket.search.text.terms import terms

__all__ = ["OPEN", "BridgePlanner"]

OPEN = 0.48
"""A name that is worth less than this is not worth a third round."""
_MAX_QUERIES = 5
_MAX_LEFT = 8
"""Words of the question that go with a name."""
_BETWEEN = re.compile(
    "什么|怎[么样]|如何|为何|何时|多少|哪[里儿些位个年一]?"
    "|[的了是在有谁吗呢和与或被把从到为由于以之其这那个位座所条些种几第，。、；：？！（）《》“”「」]+"
)
"""What stands between the words of unspaced text, or asks."""


class BridgePlanner:
    """The default `Planner`. With a collection it knows which names are names of documents."""

    def __init__(self, collection: Collection | None = None) -> None:
        self._collection = collection
        self._statistics = Statistics(collection)

    async def plan(self, dossier: Dossier) -> Sequence[str]:
        return fresh(self._planned(dossier), dossier.searched, _MAX_QUERIES)

    def _planned(self, dossier: Dossier) -> Iterator[str]:
        yield dossier.question  # in later rounds too: another planner may have begun, and not have asked it
        if not dossier.documents:
            yield from question_names(dossier.question, self._collection)
            return
        ways = bridges(dossier, self._collection, self._statistics)
        known = {one.key: one for one in ways}
        for gap in dossier.gaps:
            if name_key(gap) not in known:
                yield gap
        first = dict.fromkeys(key for gap in dossier.gaps if (key := name_key(gap)) in known)
        bar = OPEN if len(dossier.rounds) > 1 else 0.0
        for key in [*first, *(one.key for one in ways if one.worth >= bar)]:
            yield _query(dossier.question, known[key].name, known[key].left)


@lru_cache(maxsize=64)
def _words(question: str) -> tuple[tuple[str, frozenset[str]], ...]:
    """The words of a question that say something, each with its terms."""
    words = [word.strip("\"'“”‘’.,;:?!()[]") for word in question.split()]
    words = [part for word in words for part in (_BETWEEN.split(word) if is_cjk(word) else (word,))]
    return tuple((word, frozenset(found)) for word in words if (found := terms(word)))


def _query(question: str, name: str, left: Sequence[str]) -> str:
    """The name, and the words of the question that are still open, as they are written there."""
    own, wanted = frozenset(terms(name)), frozenset(left)
    open_words = [word for word, found in _words(question) if found <= wanted and own.isdisjoint(found)]
    return " ".join([name, *dict.fromkeys(open_words[:_MAX_LEFT])])

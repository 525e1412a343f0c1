"""Do the documents answer the question? Decided from the statements that come nearest, without a model.

The weights were fitted by `benchmarks/search/fit.py`, and rounded. `benchmarks/SEARCH.md` has the figures of sets that were left out, and
what the decision cannot see: a question whose words are all there, about something that the documents do not say.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log1p
from operator import mul

from clicket.model.text.terms import terms
from clicket.search.synthesis.sentence_selection import Candidate, Question
from clicket.search.synthesis.source_documents import SourceDocument
from clicket.search.text.names import flattened, is_cjk, names

__all__ = ["WEIGHTS", "evidence", "is_answered"]

WEIGHTS = (
    ("covers",  5.0),  # the share of the question that one of the two best statements covers, with heading, lead and title
    ("own",     4.0),  # the largest share that a statement has by itself
    ("named",   4.5),  # the share of the question that is the name of one of the best documents
    ("lost",   -3.0),  # the share that is names which none of the best documents has
    ("length",  1.5),  # the logarithm of the number of terms: a statement covers less of a long question
)  # fmt: skip
_VALUES = tuple(weight for _, weight in WEIGHTS)
LEAST = 7.2
"""The value from which on a question counts as answered."""
_UNSPACED = -1.0
"""Added to it for text without spaces: pairs of characters across two words are seldom in a document."""
_BEST = 5


def is_answered(
    text: str,
    asked: Question,
    chosen: Sequence[Candidate],
    candidates: Sequence[Candidate],
    documents: Sequence[SourceDocument],
) -> bool:
    if not chosen or not asked.numbered:
        return False
    value = float(sum(map(mul, _VALUES, evidence(text, asked, chosen, candidates, documents))))
    return round(value, 6) >= LEAST + (_UNSPACED if is_cjk(text) else 0.0)


def evidence(
    text: str,
    asked: Question,
    chosen: Sequence[Candidate],
    candidates: Sequence[Candidate],
    documents: Sequence[SourceDocument],
) -> list[float]:
    """The figures by which it is decided, in the order of `WEIGHTS`."""
    best = documents[:_BEST]
    flat = f" {flattened(text)} "
    named = frozenset[str]().union(*[needed for one in best for name, needed in one.names if _has_name(flat, name)])
    # A capital at the beginning of a question is seldom that of a name.
    lost = frozenset([term for name, start, _ in names(text) if start > 0 for term in terms(name)])
    for one in best:
        lost -= one.terms
    return [
        # The best statement of a question over two documents is often about the second one, whose name the question does not have.
        max([one.covers for one in chosen[:2]]),
        max(one.features[0] if one.features else 0.0 for one in candidates),
        asked.weight(named),
        asked.weight(lost),
        log1p(len(asked.numbered)),
    ]


def _has_name(flat: str, name: str) -> bool:
    return f" {name} " in flat or (not name.isascii() and len(name) > 1 and name in flat)

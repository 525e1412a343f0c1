"""Do the documents answer the question? Decided from the statements that come nearest, without a model.

The weights were fitted to five sets of questions with and without an answer, and rounded; a set that is left out is recognised about
as well. `benchmarks/SEARCH.md` has the figures, and what the decision cannot see: a question whose words are all there, about
something that the documents do not say.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log1p

from clicket.search.synthesis.sentence_selection import Candidate, Question, SelectedSentence
from clicket.search.synthesis.source_documents import SourceDocument
from clicket.search.text.names import flattened, is_cjk, names
from clicket.search.text.terms import terms

__all__ = ["is_answered"]

_COVERS = 5.0
"""The share of the question that the best statement covers, with its heading, its lead and the title of its document."""
_OWN = 4.0
"""The largest share that a statement has by itself."""
_NAMED = 4.5
"""The share of the question that is the name of one of the best documents."""
_LOST = -3.0
"""The share that is names which none of the best documents has."""
_LENGTH = 1.5
"""The logarithm of the number of terms: a statement covers less of a long question."""
_LEAST, _LEAST_UNSPACED = 7.0, 6.0
"""The value from which on a question counts as answered. Pairs of characters across two words are seldom in a document."""
_BEST = 5


def is_answered(
    text: str,
    asked: Question,
    chosen: Sequence[SelectedSentence],
    candidates: Sequence[Candidate],
    documents: Sequence[SourceDocument],
) -> bool:
    if not chosen or not asked.numbered:
        return False
    best = documents[:_BEST]
    found = frozenset[str]().union(*[one.terms for one in best])
    flat = f" {flattened(text)} "
    named = frozenset[str]().union(*[needed for one in best for name, needed in one.names if _has_name(flat, name)])
    # A capital at the beginning of a question is seldom that of a name.
    lost = {term for name, start, _ in names(text) if start > 0 for term in terms(name)} - found
    value = (
        _COVERS * chosen[0].covers
        + _OWN * max(one.features[0] if one.features else 0.0 for one in candidates)
        + _NAMED * asked.weight(named)
        + _LOST * asked.weight(frozenset(lost))
        + _LENGTH * log1p(len(asked.numbered))
    )
    return round(value, 6) >= (_LEAST_UNSPACED if is_cjk(text) else _LEAST)


def _has_name(flat: str, name: str) -> bool:
    return f" {name} " in flat or (not name.isascii() and len(name) > 1 and name in flat)

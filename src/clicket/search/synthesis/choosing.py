"""Which sentences answer: each is judged by a few plain signs, then the best are taken one by one, seldom two of one document.

The signs are shares between 0 and 1, their weights were chosen on some questions and held on others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from clicket.search.synthesis.expecting import expected, kin, tells
from clicket.search.synthesis.reading import Page, Sentence, is_named_in
from clicket.search.text.names import flattened
from clicket.search.text.terms import terms

__all__ = ["WEIGHTS", "Choice", "choose", "signs"]

WEIGHTS: Mapping[str, float] = {
    "covers": 4.0,  # terms of the question, by rarity
    "answers": 2.0,  # those of them that the document which led here does not have
    "rank": -0.9,  # logarithm of the document's place
    "score": 1.2,
    "tells": 1.7,  # holds a thing of the kind that was asked for
    "led": 1.0,  # another document names this one, in a sentence about the question
    "leads": 0.7,  # names another document that was found
    "names": 0.4,  # names what the question names
    "opens": 0.3,  # is the first of its document
}
_AGAIN = 0.5
"""Less, for each sentence of the same document that is there already."""


class Choice(NamedTuple):
    page: Page
    sentence: Sentence
    score: float
    covers: float
    """The share of the question's terms that it has, by rarity."""


def choose(
    question: str, pages: Sequence[Page], weigh: Callable[[Sequence[str]], Sequence[float]], most: int
) -> list[Choice]:
    """At most `most` sentences, the best first."""
    left = [
        Choice(page, sentence, sum(WEIGHTS[name] * value for name, value in found.items()), found["covers"])
        for page, sentence, found in signs(question, pages, weigh)
    ]
    chosen: list[Choice] = []
    taken: dict[int, int] = {}
    while left and len(chosen) < most:
        best = max(
            left,
            key=lambda one: (
                round(one.score - _AGAIN * taken.get(one.page.rank, 0), 6),
                -one.page.rank,
                -one.sentence.start,
            ),
        )
        left = [one for one in left if one is not best and one.sentence.flat != best.sentence.flat]
        chosen.append(best)
        taken[best.page.rank] = taken.get(best.page.rank, 0) + 1
    return chosen


def signs(
    question: str, pages: Sequence[Page], weigh: Callable[[Sequence[str]], Sequence[float]]
) -> list[tuple[Page, Sentence, dict[str, float]]]:
    """Every sentence of every page with what speaks for it."""
    asked = list(dict.fromkeys(terms(question)))
    weights = dict(zip(asked, weigh(asked), strict=True))
    total = sum(weights.values()) or 1.0
    alike = kin(asked)
    flat = f" {flattened(question)} "
    kind = expected(question)
    in_question = {page.rank: any(is_named_in(name, flat) for name in page.names) for page in pages}
    links = _links(pages)
    led: dict[int, tuple[float, Page]] = {}
    for source, sentence, target in links:
        there = sentence.terms | source.title
        value = source.score * sum(weight for term, weight in weights.items() if term in there) / total
        if target.rank not in led or value > led[target.rank][0]:
            led[target.rank] = (value, source)
    leads: dict[tuple[int, int], float] = {}
    for source, sentence, target in links:
        key = (source.rank, sentence.start)
        leads[key] = max(leads.get(key, 0.0), target.score)
    found: list[tuple[Page, Sentence, dict[str, float]]] = []
    named = [name for page in pages if in_question[page.rank] for name in page.names if is_named_in(name, flat)]
    for page in pages:
        by, parent = led.get(page.rank, (0.0, None))
        rest = {term: weight for term, weight in weights.items() if parent is not None and term not in parent.terms}
        rest_total = sum(rest.values()) or 1.0
        for number, sentence in enumerate(page.sentences):
            text = page.document.text[sentence.start : sentence.end]
            found.append(
                (
                    page,
                    sentence,
                    {
                        "covers": sum(_share(term, sentence, alike) * weight for term, weight in weights.items())
                        / total,
                        "answers": sum(_share(term, sentence, alike) * weight for term, weight in rest.items())
                        / rest_total,
                        "rank": math.log1p(page.rank),
                        "score": page.score,
                        "tells": float(tells(text, kind)),
                        "led": by,
                        "leads": leads.get((page.rank, sentence.start), 0.0),
                        "names": float(any(is_named_in(name, sentence.flat) for name in named)),
                        "opens": float(number == 0),
                    },
                )
            )
    return found


def _share(term: str, sentence: Sentence, alike: Mapping[str, frozenset[str]]) -> float:
    if term in sentence.terms:
        return 1.0
    return 0.5 if term in alike and not alike[term].isdisjoint(sentence.terms) else 0.0


def _links(pages: Sequence[Page]) -> list[tuple[Page, Sentence, Page]]:
    """Which sentence names which other document."""
    return [
        (source, sentence, target)
        for source in pages
        for sentence in source.sentences
        for target in pages
        if target is not source and any(is_named_in(name, sentence.flat) for name in target.names)
    ]

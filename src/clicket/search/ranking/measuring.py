"""What speaks for a document, as figures. First what it says itself, then what the documents say that point to it.

A document that bears a name which another one mentions is linked to it: that is the way from hop to hop. Words of a name
in the question count as a whole: who has "Blood" but not "Blood Street" has found nothing of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import msgspec

from clicket.search.ranking.pages import Page, reduced
from clicket.search.ranking.statistics import Statistics
from clicket.search.text.names import flattened
from clicket.search.text.terms import terms

__all__ = ["DIRECT", "LINKED", "Link", "Measured", "Question", "link_figures", "measure"]

DIRECT = (
    "words",  # BM25 of the question
    "whole",  # the same, but names of the question count as a whole
    "rest",  # the same, without any names of the question
    "sentence",  # how much of the question its best sentence has
    "title",  # how much of its name is in the question
    "length",
    "thin",  # there is hardly a text
    "bearers",  # how many documents bear its name
    "anchor",  # it bears a name that is in the question
    "rarity",  # how rare that name is
    "novel",  # what of the question it has and better ones have not
    "mentions",  # it mentions a name that is in the question
    "meaning",  # nearness of vectors, when there are some
)
LINKED = (
    "link",  # the strength of the best document that mentions it
    "residue",  # … by how much it has of the question that the other has not
    "early",  # … by how early it is mentioned there
    "sibling",  # … by its place among all that are mentioned there
    "anchored",  # the same, from documents that the question names
    "joint",  # the strength of the best that it mentions, by what both have of the question
    "crowd",  # how much mentions it in all
    "name",  # how many words the name has by which it is mentioned
)

_K1, _B = 1.2, 0.3
_NAMES = 4
"""Names of a document that are looked for in the question."""
_COMMON = 0.4
"""A name whose rarest word is more common than this is none."""
_PARENTS = 30
"""Documents from which links are followed."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    terms: tuple[str, ...]
    flat: str

    @classmethod
    def of(cls, text: str) -> Question:
        return cls(text=text, terms=tuple(dict.fromkeys(terms(text))), flat=reduced(f" {flattened(text)} "))

    def has(self, name: str) -> bool:
        return f" {name} " in self.flat or (not name.isascii() and len(name) > 1 and name in self.flat)


class Link(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`source` mentions a name that `target` bears. Both are places in the list of pages."""

    source: int
    target: int
    strength: float
    early: float
    residue: float
    joint: float
    place: int
    size: int


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    figures: list[list[float]]
    """One row of `DIRECT` for each page."""
    links: list[Link]
    anchors: list[tuple[str, list[int]]]
    """Names of the question, and the pages that bear them."""
    covered: list[frozenset[str]]
    total: float
    order: list[int]


def measure(
    question: Question, pages: Sequence[Page], statistics: Statistics, meaning: Sequence[float] | None = None
) -> Measured:
    anchors = _anchors(question, pages)
    firsts = [terms(page.names[0]) if page.names else [] for page in pages]
    wanted = [*question.terms, *(term for first in firsts for term in first)]
    statistics.learn(
        wanted + [term for name, _ in anchors for term in terms(name)], [frozenset(page.counts) for page in pages]
    )
    anchors = _longest(question, anchors, statistics)
    weights = {term: statistics[term] for term in question.terms}
    total = sum(weights.values()) or 1.0
    average = sum(page.length for page in pages) / max(len(pages), 1) or 1.0
    named = [(f" {name} ", name, frozenset(terms(name)), frozenset(bearers)) for name, bearers in anchors]
    tied = {term for _, _, words, _ in named for term in words}
    covered: list[frozenset[str]] = []
    figures: list[list[float]] = []
    bearing: dict[str, int] = {}
    for page in pages:
        if page.names:
            bearing[page.names[0]] = bearing.get(page.names[0], 0) + 1
    for at, page in enumerate(pages):
        norm = _K1 * (1 - _B + _B * page.length / average)
        counts = page.counts
        has, words, rest = [], 0.0, 0.0
        for term, weight in weights.items():
            count = counts.get(term)
            if count:
                has.append(term)
                worth = weight * count * (_K1 + 1) / (count + norm)
                words += worth
                if term not in tied:
                    rest += worth
        whole, anchor, rarity, mentions = rest, 0.0, 0.0, 0.0
        for padded, name, parts, bearers in named:
            worth = sum(weights.get(term, 0.0) for term in parts)
            if at in bearers:
                anchor = max(anchor, 1.0 if name == page.names[0] else 0.5)
                rarity = max(rarity, worth / statistics.most)
                whole += _K1 * worth
            elif padded in page.flat or (page.unspaced and name in page.flat):
                mentions += worth / total
                whole += _K1 * worth
        own = sum(statistics[term] for term in firsts[at])
        figures.append(
            [
                words,
                whole,
                rest,
                max((sum(weights[term] for term in has if term in one) for one in page.sentences), default=0.0) / total
                if has
                else 0.0,
                sum(statistics[term] for term in firsts[at] if term in weights) / own if own else 0.0,
                log(page.length + 1),
                12 / (12 + page.length),
                log(bearing[page.names[0]]) if page.names else 0.0,
                anchor,
                rarity,
                0.0,
                mentions,
                meaning[at] if meaning is not None else 0.0,
            ]
        )
        covered.append(frozenset(has))
    for column in range(3):
        most = max((row[column] for row in figures), default=0.0) or 1.0
        for row in figures:
            row[column] /= most
    rough = [row[0] + row[1] + row[3] + 0.5 * row[8] for row in figures]
    order = sorted(range(len(pages)), key=lambda one: (-round(rough[one], 6), pages[one].id))
    union: set[str] = set()
    for one in order:
        figures[one][10] = sum(weights[term] for term in covered[one] - union) / total
        union |= covered[one]
    links = _links(question, pages, order[:_PARENTS], covered, weights, statistics)
    return Measured(figures=figures, links=links, anchors=anchors, covered=covered, total=total, order=order)


def _anchors(question: Question, pages: Sequence[Page]) -> list[tuple[str, list[int]]]:
    """All names of pages that are in the question."""
    found: dict[str, list[int]] = {}
    for at, page in enumerate(pages):
        for name in page.names[:_NAMES]:
            if question.has(name):
                found.setdefault(name, []).append(at)
    return list(found.items())


def _longest(
    question: Question, anchors: list[tuple[str, list[int]]], statistics: Statistics
) -> list[tuple[str, list[int]]]:
    """Those that are rare enough to be names, and no part of a longer one."""
    left = question.flat
    chosen = []
    for name, bearers in sorted(anchors, key=lambda one: (-len(one[0]), one[0])):
        rarest = max((statistics[term] for term in terms(name)), default=0.0)
        if rarest < _COMMON * statistics.most:
            continue
        padded = f" {name} "
        if padded in left:
            left = left.replace(padded, " | ")
            chosen.append((name, bearers))
        elif not name.isascii() and name in left:
            left = left.replace(name, "|")
            chosen.append((name, bearers))
    return chosen


def _links(
    question: Question,
    pages: Sequence[Page],
    sources: Sequence[int],
    covered: Sequence[frozenset[str]],
    weights: dict[str, float],
    statistics: Statistics,
) -> list[Link]:
    hits = _mentions(question, pages, sources)
    words = {name: terms(name) for _, _, name, _ in hits}
    statistics.learn(
        [term for each in words.values() for term in each] + list(weights),
        [frozenset(page.counts) for page in pages],
    )
    bearers: dict[str, int] = {}
    for page in pages:
        for name in page.names:
            bearers[name] = bearers.get(name, 0) + 1
    total = sum(weights.values()) or 1.0
    links: list[Link] = []
    rows: dict[int, list[tuple[float, Link]]] = {}
    for source, target, name, rank in hits:
        parts = words[name]
        if not parts:
            continue
        rarest = max(statistics[term] for term in parts) / statistics.most
        strength = (0.5 + 0.5 * rarest) / bearers[name] ** 0.25 * (1.0 if rank < 2 else 0.8)
        early, around = _place(pages[source], frozenset(parts), weights, question)
        left = [term for term in weights if term not in covered[source]]
        residue = sum(weights[term] for term in left if term in covered[target]) / (
            sum(weights[term] for term in left) or 1.0
        )
        joint = sum(weights[term] for term in covered[source] | covered[target]) / total
        link = Link(
            source=source,
            target=target,
            strength=strength,
            early=early,
            residue=residue,
            joint=joint,
            place=0,
            size=len(parts),
        )
        worth = strength * (1 + around / total + residue + 0.3 * early)
        rows.setdefault(source, []).append((round(worth, 6), link))
    for siblings in rows.values():
        siblings.sort(key=lambda one: (-one[0], pages[one[1].target].id))
        links += [msgspec.structs.replace(link, place=place) for place, (_, link) in enumerate(siblings)]
    return links


def _mentions(question: Question, pages: Sequence[Page], sources: Sequence[int]) -> list[tuple[int, int, str, int]]:
    """Who mentions whom, by which name, and how sure that name is."""
    by_word: dict[str, list[tuple[str, int, int]]] = {}
    unspaced: list[tuple[str, int, int]] = []
    for at, page in enumerate(pages):
        for rank, name in enumerate(page.names):
            if (len(name) < 3 and name.isascii()) or question.has(name):
                continue
            if page.unspaced and not name.isascii():
                unspaced.append((name, at, rank))
            by_word.setdefault(name.split(" ", 1)[0], []).append((name, at, rank))
    known = frozenset(by_word)
    hits = []
    for source in sources:
        page = pages[source]
        own = page.names[:3]
        seen: dict[int, tuple[int, str]] = {}
        for word in known & page.words:
            for name, at, rank in by_word[word]:
                if at != source and f" {name} " in page.flat and name not in own:
                    before = seen.get(at)
                    if before is None or rank < before[0]:
                        seen[at] = (rank, name)
        if page.unspaced:
            for name, at, rank in unspaced:
                if at != source and at not in seen and name in page.flat and name not in own:
                    seen[at] = (rank, name)
        hits += [(source, at, name, rank) for at, (rank, name) in sorted(seen.items())]
    return hits


def _place(page: Page, parts: frozenset[str], weights: dict[str, float], question: Question) -> tuple[float, float]:
    """How early the name stands in it, and how much of the question is in a sentence with it."""
    early, around = 0.1, 0.0
    for number, sentence in enumerate(page.sentences):
        if parts <= sentence:
            early = max(early, 1 / (1 + number))
            around = max(around, sum(weight for term, weight in weights.items() if term in sentence))
    return early, around


def link_figures(measured: Measured, strengths: Sequence[float]) -> list[list[float]]:
    """One row of `LINKED` for each page, given how strong each one is by itself, from 0 to 1."""
    rows = [[0.0] * len(LINKED) for _ in measured.figures]
    anchored = [row[8] for row in measured.figures]
    for link in measured.links:
        row, value = rows[link.target], strengths[link.source] * link.strength
        if value > row[0]:
            row[0], row[7] = value, link.size / 3
        row[1] = max(row[1], value * link.residue)
        row[2] = max(row[2], value * link.early)
        row[3] = max(row[3], value / (1 + link.place))
        if anchored[link.source]:
            row[4] = max(row[4], value / (1 + link.place))
        row[6] += value
        back = rows[link.source]
        back[5] = max(back[5], strengths[link.target] * link.joint)
    for row in rows:
        row[6] = log(1 + row[6])
    return rows

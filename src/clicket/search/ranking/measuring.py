"""What speaks for a document, as figures. First what it says itself, then what the documents say that point to it.

A document that bears a name which another one mentions is linked to it: that is the way from hop to hop. Words of a name
in the question count as a whole: who has "Blood" but not "Blood Street" has found nothing of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Any

import msgspec

from clicket.search.ranking.pages import Page, name_terms
from clicket.search.ranking.sighting import Question, Sight, around, closest, sight
from clicket.search.ranking.statistics import Statistics

__all__ = ["ASKED", "DIRECT", "LINKED", "Link", "Measured", "Measurer", "link_figures"]

DIRECT = (
    "words",  # BM25 of the question
    "whole",  # the same, but names of the question count as a whole
    "rest",  # the same, without any names of the question
    "close",  # how much of the question stands close together in it
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

ASKED = (
    "asked",  # how much of a query of a later round stands close together in it
    "meant",  # how near it is to such a query, when there are vectors
)

_NAMES = 4
"""Names of a document that are looked for in the question."""
_COMMON = 0.4
"""A name whose rarest word is more common than this is none."""
_PARENTS = 16
"""Documents from which links are followed."""
_FACTOR = 1.2


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


class Measurer:
    """Measures pages for one question. What it knows of a page it keeps, so that a later round measures new ones only."""

    def __init__(self, question: Question, statistics: Statistics) -> None:
        self.question = question
        self.statistics = statistics
        self._sights: dict[str, Sight] = {}
        self.weights: dict[str, float] = {}
        self.total = 1.0

    def see(self, pages: Sequence[Page]) -> list[Sight]:
        """The pages, with the question in mind."""
        statistics = self.statistics
        statistics.learn(self.question.terms, pages)
        weights = {term: statistics[term] for term in self.question.terms}
        if weights != self.weights:
            self.weights, self.total = weights, sum(weights.values()) or 1.0
            self._sights.clear()
        for page in pages:
            known = self._sights.get(page.id)
            if known is None or known.page is not page:
                self._sights[page.id] = sight(page, self.question, self.weights, self.total)
        return [self._sights[page.id] for page in pages]

    def measure(self, pages: Sequence[Page], meaning: Sequence[float] | None = None) -> Measured:
        sights = self.see(pages)
        borne = _anchors(sights)
        wanted = [term for page in pages for term in page.name_terms]
        self.statistics.learn(wanted + [term for name, _ in borne for term in name_terms(name)], pages)
        anchors = _longest(self.question, borne, self.statistics)
        figures = self._figures(sights, anchors, meaning)
        rough = [row[0] + row[1] + row[3] + 0.5 * row[8] for row in figures]
        order = sorted(range(len(pages)), key=lambda one: (-round(rough[one], 6), pages[one].id))
        union: set[str] = set()
        for one in order:
            new = [term for term in sights[one].worths if term not in union]
            if new:
                figures[one][10] = sum(self.weights[term] for term in new) / self.total
                union.update(new)
        return Measured(figures=figures, links=self._links(sights, order[:_PARENTS]), anchors=anchors)

    def asked(self, pages: Sequence[Page], queries: Sequence[str]) -> list[float]:
        """For each page, the most that it has close together of any of the queries, as a share of it."""
        wanted = [name_terms(query) for query in queries]
        self.statistics.learn([*self.question.terms, *(term for each in wanted for term in each)], pages)
        found = [0.0] * len(pages)
        for each in wanted:
            weights = {term: self.statistics[term] for term in each}
            total = sum(weights.values())
            for at, page in enumerate(pages):
                has = sum([weight for term, weight in weights.items() if term in page.known])
                if has > found[at] * total:
                    spots = [(spot, term) for spot, term in enumerate(page.terms) if term in weights]
                    found[at] = max(found[at], closest(spots, weights) / total)
        return found

    def _figures(
        self, sights: Sequence[Sight], anchors: list[tuple[str, list[int]]], meaning: Sequence[float] | None
    ) -> list[list[float]]:
        weights, known, usual = self.weights, self.statistics.known, self.statistics.most
        named = []
        for name, bearers in anchors:
            parts = frozenset(name_terms(name))
            worth = sum(weights.get(term, 0.0) for term in sorted(parts))
            named.append((parts, name, worth, frozenset(bearers)))
        tied = frozenset(term for name, _ in anchors for term in name_terms(name))
        bearing: dict[str, int] = {}
        for one in sights:
            for name in one.page.names[:1]:
                bearing[name] = bearing.get(name, 0) + 1
        figures = []
        for at, one in enumerate(sights):
            page = one.page
            words = rest = 0.0
            for term, worth in one.worths.items():
                words += worth
                if term not in tied:
                    rest += worth
            whole, anchor, rarity, mentions = rest, 0.0, 0.0, 0.0
            for parts, name, worth, holders in named:
                if at in holders:
                    anchor = max(anchor, 1.0 if name == page.names[0] else 0.5)
                    rarity = max(rarity, worth / usual)
                    whole += _FACTOR * worth
                elif parts <= page.known and _says(page, name):
                    mentions += worth / self.total
                    whole += _FACTOR * worth
            own = said = 0.0
            for term in page.name_terms:
                worth = known.get(term, usual)
                own += worth
                if term in weights:
                    said += worth
            figures.append(
                [
                    words,
                    whole,
                    rest,
                    one.close,
                    said / own if own else 0.0,
                    log(one.length + 1),
                    12 / (12 + one.length),
                    log(bearing[page.names[0]]) if page.names else 0.0,
                    anchor,
                    rarity,
                    0.0,
                    mentions,
                    0.0 if meaning is None else meaning[at],
                ]
            )
        for column in range(3):
            most = max((row[column] for row in figures), default=0.0) or 1.0
            for row in figures:
                row[column] /= most
        return figures

    def _links(self, sights: Sequence[Sight], sources: Sequence[int]) -> list[Link]:
        pages = [one.page for one in sights]
        hits = _mentions(sights, sources)
        words = {name: name_terms(name) for _, _, name, _ in hits}
        statistics, weights = self.statistics, self.weights
        statistics.learn([*weights, *(term for each in words.values() for term in each)], pages)
        known, most = statistics.known, statistics.most
        bearers: dict[str, int] = {}
        for page in pages:
            for name in page.names:
                bearers[name] = bearers.get(name, 0) + 1
        rows: dict[int, list[tuple[float, str, dict[str, Any]]]] = {}
        for source, target, name, rank in hits:
            parts = words[name]
            if not parts:
                continue
            rarest = max([known.get(term, most) for term in parts]) / most
            strength = (0.5 + 0.5 * rarest) / bearers[name] ** 0.25 * (1.0 if rank < 2 else 0.8)
            early, near = around(pages[source], sights[source].spots, parts, weights)
            here, has = sights[source].worths, sights[source].has
            more = sum([weights[term] for term in sights[target].worths if term not in here])
            residue = more / (self.total - has) if self.total - has > 1e-9 else 0.0
            link = {
                "source": source,
                "target": target,
                "strength": strength,
                "early": early,
                "residue": residue,
                "joint": (has + more) / self.total,
                "size": len(parts),
            }
            worth = strength * (1 + near / self.total + residue + 0.3 * early)
            rows.setdefault(source, []).append((-round(worth, 6), pages[target].id, link))
        links: list[Link] = []
        for siblings in rows.values():
            siblings.sort(key=lambda one: one[:2])
            links += [Link(place=place, **link) for place, (_, _, link) in enumerate(siblings)]
        return links


def _anchors(sights: Sequence[Sight]) -> list[tuple[str, list[int]]]:
    """All names of pages that are in the question."""
    found: dict[str, list[int]] = {}
    for at, one in enumerate(sights):
        for name in one.told:
            if name in one.page.names[:_NAMES]:
                found.setdefault(name, []).append(at)
    return list(found.items())


def _longest(
    question: Question, anchors: list[tuple[str, list[int]]], statistics: Statistics
) -> list[tuple[str, list[int]]]:
    """Those that are rare enough to be names, and no part of a longer one."""
    left = question.flat
    chosen = []
    for name, bearers in sorted(anchors, key=lambda one: (-len(one[0]), one[0])):
        rarest = max((statistics[term] for term in name_terms(name)), default=0.0)
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


def _says(page: Page, name: str) -> bool:
    return f" {name} " in page.flat or (page.unspaced and name in page.flat)


def _mentions(sights: Sequence[Sight], sources: Sequence[int]) -> list[tuple[int, int, str, int]]:
    """Who mentions whom, by which name, and how sure that name is."""
    by_word: dict[str, list[tuple[str, str, int, int]]] = {}
    unspaced: list[tuple[str, int, int]] = []
    for at, one in enumerate(sights):
        for rank, name in one.own:
            if one.page.unspaced and not name.isascii():
                unspaced.append((name, at, rank))
            by_word.setdefault(name.split(" ", 1)[0], []).append((name, f" {name} ", at, rank))
    known = by_word.keys()
    hits = []
    for source in sources:
        page = sights[source].page
        own, flat = page.names[:3], page.flat
        seen: dict[int, tuple[int, str]] = {}
        for word in known & page.words:
            for name, padded, at, rank in by_word[word]:
                if at != source and padded in flat and name not in own:
                    before = seen.get(at)
                    if before is None or rank < before[0]:
                        seen[at] = (rank, name)
        if page.unspaced:
            for name, at, rank in unspaced:
                if at != source and at not in seen and name in flat and name not in own:
                    seen[at] = (rank, name)
        hits += [(source, at, name, rank) for at, (rank, name) in sorted(seen.items())]
    return hits


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

"""The features of documents by which the ranker scores them: of a document alone, of its links, and of later queries.

A document links to another one if it mentions one of that document's names; links lead from hop to hop. A name in the
question counts as a whole: a document with "Blood" but without "Blood Street" does not match it.
"""

# ruff: noqa: PLR1730 - max() is slower than a comparison in the innermost loops
from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import log

import msgspec

from clicket.search.ranking.profiles import DocumentProfile, name_terms, terms_of_names
from clicket.search.ranking.term_match import (
    QuestionTerms,
    TermMatch,
    best_window,
    match_terms,
    name_context,
    term_positions,
)
from clicket.search.ranking.term_weights import TermWeights

__all__ = ["FeatureExtractor", "Features", "Link", "link_features"]

_LINK_FEATURES = 8
"""Features of a document's links; `ranker` lists all features."""
_COMMON = 0.4
"""A name counts only if its rarest term weighs at least this share of the highest weight."""
_MAX_SOURCES = 16
"""Documents from which links are followed."""
_NAME_FACTOR = 1.2
"""How much more a term counts as part of a name that is found as a whole."""
_ANCHOR, _NOVEL = 4, 5
"""Columns of a document's own features."""


_Names = dict[str, list[tuple[str, str, str, int]]]
"""Names of documents that may be mentioned, by their first term: the last term, the name, the document, the rank of the name. Names that
a text may have without having their terms are under ""; the last term is "" there if the name may be part of a longer word."""


Link = tuple[int, int, float, float, float, float, int, int]
"""Source, target, strength, early, residue, joint, size, place: `source` mentions a name of `target`; both are positions in the list of
profiles. `size` is the number of terms of the name, `place` the position of the target among all that the source mentions."""


class Features(msgspec.Struct, frozen=True, kw_only=True):
    rows: list[list[float]]
    """For each profile its own features, without links and queries."""
    links: list[Link]
    anchors: list[tuple[str, list[int]]]
    """Names in the question, each with the positions of the profiles that have it."""


class FeatureExtractor:
    """Computes features for one question. Matches of terms are cached, so a later round matches only new documents."""

    def __init__(self, question: QuestionTerms, term_weights: TermWeights) -> None:
        self.question = question
        self.term_weights = term_weights
        self._matches: dict[str, TermMatch] = {}
        self._names: list[_Names] = []
        """For each round, the names of its new documents."""
        self._mentions: dict[str, tuple[int, dict[str, tuple[bool, int, str]]]] = {}
        """For each document how many of `_names` were looked for in it, and the documents that it mentions: as part of a word? By which
        rank of their names, and which name?"""
        self.weights: dict[str, float] = {}
        self.total = 1.0

    def match(self, profiles: Sequence[DocumentProfile]) -> list[TermMatch]:
        term_weights = self.term_weights
        term_weights.learn(self.question.terms, profiles)
        weights = {term: term_weights[term] for term in self.question.terms}
        matches = self._matches
        changed = [one for one in profiles if one.id in matches and matches[one.id].profile is not one]
        if changed or weights != self.weights:
            self.weights, self.total = weights, sum(weights.values()) or 1.0
            for each in (matches, self._names, self._mentions):
                each.clear()
        new = [one for one in profiles if one.id not in matches]
        for profile in new:
            matches[profile.id] = match_terms(profile, self.question, weights, self.total)
        self._add_names([matches[one.id] for one in new])
        return [matches[one.id] for one in profiles]

    def _add_names(self, matches: Sequence[TermMatch]) -> None:
        words = terms_of_names([name for one in matches for _, name in one.linkable_names])
        by_term: _Names = {"": []}
        for one in matches:
            key = one.profile.id
            for rank, name in one.linkable_names:
                parts = words[name]
                if parts and name.isascii():
                    by_term.setdefault(parts[0], []).append((parts[-1], name, key, rank))
                else:
                    by_term[""].append(("" if one.profile.unspaced and not name.isascii() else name, name, key, rank))
        self._names.append(by_term)

    def extract(self, profiles: Sequence[DocumentProfile], similarities: Sequence[float] | None = None) -> Features:
        matches = self.match(profiles)
        names_in_question = _anchors(matches)
        self.term_weights.learn([term for name, _ in names_in_question for term in name_terms(name)], profiles)
        anchors = _longest_names(self.question, names_in_question, self.term_weights)
        rows = self._rows(matches, anchors, similarities)
        rough = [row[0] + row[1] + row[2] + 0.5 * row[_ANCHOR] for row in rows]
        order = sorted(range(len(profiles)), key=lambda one: (-rough[one], profiles[one].id))
        union: set[str] = set()
        for one in order:
            has = matches[one].bm25
            if not union.issuperset(has):
                rows[one][_NOVEL] = sum([self.weights[term] for term in has if term not in union]) / self.total
                union.update(has)
        return Features(rows=rows, links=self._links(matches, order[:_MAX_SOURCES]), anchors=anchors)

    def query_features(self, profiles: Sequence[DocumentProfile], queries: Sequence[str]) -> list[float]:
        """For each profile, the highest share of a query that is close together in it (`asked`)."""
        words = terms_of_names(queries)
        wanted = [term for query in queries for term in words[query]]
        if not wanted:
            return [0.0] * len(profiles)
        self.term_weights.learn([*self.question.terms, *wanted], profiles)
        weights = {term: self.term_weights[term] for term in wanted}
        totals = [sum([weights[term] for term in words[query]]) for query in queries]
        shares_of: dict[str, list[tuple[int, float]]] = {term: [] for term in wanted}
        """For each term the numbers of the queries that have it, with its share of the query."""
        for number, query in enumerate(queries):
            for term in words[query]:
                shares_of[term].append((number, weights[term] / totals[number]))
        found = []
        for profile in profiles:
            has = weights.keys() & profile.all_terms.keys()
            shares = [0.0] * len(queries)
            for term in has:
                for number, share in shares_of[term]:
                    shares[number] += share
            best = 0.0
            while (bound := max(shares)) > best:  # no window exceeds the share that the document has at all
                number = shares.index(bound)
                shares[number] = 0.0
                terms = has.intersection(words[queries[number]])
                best = max(best, best_window(term_positions(profile, terms), weights, len(terms)) / totals[number])
            found.append(best)
        return found

    def _rows(
        self, matches: Sequence[TermMatch], anchors: list[tuple[str, list[int]]], similarities: Sequence[float] | None
    ) -> list[list[float]]:
        weights = self.weights
        names = []
        for name, _ in anchors:
            parts = frozenset(name_terms(name))
            names.append((name, parts, sum([weights.get(term, 0.0) for term in sorted(parts)])))
        in_names = frozenset([term for _, parts, _ in names for term in parts])
        rows = []
        for at, one in enumerate(matches):
            profile = one.profile
            words = whole = anchor = mentions = 0.0
            for term, score in one.bm25.items():
                words += score
                if term not in in_names:
                    whole += score
            for name, parts, weight in names:
                if name in one.names_in_question:
                    anchor = max(anchor, 1.0 if name == profile.names[0] else 0.5)
                    whole += _NAME_FACTOR * weight
                elif parts <= profile.all_terms.keys() and (
                    f" {name} " in profile.flat or (profile.unspaced and name in profile.flat)
                ):
                    mentions += weight / self.total
                    whole += _NAME_FACTOR * weight
            meaning = 0.0 if similarities is None else similarities[at]
            rows.append([words, whole, one.proximity, log(one.length + 1), anchor, 0.0, mentions, meaning])
        for column in range(2):
            highest = max([row[column] for row in rows], default=0.0) or 1.0
            for row in rows:
                row[column] /= highest
        return rows

    def _links(self, matches: Sequence[TermMatch], sources: Sequence[int]) -> list[Link]:
        profiles = [one.profile for one in matches]
        mentions = self._find_mentions(matches, sources)
        words = terms_of_names([name for _, _, name, _ in mentions])
        term_weights, weights = self.term_weights, self.weights
        term_weights.learn([*weights, *[term for _, _, name, _ in mentions for term in words[name]]], profiles)
        known, most = term_weights.known, term_weights.max_weight
        bearers = Counter([name for profile in profiles for name in profile.names])
        siblings_of: dict[int, list[tuple[float, str, tuple[int, int, float, float, float, float, int]]]] = {}
        for source, target, name, rank in mentions:
            parts = words[name]
            if not parts:
                continue
            rarest = max([known.get(term, most) for term in parts]) / most
            strength = (0.5 + 0.5 * rarest) / bearers[name] ** 0.25 * (1.0 if rank < 2 else 0.8)
            early, near = name_context(profiles[source], matches[source].positions, parts, weights)
            here, has = matches[source].bm25, matches[source].matched_weight
            more = sum([weights[term] for term in matches[target].bm25 if term not in here])
            residue = more / (self.total - has) if self.total - has > 1e-9 else 0.0
            link = (source, target, strength, early, residue, (has + more) / self.total, len(parts))
            score = strength * (1 + near / self.total + residue + 0.3 * early)
            siblings_of.setdefault(source, []).append((-round(score, 6), profiles[target].id, link))
        links: list[Link] = []
        for siblings in siblings_of.values():
            siblings.sort()
            links += [(*link, place) for place, (_, _, link) in enumerate(siblings)]
        return links

    def _find_mentions(self, matches: Sequence[TermMatch], sources: Sequence[int]) -> list[tuple[int, int, str, int]]:
        """Mentions as (source, target, name, rank of the name among the target's names). In each source, only names are looked for that
        are new since it was a source before, and of which it has the first and the last term."""
        place_of = {one.profile.id: at for at, one in enumerate(matches)}
        mentions = []
        for source in sources:
            profile = matches[source].profile
            looked_for, seen = self._mentions.get(profile.id) or (0, {})
            for by_term in self._names[looked_for:]:
                _add_mentions(seen, profile, by_term)
            self._mentions[profile.id] = (len(self._names), seen)
            for target, (_, rank, name) in seen.items():
                if target in place_of:
                    mentions.append((source, place_of[target], name, rank))
        return mentions


def _add_mentions(seen: dict[str, tuple[bool, int, str]], profile: DocumentProfile, by_term: _Names) -> None:
    key = profile.id
    own = profile.names[:3]
    flat = profile.flat
    has = profile.all_terms
    terms = by_term.keys() & has.keys()
    if by_term[""]:
        terms.add("")
    for term in terms:
        for last, name, target, rank in by_term[term]:
            if (last in has or not term) and name in flat and target != key and name not in own:
                within = f" {name} " not in flat
                if not within or (profile.unspaced and not last):
                    seen[target] = min(seen.get(target, (within, rank, name)), (within, rank, name))


def _anchors(matches: Sequence[TermMatch]) -> list[tuple[str, list[int]]]:
    """Names of documents that are in the question."""
    found: dict[str, list[int]] = {}
    for at, one in enumerate(matches):
        for name in one.names_in_question:
            found.setdefault(name, []).append(at)
    return list(found.items())


def _longest_names(
    question: QuestionTerms, anchors: list[tuple[str, list[int]]], term_weights: TermWeights
) -> list[tuple[str, list[int]]]:
    """Those that are rare enough to be names, and not part of a longer one."""
    left = question.flat
    chosen = []
    for name, bearers in sorted(anchors, key=lambda one: (-len(one[0]), one[0])):
        rarest = max((term_weights[term] for term in name_terms(name)), default=0.0)
        if rarest < _COMMON * term_weights.max_weight:
            continue
        padded = f" {name} "
        if padded in left:
            left = left.replace(padded, " | ")
            chosen.append((name, bearers))
        elif not name.isascii() and name in left:
            left = left.replace(name, "|")
            chosen.append((name, bearers))
    return chosen


def link_features(features: Features, strengths: Sequence[float]) -> dict[int, list[float]]:
    """For each profile that has links, their features. `strengths` are the strengths of the documents alone, from 0 to 1."""
    rows: dict[int, list[float]] = {}
    for source, target, strength, early, residue, joint, size, place in features.links:
        row = rows[target] if target in rows else rows.setdefault(target, [0.0] * _LINK_FEATURES)
        back = rows[source] if source in rows else rows.setdefault(source, [0.0] * _LINK_FEATURES)
        value = strengths[source] * strength
        nearest = value / (1 + place)
        if value > row[0]:
            row[0], row[7] = value, size / 3
        if value * residue > row[1]:
            row[1] = value * residue
        if value * early > row[2]:
            row[2] = value * early
        if nearest > row[3]:
            row[3] = nearest
        if nearest > row[4] and features.rows[source][_ANCHOR]:
            row[4] = nearest
        row[6] += value
        if strengths[target] * joint > back[5]:
            back[5] = strengths[target] * joint
    for row in rows.values():
        row[6] = log(1 + row[6])
    return rows

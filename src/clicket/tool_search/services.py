"""Which services a request names. Tools of one service have names that begin with the same word or two (`github_create_issue`,
`google_calendar_create_event`), and descriptions that name it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from clicket.tool_search.meanings import CALENDAR
from clicket.tool_search.related import is_ordinary
from clicket.tool_search.words import RequestWord, is_verb, plain_terms, proper_names, variants

__all__ = ["Named", "Services"]

_LEAST = 2
"""Tools whose names begin with the same word, from which on that word is the name of a service."""
_SHORTEST_JOINED = 4
"""Letters of a name that a request writes in two words (`Argo CD` for `argocd`), at least."""
_WRAPPERS = frozenset(["mcp", "tool", "function", "api"])
"""First words of names that say how a tool is called, and not of which service it is: `mcp__github__create_issue`."""
_BEFORE_A_NAME = frozenset("in on via with using from to at by through into".split())
"""`post it on slack`"""


class Named(NamedTuple):
    counts: dict[int, int]
    """For each tool of a service that is named: how many words of that name the request has."""
    terms: set[str]
    """The words that name them."""
    joined: dict[str, set[int]]
    """Names that the request writes in two words, or in one instead of two; and the numbers of the tools."""
    parts: set[str]
    """The words of which these names are made."""


class _Read(NamedTuple):
    """What is known of a tool."""

    leads: tuple[tuple[str, str], ...]
    """The first two words of its name, each with the one before it; up to the first that says what the tool does."""
    titles: frozenset[str]


class Services:
    """Kept tool by tool, by the numbers that the index gives to tools."""

    def __init__(self) -> None:
        self._leads: dict[str, dict[str, set[int]]] = {}
        """The first word of a name, and the second -> what stands before it -> numbers of tools."""
        self._titles: dict[str, dict[str, set[int]]] = {}
        """A proper name in a description -> the first word of the tool's name -> numbers of tools."""
        self._joined: dict[str, dict[str, set[int]]] = {}
        """The first two words of a name, written as one -> the first -> numbers of tools."""
        self._of: dict[int, _Read] = {}

    def put(self, number: int, name: str, description: str) -> None:
        read = self._of[number] = _read(name, description)
        for table, term, inner in self._places(read):
            table.setdefault(term, {}).setdefault(inner, set()).add(number)

    def remove(self, number: int) -> None:
        for table, term, inner in self._places(self._of.pop(number)):
            _drop(table, term, inner, number)

    def _places(self, read: _Read) -> Iterator[tuple[dict[str, dict[str, set[int]]], str, str]]:
        """Where a tool stands: the table, and the two keys in it."""
        yield from ((self._leads, term, before) for before, term in read.leads)
        yield from ((self._titles, title, read.leads[0][1]) for title in read.titles)
        if len(read.leads) > 1:
            yield self._joined, read.leads[0][1] + read.leads[1][1], read.leads[0][1]

    def of_term(self, term: str) -> list[set[int]]:
        """For each service whose name the term is, or is part of: the numbers of its tools."""
        return [numbers for numbers in self._leads.get(term, {}).values() if len(numbers) >= _LEAST]

    def named(self, words: Sequence[RequestWord]) -> Named:
        """The services that a request names."""
        found = Named({}, set(), *self._in_other_words(words))
        before_is_name = False
        for numbers in found.joined.values():
            _count(found.counts, numbers)
        for before, word in zip([None, *words], words, strict=False):
            if word.term in found.terms or word.term in found.parts or (before is not None and before.is_domain):
                continue
            numbers = self._named_by(word.term) if before_is_name or _is_name(word) else set()
            before_is_name = bool(numbers)
            if numbers:
                found.terms.add(word.term)
                _count(found.counts, numbers)
        return found

    def _in_other_words(self, words: Sequence[RequestWord]) -> tuple[dict[str, set[int]], set[str]]:
        """Names that are written in two words (`Route 53`, `bit.ly`), or in one that are two (`newrelic`)."""
        joined: dict[str, set[int]] = {}
        parts: set[str] = set()
        for word, after in pairwise(words):
            if word.is_domain or not word.is_last:
                (term, *_) = (*plain_terms(word.folded + after.folded), "")
                numbers = set().union(*self.of_term(term)) if len(term) >= _SHORTEST_JOINED else set()
                if numbers:
                    joined[term] = numbers
                    parts |= {word.term, after.term}
        for word in words:
            for numbers in self._joined.get(word.term, {}).values():
                if len(numbers) >= _LEAST:
                    joined[word.term] = numbers
        return joined, parts

    def _named_by(self, term: str) -> set[int]:
        names = (term,) if is_ordinary(term) else (term, *variants(term))
        found = {number for name in names for numbers in self.of_term(name) for number in numbers}
        leads = self._titles.get(term, {})
        for lead, numbers in leads.items():
            group = self._leads[lead][""]
            is_title = len(numbers) >= _LEAST and 2 * len(numbers) >= len(group)
            is_own = (
                len(leads) == 1 and len(group) >= _LEAST and not is_ordinary(term)
            )  # Firestore, in tools of Firebase only
            if is_title or is_own:
                found |= group
        return found


def _is_name(word: RequestWord) -> bool:
    """May the word be the name of a service? `monday` may not, `monday.com` may."""
    if word.folded in CALENDAR:
        return word.is_domain
    if not is_ordinary(word.term) or word.is_title:
        return True
    if word.is_proper and not word.is_acronym:
        return True
    return word.before in _BEFORE_A_NAME and word.is_last


def _drop(table: dict[str, dict[str, set[int]]], term: str, inner: str, number: int) -> None:
    numbers = table[term][inner]
    numbers.discard(number)
    if not numbers:
        del table[term][inner]
    if not table[term]:
        del table[term]


def _count(counts: dict[int, int], numbers: Iterable[int]) -> None:
    for number in numbers:
        counts[number] = counts.get(number, 0) + 1


def _read(name: str, description: str) -> _Read:
    terms = plain_terms(name)
    while terms and terms[0] in _WRAPPERS:
        del terms[0]
    first, second, *_ = (*terms, "", "")
    if not first or is_verb(first):
        return _Read((), frozenset())
    leads = (("", first), (first, second)) if second and not is_verb(second) else (("", first),)
    return _Read(leads, frozenset(proper_names(description)))

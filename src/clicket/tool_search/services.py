"""Which services a request names. Tools of one service have names that begin with the same word or two (`github_create_issue`,
`google_calendar_create_event`), and descriptions that name it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from clicket.tool_search.meanings import CALENDAR
from clicket.tool_search.related import is_ordinary
from clicket.tool_search.words import RequestWord, is_verb, plain_terms, proper_names, variants

__all__ = ["Named", "Services"]

_LEAST = 3
"""Tools whose names begin with the same word, from which on that word is the name of a service."""
_BEFORE_A_NAME = frozenset("in on via with using from to at by through into".split())
"""`post it on slack`"""


class Named(NamedTuple):
    counts: dict[int, int]
    """For each tool of a service that is named: how many words of that name the request has."""
    terms: set[str]
    """The words that name them."""


class Services:
    """Kept tool by tool, by the numbers that the index gives to tools."""

    def __init__(self) -> None:
        self._leads: dict[str, dict[str, set[int]]] = {}
        """The first word of a name, and the second -> what stands before it -> numbers of tools."""
        self._titles: dict[str, dict[str, set[int]]] = {}
        """A proper name in a description -> the first word of the tool's name -> numbers of tools."""
        self._of: dict[int, tuple[tuple[tuple[str, str], ...], frozenset[str]]] = {}

    def put(self, number: int, name: str, description: str) -> None:
        leads = _leads_of(name)
        titles = frozenset(proper_names(description)) if leads else frozenset()
        self._of[number] = leads, titles
        for before, term in leads:
            self._leads.setdefault(term, {}).setdefault(before, set()).add(number)
        for title in titles:
            self._titles.setdefault(title, {}).setdefault(leads[0][1], set()).add(number)

    def remove(self, number: int) -> None:
        leads, titles = self._of.pop(number)
        for before, term in leads:
            _drop(self._leads, term, before, number)
        for title in titles:
            _drop(self._titles, title, leads[0][1], number)

    def of_term(self, term: str) -> list[set[int]]:
        """For each service whose name the term is, or is part of: the numbers of its tools."""
        return [numbers for numbers in self._leads.get(term, {}).values() if len(numbers) >= _LEAST]

    def named(self, words: Iterable[RequestWord]) -> Named:
        """The services that a request names."""
        counts: dict[int, int] = {}
        terms: set[str] = set()
        before_is_name = False
        for word in words:
            if word.term in terms:
                continue
            found = self._named_by(word.term) if before_is_name or _is_name(word) else set()
            before_is_name = bool(found)
            if found:
                terms.add(word.term)
                for number in found:
                    counts[number] = counts.get(number, 0) + 1
        return Named(counts, terms)

    def _named_by(self, term: str) -> set[int]:
        names = (term,) if is_ordinary(term) else (term, *variants(term))
        found = {number for name in names for numbers in self.of_term(name) for number in numbers}
        for lead, numbers in self._titles.get(term, {}).items():
            group = self._leads[lead][""]
            if len(numbers) >= _LEAST and 2 * len(numbers) >= len(group):
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


def _leads_of(name: str) -> tuple[tuple[str, str], ...]:
    """The first two words of a name, each with the one before it; up to the first that says what the tool does."""
    first, second, *_ = (*plain_terms(name), "", "")
    if not first or is_verb(first):
        return ()
    return (("", first), (first, second)) if second and not is_verb(second) else (("", first),)

"""The terms by which tools and requests are compared: identifiers are split into words, and words are folded and stemmed.

A request uses other words than a description: `meanings.py` has words of one meaning, and turns of speech that stand for others.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from clicket.text.terms import fold, stem, terms
from clicket.tool_search.meanings import ASKED, ASKS, CALENDAR, GLUE, GROUPS, NOISE, PHRASES, QUESTIONS, TELLING, VERBS

__all__ = [
    "RequestText",
    "RequestWord",
    "is_verb",
    "plain_terms",
    "proper_names",
    "prose_terms",
    "read_request",
    "spellings",
    "variants",
    "words_of_name",
]

_LONGEST = 40
_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SIGNS = re.compile(r"[\W_]+")
_BRAND = re.compile(r"\b[A-Za-z][a-z0-9]{1,20}[A-Z][A-Za-z0-9]{1,20}\b")
_TITLE = re.compile(r"\b[A-Z][a-z0-9]{1,20}[A-Z][A-Za-z0-9]{1,20}\b")
_SUFFIX = re.compile(r"(?<=[A-Za-z0-9])\.(?:com|org|net|io|co|dev|app|ai|eu|de|uk|gov|edu|info)\b", re.IGNORECASE)
_QUOTED = re.compile(r"\"[^\"]{1,500}\"|“[^”]{1,500}”|„[^“”]{1,500}[“”]|«[^»]{1,500}»|(?<!\w)'[^']{1,500}'(?!\w)")
_KEY = re.compile(r"[A-Z]{2,10}-(?=\w*\d)[0-9A-Z]{1,10}\Z")
"""The key of a ticket: PROJ-123."""
_WORD = re.compile(r"[^\W_]{1,40}")
_BEFORE_COLON = 2
"""Words with a meaning before a colon, from which on what follows it is content."""
_CONTENT = 0.4
"""What a word counts that the request only passes on: one in quotation marks, or after a colon."""
_AFTER_PREPOSITION = 0.75
_PREPOSITIONS = frozenset("in on at by for from with to of about into onto via using under".split())
_BY_PHRASE = 0.8
_BY_QUESTION = 0.3
_OF_BRAND = 0.3
_TO_ME, _ME = frozenset(["tell", "show", "give", "find", "read"]), frozenset(["me", "us"])
"""`tell me` asks for something, `tell Ann` sends something."""
_GAP = 4
"""Words for which `..` in a phrase stands, at most."""


@lru_cache(maxsize=50_000)
def _stemmed(word: str) -> str:
    return stem(word[:_LONGEST])


@lru_cache(maxsize=1)
def _groups() -> dict[str, tuple[str, ...]]:
    """For each term those of its groups. A word with `_` is several terms, found and never asked for."""
    found: dict[str, dict[str, None]] = {}
    for line in GROUPS.split(";"):
        group = [[_stemmed(part) for part in word.split("_")] for word in line.split()]
        for number, one in enumerate(group):
            if len(one) == 1:
                others = [term for at, other in enumerate(group) if at != number for term in other]
                found.setdefault(one[0], {}).update(dict.fromkeys(others))
    for line in ASKED.split(";"):
        said, _, meant = line.partition(">")
        for word in said.split():
            found.setdefault(_stemmed(word), {}).update(dict.fromkeys(map(_stemmed, meant.split())))
    return {term: tuple(other for other in others if other != term) for term, others in found.items()}


def variants(term: str) -> tuple[str, ...]:
    """Terms of about the same meaning."""
    return _groups().get(term, ())


def is_verb(term: str) -> bool:
    """Is it what a tool does, rather than to what?"""
    return term in _verbs()


@lru_cache(maxsize=1)
def _verbs() -> frozenset[str]:
    return frozenset(map(_stemmed, VERBS.split()))


@lru_cache(maxsize=1)
def _asks() -> frozenset[str]:
    return frozenset(map(_stemmed, ASKS.split()))


def _split(text: str) -> str:
    """The folded words of a text, with a blank between them; identifiers are split into their words."""
    return _SIGNS.sub(" ", fold(_BOUNDARY.sub(" ", text)))


def words_of_name(name: str) -> list[str]:
    """The words of an identifier, folded."""
    return _split(name).split()


def _brands(text: str) -> list[str]:
    """Words with a capital inside, such as GitHub, as one term: in names of tools they are often written so."""
    return [_stemmed(word.lower()) for word in _BRAND.findall(text)]


def plain_terms(text: str) -> list[str]:
    """The terms of a name or a parameter, in order."""
    folded = _split(text)
    if not folded.isascii():
        return [term[:_LONGEST] for term in terms(folded)]
    return [_stemmed(word) for word in folded.split() if word not in GLUE]


def prose_terms(text: str) -> list[str]:
    """The terms of a description. A name such as WordPress is one term: its parts are words that mean something else."""
    return [*plain_terms(_TITLE.sub(" ", text)), *_brands(text)]


class RequestWord(NamedTuple):
    """A word of a request, as it is written."""

    term: str
    folded: str
    before: str
    """The folded word before it."""
    is_proper: bool
    """It has a capital that no sentence begins with."""
    is_acronym: bool
    """All its letters are capitals."""
    is_last: bool
    """No other word follows before the next sign."""
    is_title: bool
    """It begins the request, and a colon follows: `Todoist: buy milk`."""
    is_domain: bool
    """`.com` or the like follows."""


class RequestText(NamedTuple):
    """What is read of a request."""

    terms: dict[str, float]
    """Its terms and how much each counts: what is said outright 1, what a phrase stands for and what is passed on less."""
    words: list[RequestWord]
    """Its words, without those that it only passes on."""
    passes_on: bool
    """It wants something told: `show on Slack that I am away`."""


def read_request(text: str) -> RequestText:
    said = _QUOTED.sub(" ", text)
    content = " ".join(_QUOTED.findall(text))
    before, colon, after = said.partition(": ")
    if colon and len([word for word in _split(before).split() if word not in NOISE]) >= _BEFORE_COLON:
        said, content = before, f"{content} {after}"  # new task: buy milk
    before, that, after = said.partition(" that ")
    passes_on = bool(that) and next(iter(_split(before).split()), "") in TELLING
    if passes_on:
        said, content = before, f"{content} {after}"  # tell Ann that it rains
    if not _split(said).strip():
        said, content = text, ""
    weights = _said_terms(said)
    for term in plain_terms(content):
        weights.setdefault(term, _CONTENT)
    return RequestText(weights, _request_words(said), passes_on)


def _said_terms(text: str) -> dict[str, float]:
    folded = _split(_SUFFIX.sub(" ", text))
    if not folded.isascii():
        return dict.fromkeys(plain_terms(text), 1.0)
    weights: dict[str, float] = {}
    words = folded.split()
    for term in _meant(words):
        weights.setdefault(term, _BY_PHRASE)
    if words and words[0] in QUESTIONS:
        for term in _asks():
            weights[term] = _BY_QUESTION
    for term in _hinted(text):
        weights.setdefault(term, _BY_PHRASE)
    weight = 1.0
    for word, after in zip(words, [*words[1:], ""], strict=False):
        if word in _PREPOSITIONS:
            weight = _AFTER_PREPOSITION
        if word not in NOISE and not (word in _TO_ME and after in _ME):
            term = _stemmed(word)
            weights[term] = weight if weights.get(term, 0.0) < weight else weights[term]
    for brand in _BRAND.findall(text):
        for part in _split(brand).split():
            weights[_stemmed(part)] = _OF_BRAND
    return weights | dict.fromkeys(_brands(text), 1.0)


def _request_words(said: str) -> list[RequestWord]:
    found: list[RequestWord] = []
    before, end = "", 0
    for match in _WORD.finditer(said):
        word, gap = match[0], said[end : match.start()]
        end = match.end()
        folded = fold(word)
        begins = not before or any(sign in gap for sign in ".!?")
        is_proper = any(letter.isupper() for letter in (word[1:] if begins else word)) and folded != "i"
        found.append(
            RequestWord(
                term=_stemmed(folded),
                folded=folded,
                before=before,
                is_proper=is_proper,
                is_acronym=word.isupper(),
                is_last=not said[end : end + 2].strip(" ").isalnum() or said[end : end + 1] != " ",
                is_title=not before and said[end : end + 1] == ":",
                is_domain=said[end : end + 2].startswith(".") and said[end + 1 : end + 2].isalpha(),
            )
        )
        before = folded
    return found


def proper_names(text: str) -> set[str]:
    """Terms of words that are written as names: with a capital, and not as the first word."""
    found = set(_brands(text))
    for word in text.split()[1:]:
        name = word.strip(".,;:!?()\"'")[:_LONGEST]
        if name[:1].isupper() and name.lower() not in CALENDAR:
            found.add(_stemmed(fold(name)))
    return found


def _hinted(text: str) -> list[str]:
    """Terms for what a request shows instead of naming it: an address, a phone number, a channel, the key of a ticket."""
    hints = ""
    for each in text.split():
        word = each.strip(".,;:!?()\"'")[:_LONGEST]
        at, _, host = word.partition("@")
        if at and "." in host:
            hints += "email contact "
        elif word.startswith("+") and word[1:].isdigit():
            hints += "phone number "
        elif word.startswith("#") and word[1:2].isalpha():
            hints += "channel "
        elif word.startswith(("http://", "https://")):
            hints += "url link page "
        elif word.startswith("r/"):
            hints += "subreddit "
        elif word[:1] in "$€£" and word[1:2].isdigit():
            hints += "amount payment "
        elif word.startswith(("/", "~/")) and word[-1:].isalnum():
            hints += "file path "
        elif _KEY.match(word):
            hints += "issue ticket "
    return [_stemmed(hint) for hint in hints.split()]


@lru_cache(maxsize=1)
def _phrases() -> dict[str, list[tuple[list[str], list[str]]]]:
    """By their first word: the rest of each phrase, and the terms that it stands for."""
    found: dict[str, list[tuple[list[str], list[str]]]] = {}
    for line in PHRASES.split(";"):
        phrase, _, words = line.partition("=")
        first, *rest = phrase.split()
        found.setdefault(first, []).append((rest, [_stemmed(word) for word in words.split()]))
    return found


def _meant(words: list[str]) -> list[str]:
    """The terms for which turns of speech in a request stand."""
    phrases = _phrases()
    return [
        term
        for at, word in enumerate(words)
        for rest, stands_for in phrases.get(word, ())
        if _follows(words, at + 1, rest)
        for term in stands_for
    ]


def _follows(words: list[str], at: int, rest: list[str]) -> bool:
    gap = 0
    for part in rest:
        if part == "..":
            gap = _GAP
            continue
        try:
            at = words.index(part, at, at + gap + 1) + 1
        except ValueError:
            return False
        gap = 0
    return True


def spellings(term: str) -> set[str]:
    """The term, and what is left of it without one of its letters: two terms that share one are at most a slip apart."""
    return {term, *(term[:at] + term[at + 1 :] for at in range(len(term)))}

"""A claim counts when a document says so. What is checked here is checked without any model.

Every quote must be in the document that it names, word for word. Then the statement must stand on its quotes: each number, each
name and each address in it is in a quote, in the title of a quoted document or in the question; a "not" has some denial
there too; and where statement and quotes are in one language that we can tell, a third of its words are in the quotes and
most of them there or in the others. That catches what models usually invent. It does not prove that a statement follows. So
the quotes are always shown with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from clicket.model.document import Citation, Document
from clicket.search.modelled.fitting import Shown
from clicket.search.modelled.forms import Claim, Quote, clean
from clicket.search.modelled.numbers import numbers_in
from clicket.search.synthesis.citations import find_span, unmarked
from clicket.search.text.terms import STOPWORDS, fold, is_unspaced, terms

__all__ = ["Proven", "prove"]

_LEAST_QUOTE = 12
_LEAST_UNSPACED = 4
"""Characters: a shorter quote is in every document, and says nothing."""
_OPENING = 120
_MAX_UNSUPPORTED = 300
_NUMBER = re.compile(r"\d+")
_WORD = re.compile(r"(?<!\w)[^\W\d_]\w*")
_ADDRESS = re.compile(r"(?:https?|ftp|javascript|data|mailto):\S+|www\.\S+|\]\s*\(\S+", re.IGNORECASE)
_DENIES = re.compile(
    r"\b(?:not(?! only)|never|no(?!\.? ?\d)|none|nobody|nothing|neither|nor|without|cannot)\b|n['’]t\b"
    r"|不是|不在|不会|不能|不曾|没有|并非|并不|从未|未曾|绝不|绝非",
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"\b(?:un(?!iver|ited|ique|iform|derst)\w{4,}|fail\w*|refus\w*|den(?:y|ied|ies)|lack\w*|absent|except|instead|rather|ceased|stopped|lost|reject\w*|only)\b"
    r"|[不没未非无否拒]",
    re.IGNORECASE,
)
"""Other ways in which a source says no."""
_END = re.compile(r"[.!?…:]\s*\Z")
_GERMAN = frozenset(
    "der das dem ein eine einer und ist wurde von vom mit zum zur auf nicht sich als aus bei nach".split()
)
_OPENERS = frozenset(
    """according additionally although among another available based besides born consequently currently despite died
    document documents earlier either eventually every everything finally first founded furthermore given hence however
    information instead known later likewise like located many meanwhile moreover named neither no none notably nothing
    originally overall people per released second several similarly since sources specifically therefore though thus today
    together two three unlike within without whereas yes""".split()
)
"""Words that begin sentences without being names, beside those that are dropped everywhere."""


class Proven(msgspec.Struct, frozen=True, kw_only=True):
    """Claims that hold, each with its citations; and the statements of those that do not."""

    claims: tuple[tuple[str, tuple[Citation, ...]], ...] = ()
    unsupported: tuple[str, ...] = ()


def prove(claims: Iterable[Claim], found: Sequence[Shown], question: str) -> Proven:
    held: dict[str, tuple[Citation, ...]] = {}
    unsupported: dict[str, None] = {}
    for claim in claims:
        statement = clean(unmarked(claim.statement), len(claim.statement))
        cited = _cited(claim.quotes, found)
        if statement and cited is not None and _stands(statement, cited, found, question):
            held.setdefault(statement, cited)
        elif statement:
            unsupported.setdefault(statement[:_MAX_UNSUPPORTED])
    return Proven(claims=tuple(held.items()), unsupported=tuple(unsupported))


def _cited(quotes: Sequence[Quote], found: Sequence[Shown]) -> tuple[Citation, ...] | None:
    """Where the quotes are. One that is nowhere spoils its claim: the model said that the claim needs it."""
    made: dict[tuple[str, int, int], Citation] = {}
    for quote in quotes:
        citation = next((one for document in _named(quote.doc, found) if (one := _found(document, quote.text))), None)
        if citation is None:
            return None
        made.setdefault((citation.doc, citation.start, citation.end), citation)
    return tuple(made.values()) or None


def _named(doc: str, found: Sequence[Shown]) -> list[Document]:
    """The document of that number in the prompt, or of that id: ids may be numbers too, the quote decides."""
    number = _NUMBER.search(doc)
    at = int(number.group()[:6]) if number is not None and len(doc) <= 20 else 0
    return [one.document for one in found if one.number == at or one.document.id == doc]


def _found(document: Document, text: str) -> Citation | None:
    span = find_span(document, text)
    if span is None:
        return None
    citation = document.cite(*span)
    said = citation.text.strip()
    unspaced = sum(is_unspaced(mark) for mark in said[:_LEAST_QUOTE])
    return citation if len(said) >= _LEAST_QUOTE or unspaced >= _LEAST_UNSPACED else None


def _stands(statement: str, cited: Sequence[Citation], found: Sequence[Shown], question: str) -> bool:
    # A text without a title begins with what it is about.
    subjects = {one.document.id: one.document.title or one.document.text[:_OPENING] for one in found}
    quoted = " \n ".join(one.text for one in cited)
    known = " \n ".join([quoted, *(subjects.get(one.doc, "") for one in cited), question])
    if any(address not in quoted for address in _ADDRESS.findall(statement)):
        return False
    if not numbers_in(statement) <= numbers_in(known, said=False):
        return False
    if _DENIES.search(statement) and not (_DENIES.search(known) or _DENIED.search(known)):
        return False
    words = frozenset(terms(known))
    return all(_known(name, words) for name in _names(statement)) and _shares(statement, quoted, words)


def _names(statement: str) -> list[str]:
    """Words with a capital. Where sentences begin every word has one: there those count that seldom begin one in English."""
    words = [found.group() for found in _WORD.finditer(statement)]
    if _small(words, STOPWORDS) < _small(words, _GERMAN) > 1:  # every noun has a capital
        return []
    english = _small(words, STOPWORDS) * 7 >= len(words)
    names: list[str] = []
    for found in _WORD.finditer(statement):
        word = found.group()
        if word == word.lower() or fold(word) in STOPWORDS:
            continue
        begins = not statement[: found.start()].strip() or bool(_END.search(statement, 0, found.start()))
        if not begins or (english and fold(word) not in _OPENERS):
            names.append(word)
    return names


def _known(name: str, words: frozenset[str]) -> bool:
    """Is each part of it there, or a longer or shorter form of it, as German is of Germany?"""
    return all(term in words or any(_akin(term, word) for word in words) for term in terms(name))


def _akin(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return len(short) >= 4 and len(short) * 5 >= len(long) * 3 and long.startswith(short)


def _shares(statement: str, quoted: str, known: frozenset[str]) -> bool:
    """Only where both are English, or both in a script without spaces: else the words may differ and the sense agree."""
    if not (_is_english(statement) and _is_english(quoted)) and not (_is_unspaced(statement) and _is_unspaced(quoted)):
        return True
    said, there = frozenset(terms(statement)), frozenset(terms(quoted))
    enough = len(said & there) * 3 >= len(said) and len(said & known) * 5 >= len(said) * 3
    return enough and bool(said & there)


def _is_english(text: str) -> bool:
    """Is every seventh word or more one of the small words of English?"""
    words = [found.group() for found in _WORD.finditer(text)]
    return bool(words) and _small(words, STOPWORDS) * 7 >= len(words)


def _small(words: Sequence[str], small: frozenset[str]) -> int:
    """Single letters are of every language."""
    return sum(len(word) > 1 and fold(word) in small for word in words)


def _is_unspaced(text: str) -> bool:
    return sum(is_unspaced(mark) for mark in text) * 2 >= len(text)

"""Verifies a model's claims against the documents, without a model.

Every quote must be in the document that it names, word for word. Then the quotes must support the statement: each number, name and
address in it is in a quote, in the title of a quoted document or in the question; a negation has a negation there too; and unless
they are in different languages, a third of the statement's terms are in the quotes and most of them in quotes, titles and question.
That catches what models usually invent. It does not show that a statement follows, so the quotes are always shown with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from clicket.model.document import Citation, Document
from clicket.model.text.surrogates import one_line
from clicket.model.text.terms import STOPWORDS, fold, is_unspaced, terms
from clicket.search.llm.context_budget import PromptDocument
from clicket.search.llm.numbers import numbers_in
from clicket.search.llm.response_formats import Claim, Quote
from clicket.search.synthesis.citations import unmarked
from clicket.search.synthesis.quotes import find_span

__all__ = ["VerifiedClaims", "is_supported", "verify_claims"]

_MIN_QUOTE = 12
_MIN_UNSPACED = 4
"""Characters: a shorter quote is in every document and proves nothing."""
_OPENING = 120
_MAX_UNSUPPORTED = 300
_NUMBER = re.compile(r"\d+")
_WORD = re.compile(r"(?<!\w)[^\W\d_]\w*")
_ADDRESS = re.compile(r"(?:https?|ftp|javascript|data|mailto):\S+|www\.\S+|\]\s*\(\S+", re.IGNORECASE)
_NEGATION = re.compile(
    r"\b(?:not(?! only)|never|no(?!\.? ?\d)|none|nobody|nothing|neither|nor|without|cannot)\b|n['’]t\b"
    r"|不是|不在|不会|不能|不曾|没有|并非|并不|从未|未曾|绝不|绝非",
    re.IGNORECASE,
)
_IMPLICIT_NEGATION = re.compile(
    r"\b(?:un(?!iver|ited|ique|iform|derst)\w{4,}|fail\w*|refus\w*|den(?:y|ied|ies)|lack\w*|absent|except|instead|rather|ceased|stopped|lost|reject\w*|only)\b"
    r"|[不没未非无否拒]",
    re.IGNORECASE,
)
"""Words by which a source says no without a negation."""
_END = re.compile(r"[.!?…:]\s*\Z")
_GERMAN = frozenset(
    "der das dem ein eine einer und ist wurde von vom mit zum zur auf nicht sich als aus bei nach".split()
)
_FOREIGN = _GERMAN.union(
    """den des die du es im ins ces cette dans elle est et il ils la le les leur nous ou par pas plus pour que qui sa ses son sont sur
    une vous con del el en entre era esta fue las los muy para pero por sin sobre su sus una uno da dos em foi mais na nas nos os pela
    pelo sao seu sua um uma alla che chi dal dalla degli dei della delle di gli ha lo nel nella non piu sono sul aan bij een het ik niet
    op te uit van voor wat zijn""".split()
)
"""Frequent words of other languages in Latin letters that are no English ones."""
_SENTENCE_STARTERS = frozenset(
    """according additionally although among another available based besides born consequently currently despite died
    document documents earlier either eventually every everything finally first founded furthermore given hence however
    information instead known later likewise like located many meanwhile moreover named neither no none notably nothing
    originally overall people per released second several similarly since sources specifically therefore though thus today
    together two three unlike within without whereas yes""".split()
)
"""Words, beside stopwords, that often begin a sentence without being names."""


class VerifiedClaims(msgspec.Struct, frozen=True, kw_only=True):
    """The supported statements with their citations, and the statements of all other claims."""

    claims: tuple[tuple[str, tuple[Citation, ...]], ...] = ()
    unsupported: tuple[str, ...] = ()


def verify_claims(claims: Iterable[Claim], found: Sequence[PromptDocument], question: str) -> VerifiedClaims:
    held: dict[str, tuple[Citation, ...]] = {}
    unsupported: dict[str, None] = {}
    for claim in claims:
        statement = one_line(unmarked(claim.statement), len(claim.statement))
        cited = _citations(claim.quotes, found)
        if statement and cited is not None and is_supported(statement, cited, found, question):
            held.setdefault(statement, cited)
        elif statement:
            unsupported.setdefault(statement[:_MAX_UNSUPPORTED])
    return VerifiedClaims(claims=tuple(held.items()), unsupported=tuple(unsupported))


def _citations(quotes: Sequence[Quote], found: Sequence[PromptDocument]) -> tuple[Citation, ...] | None:
    """The citation of each quote; None if one of them is not found, because the model said that the claim needs it."""
    citations: dict[tuple[str, int, int], Citation] = {}
    for quote in quotes:
        citation = next(
            (one for document in _documents_of(quote.doc, found) if (one := _citation(document, quote.text))), None
        )
        if citation is None:
            return None
        citations.setdefault((citation.doc, citation.start, citation.end), citation)
    return tuple(citations.values()) or None


def _documents_of(doc: str, found: Sequence[PromptDocument]) -> list[Document]:
    """The document with this number in the prompt, and the one with this id: ids may be numbers too, and the quote decides."""
    number = _NUMBER.search(doc)
    at = int(number.group()[:6]) if number is not None and len(doc) <= 20 else 0
    return [one.document for one in found if one.number == at or one.document.id == doc]


def _citation(document: Document, text: str) -> Citation | None:
    span = find_span(document, text)
    if span is None:
        return None
    citation = document.cite(*span)
    text_found = citation.text.strip()
    unspaced = sum(is_unspaced(mark) for mark in text_found[:_MIN_QUOTE])
    return citation if len(text_found) >= _MIN_QUOTE or unspaced >= _MIN_UNSPACED else None


def is_supported(statement: str, cited: Sequence[Citation], found: Sequence[PromptDocument], question: str) -> bool:
    """Is everything that the statement names in the cited texts, the titles of their documents or the question?"""
    # Without a title, the first characters say what the text is about.
    subjects = {one.document.id: one.document.title or one.document.text[:_OPENING] for one in found}
    quoted = " \n ".join(one.text for one in cited)
    known = " \n ".join([quoted, *(subjects.get(one.doc, "") for one in cited), question])
    if any(address not in quoted for address in _ADDRESS.findall(statement)):
        return False
    if not numbers_in(statement) <= numbers_in(known, claimed=False):
        return False
    if _NEGATION.search(statement) and not (_NEGATION.search(known) or _IMPLICIT_NEGATION.search(known)):
        return False
    words = frozenset(terms(known))
    return all(_is_known(name, words) for name in _names(statement)) and _shares_terms(statement, quoted, words)


def _names(statement: str) -> list[str]:
    """Capitalised words. At the start of a sentence only English words count that are unusual there."""
    words = [found.group() for found in _WORD.finditer(statement)]
    if _count_stopwords(words, STOPWORDS) < _count_stopwords(words, _GERMAN) > 1:  # in German every noun is capitalised
        return []
    english = _count_stopwords(words, STOPWORDS) * 7 >= len(words)
    names: list[str] = []
    for found in _WORD.finditer(statement):
        word = found.group()
        if word == word.lower() or fold(word) in STOPWORDS:
            continue
        begins = not statement[: found.start()].strip() or bool(_END.search(statement, 0, found.start()))
        if not begins or (english and fold(word) not in _SENTENCE_STARTERS):
            names.append(word)
    return names


def _is_known(name: str, words: frozenset[str]) -> bool:
    """Is each term of the name known, or a longer or shorter form of it, such as German for Germany?"""
    return all(term in words or any(_same_stem(term, word) for word in words) for term in terms(name))


def _same_stem(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return len(short) >= 4 and len(short) * 5 >= len(long) * 3 and long.startswith(short)


def _shares_terms(statement: str, quoted: str, known: frozenset[str]) -> bool:
    """Not checked between languages, where the words differ. A few words that show no language are checked like English ones."""
    languages = {_language(statement), _language(quoted)}
    if "foreign" in languages or ("unspaced" in languages and len(languages) > 1):
        return True
    stated, in_quotes = frozenset(terms(statement)), frozenset(terms(quoted))
    enough = len(stated & in_quotes) * 3 >= len(stated) and len(stated & known) * 5 >= len(stated) * 3
    return enough and bool(stated & in_quotes)


def _language(text: str) -> str:
    """`english`, also of words that show no language; `foreign` if it has letters or every seventh word of another one, and fewer English
    stopwords; `unspaced` for scripts without spaces."""
    if sum(is_unspaced(mark) for mark in text) * 5 >= len(text):  # names stay in Latin letters
        return "unspaced"
    words = [found.group() for found in _WORD.finditer(text)]
    if _count_stopwords(words, STOPWORDS) * 7 >= len(words):
        return "english"
    accented = sum(not word.isascii() and word.islower() for word in words)
    return "foreign" if (_count_stopwords(words, _FOREIGN) + accented) * 7 >= len(words) else "english"


def _count_stopwords(words: Sequence[str], small: frozenset[str]) -> int:
    """Single letters do not count: every language has them."""
    return sum(len(word) > 1 and fold(word) in small for word in words)

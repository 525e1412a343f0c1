"""Finds a quote in a document, and returns the place of the document's own text.

Case, kinds of blanks, quotation marks, dashes and composed letters (NFKD) do not matter. Every word does: a quote with another
word, or with half a word at its ends, is not found.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate

from clicket.model.document import Document, Span
from clicket.model.text.terms import is_unspaced

__all__ = ["MAX_QUOTE", "find_span"]

MAX_QUOTE = 4_000
"""Characters."""
_MAX_TEXT = 4_000_000
_TOKEN = re.compile(r"\w+|[^\w\s]")
_AROUND = " \t\r\n\"'…."
_QUOTES = "\"'`´‘’‚‛“”„‟«»‹›＂＇「」『』"
_DASHES = "-‐‑‒–—―−﹘﹣－"
_UNSEEN = "\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"


class _Forms(dict[str, str]):
    """Each character in the form in which it is compared; cached."""

    def __missing__(self, character: str) -> str:
        form = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character).casefold())
        if len(self) < 100_000:
            self[character] = form
        return form


_FORMS = _Forms(dict.fromkeys(_QUOTES, "'") | dict.fromkeys(_DASHES, "-") | dict.fromkeys(_UNSEEN, "") | {"…": "…"})


def find_span(document: Document, quote: str) -> Span | None:
    """Start and end of the quote in the document's text, or None."""
    if not isinstance(quote, str) or len(quote) > MAX_QUOTE:
        return None
    text = document.text
    exact = quote.strip()
    at = text.find(exact) if any(one.isalnum() for one in exact) else -1
    while at >= 0:
        if not (_inside_word(text, at) or _inside_word(text, at + len(exact))):
            return at, at + len(exact)
        at = text.find(exact, at + len(exact))
    pattern = _pattern(quote)
    if pattern is None or len(text) > _MAX_TEXT:
        return None
    folded, ends = _folded(text)
    found = pattern.search(folded)
    if found is None:
        return None
    if ends is None:
        return found.start(), found.end()
    return bisect_right(ends, found.start()), bisect_right(ends, found.end() - 1) + 1


def _inside_word(text: str, at: int) -> bool:
    """Would a cut here split a word? Scripts without spaces between words can be cut anywhere."""
    if not 0 < at < len(text):
        return False
    before, after = text[at - 1], text[at]
    if unicodedata.combining(after):
        return True
    return before.isalnum() and after.isalnum() and not (is_unspaced(before) or is_unspaced(after))


@lru_cache(maxsize=256)
def _pattern(quote: str) -> re.Pattern[str] | None:
    """A pattern that finds the quote in a folded text: its tokens in this order, any blanks between them."""
    folded = "".join(map(_FORMS.__getitem__, quote)).strip(_AROUND)
    tokens = list(_TOKEN.finditer(folded))
    if not any(one[0][0].isalnum() for one in tokens):
        return None
    parts: list[str] = []
    for number, token in enumerate(tokens):
        word = token[0]
        if number and word[0].isalnum() and tokens[number - 1][0][-1].isalnum():
            parts.append(r"\s++")
        elif number:
            parts.append(r"\s*+")
        parts.append(re.escape(word))
    first = tokens[0][0]
    last = tokens[-1][0]
    before = "" if is_unspaced(first[0]) or not first[0].isalnum() else r"(?<!\w)"
    after = "" if is_unspaced(last[-1]) or not last[-1].isalnum() else r"(?![\w\u0300-\u036f])"
    return re.compile(before + "".join(parts) + after)


@lru_cache(maxsize=8)
def _folded(text: str) -> tuple[str, list[int] | None]:
    """The folded text, and for each character of the text where it ends in the folded one; None if all offsets are equal."""
    pieces = list(map(_FORMS.__getitem__, text))
    folded = "".join(pieces)
    lengths = list(map(len, pieces))
    if len(folded) == len(text) and max(lengths, default=1) == 1:
        return folded, None
    return folded, list(accumulate(lengths))

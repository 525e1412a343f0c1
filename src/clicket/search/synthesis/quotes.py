"""Where a document says what somebody quotes of it. The place is the document's own text: a quote is never believed.

Quotes are compared without case, with one kind of blank, quotation mark and dash, and with letters taken apart (NFKD), so
that a copy which only looks different is found. A word more, less or other is not found, nor is half a word.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import accumulate

from clicket.model.document import Document, Span
from clicket.search.text.terms import is_unspaced

__all__ = ["MAX_QUOTE", "find_span"]

MAX_QUOTE = 4_000
"""Characters. Who cites more than that cites no passage in particular."""
_MAX_TEXT = 4_000_000
_TOKEN = re.compile(r"\w+|[^\w\s]")
_AROUND = " \t\r\n\"'…."
_QUOTES = "\"'`´‘’‚‛“”„‟«»‹›＂＇「」『』"
_DASHES = "-‐‑‒–—―−﹘﹣－"
_UNSEEN = "\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"


class _Forms(dict[str, str]):
    """Each character in the form in which it is compared; worked out once."""

    def __missing__(self, character: str) -> str:
        made = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character).casefold())
        if len(self) < 100_000:
            self[character] = made
        return made


_FORMS = _Forms(dict.fromkeys(_QUOTES, "'") | dict.fromkeys(_DASHES, "-") | dict.fromkeys(_UNSEEN, "") | {"…": "…"})


def find_span(document: Document, quote: str) -> Span | None:
    """From where to where the document says this, or None when it does not."""
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
    return _place(ends, found.start()), _place(ends, found.end() - 1) + 1


def _inside_word(text: str, at: int) -> bool:
    """Would a cut here go through a word? Scripts without spaces between words can be cut anywhere."""
    if not 0 < at < len(text):
        return False
    before, after = text[at - 1], text[at]
    if unicodedata.combining(after):
        return True
    return before.isalnum() and after.isalnum() and not (is_unspaced(before) or is_unspaced(after))


@lru_cache(maxsize=256)
def _pattern(quote: str) -> re.Pattern[str] | None:
    """What finds the quote in a folded text: its words in this order, blanks between them as they may be."""
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
    first, last = tokens[0][0], tokens[-1][0]
    before = "" if is_unspaced(first[0]) or not first[0].isalnum() else r"(?<!\w)"
    after = "" if is_unspaced(last[-1]) or not last[-1].isalnum() else r"(?![\w\u0300-\u036f])"
    return re.compile(before + "".join(parts) + after)


@lru_cache(maxsize=8)
def _folded(text: str) -> tuple[str, list[int] | None]:
    """The text as it is compared, and for each of its characters where it ends there; None when nothing moved."""
    pieces = list(map(_FORMS.__getitem__, text))
    folded = "".join(pieces)
    lengths = list(map(len, pieces))
    if len(folded) == len(text) and max(lengths, default=1) == 1:
        return folded, None
    return folded, list(accumulate(lengths))


def _place(ends: list[int], at: int) -> int:
    """Which character of the text the folded one at `at` came from: the first that ends behind it."""
    low, high = 0, len(ends) - 1
    while low < high:
        middle = (low + high) // 2
        if ends[middle] > at:
            high = middle
        else:
            low = middle + 1
    return low

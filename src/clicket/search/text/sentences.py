"""The sentences of a text, as spans that do not overlap. Only blanks and list marks are left out.

The rules prefer a span that is too long to one that is too short: half a sentence may have another meaning than the whole.
"""

from __future__ import annotations

import re

from clicket.model.document import Span

__all__ = ["MAX_SENTENCE", "sentences"]

MAX_SENTENCE = 400
"""Characters. A longer sentence is cut at a clause."""

_SHORT_LINE = 45
"""Characters. A shorter line ends its sentence; a longer one may be wrapped text that continues in the next line."""

_BREAK = re.compile(
    r"[.!?…\n。！？；｡](?:"  # begins with one set of characters: several times faster than alternatives
    r"(?<=[.!?…])[.!?…]{0,5}+[\"'”’»)\]]{0,4}+(?>(?:\[\d{1,3}\]){0,4})(?=\s)"  # a full stop, closing quotes and brackets, footnotes
    r"|(?<=\n)\s*+"
    r"|(?<=[。！？；｡])[。！？；｡]*+[」』”’）】》]*+)"
)
_FULL_STOP = re.compile(r"\.\.{0,5}+[\"'”’»)\]]{0,4}+(?>(?:\[\d{1,3}\]){0,4})(?=\s)")
"""`_BREAK` for a text in which only full stops end sentences: it begins with one character, which is several times faster."""
_OTHER_BREAKS = "!?\n…。！？；｡"
_MARK = re.compile(
    r"(?:(?:[-*+•·‣]|#{1,6}|>+|\d{1,3}[.)]|[a-zA-Z]\)|[（(]?[一二三四五六七八九十]{1,3}[)）、])\s+)+|[-=_*~]{3,}\s*"
)
_ITEM = re.compile(r"(?:[-*+•·‣>|]|#{1,6}|\d{1,3}[.)]|[一二三四五六七八九十]{1,3}、)\s|\||```")
_WORD = re.compile(r"[^\s(\[\"'“‘«/–—]*$")
_NEXT = re.compile(r"[\s\"'“‘«(\[]*(\w+|.)")
_NEVER = frozenset(
    "mr mrs ms mx dr prof rev hon gen col lt sgt capt cmdr adm maj gov sen rep pres st ste mt ft fr sr. vs v viz cf ca c "
    "e.g i.e eg ie al approx est b d r fl no nos vol vols pp p fig figs eq sec ch art op ed eds trans dept univ "
    "jan feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri sat sun messrs lit orig".split()
)
"""Abbreviations that never end a sentence."""
_SELDOM = frozenset(
    "jr sr inc ltd co corp bros llc plc etc esq ph.d m.d b.a m.a a.m p.m a.d b.c u.s u.k u.n d.c u.s.a".split()
)
"""Abbreviations that end a sentence when the next word is one of `_OPENERS`."""
_OPENERS = frozenset(
    "the a an it its he his she her they their this that these those there in on at after before during since when while "
    "as by for from with although though however but and so if we our you your i my one some many most all both such "
    "who which what where how why according following later then also another until".split()
)


def sentences(text: str) -> list[Span]:
    """The sentences of a text in order, each without blanks around it."""
    spans: list[Span] = []
    at = 0
    pattern = _FULL_STOP
    for other in _OTHER_BREAKS:
        if other in text:
            pattern = _BREAK
            break
    for match in pattern.finditer(text):
        start, end = match.span()
        sign = text[start]
        if sign == "\n":
            if not _line_ends(text, at, match):
                continue
            _append(text, at, start, spans)
        else:
            if sign == "." and not _sentence_ends(text, at, start, end):
                continue
            _append(text, at, end, spans)
        at = end
    _append(text, at, len(text), spans)
    return spans


def _line_ends(text: str, at: int, match: re.Match[str]) -> bool:
    """Does the sentence end with this line? It does before blank lines and list items, and after headings."""
    if match[0].count("\n") > 1 or match.end() == len(text) or _ITEM.match(text, match.end()):
        return True
    begin = max(text.rfind("\n", 0, match.start()) + 1, at)
    return text.startswith("#", begin) or match.start() - begin < _SHORT_LINE or text[match.start() - 1] in ":："


def _sentence_ends(text: str, at: int, dot: int, end: int) -> bool:
    """Does this full stop, with what closes the sentence up to `end`, end it, or is it part of an abbreviation, an initial or a number?"""
    capital = text[end + 1 : end + 2].isupper()
    if capital and dot - at > 7 and text[dot - 7 : dot].isalpha():
        return True  # no abbreviation is that long
    if not capital:
        after = _NEXT.match(text, end)
        if after is None:
            return True
        if after[1][0].islower():
            return False
    if end - dot > 1:
        return True
    before = text[max(at, dot - 24) : dot]
    word = (before.rsplit(None, 1) or ("",))[-1]
    if not word.isalnum() or before[-1].isspace():
        found = _WORD.search(before)
        word = found[0] if found is not None else ""
    word = word.casefold()
    if word in _NEVER:
        return False
    if word.isdigit():
        return at < dot - len(word)  # a number alone is that of a list item
    if word in _SELDOM or len(word) == 1 or (len(word) > 2 and word[-2] == "." and word.isascii()):
        following = _NEXT.match(text, end)
        return following is None or following[1].casefold() in _OPENERS
    return True


def _append(text: str, start: int, end: int, spans: list[Span]) -> None:
    """Append the span without blanks and list marks around it, in pieces when it is too long."""
    while start < end and text[start].isspace():
        start += 1
    begin = text[start : start + 2]
    if not (begin.isalpha() and begin.isascii()):  # most sentences begin like this, and no list mark does
        mark = _MARK.match(text, start, end)
        if mark is not None:
            start = mark.end()
    while end > start and text[end - 1].isspace():
        end -= 1
    while end - start > MAX_SENTENCE:
        cut = _clause(text, start)
        stop = cut
        while stop > start and text[stop - 1].isspace():
            stop -= 1
        if stop > start:
            spans.append((start, stop))
        start = cut
        while start < end and text[start].isspace():
            start += 1
    if start < end:
        spans.append((start, end))


def _clause(text: str, start: int) -> int:
    """Where to cut a long sentence: after a clause, else between words, else anywhere."""
    least, most = start + MAX_SENTENCE // 3, start + MAX_SENTENCE
    for marks in (("; ", "；"), (": ", "：", " – ", " — "), (", ", "，", "、"), (" ", "\n", "\t")):
        cut = max(
            text.rfind(mark, least, most) + len(mark) if text.rfind(mark, least, most) >= 0 else -1 for mark in marks
        )
        if cut > 0:
            return cut
    return most

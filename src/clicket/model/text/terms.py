"""The terms by which texts are compared. Index, planner and ranker all use `terms`.

Text is folded (NFKC, no case, no accents), stopwords are dropped, and English words are stemmed. Scripts without spaces between
words become pairs of characters; a single character stays as it is.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

import apsw

if TYPE_CHECKING:
    from apsw import FTS5Tokenizer

__all__ = [
    "STOPWORDS",
    "all_terms",
    "fold",
    "identifiers",
    "is_unspaced",
    "singles",
    "stem",
    "terms",
    "terms_of_each",
    "terms_of_spans",
]

# Han, kana, Hangul, Thai, Lao, Burmese, Khmer.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3105-\u318f\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_INDIC = "\u0900-\u0963\u0966-\u0dff"  # their vowel signs are marks, which Python does not count among the letters
_WORD = re.compile(f"[{_UNSPACED}]+|(?:[^\\W_{_UNSPACED}]|[{_INDIC}]){{1,100}}")
_UNUSUAL = re.compile(f"[{_UNSPACED}{_INDIC}]")
_LETTERS_AND_DIGITS = re.compile(r"[^\W_]{1,100}")
"""`_WORD` for text with none of those, several times faster."""
_LONGEST = 100
_PLAIN = "".join(chr(at).lower() if chr(at).isalnum() else " " for at in range(128))
"""For `str.translate` of ASCII: lowercase letters and digits, all else a blank. Several times faster than a pattern."""
_PLAIN_LINES = f"{_PLAIN[:10]}\n{_PLAIN[11:]}"
_SIGNS = "–—’‘“”−°\u00a0"
"""Not part of any word, and often the only characters of a text beyond ASCII."""
_RUN = re.compile(f"[{_UNSPACED}]+")
_BEYOND = re.compile("[\u0e00-\u1fff\u2e80-\U0010ffff]")
"""What folding may turn into characters of unspaced scripts, and they themselves."""

_JOINT = re.compile(r"[._/](?<=[A-Za-z0-9].)[A-Za-z0-9]")  # begins with few characters: several times faster
_IDENTIFIER = re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9]++(?>(?:[._/][A-Za-z0-9]++)+)")
_SEPARATED = str.maketrans("./", "  ")
_JOINED = str.maketrans("._/", "\ue010\ue011\ue012")
"""Characters for private use instead of those that separate tokens in the index."""

# Accents, and the vowel points of Hebrew and Arabic, as combining characters.
_MARKS = re.compile("[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u064b-\u065f\u0670]+")
_LETTERS = {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i", "ħ": "h"}
_LETTER = re.compile(f"[{''.join(_LETTERS)}]")  # many times faster than str.translate
_LATIN = re.compile("[\u00a0-\u024f]")
"""Letters that are folded one by one: none of them changes with its neighbours. Several times faster than to normalize a text."""

STOPWORDS: frozenset[str] = frozenset(
    """a about above after again all also am an and any are as at be because been before being below between both but by
    can could d did do does doing down during each few for from further had has have having he her here hers herself him
    himself his how i if in into is it its itself ll m me more most my myself no nor not now of off on once only or other
    our ours ourselves out over own re s same she should so some such t than that the their theirs them themselves then
    there these they this those through to too under until up ve very was we were what when where which while who whom
    whose why will with would you your yours yourself yourselves
    什么 哪个 哪里 哪些 哪位 哪一 哪儿 哪年 谁 是谁 谁是 多少 怎么 怎样 么样 为什 如何 是否 的是 是什 是哪 在哪 了什 的哪 是在""".split()
)

_is_stopword = STOPWORDS.__contains__
_MAX_KNOWN = 200_000
_known: dict[str, str] = {}  # word -> its term, "" for a stopword


def fold(text: str) -> str:
    """The text without case, accents, ligatures and wide letters."""
    if text.isascii():
        return text.lower()
    latin = text
    for letter in {*_LATIN.findall(text)}:
        latin = latin.replace(letter, _folded(letter))
    return latin.lower() if latin.isascii() else _fold(text)


def _fold(text: str) -> str:
    plain = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text).casefold())
    return _LETTER.sub(lambda found: _LETTERS[found[0]], unicodedata.normalize("NFC", _MARKS.sub("", plain)))


_folded = cache(_fold)


def terms(text: str) -> list[str]:
    """The terms of a text, in order, as often as they occur."""
    words = _words(text)
    try:
        return list(filter(None, map(_known.__getitem__, words)))
    except KeyError:
        return _learnt([words])[0]


def terms_of_spans(text: str, spans: Sequence[tuple[int, int]], found: Sequence[str] = ()) -> list[Sequence[str]]:
    """The terms of each span: `terms` of the parts, faster. `found` are the terms of the whole text, if they are known: then words need
    not be stemmed, if all of them are in the spans."""
    plain = text
    if not text.isascii():
        for sign in _SIGNS:
            plain = plain.replace(sign, " ")
    if plain.isascii():
        plain = plain.translate(_PLAIN)
        parts = [plain[start:end].split() for start, end in spans]
    else:
        parts = [_words(text[start:end]) for start, end in spans]
    if found:
        orders: list[Sequence[str]] = []
        at = behind = 0
        between = ""
        for words, (start, end) in zip(parts, spans, strict=True):
            first, at = at, at + len(words) - len([*filter(_is_stopword, words)])
            orders.append(found[first:at])
            between += plain[behind:start]
            behind = end
        if at == len(found) and not any(map(str.isalnum, between + plain[behind:])):
            return orders
    return [*_terms_of_words(parts)]


def terms_of_each(texts: Sequence[str]) -> list[list[str]]:
    """`terms` of each text, faster: they are translated together, and words that are new are stemmed together."""
    lines = "\n".join(texts)
    if lines.isascii() and lines.count("\n") == len(texts) - 1:
        return _terms_of_words([line.split() for line in lines.translate(_PLAIN_LINES).split("\n")])
    return _terms_of_words([_words(text) for text in texts])


def _terms_of_words(parts: list[list[str]]) -> list[list[str]]:
    try:
        return [list(filter(None, map(_known.__getitem__, words))) for words in parts]
    except KeyError:
        return _learnt(parts)


def _learnt(parts: list[list[str]]) -> list[list[str]]:
    """Terms of words that are not all known."""
    if len(_known) > _MAX_KNOWN:
        _known.clear()
    new = set[str]().union(*parts).difference(_known)
    if max(map(len, new)) > _LONGEST:
        parts = [_cut(each) for each in parts]
        new = set[str]().union(*parts).difference(_known)
    for word, stemmed in zip(new, _stemmed([*new]), strict=True):
        _known[word] = "" if word in STOPWORDS else stemmed
    return [list(filter(None, map(_known.__getitem__, each))) for each in parts]


def all_terms(text: str) -> list[str]:
    """The terms of a text, or its stopwords when it has nothing else, as the name The Who."""
    return terms(text) or _words(text)  # words that are too long are no stopwords


def singles(text: str) -> list[str]:
    """The single characters of unspaced scripts. An index stores them too, so that a query of one character finds them."""
    if text.isascii() or _BEYOND.search(text) is None:
        return []
    return [character for run in _RUN.findall(fold(text)) if len(run) > 1 for character in run]


def identifiers(text: str) -> list[str]:
    """Identifiers, versions and names of files as one token each: `json.loads`, `lru_cache`, `3.1`, `/etc/hosts`. An index stores them
    too, so that a question about one of them finds it and not every text with its parts."""
    if _JOINT.search(text) is None:
        return []
    found: list[str] = []
    for one in _IDENTIFIER.findall(text):
        token = one.lower()
        found.append(token.translate(_JOINED))
        if "_" in token and ("." in token or "/" in token):
            found += [part.translate(_JOINED) for part in token.translate(_SEPARATED).split() if "_" in part]
    return found


def is_unspaced(term: str) -> bool:
    """Is the term of a script without spaces between words?"""
    return _RUN.match(term) is not None


def stem(word: str) -> str:
    """A folded word without its English ending."""
    return _stemmed([word])[0]


def _words(text: str) -> list[str]:
    """The folded words of a text. Words that are too long are not cut yet."""
    if not text.isascii():
        for sign in _SIGNS:
            text = text.replace(sign, " ")
        if not text.isascii():
            text = fold(text)
    if text.isascii():
        return text.translate(_PLAIN).split()
    if _UNUSUAL.search(text) is None:
        return _LETTERS_AND_DIGITS.findall(text)
    words = _WORD.findall(text)
    return words if _RUN.search(text) is None else _pairs(words)


def _cut(words: list[str]) -> list[str]:
    return [word[at : at + _LONGEST] for word in words for at in range(0, len(word), _LONGEST)]


def _pairs(words: Iterable[str]) -> list[str]:
    found: list[str] = []
    for word in words:
        if len(word) > 1 and _RUN.match(word):
            found.extend(map("".join, pairwise(word)))
        else:
            found.append(word)
    return found


def _stemmed(words: list[str]) -> list[str]:
    """Porter's algorithm of SQLite. It leaves other alphabets, numbers and words of two letters unchanged."""
    plain = [word for word in words if word.isascii()]
    if not plain:
        return words
    stems = iter(_porter()(" ".join(plain).encode(), apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False))
    return [str(next(stems)[0]) if word.isascii() else word for word in words]


@cache
def _porter() -> FTS5Tokenizer:
    return apsw.Connection(":memory:").fts5_tokenizer("porter", ["ascii"])

"""Names in a text, and the normalised form (`name_key`) by which two of them are equal.

A name is a run of capitalised words (with the function words between them), a quoted phrase, or text in 《》 and similar marks.
`name_key` of "The Théâtre's (film)" and of "Theatre" is the same. The other functions return such keys or offsets.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache

__all__ = [
    "FUNCTION_WORDS",
    "flattened",
    "flattened_lines",
    "is_cjk",
    "joined_key",
    "key_lines",
    "leading_name",
    "name_key",
    "names",
    "own_names",
]

_LONGEST = 10
"""The most words of a name."""

_LETTERS = (
    *(("ø", "o"), ("ł", "l"), ("đ", "d"), ("ı", "i"), ("æ", "ae"), ("œ", "oe"), ("þ", "th"), ("ð", "d")),
    *(("’", "'"), ("‘", "'"), ("`", "'"), ("–", " "), ("—", " "), ("“", " "), ("”", " ")),
)
_LATIN = re.compile("[\u00a0-\u024f]")
"""Letters that lose their marks one by one: none of them changes with its neighbours."""
_PLAIN = "".join(chr(at).lower() if chr(at).isalnum() else " " for at in range(128))
"""For `str.translate` of ASCII: lowercase letters and digits, all else a blank."""
_PLAIN_LINES = f"{_PLAIN[:10]}|{_PLAIN[11:]}"
"""The same, with a mark for the end of a line."""
_LEADING_ARTICLES = re.compile(r"\| (?:(?:the|an?) )+(?!\|)")
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_MARKS = re.compile("[\u0300-\u036f]")
_POSSESSIVE = re.compile(r"'s?(?![^\W_])")
_APART = re.compile(r"[\W_]+")
_BETWEEN_CJK = re.compile(rf"(?<=[{_CJK}]) (?=[{_CJK}])")
_HAS_CJK = re.compile(rf"[{_CJK}]")

FUNCTION_WORDS = frozenset(
    "a an the of in on at to for from by with and or as is was are were be been it its he she his her they their this that"
    " these those there which who whom whose what when where how why did does do has have had not but if than then after"
    " before during between both also i we you my our your into over under about while since until because although"
    " however many some most all one two other such no only each".split()
)
_ARTICLES = ("the", "a", "an")
_OPENERS = FUNCTION_WORDS.difference(_ARTICLES)
"""Capitalised only at the begin of a sentence."""
_JOINERS = (
    "of the and de la le les du des da do dos di del della van von der den und y e et al el ibn bin in on at for to a an"
    " from with".split()
)
_LOOSE = f" (?=[a-z])(?:(?:{'|'.join(_JOINERS)})(?:| (?:the|la|a|les|der|den))|(?:|of )their|his|is|by the) "
_TIGHT = "- ?|–|['’](?:s? )?|/|: | (?:& |- ?|')"
"""What may stand between two words of a title, and of a name, beside a blank."""
_STOP = r"\.(?:(?:(?<!\d.)|(?<=[^\W\d_]\d.)) )?"
"""The full stop of an abbreviation. After a number it ends the sentence."""


def _run(first: str, upper: str, inner: str, rest: str) -> str:
    """A pattern for runs of capitalised words. It begins with one set of characters, and says which one follows: that is several times
    faster."""
    short = rf"(?:(?<!{inner}{inner}{inner})|(?<=\bMrs)|(?<=\bRev)|(?<=\bGen))"
    gap = rf" (?={first})|{_LOOSE}|{_TIGHT}|(?=\.){short}{_STOP}"
    return rf"{first}(?:(?<={upper})|(?<![^\W_].))(?>(?:{inner}?{_STOP}{first})?){rest}(?>(?:(?:{gap}){first}{rest})*)"


_ASCII_RUN = re.compile(_run("[A-Z0-9]", "[A-Z]", "[A-Za-z0-9]", "[A-Za-z0-9]*+"), re.DOTALL)
_ASCII_FIRST = re.compile(f"(.[A-Za-z0-9]*+)({_LOOSE})?[^A-Z0-9]*")
"""The first word of a run, and what is between it and the next."""
_UPPER, _INNER = "A-ZÀ-ÖØ-Þ\u0100-\u017fΑ-ΩЀ-Я", rf"[^\W_{_CJK}]"
_REST = rf"[A-Za-z0-9]*+(?>(?:(?![\x00-\x7f]){_INNER}++)?)"
"""Ends where unspaced text begins: "1987年由…" is a year, not a name."""
_RUN = re.compile(_run(rf"[{_UPPER}\d]", f"[{_UPPER}]", _INNER, _REST), re.DOTALL)
_FIRST = re.compile(rf"(.{_REST})({_LOOSE})?[^{_UPPER}\d]*")
_QUOTED = re.compile(
    r"《([^《》\n]{1,60})》|「([^「」\n]{1,60})」|『([^『』\n]{1,60})』|“([^“”\n]{1,90})”"
    r"|\"\s?([^\"\n]{2,90}?)\s?\"|``\s?([^`'\n]{2,90}?)\s?''"
)
_COPULA = re.compile(r"\s(?:is|was|are|were|refers|has|had|may)\s|\s?[(（]|是|，|。|（")
_ASCII_COPULA = re.compile(r"[\s(](?:(?<=\()|\(|(?:is|was|are|were|refers|has|had|may)\s)")
_BREAK = re.compile(r",\s(?=[a-z])|[;:]\s|[\"“”]|``|''|\s[–—]\s")
_NICKNAME = re.compile(r"\s(?:\"[^\"]++\"|“[^“”]++”|``[^`']++'')")
_OR = re.compile(r"\s(?:or|also known as)\s")
_SENTENCE = re.compile(r"[.!?](?=\s+[^\Wa-z_])|[。！？]|\n")
_ACRONYM = re.compile(r"\(([A-Z][A-Z.&]{1,7})\)")
_ALIAS = re.compile(
    r"\b(?:known(?: \w+)? as|née|nicknamed|called|abbreviated(?: as)?|or|aka|a\.k\.a\.|formerly|titled|stylized as|simply as)"
    r"\s(?:the\s)?[\"“`]*"
)
_UNSPACED_LEAD = re.compile(r"(?=[\u3040-\u30ff\u3400-\u9fff])[^，。、；：！？（(《》“”「」『』—…\n]{2,40}")
_AFTER_NAME = re.compile(
    "[是被曾每的了は]|(?<![自理])由|(?<!行)为|(?<!基)因|于|在|(?:位于|地处|坐落|创[办建立]|成立|建[于成立]|始建|设[有在立]|发源|流经"
    "|收录|讲述|描写|改编|上映|首演|出版(?!社)|出生|毕业|海拔|面积|人口|全长|全[称名]|简称|[又原也]名|[又也]称|总部|隶属|属于|拥有"
    "|包[括含]|横跨|担任|主演|执导|获得|著有|提供|承担|盛产|主要|通常|目前|最[早初]|\\d+年)"
)
"""Words that follow a name in unspaced text. At least two characters stand before them."""
_NAME_ENDING = re.compile(
    "山脉|水库|学[院校会]|[大中小]学|公司|集团|科技|银行|出版社|杂志|奖学金|电影节|[书物术气象览]馆|医院|研究[所院]|委员会|协会|广场"
    "|[大铁]桥|机场|车站|铁路|运河|[省市县镇乡村区岛江河湖海峰塔寺奖]"
)
"""Endings of the names of places and organisations, used when no such word follows."""
_LONG_LEAD = 6
_CAP = rf"[{_UPPER}][^\W_]*"
_ALIAS_NAME = re.compile(rf"{_CAP}(?:(?:[ \-']|\. | of | de | the | of the ){_CAP})*")


def flattened(text: str) -> str:
    """The words of a text without case, accents, punctuation and possessive, with one space between."""
    text = text.casefold()
    if not text.isascii():
        for letter, plain in _LETTERS:  # many times faster than str.translate
            text = text.replace(letter, plain)
        for letter in {*_LATIN.findall(text)}:
            text = text.replace(letter, _plain_letter(letter))
        if not text.isascii():
            text = _unmarked(text)
    if "'" in text:
        text = _POSSESSIVE.sub("", text)
    if text.isascii():
        return " ".join(text.translate(_PLAIN).split())
    return _BETWEEN_CJK.sub("", _APART.sub(" ", text).strip())


def _unmarked(text: str) -> str:
    """The text without accents."""
    return unicodedata.normalize("NFC", _MARKS.sub("", unicodedata.normalize("NFKD", text)))


_plain_letter = cache(_unmarked)


def flattened_lines(texts: Sequence[str]) -> str:
    """`flattened` of each text, with " | " between them and a blank at both ends: faster than one by one."""
    lines = " \n ".join(texts)
    if not lines.isascii() or lines.count("\n") >= len(texts):
        lines = " \n ".join([text if text.isascii() and "\n" not in text else flattened(text) for text in texts])
    if "'" in lines:
        lines = _POSSESSIVE.sub("", lines.casefold())
    return f" {' '.join(lines.translate(_PLAIN_LINES).split())} "


@lru_cache(maxsize=65536)
def name_key(text: str) -> str:
    """The normalised form of a name: `flattened`, without a leading article or a "(qualifier)"."""
    if ")" in text or "）" in text:
        text = _unqualified(text) or text
    return joined_key(flattened(text).split())


def key_lines(names: Sequence[str]) -> str:
    """`name_key` of each name, as in `flattened_lines`."""
    joined = "".join(names)
    if ")" in joined or "）" in joined:
        names = [_unqualified(name) or name for name in names]
    return _LEADING_ARTICLES.sub("| ", f"|{flattened_lines(names)}|")[1:-1]


def _unqualified(text: str) -> str:
    """The text without a "(qualifier)" at its end."""
    name = text.rstrip()
    at = max(name.rfind("("), name.rfind("（"))
    inside = name[at + 1 : -1]
    if at < 0 or not name.endswith((")", "）")) or ")" in inside or "）" in inside:
        return text
    return name[:at].rstrip()


def joined_key(words: list[str]) -> str:
    """The key of a name that has these words, each `flattened`."""
    first = 0
    while first < len(words) - 1 and words[first] in _ARTICLES:
        first += 1
    return " ".join(words[first:] if first else words)


def is_cjk(text: str) -> bool:
    """Does it contain Chinese, Japanese or Korean characters?"""
    return not text.isascii() and _HAS_CJK.search(text) is not None


def _quoted(text: str) -> list[tuple[str, int, int]]:
    found: list[tuple[str, int, int]] = []
    if text.isascii() and '"' not in text and "``" not in text:
        return found
    for match in _QUOTED.finditer(text):
        group = match.lastindex or 0
        inside = match.group(group)
        if group <= 3 or inside[:1].isupper() or inside[:1].isdigit() or is_cjk(inside):
            found.append((inside, match.start(group), match.end(group)))
    return found


@lru_cache(maxsize=1024)
def _skipped(run: str) -> int:
    """How many characters at the begin of a run of words are no part of a name: function words, and the year of "1930 in Turku"."""
    first = run.partition(" ")[0]
    if first.isalpha() and first.casefold() not in _OPENERS:
        return len(run) if run.casefold() in _ARTICLES else 0
    at = 0
    pattern = _ASCII_FIRST if run.isascii() else _FIRST
    while (match := pattern.match(run, at)) is not None:
        word, gap = match.groups()
        if word.casefold() not in _OPENERS and (gap is None or not word.isdigit()):
            break
        at = match.end()
    name = run[at:]
    return len(run) if name.isdigit() or name.casefold() in _ARTICLES else at


def names(text: str) -> list[tuple[str, int, int]]:
    """All names in order: text, start, end. Only the longest runs; names inside a quoted name are left out."""
    found = []
    at = 0
    pattern = _ASCII_RUN if text.isascii() else _RUN
    for quoted in [*_quoted(text), ("", len(text), len(text))]:
        for match in pattern.finditer(text, at, quoted[1]):
            start = match.start() + _skipped(match[0])
            end = match.end()
            if start < end:
                found.append((text[start:end], start, end))
        found.append(quoted)
        at = quoted[2]
    return found[:-1]


def leading_name(text: str) -> str:
    """The subject of the text: the words before its first verb, or its first name."""
    head = text[:200].lstrip(" *#")
    quoted = _QUOTED.match(head)
    if quoted is not None:
        return quoted.group(quoted.lastindex or 0).strip(" ,.")
    unspaced = _UNSPACED_LEAD.match(head)
    if unspaced is not None:
        return _name_of_clause(unspaced.group())
    stop = (_ASCII_COPULA if head.isascii() else _COPULA).search(head)
    if stop is not None and 0 < stop.start() <= 90:
        lead = head[: stop.start()].split("\n", 1)[0]
        lead = _BREAK.split(_NICKNAME.sub("", lead), maxsplit=1)[0].strip(" \"“”'`,.")
        words = lead.split()
        first = words[0].casefold() if words else ""
        named = is_cjk(lead) or ((lead[:1].isupper() or lead[:1].isdigit()) and first not in _OPENERS)
        if named and 0 < len(words) <= _LONGEST and len(lead) > 1:
            return lead
    found = names(text[:400])
    return found[0][0] if found else ""


def _name_of_clause(clause: str) -> str:
    """The name at the begin of a clause in unspaced text."""
    after = _AFTER_NAME.search(clause, 2)
    if after is not None:
        return clause[: after.start()].strip()
    kinds = list(_NAME_ENDING.finditer(clause, 2)) if len(clause) > _LONG_LEAD else []
    return clause[: kinds[-1].end()] if kinds else clause.strip()


@lru_cache(maxsize=16384)
def own_names(title: str, text: str) -> tuple[str, ...]:
    """Keys of the names of a document, the surest first: its title, its subject, and the aliases that its begin gives."""
    found: list[str] = []
    if title:
        found += [title, title.split(",", 1)[0], flattened(title)]
    lead = leading_name(text)
    found += [lead, lead.split(",", 1)[0], *_OR.split(lead), *_aliases(text)]
    found += _shorter(lead.split(",", 1)[0].split())
    keys = dict.fromkeys([name_key(one) for one in dict.fromkeys(found) if one])
    return tuple([key for key in keys if len(key) > 1 and key not in FUNCTION_WORDS])


def _shorter(words: list[str]) -> list[str]:
    """Short forms of a person's long name: without the middle names, the first or the last."""
    if not 3 <= len(words) <= 6 or not all(word[:1].isupper() for word in words):
        return []
    parts = [words[1:], words[:-1], [words[0], words[-1]], words[-2:], words[:2]]
    return [" ".join(part) for part in parts if len(part) > 1]


def _aliases(text: str) -> list[str]:
    """Names after "also known as" and acronyms in parentheses, in the first sentence."""
    stop = _SENTENCE.search(text, 40)
    head = text[: min(stop.start() if stop else 300, 300)]
    found = [match.group(1) for match in _ACRONYM.finditer(head)]
    for match in _ALIAS.finditer(head):
        name = _ALIAS_NAME.match(head, match.end())
        if name is not None:
            found.append(name.group())
    return found

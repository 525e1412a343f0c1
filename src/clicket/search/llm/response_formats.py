"""The four answers that a model is asked for: their schemas, and parsers that accept how models write them.

A parser returns one_line, bounded values, or None. It accepts other names for a field, a bare list, and one object instead of a list of
one. It does not guess.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from clicket.search.llm.structured_chat import ResponseFormat
from clicket.search.synthesis.citations import MARK
from clicket.search.text.sentences import sentences

__all__ = ["BRIEF", "CLAIMS", "JUDGEMENT", "QUERIES", "Brief", "Claim", "Judgement", "Quote", "one_line"]

_MAX_QUERIES = 30
"""Queries that are read; some of them may have been asked before."""
_MAX_QUERY = 300
_MAX_AREAS = 5
_MAX_AREA = 200
_MAX_CLAIMS = 20
_MAX_QUOTES = 5
_MAX_STATEMENT = 600
_MAX_QUOTE = 1_000

# Control characters, lone surrogates, and invisible or direction-changing characters.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2028\u2029\u2060-\u2069\ufeff\ud800-\udfff]+")


class Quote(msgspec.Struct, frozen=True, kw_only=True):
    """`doc` is what the model gave: a number of the prompt, or an id."""

    doc: str
    text: str


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    statement: str
    quotes: tuple[Quote, ...] = ()


class Brief(msgspec.Struct, frozen=True, kw_only=True):
    """One sentence, and the number of the passage that says it, if one was given. `refused`: the passages do not answer."""

    statement: str
    passage: int | None = None
    refused: bool = False


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    score: float
    areas: tuple[str, ...] = ()


def one_line(value: Any, most: int) -> str:
    """The text in one line; empty if it is not a text."""
    if not isinstance(value, str):
        return ""
    return " ".join(_UNSEEN.sub(" ", value[: most * 4]).split())[:most].rstrip()


def _member(value: Mapping[str, Any], names: Sequence[str]) -> Any:
    folded = {str(key).casefold().replace("-", "_").replace(" ", "_"): one for key, one in value.items()}
    return next((folded[name] for name in names if folded.get(name) is not None), None)


def _lines(value: Any, names: Sequence[str], most: int, each: int) -> list[str] | None:
    """The texts of a list; an entry may be an object with the text under one of `names`. None if it is not a list."""
    if isinstance(value, str):
        value = value.splitlines()
    if not isinstance(value, list):
        return None
    texts: dict[str, str] = {}
    for one in value[:1_000]:
        text = one_line(_member(one, names) if isinstance(one, Mapping) else one, each)
        if text:
            texts.setdefault(text.casefold(), text)
        if len(texts) == most:
            break
    return list(texts.values())


_QUERY_LISTS = ("sub_queries", "subqueries", "queries", "search_queries", "questions", "sub_questions", "searches")
_QUERY_NAMES = ("query", "sub_query", "text", "question", "q")


def _queries(value: Any) -> tuple[str, ...] | None:
    listed = _member(value, _QUERY_LISTS) if isinstance(value, Mapping) else value
    if not isinstance(listed, list):
        return None
    found = _lines(listed, _QUERY_NAMES, _MAX_QUERIES, _MAX_QUERY)
    return tuple(found) if found else None if listed else ()


def _judgement(value: Any) -> Judgement | None:
    if not isinstance(value, Mapping):
        return None
    score = _share(_member(value, ("completeness_score", "completeness", "score")))
    given = _member(value, ("unexplored_areas", "unexplored", "missing", "gaps"))
    areas = _lines([] if given is None else given, ("area", "text", "query", "name"), _MAX_AREAS, _MAX_AREA)
    if score is None or areas is None:
        return None
    return Judgement(score=score, areas=tuple(areas))


def _share(value: Any) -> float | None:
    """A number from 0 to 1, or a percentage with its sign. Other numbers above 1 are refused."""
    whole = 1.0
    if isinstance(value, str):
        text = value.strip()
        text, whole = (text[:-1], 100.0) if text.endswith("%") else (text, 1.0)
        try:
            value = float(text)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= whole:
        return None
    return round(value / whole, 6)


_CLAIM_LISTS = ("claims", "statements", "answer", "answers", "sentences")
_STATEMENT_NAMES = ("statement", "claim", "text", "sentence", "answer")
_QUOTE_LISTS = ("quotes", "quote", "citations", "citation", "evidence", "sources", "support")
_DOC_NAMES = ("doc", "document", "doc_id", "document_id", "id", "source", "number")
_QUOTE_NAMES = ("quote", "text", "content", "span")


def _claims(value: Any) -> tuple[Claim, ...] | None:
    if isinstance(value, Mapping):
        listed = _member(value, _CLAIM_LISTS)
        if isinstance(listed, str):
            return _claims_of_text(listed, _member(value, _QUOTE_LISTS))
        value = listed if listed is not None else [value]
    if not isinstance(value, list):
        return None
    claims = [_claim(one) for one in value[:_MAX_CLAIMS]]
    kept = tuple(one for one in claims if one is not None)
    return kept if kept or not value else None


def _claim(value: Any) -> Claim | None:
    if not isinstance(value, Mapping):
        return None
    statement = one_line(_member(value, _STATEMENT_NAMES), _MAX_STATEMENT)
    if not statement:
        return None
    quotes = _quotes(_member(value, _QUOTE_LISTS))
    if isinstance(_member(value, _QUOTE_LISTS), str):  # the quote itself, beside its document
        quotes = _quotes([value])
    return Claim(statement=statement, quotes=quotes)


def _quotes(value: Any) -> tuple[Quote, ...]:
    listed = value if isinstance(value, list) else [value]
    quotes: list[Quote] = []
    for one in listed[:_MAX_QUOTES]:
        if not isinstance(one, Mapping):
            continue
        doc, text = _member(one, _DOC_NAMES), _member(one, _QUOTE_NAMES)
        if isinstance(doc, bool) or not isinstance(doc, str | int | float) or not isinstance(text, str):
            continue
        # A longer quote is left out, not cut.
        if text.strip() and len(text) <= _MAX_QUOTE:
            quotes.append(Quote(doc=str(doc)[:2_000], text=text))
    return tuple(quotes)


def _claims_of_text(answer: str, citations: Any) -> tuple[Claim, ...] | None:
    """Claims from an answer with marks and a list of citations: one claim for each sentence, with the quotes of its marks."""
    if not isinstance(citations, list):
        return None
    claims: list[Claim] = []
    text = one_line(answer, _MAX_STATEMENT * _MAX_CLAIMS)
    for start, end in sentences(text)[:_MAX_CLAIMS]:
        sentence = text[start:end]
        numbers = [int(one[:6]) for found in MARK.finditer(sentence) for one in re.findall(r"\d+", found["numbers"])]
        quotes = [citations[number - 1] for number in numbers[:_MAX_QUOTES] if 0 < number <= len(citations)]
        claims.append(Claim(statement=sentence[:_MAX_STATEMENT], quotes=_quotes(quotes)))
    return tuple(claims) or None


def _brief(value: Any) -> Brief | None:
    """The first line: a number and a sentence. A sentence without a number is one too; where it is from is looked for."""
    text = one_line(next((line for line in _thought_out(value).splitlines() if line.strip()), ""), _MAX_STATEMENT)
    if not text:
        return None
    found = _NUMBERED.match(text)
    number, statement = (int(found[1]), text[found.end() :]) if found else (None, text)
    if number == 0 or _NOTHING.match(statement):
        return Brief(statement="", refused=True)
    return Brief(statement=statement, passage=number)


def _thought_out(text: str) -> str:
    """What comes after the thoughts of a reasoning model."""
    return text.rpartition("</think>")[2]


def _closed(**properties: Any) -> dict[str, Any]:
    """An object schema that OpenAI and Anthropic accept as strict: closed, every field required, no other keywords."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _list_of(items: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


_NOTHING = re.compile(
    r"(?:none|unknown|n/?a|not (?:stated|answered|given|mentioned|specified|found|available))\b[^.]{0,40}+\.?$"
    r"|(?:the|no|none of the) (?:given |numbered )?(?:passages?|documents?|texts?) ?(?:do|does|did|say)",
    re.IGNORECASE,
)
"""How models say in their own words that the passages do not answer."""
_NUMBERED = re.compile(r"[\[(]?(\d{1,4})(?:[\])]?[:.]|[\])]|$)\s*")
_TEXT = {"type": "string"}

QUERIES: ResponseFormat[tuple[str, ...]] = ResponseFormat(
    name="plan",
    schema=_closed(sub_queries=_list_of(_TEXT)),
    example='{"sub_queries": ["first query", "second query", "third query"]}',
    parse=_queries,
)
JUDGEMENT: ResponseFormat[Judgement] = ResponseFormat(
    name="analysis",
    schema=_closed(reasons=_TEXT, completeness_score={"type": "number"}, unexplored_areas=_list_of(_TEXT)),
    example='{"reasons": "one or two sentences", "completeness_score": 0.5, "unexplored_areas": ["what is missing"]}',
    parse=_judgement,
)
CLAIMS: ResponseFormat[tuple[Claim, ...]] = ResponseFormat(
    name="answer",
    schema=_closed(
        claims=_list_of(_closed(statement=_TEXT, quotes=_list_of(_closed(doc={"type": "integer"}, quote=_TEXT))))
    ),
    example='{"claims": [{"statement": "One sentence.", "quotes": [{"doc": 1, "quote": "text of document 1, word for word"}]}]}',
    parse=_claims,
)
# No JSON: its quotes and names would be half of the tokens, and a slow model writes two or three in a second.
BRIEF: ResponseFormat[Brief] = ResponseFormat(
    name="sentence", schema=None, example="1: One sentence.", parse=_brief, max_tokens=80
)

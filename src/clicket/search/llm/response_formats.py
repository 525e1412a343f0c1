"""The four answers that a model is asked for: their schemas and parsers.

A parser returns bounded values, or None; then the model is asked once more, with the form of the answer. It accepts a bare list, and leaves
out entries that it cannot use.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from clicket.model.text.surrogates import one_line
from clicket.search.llm.structured_chat import ResponseFormat

__all__ = ["BRIEF", "CLAIMS", "JUDGEMENT", "QUERIES", "Brief", "Claim", "Judgement", "Quote"]

_MAX_QUERIES = 30
"""Queries that are read; some of them may have been asked before."""
_MAX_QUERY = 300
_MAX_AREAS = 5
_MAX_AREA = 200
_MAX_CLAIMS = 20
_MAX_QUOTES = 5
_MAX_STATEMENT = 600
_MAX_QUOTE = 1_000


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


def _listed(value: Any, name: str) -> list[Any] | None:
    """The list under this name, or the value itself if it is a list."""
    listed = value.get(name) if isinstance(value, Mapping) else value
    return listed if isinstance(listed, list) else None


def _lines(listed: list[Any], most: int, each: int) -> tuple[str, ...]:
    texts: dict[str, str] = {}
    for one in listed[:1_000]:
        if text := one_line(one, each):
            texts.setdefault(text.casefold(), text)
    return tuple(texts.values())[:most]


def _queries(value: Any) -> tuple[str, ...] | None:
    listed = _listed(value, "sub_queries")
    queries = _lines(listed or [], _MAX_QUERIES, _MAX_QUERY)
    return None if listed is None or (listed and not queries) else queries


def _judgement(value: Any) -> Judgement | None:
    if not isinstance(value, Mapping):
        return None
    score = value.get("completeness_score")
    areas = value.get("unexplored_areas") or []
    if (
        isinstance(score, bool)
        or not isinstance(score, int | float)
        or not 0 <= score <= 1
        or not isinstance(areas, list)
    ):
        return None
    return Judgement(score=round(float(score), 6), areas=_lines(areas, _MAX_AREAS, _MAX_AREA))


def _claims(value: Any) -> tuple[Claim, ...] | None:
    listed = _listed(value, "claims")
    claims = tuple(claim for one in (listed or [])[:_MAX_CLAIMS] if (claim := _claim(one)) is not None)
    return None if listed is None or (listed and not claims) else claims


def _claim(value: Any) -> Claim | None:
    if not isinstance(value, Mapping):
        return None
    statement = one_line(value.get("statement"), _MAX_STATEMENT)
    quotes: list[Quote] = []
    for one in (_listed(value, "quotes") or [])[:_MAX_QUOTES]:
        doc, text = (one.get("doc"), one.get("quote")) if isinstance(one, Mapping) else (None, None)
        # A longer quote is left out, not cut.
        if isinstance(doc, str | int) and isinstance(text, str) and text.strip() and len(text) <= _MAX_QUOTE:
            quotes.append(Quote(doc=str(doc)[:2_000], text=text))
    return Claim(statement=statement, quotes=tuple(quotes)) if statement else None


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

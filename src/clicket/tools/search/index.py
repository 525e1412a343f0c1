"""An index over tools: BM25F over the terms of names, descriptions and arguments. It is changed tool by tool.

The weight of a term in a tool depends on that tool alone (lengths are compared with fixed ones, not with the average of all), so a tool
that joins or leaves touches its own terms only. How rare a term is, is looked up when it is searched for.

Descriptions may come from an untrusted server. A tool's text is read up to a bound, and a long text counts less for each of its words: a
tool that lists every word it can think of is found for none of them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sized
from math import log
from typing import Any, NamedTuple, Protocol

from clicket.model.text.terms import terms
from clicket.tools.search.text_similarity import TextSimilarity

__all__ = ["Indexed", "ToolIndex"]

_MAX_TEXT = 4_000
_MAX_TERMS = 300
_MAX_QUERY = 2_000
_MAX_QUERY_TERMS = 40
_MAX_NODES = 200
_MAX_ENCODED = 400
_MAX_DETAIL = 160
"""Characters of one text in a schema."""
_SATURATION = 1.2
_SHORT = 0.5
"""How much a longer text counts less for each of its words, 0 to 1."""
_SIMILAR, _ALIKE_ALONE = 10.0, 0.2
"""What a tool counts whose text means the same as the query, as this many rare words. Less similar ones than the second number count
nothing if they share no word with the query."""
_WORD = re.compile(r"[^\W_]+")
_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class _Field(NamedTuple):
    weight: float
    usual: int
    """The usual number of terms."""


_NAME, _DESCRIPTION, _ARGUMENTS = _Field(3.0, 4), _Field(1.0, 12), _Field(0.5, 20)


class Indexed(Protocol):
    """What is read of a tool."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def input_schema(self) -> Mapping[str, Any]: ...


class ToolIndex:
    """`index.sync(tools)`, then `index.search("rain tomorrow?", among=names)`: names, the best first. `texts`: compares whole texts,
    too, if it has their vectors."""

    def __init__(self, tools: Iterable[Indexed] = (), *, texts: TextSimilarity | None = None) -> None:
        self._texts = texts
        self._tools: dict[str, tuple[Indexed, Collection[str]]] = {}
        """Name -> the tool, and its terms."""
        self._weights: dict[str, dict[str, float]] = {}
        """Term -> name of a tool -> weight of the term in it."""
        self.changes = 0
        """How many tools were read since the index was made."""
        self.sync(tools)

    def __len__(self) -> int:
        return len(self._tools)

    def sync(self, tools: Iterable[Indexed]) -> None:
        """Make the index one of exactly these tools. Tools that it has as they are are not read again."""
        seen: set[str] = set()
        for tool in tools:
            seen.add(tool.name)
            known, _ = self._tools.get(tool.name, (None, ()))
            if known is None or (known is not tool and not _equal(known, tool)):
                self.put(tool)
        for name in self._tools.keys() - seen:
            self.remove(name)

    def put(self, tool: Indexed) -> None:
        """Add a tool, or replace the one of its name."""
        self.remove(tool.name)
        weights = _weights_of(tool)
        for term, weight in weights.items():
            self._weights.setdefault(term, {})[tool.name] = weight * (_SATURATION + 1) / (weight + _SATURATION)
        self._tools[tool.name] = tool, weights.keys()
        if self._texts is not None:
            self._texts.put(tool.name, _encoded_text(tool))
        self.changes += 1

    def remove(self, name: str) -> bool:
        """False: there is no such tool."""
        tool, terms_of_it = self._tools.pop(name, (None, ()))
        if self._texts is not None:
            self._texts.remove(name)
        for term in terms_of_it:
            found = self._weights[term]
            del found[name]
            if not found:
                del self._weights[term]
        return tool is not None

    def search(self, query: str, *, limit: int = 5, among: Collection[str] | None = None) -> list[str]:
        """The names of at most `limit` tools that fit a query, the best first. `among`: the tools that may be found."""
        scores: dict[str, float] = {}
        for term in list(dict.fromkeys(_terms(query[:_MAX_QUERY])))[:_MAX_QUERY_TERMS]:
            found = self._weights.get(term, {})
            rarity = self._rarity(found)
            for name, weight in found.items():
                scores[name] = scores.get(name, 0.0) + rarity * weight
        self._add_similar(scores, query)
        fit = [name for name in scores if among is None or name in among]
        return sorted(fit, key=lambda name: (-scores[name], len(name), name))[: max(limit, 0)]

    def _add_similar(self, scores: dict[str, float], query: str) -> None:
        found = None if self._texts is None else self._texts.to(query)
        gain = _SIMILAR * self._rarity(())
        for name, similarity in (found or {}).items():
            if similarity > 0.0 and (name in scores or similarity > _ALIKE_ALONE):
                scores[name] = scores.get(name, 0.0) + gain * similarity

    def _rarity(self, found: Sized) -> float:
        return log(1.0 + (len(self._tools) - len(found) + 0.5) / (len(found) + 0.5))


def _equal(one: Indexed, other: Indexed) -> bool:
    return one.description == other.description and one.input_schema == other.input_schema


def _text(description: Any) -> str:
    return description if isinstance(description, str) else ""


def _terms(text: str) -> list[str]:
    """The terms of a text; identifiers as a whole, and their words: `GitHub` is `github`, `git` and `hub`."""
    split = ((word, _BOUNDARY.sub(" ", word)) for word in _WORD.findall(text))
    parts = " ".join(apart for word, apart in split if apart != word)
    return terms(f"{text} {parts}") if parts else terms(text)


def _encoded_text(tool: Indexed) -> str:
    """What an encoder reads of a tool."""
    name = " ".join(_WORD.findall(_BOUNDARY.sub(" ", tool.name))).lower()
    return f"{name}: {_text(tool.description)[:_MAX_ENCODED]}"


def _weights_of(tool: Indexed) -> dict[str, float]:
    weights: dict[str, float] = {}
    for field, text in (
        (_NAME, tool.name),
        (_DESCRIPTION, _text(tool.description)[:_MAX_TEXT]),
        (_ARGUMENTS, _schema_text(tool.input_schema)),
    ):
        found = _terms(text)
        weight = field.weight / (1.0 - _SHORT + _SHORT * len(found) / field.usual)
        for term in found:
            if term in weights or len(weights) < _MAX_TERMS:
                weights[term] = weights.get(term, 0.0) + weight
    return weights


def _schema_text(schema: Any) -> str:
    """Names of the arguments, and what is said about them. A schema may come from an untrusted server, and be anything."""
    texts: list[str] = []
    size = 0
    for text in _texts_in(schema):
        texts.append(text)
        size += len(text)
        if size > _MAX_TEXT:
            break
    return " ".join(texts)


def _texts_in(schema: Any) -> Iterator[str]:
    open_nodes = [(schema, 0)]
    read = 0
    while open_nodes and read < _MAX_NODES:
        node, depth = open_nodes.pop(0)
        read += 1
        if not isinstance(node, Mapping):
            continue
        values = node.get("enum")
        said = [node.get("title"), node.get("description")] if depth else []
        said += values[:10] if isinstance(values, list | tuple) else []
        properties = node.get("properties")
        if isinstance(properties, Mapping) and depth < 3:
            said += list(properties)[:_MAX_NODES]
            open_nodes += [(inner, depth + 1) for inner in list(properties.values())[:_MAX_NODES]]
        if isinstance(node.get("items"), Mapping) and depth < 3:
            open_nodes.append((node["items"], depth + 1))
        yield from (text[:_MAX_DETAIL] for text in said if isinstance(text, str))

"""An index over tools: BM25F over the words of names, descriptions and parameters. It is changed tool by tool.

The weight of a term in a tool depends on that tool alone (lengths are compared with fixed ones, not with the average of all), so a tool
that joins or leaves touches its own terms only. How rare a term is, is looked up when it is searched for.

Descriptions may come from an untrusted server. A tool's text is read up to a bound, and a long text counts less for each of its words: a
tool that lists every word it can think of is found for none of them.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from math import log
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

from clicket.tool_search.operations import operation_of, wanted_operations
from clicket.tool_search.related import related
from clicket.tool_search.services import Named, Services
from clicket.tool_search.similarity import Similarities
from clicket.tool_search.text_similarity import TextSimilarity
from clicket.tool_search.word_vectors import text_vector
from clicket.tool_search.words import (
    plain_terms,
    prose_terms,
    read_request,
    spellings,
    variants,
    words_of_name,
)

__all__ = ["Indexed", "ToolIndex"]

_MAX_TEXT = 4_000
_MAX_TERMS = 300
_MAX_QUERY = 2_000
_MAX_QUERY_TERMS = 40
_MAX_NODES = 200
_MAX_ENCODED = 400
_FIRST = 160
"""Characters of a description that say what the tool is for."""
_SATURATION = 1.2
_VARIANT = 0.6
_SLIP = 0.6
_SLIP_LENGTH = 4
_RELATED = 0.7
_OF_SERVICE = 5.0
_UNNAMED = 0.5
_RARE = 2
_PARTLY = 0.6
"""What a tool of a service counts that is named with fewer words than another (Google, and not Google Calendar)."""
_OTHERS = 0.5
"""What a tool of another service than the one that is named counts."""
_CONTRARY = 0.7
"""What a tool counts that does something else than the request wants."""
_PART_OF_NAME = 0.3
"""What a word counts that is part of a service's name, which is counted as a whole."""
_SIMILAR = 4.0
"""What a tool counts whose text means the same as the request, whatever words they share: as so many rare words."""
_SAID = 0.5
"""Words that count less (those that a request only passes on) say nothing about the meaning of the request."""
_ALIKE_ALONE = 0.35
"""Less similar ones count nothing if they share no word with the request, nor a related one: all texts about computers are a little
alike."""
_SIMILAR_TEXT, _TEXT_ALONE = 10.0, 0.2
"""The same two for vectors of whole texts, which are better."""
_COVERAGE = 0.3
_MAX_KEPT = 500_000
"""Weights that are kept for words of requests."""


class _Field(NamedTuple):
    weight: float
    usual: float
    """The usual number of words."""
    penalty: float
    """How much a longer text counts less, 0 to 1."""


_NAME = _Field(3.0, 4.0, 0.3)
_LEAD = _Field(1.6, 10.0, 0.5)
_REST = _Field(0.6, 20.0, 0.8)
_PARAMETER = _Field(0.6, 6.0, 0.6)
_DETAIL = _Field(0.25, 12.0, 0.8)


class Indexed(Protocol):
    """What is read of a tool."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def input_schema(self) -> Mapping[str, Any]: ...


class _Entry(NamedTuple):
    number: int
    tool: Indexed
    terms: tuple[str, ...]


class ToolIndex:
    """`index.sync(tools)`, then `index.search("rain tomorrow?", among=names)`: names, the best first. `texts`: compares whole texts,
    if it has their vectors, instead of sums of word vectors."""

    def __init__(self, tools: Iterable[Indexed] = (), *, texts: TextSimilarity | None = None) -> None:
        self._texts = texts
        self._entries: dict[str, _Entry] = {}
        self._names: dict[int, str] = {}
        self._weights: dict[str, dict[int, float]] = {}
        """Term -> number of a tool -> weight of the term in it."""
        self._slips: dict[str, set[str]] = {}
        """A spelling with one letter less -> terms."""
        self._services = Services()
        self._similarities = Similarities()
        self._operations: dict[int, str] = {}
        self._kept: dict[str, tuple[dict[int, float], float]] = {}
        self._kept_size = 0
        self._next = 0
        self.changes = 0
        """How many tools were read since the index was made."""
        self.sync(tools)

    def __len__(self) -> int:
        return len(self._entries)

    def sync(self, tools: Iterable[Indexed]) -> None:
        """Make the index one of exactly these tools. Tools that it has as they are are not read again."""
        seen: set[str] = set()
        for tool in tools:
            seen.add(tool.name)
            known = self._entries.get(tool.name)
            if known is None or (known.tool is not tool and not _equal(known.tool, tool)):
                self.put(tool)
        if len(seen) != len(self._entries):
            for name in [name for name in self._entries if name not in seen]:
                self.remove(name)

    def put(self, tool: Indexed) -> None:
        """Add a tool, or replace the one of its name."""
        self.remove(tool.name)
        self._forget()
        number, self._next = self._next, self._next + 1
        weights = _weights_of(tool)
        for term, weight in weights.items():
            found = self._weights.get(term)
            if found is None:
                found = self._weights[term] = {}
                if len(term) >= _SLIP_LENGTH and term.isalpha():
                    for spelling in spellings(term):
                        self._slips.setdefault(spelling, set()).add(term)
            found[number] = weight * (_SATURATION + 1) / (weight + _SATURATION)
        self._services.put(number, tool.name, _text(tool.description))
        vector = text_vector(_said_of(tool))
        if vector is not None:
            self._similarities.put(number, vector)
        if self._texts is not None:
            self._texts.put(number, _encoded_text(tool))
        operation = operation_of(tool.name)
        if operation is not None:
            self._operations[number] = operation
        self._entries[tool.name] = _Entry(number, tool, tuple(weights))
        self._names[number] = tool.name
        self.changes += 1

    def remove(self, name: str) -> bool:
        """False: there is no such tool."""
        entry = self._entries.pop(name, None)
        if entry is None:
            return False
        self._forget()
        del self._names[entry.number]
        self._services.remove(entry.number)
        self._similarities.remove(entry.number)
        if self._texts is not None:
            self._texts.remove(entry.number)
        self._operations.pop(entry.number, None)
        for term in entry.terms:
            found = self._weights[term]
            del found[entry.number]
            if not found:
                del self._weights[term]
                for spelling in spellings(term) if term in self._slips.get(term, ()) else ():
                    terms = self._slips[spelling]
                    terms.discard(term)
                    if not terms:
                        del self._slips[spelling]
        return True

    def search(self, request: str, *, limit: int = 5, among: Collection[str] | None = None) -> list[str]:
        """The names of at most `limit` tools that fit a request, the best first. `among`: the tools that may be found."""
        asked = read_request(request[:_MAX_QUERY])
        scores: dict[int, float] = {}
        parts: list[tuple[Collection[int], float]] = []
        named = self._services.named(asked.words)
        for numbers in named.joined.values():
            rarity = self._rarity(numbers)
            parts.append((numbers, rarity))
            for number in numbers:
                scores[number] = scores.get(number, 0.0) + rarity * _OF_SERVICE
        for term, given in list(asked.terms.items())[:_MAX_QUERY_TERMS]:
            best, rarity = self._best(term)
            weight = given * _PART_OF_NAME if term in named.parts else given
            if self._services.of_term(term):
                best = self._of_service(term, best, rarity, named.terms)
            if best:
                parts.append((best, weight * rarity))
                for number, value in best.items():
                    scores[number] = scores.get(number, 0.0) + weight * value
        texts = None if 0 < len(named.counts) <= limit else self._texts  # all of them are found anyway
        self._add_similar(scores, None if texts is None else texts.to(request[:_MAX_QUERY]), asked.terms, named)
        if among is not None:
            scores = {number: score for number, score in scores.items() if self._names[number] in among}
        return self._first(scores, limit, self._share_of(parts, named, wanted_operations(asked)))

    def _share_of(
        self, parts: Sequence[tuple[Collection[int], float]], named: Named, wanted: Collection[str]
    ) -> Callable[[int], float]:
        """What a tool keeps of its score, from 0 to 1: less if it has few `parts` of the request (its tools, and what each counts), if it
        is of another service than the one that is named, or if it does something else than is wanted."""
        known = 1e-9 + sum(value for _, value in parts)
        most = max(named.counts.values(), default=0)

        def share_of(number: int) -> float:
            covered = sum(value for numbers, value in parts if number in numbers)
            share = 1.0 - _COVERAGE + _COVERAGE * covered / known
            count = named.counts.get(number, 0)
            if count < most:
                share *= _PARTLY if count else _OTHERS
            if wanted and self._operations.get(number, "") not in ("", *wanted):
                share *= _CONTRARY
            return share

        return share_of

    def _first(self, scores: Mapping[int, float], limit: int, share_of: Callable[[int], float]) -> list[str]:
        """The names of the best, the shortest first among equals. The share is asked for only of tools that may still be among them."""
        best: list[tuple[float, int, str]] = []
        for number, score in sorted(scores.items(), key=itemgetter(1), reverse=True):
            if len(best) >= limit and (not best or score < -best[-1][0]):
                break
            name = self._names[number]
            insort(best, (-score * share_of(number), len(name), name))
            del best[max(limit, 0) :]
        return [name for _, _, name in best]

    def _of_service(self, term: str, best: dict[int, float], rarity: float, named: Collection[str]) -> dict[int, float]:
        """What a term counts that names a service. All tools of a service that is named are of it to the same degree; if the term is
        used as an ordinary word (a box of mugs), it says little about them."""
        changed = dict(best)
        for numbers in self._services.of_term(term):
            if term in named:
                changed.update(dict.fromkeys(numbers, rarity * _OF_SERVICE))
            else:
                changed.update({number: best[number] * _UNNAMED for number in numbers})
        return changed

    def _add_similar(
        self,
        scores: dict[int, float],
        of_texts: Mapping[int, float] | None,
        terms: Mapping[str, float],
        named: Named,
    ) -> None:
        """If a service is named, only its tools are compared. `of_texts`: their similarity as whole texts; None: it is not known."""
        if of_texts is None:
            found, whole, alone = self._similar(terms, named), _SIMILAR, _ALIKE_ALONE
        else:
            found, whole, alone = of_texts, _SIMILAR_TEXT, _TEXT_ALONE
        gain, most = whole * self._rarity(()), max(named.counts.values(), default=0)
        for number in [number for number, count in named.counts.items() if count == most] or found:
            similarity = found.get(number, 0.0)
            if similarity > 0.0 and (number in scores or similarity > alone):
                scores[number] = scores.get(number, 0.0) + gain * similarity

    def _similar(self, terms: Mapping[str, float], named: Named) -> Mapping[int, float]:
        """By word vectors, without the name of a service: it says nothing about which of the service's tools is meant."""
        name = named.terms | named.parts
        vector = text_vector((term, weight) for term, weight in terms.items() if weight >= _SAID and term not in name)
        return {} if vector is None else self._similarities.to(vector)

    def _best(self, term: str) -> tuple[dict[int, float], float]:
        """For each tool what the term, a word of the same meaning or a corrected spelling counts in it; and how rare the term is. Kept
        until a tool changes: requests share most of their words."""
        known = self._kept.get(term)
        if known is None:
            known = self._looked_up(term)
            self._kept_size += len(known[0]) + 1
            if self._kept_size > _MAX_KEPT:
                self._forget()
            self._kept[term] = known
        return known

    def _forget(self) -> None:
        self._kept.clear()
        self._kept_size = 0

    def _looked_up(self, term: str) -> tuple[dict[int, float], float]:
        best: dict[int, float] = {}
        top = 0.0
        own = self._weights.get(term)
        shares = {other: _RELATED * share for other, share in related(term)}
        shares.update(dict.fromkeys(variants(term), _VARIANT))
        others = list(shares.items())
        if own is None and not others:
            others = [(near, _SLIP) for near in self._near(term)]
        rarest = self._rarity(own) if own is not None else None
        for variant, share in ((term, 1.0), *others):
            found = self._weights.get(variant)
            if found is None:
                continue
            rarity = self._rarity(found)
            gain = share * (rarity if rarest is None else min(rarity, rarest))
            top = max(top, gain)
            for number, weight in found.items():
                value = gain * weight
                if value > best.get(number, 0.0):
                    best[number] = value
        return best, top

    def _rarity(self, found: Sized) -> float:
        """How rare a term is. Very rare ones count no more than those of a few tools: they match by accident."""
        count = max(len(found), _RARE)
        return log(1.0 + (max(len(self._entries) - count, 0) + 0.5) / (count + 0.5))

    def _near(self, term: str) -> list[str]:
        """Terms of the index that the term may be a misspelling of."""
        if len(term) < _SLIP_LENGTH or not term.isalpha():
            return []
        found: set[str] = set()
        for spelling in spellings(term):
            found |= self._slips.get(spelling, set())
        return sorted(found, key=lambda near: (near[0] != term[0], abs(len(near) - len(term)), near))[:4]


def _equal(one: Indexed, other: Indexed) -> bool:
    return one.description == other.description and one.input_schema == other.input_schema


def _text(description: Any) -> str:
    return description if isinstance(description, str) else ""


def _said_of(tool: Indexed) -> list[tuple[str, float]]:
    """The words that say what a tool does."""
    return [(term, 1.0) for term in plain_terms(f"{tool.name} {_text(tool.description)[:_FIRST]}")[:_MAX_TERMS]]


def _encoded_text(tool: Indexed) -> str:
    """What an encoder reads of a tool."""
    return f"{' '.join(words_of_name(tool.name))}: {_text(tool.description)[:_MAX_ENCODED]}"


def _weights_of(tool: Indexed) -> dict[str, float]:
    description = _text(tool.description)
    lead, rest = description[:_FIRST], description[_FIRST:_MAX_TEXT]
    if rest:  # not in the middle of a word
        lead, _, cut = lead.rpartition(" ")
        rest = cut + rest
    parameters, details = _schema_texts(tool.input_schema)
    weights: dict[str, float] = {}
    for field, text in (
        (_NAME, tool.name), (_LEAD, lead), (_PARAMETER, parameters), (_REST, rest), (_DETAIL, details),
    ):  # fmt: skip
        found = plain_terms(text) if field is _NAME or field is _PARAMETER else prose_terms(text)
        length = 1.0 - field.penalty + field.penalty * len(found) / field.usual
        gain = field.weight / max(length, 0.5)
        for term in found:
            if term in weights or len(weights) < _MAX_TERMS:
                weights[term] = weights.get(term, 0.0) + gain
    return weights


def _schema_texts(schema: Any) -> tuple[str, str]:
    """Names of the parameters; and what is said about them. A schema may come from an untrusted server, and be anything."""
    names: list[str] = []
    details: list[str] = []
    size = 0
    for key, value in _nodes(schema):
        size += len(value)
        (names if key == "name" else details).append(value)
        if size > _MAX_TEXT:
            break
    return " ".join(names), " ".join(details)


def _nodes(schema: Any) -> Iterator[tuple[str, str]]:
    open_nodes, read = [(schema, 0)], 0
    while open_nodes and read < _MAX_NODES:
        node, depth = open_nodes.pop(0)
        read += 1
        if not isinstance(node, Mapping):
            continue
        for text in (node.get("title"), node.get("description")):
            if depth and isinstance(text, str):
                yield "detail", text[:_FIRST]
        values = node.get("enum")
        if isinstance(values, list | tuple):
            yield from (("detail", value[:_FIRST]) for value in values[:10] if isinstance(value, str))
        properties = node.get("properties")
        if isinstance(properties, Mapping) and depth < 3:
            for name, inner in list(properties.items())[:_MAX_NODES]:
                if isinstance(name, str):
                    yield "name", name[:_FIRST]
                open_nodes.append((inner, depth + 1))
        if isinstance(node.get("items"), Mapping) and depth < 3:
            open_nodes.append((node["items"], depth + 1))

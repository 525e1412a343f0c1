"""A JSON Schema as a graph: each subschema is one node, and a reference is an edge. Says how much work the schema can cause.

A few hundred bytes of nested `allOf` and `$ref` can describe more paths than any validator ends. Keywords that apply a subschema to the
same value (`$ref`, `allOf`, `anyOf` …) are in place; those that apply it to a member (`properties`, `items` …) go one level down. What is
counted is a path: one subschema, as often as it is reached. Counting takes linear time, because the paths below a node are counted once.
Keywords that compare a value with many names or values (`enum`, `required`) have a weight: as much work as this many paths.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urljoin

__all__ = ["MAX_PATHS", "Node", "SchemaGraph", "Unusable", "may_backtrack"]

MAX_PATHS = 4_000
"""The most subschemas that one value may be checked against, each as often as it is reached. Ordinary tools have fewer than 100."""
MAX_NODES = 10_000
MAX_PATTERNS = 25_000
"""The most states of all patterns of a schema together: some 30 ms to build them."""
_ATOMS = re.compile(
    r"(?P<open>\()|(?P<close>\))|(?P<times>\{[\d, ]{0,40}\})|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]?|.", re.DOTALL
)
_WIDE = {".": 6, "[^": 6, r"\D": 6, r"\S": 6, r"\W": 6, r"\d": 20}
"""Atoms that stand for many characters of Unicode: their states, measured."""
MAX_CHAIN = 100
"""The most subschemas that lead to one another in place, one behind the other."""
MAX_LEVELS = 32
"""The levels of a value for which the paths are counted ahead. A value with more levels is counted when it is checked."""
_SATURATED = 10**9
MIN_WEIGHT = 50
"""Below, the work for a subschema's own keywords is not counted."""
_SCALARS_PER_PATH = 10
_NAMES_PER_PATH = 2
_PATHS_PER_VALUE = 6
"""Of an `enum`: a path takes as long as ten comparisons with a text or a whole number. One with another number, an array or an object
takes as long as six paths."""

DIALECT = "https://json-schema.org/draft/2020-12/"
_ONE = ("not", "if", "then", "else", "additionalProperties", "propertyNames", "items", "contains")
_UNEVALUATED = ("unevaluatedProperties", "unevaluatedItems")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_MAPS = ("properties", "patternProperties", "dependentSchemas", "dependencies")
_HOLDERS = (*_MAPS, "$defs", "definitions")
_IN_PLACE = frozenset("allOf anyOf oneOf not if then else dependentSchemas dependencies".split())
_ASSERTIONS = (
    "type enum const multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength minLength pattern format maxItems minItems "
    "uniqueItems maxProperties minProperties required dependentRequired contentEncoding contentMediaType".split()
)
_KINDS: Mapping[str, str] = {
    **dict.fromkeys(_ASSERTIONS, "own"),
    **dict.fromkeys(("$ref", "$dynamicRef"), "reference"),
    **dict.fromkeys((*_ONE, *_UNEVALUATED), "one"),
    **dict.fromkeys(_LISTS, "list"),
    **dict.fromkeys(_MAPS, "map"),
}
"""How a keyword holds subschemas; all others say nothing about the value."""
_OVERLAPPING = frozenset(("contains", "propertyNames", *_UNEVALUATED))
_FOREIGN = 100
"""Paths of the meta-schema."""
_NAMING = frozenset(("$id", "$anchor", "$dynamicAnchor"))
_PLAIN = frozenset(_ASSERTIONS) - {"pattern"}
_LISTING = frozenset(("enum", "required", "dependentRequired"))
_NOTHING: dict[str, Any] = {}
"""Shared by all subschemas that hold nothing, and never written to: a large schema has thousands that only name a type."""


_BACKTRACKING = re.compile(r"\(\?(?:[=!>(]|<[=!])|\\[1-9gkGKzZ]|[*+?}]\+")


def may_backtrack(pattern: str) -> bool:
    """Does the pattern use what a linear engine lacks: a look ahead or behind, a reference back? In doubt it does."""
    return _BACKTRACKING.search(pattern) is not None


def pattern_size(pattern: str) -> int:
    """About how many states the automaton of a pattern has; each takes a microsecond to build. A repetition repeats its states."""
    sizes = [0]
    last = 0
    for atom in _ATOMS.finditer(pattern):
        kind = atom.lastgroup
        text = atom[0]
        if kind == "open":
            sizes.append(0)
        elif kind == "close" and len(sizes) > 1:
            last = sizes.pop()
            sizes[-1] += last
        elif kind == "times":
            sizes[-1] += last * (max(map(int, re.findall(r"\d+", text)), default=1) - 1)
        else:
            last = _WIDE.get(text[:2], _WIDE.get(text[:1], 1))
            sizes[-1] += last
        if sizes[-1] > MAX_PATTERNS:
            return MAX_PATTERNS + 1
    return sum(sizes)


def weight_of(own: Mapping[str, Any]) -> int:
    """The work of keywords that need no subschema, in paths; 0 if it is not worth counting."""
    weight = 0
    listed = own.get("enum")
    if isinstance(listed, list | tuple):
        simple = sum(type(each) in (str, int, bool, type(None)) for each in listed)
        weight += simple // _SCALARS_PER_PATH + (len(listed) - simple) * _PATHS_PER_VALUE
    demanded = [own.get("required")]
    if isinstance(own.get("dependentRequired"), dict):
        demanded += own["dependentRequired"].values()
    weight += sum(len(names) for names in demanded if isinstance(names, list | tuple)) // _NAMES_PER_PATH
    return weight if weight >= MIN_WEIGHT else 0


class Unusable(ValueError):
    """The schema cannot be taken; the text says why, and what to do."""


class _HasNames(Exception):
    """Subschemas have names of their own, so references need a list of these."""


class Node:
    """One subschema. `one`, `lists` and `maps` hold its subschemas by their keyword, `in_place` those that are applied to the same value;
    `own` holds the keywords that need none."""

    __slots__ = (
        "allowed",
        "backtracks",
        "factor",
        "foreign",
        "in_place",
        "index",
        "leads_down",
        "lists",
        "maps",
        "one",
        "own",
        "refs",
        "schema",
        "weight",
    )

    def __init__(self, index: int, schema: Any) -> None:
        self.index = index
        self.schema = schema
        self.allowed: bool = schema is not False
        self.own: dict[str, Any] = _NOTHING
        self.backtracks: bool = False
        """Has it a pattern for a text or a name that may look back again and again?"""
        self.refs: Sequence[Node] = ()
        self.one: Mapping[str, Node] = _NOTHING
        self.lists: Mapping[str, Sequence[Node]] = _NOTHING
        self.maps: Mapping[str, Mapping[str, Node]] = _NOTHING
        self.in_place: Sequence[Node] = ()
        self.leads_down: bool = False
        """Does it apply a subschema of its own to a member of the value?"""
        self.factor: int = 1
        """How often its subschemas are applied. A validator that asks what they have checked applies them up to twice more."""
        self.foreign: str = ""
        """A reference to the meta-schema, which only the validator can follow."""
        self.weight: int = 0
        """How much work its own keywords are, in paths, if it is much."""

    @property
    def is_simple(self) -> bool:
        """Is one subschema at most applied to the value, and one to each of its members?"""
        return (
            not self.in_place
            and not self.foreign
            and not self.one.keys() & _OVERLAPPING
            and "patternProperties" not in self.maps
        )

    def most_below(self, figures: Mapping[Node, int]) -> tuple[int, int]:
        """The sum of the figures of all subschemas that are applied to one member, for the member that has the largest: of an object,
        and of an array."""
        one, maps, lists = self.one, self.maps, self.lists
        named = placed = 0
        if "properties" in maps:
            named = max((figures[node] for node in maps["properties"].values()), default=0)
        if "additionalProperties" in one:
            named = max(named, figures[one["additionalProperties"]])
        if "propertyNames" in one:
            named += figures[one["propertyNames"]]
        if "patternProperties" in maps:
            named += sum(figures[node] for node in maps["patternProperties"].values())
        if "unevaluatedProperties" in one:
            named += figures[one["unevaluatedProperties"]]
        if "prefixItems" in lists:
            placed = max((figures[node] for node in lists["prefixItems"]), default=0)
        if "items" in one:
            placed = max(placed, figures[one["items"]])
        placed += sum(figures[one[word]] for word in ("contains", "unevaluatedItems") if word in one)
        return named, placed


class SchemaGraph:
    """The nodes of a schema. `Unusable` if it has too many paths, or a reference that leads nowhere or back to itself in place."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._document = schema
        base = str(schema.get("$id") or "").partition("#")[0]
        self._bases: dict[int, str] = {}
        self._named: dict[str, Any] = {base: schema, "": schema}
        self._dynamic: dict[str, int] = {}
        self._nodes: dict[int, Node] = {}
        self._patterns = 0
        """States of the patterns so far."""
        self._targets: dict[tuple[str, str, str], Node] = {}
        self.backtracks = False
        try:
            self.root = self._built(schema, base)
        except _HasNames:
            self._find_names(schema, base)
            self._nodes, self._targets = {}, {}
            self.root = self._built(schema, base)
        self.size = len(self._nodes)
        self._paths = self._counted()
        self._work = self._weighed()
        self.is_bounded = True
        """Do deeper values have no more paths than the last of `by_level`?"""
        self.by_level = self._multiplied()
        """A value of `n` members and `d` levels is checked along `n * by_level[d - 1]` paths at most, weights included."""

    @property
    def paths(self) -> int:
        """The most subschemas that one value is checked against in place."""
        return max(self._paths.values())

    def _find_names(self, schema: Any, base: str) -> None:
        """Remember what `$id` and `$anchor` name."""
        waiting = [(schema, base, 0)]
        while waiting:
            found, base, depth = waiting.pop()
            if not isinstance(found, dict):
                continue
            if len(self._bases) >= MAX_NODES:
                raise Unusable(f"it has more than {MAX_NODES:,} subschemas. Make it smaller, or split the tool")
            own = found.get("$id")
            if depth and isinstance(own, str):
                base = _joined(base, own).partition("#")[0]
                self._named[base] = found
            dialect = found.get("$schema")
            if depth and isinstance(dialect, str) and isinstance(own, str) and not dialect.startswith(DIALECT):
                raise Unusable(
                    f"a part of it is written in {dialect:.100}. Write the whole schema in the dialect 2020-12"
                )
            for word in ("$anchor", "$dynamicAnchor"):
                if isinstance(found.get(word), str):
                    self._named[f"{base}#{found[word]}"] = found
            if isinstance(name := found.get("$dynamicAnchor"), str):
                self._dynamic[name] = self._dynamic.get(name, 0) + 1
            self._bases[id(found)] = base
            for word, value in found.items():
                if word in _ONE or word in _UNEVALUATED:
                    waiting.append((value, base, depth + 1))
                elif word in _LISTS and isinstance(value, list | tuple):
                    waiting += [(each, base, depth + 1) for each in value]
                elif word in _HOLDERS and isinstance(value, dict):
                    waiting += [(each, base, depth + 1) for each in value.values()]

    def _built(self, schema: Any, base: str) -> Node:
        waiting: list[tuple[Node, str]] = []
        root = self._node(schema, base, waiting)
        while waiting:
            node, base = waiting.pop()
            if not self._bases and node is not root and not _NAMING.isdisjoint(node.schema):
                raise _HasNames
            node.own = own = {}
            for word, value in node.schema.items():
                kind = _KINDS.get(word)
                if kind == "own":
                    own[word] = value
                elif kind is not None:
                    self._hold(node, word, kind, value, base, waiting)
            node.weight = weight_of(own)
            if "pattern" in own and isinstance(own["pattern"], str):
                self._add_patterns((own["pattern"],))
                node.backtracks = node.backtracks or may_backtrack(own["pattern"])
            self.backtracks = self.backtracks or node.backtracks
        return root

    def _add_patterns(self, patterns: Iterable[str]) -> None:
        self._patterns += sum(map(pattern_size, patterns))
        if self._patterns > MAX_PATTERNS:
            raise Unusable(
                f"its patterns together have more than {MAX_PATTERNS:,} states. Use fewer or shorter patterns, or `maxLength` in place of "
                "repetitions such as {1,200}"
            )

    def _hold(self, node: Node, word: str, kind: str, value: Any, base: str, waiting: list[tuple[Node, str]]) -> None:
        """Give the node the subschemas of one keyword."""
        if kind == "reference":
            if isinstance(value, str):
                self._refer(node, word, value, base, waiting)
            return
        held: Iterable[Node] = ()
        if kind == "one":
            inner = self._node(value, base, waiting)
            node.one, held = {**node.one, word: inner}, (inner,)
        elif kind == "list" and isinstance(value, list | tuple):
            listed = [self._node(each, base, waiting) for each in value]
            node.lists, held = {**node.lists, word: listed}, listed
        elif kind == "map" and isinstance(value, dict):
            mapped = {
                name: self._node({"required": list(each)} if isinstance(each, list | tuple) else each, base, waiting)
                for name, each in value.items()
            }
            node.maps, held = {**node.maps, word: mapped}, mapped.values()
            if word == "patternProperties":
                self._add_patterns(mapped)
                node.backtracks = node.backtracks or any(map(may_backtrack, mapped))
        if word in _IN_PLACE:
            node.in_place = [*node.in_place, *held]
        else:
            node.leads_down = True
        if word in _UNEVALUATED:
            node.factor = 3

    def _node(self, schema: Any, base: str, waiting: list[tuple[Node, str]]) -> Node:
        nodes = self._nodes
        index = len(nodes)
        is_object = isinstance(schema, dict)
        key = id(schema) if is_object else -index - 1
        node = nodes.get(key)
        if node is None:
            if index >= MAX_NODES:
                raise Unusable(f"it has more than {MAX_NODES:,} subschemas. Make it smaller, or split the tool")
            node = nodes[key] = Node(index, schema)
            if is_object and _PLAIN.issuperset(schema):
                node.own = schema  # most subschemas of a large schema: nothing to go through
                if not _LISTING.isdisjoint(schema):
                    node.weight = weight_of(schema)
            elif is_object:
                waiting.append((node, self._bases.get(key, base)))
        return node

    def _refer(self, node: Node, word: str, reference: str, base: str, waiting: list[tuple[Node, str]]) -> None:
        target = self._targets.get((word, base, reference))
        if target is None:
            uri = _joined(base, reference)
            if uri.startswith(DIALECT):
                node.foreign = reference
                return
            if word == "$dynamicRef" and self._dynamic.get(uri.rpartition("#")[2], 0) > 1:
                raise Unusable(
                    f"the $dynamicRef {reference!r:.100} can mean several subschemas. Write a $ref in its place"
                )
            target = self._node(self._at(uri, reference), uri.partition("#")[0], waiting)
            self._targets[word, base, reference] = target
        node.refs = [*node.refs, target]
        node.in_place = [*node.in_place, target]

    def _at(self, uri: str, reference: str) -> Any:
        resource, _, fragment = uri.partition("#")
        if not self._bases and not (reference == "#" or reference.startswith("#/")):
            raise _HasNames
        if uri in self._named:
            return self._named[uri]
        target: Any = self._named.get(resource)
        if target is None:
            raise Unusable(f"{reference:.200} is outside the schema, and remote references are never fetched")
        if fragment and not fragment.startswith("/"):
            raise Unusable(f"the $ref {reference!r:.200} points to nothing")
        for step in fragment.split("/")[1:]:
            key = unquote(step).replace("~1", "/").replace("~0", "~")
            try:
                target = target[int(key)] if isinstance(target, list | tuple) else target[key]
            except (KeyError, IndexError, ValueError, TypeError):
                raise Unusable(f"the $ref {reference!r:.200} points to nothing") from None
        if not isinstance(target, dict | bool):
            raise Unusable(f"the $ref {reference!r:.200} points to what is not a schema")
        return target

    def _counted(self) -> dict[Node, int]:
        """For each node how many paths it has in place. Nodes come after all that they lead to in place."""
        nodes = self._nodes.values()
        paths = dict.fromkeys([node for node in nodes if not node.in_place], 1)
        paths |= {node: _FOREIGN for node in paths if node.foreign}
        entered: set[Node] = set()
        is_long = False  # a node has at least as many paths as subschemas in the longest chain from it
        # Inner nodes were made later, so that most of them are counted before the outer ones.
        for first in reversed([node for node in nodes if node.in_place]):
            stack = [first]
            while stack:
                node = stack.pop()
                if node in paths:
                    continue
                waiting = [each for each in node.in_place if each not in paths]
                if waiting:
                    if node in entered or not entered.isdisjoint(waiting):
                        raise Unusable(
                            "a $ref leads back to itself without going deeper into the value. Remove the circle"
                        )
                    entered.add(node)
                    stack += (node, *waiting)
                    continue
                count = 1 + node.factor * sum([paths[each] for each in node.in_place])
                paths[node] = count = count + _FOREIGN - 1 if node.foreign else count
                if count > MAX_PATHS:
                    raise Unusable(
                        f"it has more than {MAX_PATHS:,} paths: allOf, anyOf, oneOf and $ref in one another multiply. Flatten them, "
                        "or leave out a level"
                    )
                is_long = is_long or count > MAX_CHAIN
        if is_long:
            self._check_chains(paths)
        return paths

    def _weighed(self) -> Mapping[Node, int]:
        """For each node its paths in place, with the weights of their subschemas."""
        if not any(node.weight for node in self._paths):
            return self._paths
        work: dict[Node, int] = {}
        for node, paths in self._paths.items():
            inner = sum(work[each] - self._paths[each] for each in node.in_place)
            work[node] = min(paths + node.weight + node.factor * inner, _SATURATED)
        return work

    def _check_chains(self, paths: Iterable[Node]) -> None:
        chains: dict[Node, int] = {}
        for node in paths:
            chains[node] = 1 + max([chains[each] for each in node.in_place], default=0)
            if chains[node] > MAX_CHAIN:
                raise Unusable(f"more than {MAX_CHAIN} subschemas lead to one another. Shorten the chain of $ref")

    def _multiplied(self) -> list[int]:
        """For values of 1, 2, … levels: the most paths per member of the whole value. Ends where more levels bring no more paths."""
        rates = self._work
        found = [rates[self.root]]
        if rates is self._paths and all(
            node.is_simple for node in reversed(rates)
        ):  # those that lead to others come last
            return found
        inner = self._leading_down()
        while len(found) < MAX_LEVELS and found[-1] < _SATURATED:
            sums: dict[Node, tuple[int, int]] = {}
            for node in inner:
                named, placed = node.most_below(rates)
                for each in node.in_place:
                    if each in sums:
                        named += node.factor * sums[each][0]
                        placed += node.factor * sums[each][1]
                sums[node] = (min(named, _SATURATED), min(placed, _SATURATED))
            deeper = {node: max(self._work[node], *sums[node]) for node in inner}
            if all(rates[node] == rate for node, rate in deeper.items()):
                return found
            rates = {**rates, **deeper}
            found.append(rates[self.root])
        self.is_bounded = False
        return found

    def _leading_down(self) -> list[Node]:
        """The nodes that apply a subschema to a member, themselves or by what they lead to in place, which comes before them. All others
        have the same rate on each level, and add nothing to that of the nodes above."""
        found: dict[Node, None] = {}
        for node in self._paths:
            if node.leads_down or (node.in_place and not found.keys().isdisjoint(node.in_place)):
                found[node] = None
        return list(found)


def _joined(base: str, reference: str) -> str:
    return base + reference if reference.startswith("#") else urljoin(base, reference)

"""Does a value fit a schema? The work is bounded, whatever the schema and the value are.

Each subschema is applied to each part of the value once, and the verdict is kept: unions in unions do not multiply. The keywords that need
no other subschema are left to jsonschema-rs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import jsonschema_rs

from clicket.tools.schema_graph import Node, SchemaGraph, may_backtrack

__all__ = ["COUNTED", "PATTERNS", "Judge", "TooMuchWork", "Verdicts", "as_text", "bounded", "is_of_type", "tags"]


_SIZE = 256 * 1024
PATTERNS = jsonschema_rs.FancyRegexOptions(backtrack_limit=20_000, size_limit=_SIZE)
"""A pattern that looks ahead or back takes a millisecond at most; all others take linear time."""
_QUICK = jsonschema_rs.FancyRegexOptions(backtrack_limit=500, size_limit=_SIZE)
"""Enough for most texts, and so little that it need not be counted."""
_PATTERN_STEPS = 400
"""Steps for a text that the quick limit was not enough for, or that does not match."""
_SKIPPED_PER_STEP = 8
_NAMES_PER_STEP = 50
_LETTERS_PER_STEP = 50
COUNTED = frozenset(("enum", "required", "dependentRequired"))
_TYPES: Mapping[str, tuple[type, ...]] = {
    "array": (list, tuple),
    "boolean": (bool,),
    "null": (type(None),),
    "number": (int, float),
    "integer": (int, float),
    "object": (dict,),
    "string": (str,),
}


class TooMuchWork(Exception):
    """The value was not judged within the steps that were allowed."""


class Judge:
    """Judges values by one schema. `mask` replaces values in messages."""

    def __init__(self, graph: SchemaGraph, mask: str | None = None) -> None:
        self.graph = graph
        self.mask = mask
        self._tags: dict[int, dict[str, list[str]]] = {}
        self._quick: dict[str | int, jsonschema_rs.Draft202012Validator] = {}
        self._validators: dict[str | int, jsonschema_rs.Draft202012Validator] = {}
        self._listed: dict[int, frozenset[str]] = {}

    def fits(self, value: Any, max_steps: int) -> bool:
        """A step is one subschema that is applied to one part of the value. `TooMuchWork`: that many steps were not enough."""
        with bounded():
            return Verdicts(self, max_steps).fits(self.graph.root, value)

    def own(self, node: Node) -> jsonschema_rs.Draft202012Validator:
        """The validator of a node's own keywords."""
        validator = self._validators.get(node.index)
        if validator is None:
            schema = {**node.own, "$ref": node.foreign} if node.foreign else node.own
            validator = self._validators[node.index] = self.compiled(schema, self.mask)
        return validator

    def rest(self, node: Node) -> jsonschema_rs.Draft202012Validator:
        """As `own`, without the keywords whose work is counted here: those with many names or values."""
        key = f"rest {node.index}"
        validator = self._validators.get(key)
        if validator is None:
            own = {word: value for word, value in node.own.items() if word not in COUNTED}
            schema = {**own, "$ref": node.foreign} if node.foreign else own
            validator = self._validators[key] = self.compiled(schema, self.mask)
        return validator

    def lists(self, node: Node, text: str) -> bool:
        """Is it the text (`as_text`) of a value of the node's `enum`?"""
        listed = self._listed.get(node.index)
        if listed is None:
            listed = self._listed[node.index] = frozenset(map(as_text, node.own["enum"]))
        return text in listed

    def has_other_tag(self, node: Node, value: Any) -> bool:
        """Does the subschema want another text in a field than the value has there?"""
        if type(value) is not dict:
            return False
        wanted = self._tags.get(node.index)
        if wanted is None:
            wanted = self._tags[node.index] = dict(tags(node))
        for name, allowed in wanted.items():
            given = value.get(name)
            if type(given) is str and given not in allowed:
                return True
        return False

    def pattern(self, pattern: str) -> jsonschema_rs.Draft202012Validator:
        """The validator of a pattern for names."""
        validator = self._validators.get(pattern)
        if validator is None:
            validator = self._validators[pattern] = self.compiled({"pattern": pattern}, None)
        return validator

    def quick(self, key: str | int, schema: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
        """A validator that gives up early, where a pattern may look back again and again."""
        validator = self._quick.get(key)
        if validator is None:
            validator = self._quick[key] = jsonschema_rs.Draft202012Validator(schema, pattern_options=_QUICK)
        return validator

    @staticmethod
    def compiled(schema: dict[str, Any], mask: str | None) -> jsonschema_rs.Draft202012Validator:
        return jsonschema_rs.Draft202012Validator(schema, mask=mask, pattern_options=PATTERNS)


@contextmanager
def bounded() -> Iterator[None]:
    """Values and schemas may be nested deeper together than Python's stack."""
    try:
        yield
    except RecursionError:
        raise TooMuchWork from None


class Verdicts:
    """The judgement of one value, with the verdicts that were made on the way. They hold as long as the value is not changed."""

    def __init__(self, judge: Judge, max_steps: int) -> None:
        self._judge = judge
        self._left = max_steps
        self._verdicts: dict[tuple[int, int], bool] = {}
        self._checked: dict[tuple[int, int], set[Any]] = {}

    def step(self, count: int = 1) -> None:
        self._left -= count
        if self._left < 0:
            raise TooMuchWork

    # The verdict.

    def fits(self, node: Node, value: Any) -> bool:
        key = (node.index, id(value))
        verdict = self._verdicts.get(key)
        if verdict is None:
            self.step()
            verdict = self._verdicts[key] = node.allowed and self.fits_own(node, value) and self._fits_all(node, value)
        return verdict

    def fits_own(self, node: Node, value: Any) -> bool:
        if not (node.own or node.foreign):
            return True
        if node.weight:
            return self._fits_many(node, value)
        whole = self._judge.own(node)
        if not node.backtracks or not isinstance(value, str):
            return whole.is_valid(value)
        return self._judge.quick(node.index, node.own).is_valid(value) or self._fits_slowly(whole, value)

    def _fits_many(self, node: Node, value: Any) -> bool:
        """For own keywords with many names or values."""
        if "enum" in node.own:
            text = as_text(value)
            self.step(len(text) // _LETTERS_PER_STEP)
            if not self._judge.lists(node, text):
                return False
        return next(self.missing(node, value), None) is None and self._judge.rest(node).is_valid(value)

    def missing(self, node: Node, value: Any) -> Iterator[str]:
        """Names that `required` and `dependentRequired` want and that the value lacks."""
        if not isinstance(value, dict):
            return
        dependent = node.own.get("dependentRequired", {})
        for names in (node.own.get("required", ()), *(names for name, names in dependent.items() if name in value)):
            self.step(len(names) // _NAMES_PER_STEP)
            for name in names:
                if name not in value:
                    yield name

    def _fits_slowly(self, validator: jsonschema_rs.Draft202012Validator, text: str) -> bool:
        self.step(_PATTERN_STEPS)
        if validator.is_valid(text):
            return True
        if any("BacktrackLimit" in type(error.kind).__name__ for error in validator.iter_errors(text)):
            raise TooMuchWork  # whether it matches is not known
        return False

    def _matches(self, pattern: str, name: str) -> bool:
        self.step()
        whole = self._judge.pattern(pattern)
        if not may_backtrack(pattern):
            return whole.is_valid(name)
        return self._judge.quick(pattern, {"pattern": pattern}).is_valid(name) or self._fits_slowly(whole, name)

    def _fits_all(self, node: Node, value: Any) -> bool:
        if node.in_place and not self.fits_in_place(node, value):
            return False
        if not (node.one or node.maps or node.lists):
            return True
        if isinstance(value, dict):
            for name in value if "propertyNames" in node.one else ():
                if not self.fits(node.one["propertyNames"], name):
                    return False
        elif not isinstance(value, list | tuple):
            return True
        elif "contains" in node.one and not self.fits_contains(node, value):
            return False
        for _, member, inner in self.members(node, value):
            if not self.fits(inner, member):
                return False
        return next(self.unchecked(node, value), None) is None

    def fits_in_place(self, node: Node, value: Any) -> bool:
        for each in self.demanded(node, value):
            if not self.fits(each, value):
                return False
        if "anyOf" in node.lists and next(self.fitting(node, "anyOf", value), None) is None:
            return False
        if "oneOf" in node.lists:
            fitting = self.fitting(node, "oneOf", value)
            if next(fitting, None) is None or next(fitting, None) is not None:
                return False
        return "not" not in node.one or not self.fits(node.one["not"], value)

    def fitting(self, node: Node, word: str, value: Any) -> Iterator[Node]:
        """The alternatives of a union that the value fits. Those with another tag are skipped without a look at the rest."""
        alternatives = node.lists.get(word, [])
        self._left -= len(alternatives) // _SKIPPED_PER_STEP
        for each in alternatives:
            if not self._judge.has_other_tag(each, value) and self.fits(each, value):
                yield each

    def _conditional(self, node: Node, value: Any) -> list[Node]:
        """The subschemas that hold because of what the value is."""
        found: list[Node] = []
        if "if" in node.one:
            word = "then" if self.fits(node.one["if"], value) else "else"
            found += [node.one[word]] if word in node.one else []
        if isinstance(value, dict):
            found += [inner for name, inner in node.maps.get("dependentSchemas", {}).items() if name in value]
        return found

    def demanded(self, node: Node, value: Any) -> list[Node]:
        """The subschemas that must fit in place. What the old `dependencies` checks does not count as checked."""
        found = [*node.refs, *node.lists.get("allOf", ()), *self._conditional(node, value)]
        if isinstance(value, dict) and "dependencies" in node.maps:
            found += [inner for name, inner in node.maps["dependencies"].items() if name in value]
        return found

    def fits_contains(self, node: Node, value: Any) -> bool:
        if not isinstance(node.schema, Mapping):
            return True
        found = sum(self.fits(node.one["contains"], item) for item in value)
        return bool(node.schema.get("minContains", 1) <= found <= node.schema.get("maxContains", found))

    def members(self, node: Node, value: Any) -> Iterator[tuple[str | int, Any, Node]]:
        """The members of the value, each with a subschema that is applied to it."""
        if isinstance(value, dict):
            named = node.maps.get("properties", {})
            patterns = node.maps.get("patternProperties")
            others = node.one.get("additionalProperties")
            if patterns is None and others is None:
                for name, inner in named.items():
                    if name in value:
                        yield name, value[name], inner
                return
            for name, member in value.items():
                fitting = [named[name]] if name in named else []
                for pattern, inner in (patterns or {}).items():
                    if self._matches(pattern, name):
                        fitting.append(inner)
                for inner in fitting or ([others] if others is not None else []):
                    yield name, member, inner
        elif isinstance(value, list | tuple):
            first = node.lists.get("prefixItems", [])
            rest = node.one.get("items")
            for place, member in enumerate(value):
                inner_ = first[place] if place < len(first) else rest
                if inner_ is None:
                    return
                yield place, member, inner_

    # What other subschemas have checked, for `unevaluatedProperties` and `unevaluatedItems`.

    def unchecked(self, node: Node, value: Any) -> Iterator[tuple[str | int, Any, Node]]:
        """Members that no other subschema has checked and that do not fit the one for such members."""
        word = "unevaluatedProperties" if isinstance(value, dict) else "unevaluatedItems"
        if word in node.one and isinstance(value, dict | list | tuple):
            checked = self._checked_in(node, value)
            for key, member in value.items() if isinstance(value, dict) else enumerate(value):
                if key not in checked and not self.fits(node.one[word], member):
                    yield key, member, node.one[word]

    def _checked_by(self, node: Node, value: Any) -> Collection[Any]:
        """The members that a subschema of the same value has checked; none if the value does not fit it."""
        if not self.fits(node, value):
            return ()
        word = "unevaluatedProperties" if isinstance(value, dict) else "unevaluatedItems"
        if word in node.one:
            return value if isinstance(value, dict) else range(len(value))
        return self._checked_in(node, value)

    def _checked_in(self, node: Node, value: Any) -> set[Any]:
        key = (node.index, id(value))
        checked = self._checked.get(key)
        if checked is None:
            self.step()
            checked = {name for name, _, _ in self.members(node, value)}
            if isinstance(value, list | tuple) and "contains" in node.one:
                checked |= {place for place, item in enumerate(value) if self.fits(node.one["contains"], item)}
            unions = [each for word in ("allOf", "anyOf", "oneOf") for each in node.lists.get(word, ())]
            condition = [node.one["if"]] if "if" in node.one else []
            for each in (*node.refs, *unions, *condition, *self._conditional(node, value)):
                checked.update(self._checked_by(each, value))
            self._checked[key] = checked
        return checked


def tags(given: Node) -> Iterator[tuple[str, list[str]]]:
    """The fields for which a subschema lists the texts that it takes, and these."""
    node = _followed(given)
    for name, field in node.maps.get("properties", {}).items():
        own = _followed(field).own
        choices = [own["const"]] if "const" in own else own.get("enum")
        if isinstance(choices, list | tuple) and all(isinstance(each, str) for each in choices):
            yield name, list(choices)


def _followed(node: Node) -> Node:
    """What a node refers to, if it is nothing but a reference."""
    while len(node.in_place) == 1 and node.refs and not (node.own or node.maps or node.one):
        node = node.refs[0]
    return node


def is_of_type(kinds: Any, value: Any) -> bool:
    """Has the value one of these JSON types? Every number passes for an integer: the schema's own check is exact."""
    for kind in (kinds,) if isinstance(kinds, str) else kinds:
        if isinstance(value, _TYPES.get(kind, ())) and (kind == "boolean" or not isinstance(value, bool)):
            return True
    return False


def as_text(value: Any) -> str:
    """A text that equal values have in common. A set of texts takes linear time, whatever they are: numbers can be made to collide."""
    if isinstance(value, dict):
        members = sorted(f"{as_text(name)}:{as_text(member)}" for name, member in value.items())
        return "{" + ",".join(members) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(as_text, value)) + "]"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return hex(value) if type(value) is int else repr(value)

"""Conditions on arguments, which are untrusted. A condition that cannot be evaluated fails closed: met for deny and ask, not for allow.

A condition sees plain JSON only, never the caller's objects. `*` in a path matches any member. To deny or to ask, one member that
meets the condition is enough; to allow, every member must meet it, and there must be one. A field that was not sent has its
default in the tool's schema; without a default it is absent, and only `!=`, `not_in` and `exists` apply to an absent field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

import jsonschema_rs
import msgspec

from clicket.errors import ClicketError, InvalidInput, UsageError, did_you_mean
from clicket.model.arguments import parse_arguments
from clicket.model.codec import canonical

__all__ = ["OPS", "ArgumentValues", "CompiledCondition", "Condition", "Verdict", "with_defaults"]

Verdict = Literal["allow", "deny", "ask"]

MAX_PATTERN = 500
MAX_TEXT = 10 * 1024
"""Longer texts are not matched against patterns: the condition cannot be evaluated."""
MAX_MEMBERS = 10_000
"""The most values that `*` or `contains` may read; with more, the condition cannot be evaluated."""

_MAX_DEFAULTS = 5_000
_ABSENT: Any = msgspec.UNSET
_NOT_GIVEN: Any = msgspec.UNSET
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_BAD_ESCAPE = re.compile(r"~(?![01])")
_NEGATIVE = frozenset({"!=", "not_in"})


class _NotEvaluable(Exception):
    """The operator does not apply to a value of this type."""


# What an operator's value must be, if it is wrong; else an empty text. The message starts with "value must be".


def _anything(value: Any) -> str:
    try:
        parse_arguments({"value": value}, max_size=1024 * 1024)
    except InvalidInput:
        return "plain JSON: text, a finite number, true, false, null, a list or a table of these"
    return ""


def _sortable(value: Any) -> str:
    return "" if _kind(value) in ("number", "text") and not _anything(value) else "a number or text"


def _listed(value: Any) -> str:
    return "" if isinstance(value, list | tuple) and not _anything(value) else "a list"


def _text(value: Any) -> str:
    fits = type(value) is str and len(value) <= MAX_PATTERN
    return "" if fits else f"text of at most {MAX_PATTERN} characters"


def _pattern(value: Any) -> str:
    if bad := _text(value):
        return bad
    try:
        _compiled(value)
    except UsageError as error:
        return error.message
    return ""


def _count(value: Any) -> str:
    return "" if type(value) is int and value >= 0 else "a whole number of at least 0"


def _yes_or_no(value: Any) -> str:
    return "" if type(value) is bool or value is _NOT_GIVEN else "true or false"


# How each operator tests one value. `wanted` comes from the table's third column.


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "yes or no"
    if isinstance(value, int | float):
        return "number"
    return "text" if isinstance(value, str) else "other"


def _ordered(value: Any, wanted: Any) -> int:
    kind = _kind(value)
    if kind != _kind(wanted) or kind not in ("number", "text"):
        raise _NotEvaluable
    return -1 if value < wanted else 1 if value > wanted else 0


def _short(value: Any) -> str:
    if type(value) is not str or len(value) > MAX_TEXT:
        raise _NotEvaluable
    return value


def _contains(value: Any, wanted: Any) -> bool:
    if type(value) is str:
        if type(wanted) is not str:
            raise _NotEvaluable
        return wanted in value
    if type(value) is dict:
        return type(wanted) is str and wanted in value
    if type(value) is list and len(value) <= MAX_MEMBERS:
        sought = canonical(wanted)
        return any(canonical(member) == sought for member in value)
    raise _NotEvaluable


def _longer(value: Any, wanted: int) -> bool:
    if type(value) not in (str, list, dict):
        raise _NotEvaluable
    return len(value) > wanted


def _compiled(pattern: str) -> Callable[[str], bool]:
    """Does the whole text match? The engine takes linear time in the text, so no text can block it."""
    options = jsonschema_rs.RegexOptions(size_limit=1024 * 1024)
    try:
        # Compiled alone first: `a)|(b` is not a pattern, and must not become one inside the group.
        jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=options)
        made = jsonschema_rs.Draft202012Validator({"pattern": rf"\A(?s:{pattern})\z"}, pattern_options=options)
    except ValueError:
        raise UsageError(
            "a regular expression (no look-around, no references back, and not too big); this one cannot be used"
        ) from None
    return made.is_valid


class _Op(msgspec.Struct, frozen=True):
    """An operator: the check of its value, its test, and what is computed once from its value."""

    complaint: Callable[[Any], str]
    test: Callable[[Any, Any], bool]
    prepare: Callable[[Any], Any] = lambda value: value


OPS: Mapping[str, _Op] = {
    "==": _Op(_anything, lambda value, wanted: canonical(value) == wanted, canonical),
    "!=": _Op(_anything, lambda value, wanted: canonical(value) != wanted, canonical),
    "<": _Op(_sortable, lambda value, wanted: _ordered(value, wanted) < 0),
    "<=": _Op(_sortable, lambda value, wanted: _ordered(value, wanted) <= 0),
    ">": _Op(_sortable, lambda value, wanted: _ordered(value, wanted) > 0),
    ">=": _Op(_sortable, lambda value, wanted: _ordered(value, wanted) >= 0),
    "in": _Op(_listed, lambda value, wanted: canonical(value) in wanted, lambda given: {canonical(v) for v in given}),
    "not_in": _Op(
        _listed, lambda value, wanted: canonical(value) not in wanted, lambda given: {canonical(v) for v in given}
    ),
    "matches": _Op(_pattern, lambda value, matches: matches(_short(value)), _compiled),
    "glob": _Op(_text, lambda value, wanted: fnmatchcase(_short(value), wanted)),
    "contains": _Op(_anything, _contains),
    "longer_than": _Op(_count, _longer),
    "exists": _Op(_yes_or_no, lambda value, wanted: (value is not _ABSENT) is (wanted is not False)),
}


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """One condition on the arguments: `Condition(path="/amount", op=">", value=100)`.

    `path` is a JSON pointer; `*` in it matches any member of a list or an object. `op` is one of == != < <= > >= in not_in
    matches (a regular expression for the whole text) glob contains exists longer_than.
    """

    path: str
    """Where the value is in the arguments, as a JSON pointer: `/amount`."""
    op: str = "=="
    """How the value is compared."""
    value: Any = _NOT_GIVEN
    """What it is compared with."""

    def __post_init__(self) -> None:
        if type(self.path) is not str or (self.path and not self.path.startswith("/")):
            near = f" Write {'/' + self.path!r}." if type(self.path) is str else ""
            raise UsageError(f"path {self.path!r} is not a JSON pointer: it must start with a slash.{near}")
        if _BAD_ESCAPE.search(self.path):
            raise UsageError(
                f"path {self.path!r} is not a JSON pointer: write ~0 for a tilde and ~1 for a slash in a name."
            )
        op = OPS.get(self.op) if type(self.op) is str else None
        if op is None:
            raise UsageError(f"unknown op {self.op!r}.{did_you_mean(str(self.op), OPS)} Known: {', '.join(OPS)}.")
        if self.value is _NOT_GIVEN and self.op != "exists":
            raise UsageError(f"op {self.op!r} needs a value.")
        complaint = op.complaint(self.value)
        if complaint:
            raise UsageError(f"op {self.op!r}: value must be {complaint}, not {self.value!r}.")


class ArgumentValues:
    """The arguments of one call as plain JSON, read once, when the first condition is evaluated."""

    def __init__(self, given: Any, schema: Mapping[str, Any], max_size: int) -> None:
        self._given = given
        self._schema = schema
        self._max_size = max_size
        self._refused = False
        self.plain: dict[str, Any] | None = None
        """None: no condition has read them, or they cannot be read."""

    def read(self) -> dict[str, Any]:
        if self._refused:
            raise _NotEvaluable
        if self.plain is None:
            try:
                self.plain = parse_arguments(self._given, max_size=self._max_size)
            except ClicketError:
                self._refused = True
                raise _NotEvaluable from None
        return self.plain

    def find(self, parts: tuple[str, ...], *, defaults: bool) -> list[Any]:
        """The values at a path; `_ABSENT` for one that is missing."""
        found: list[Any] = []
        for value in _walk(self.read(), parts, (self._schema,) if defaults else (), _KnownSchemas(self._schema)):
            found.append(value)
            if len(found) > MAX_MEMBERS:
                raise _NotEvaluable
        return found


class CompiledCondition:
    """A compiled condition."""

    def __init__(self, condition: Condition) -> None:
        op = OPS[condition.op]
        self._name = condition.op
        self._test = op.test
        self._wanted = op.prepare(condition.value)
        pieces = condition.path.split("/")[1:]
        self._parts = tuple(piece.replace("~1", "/").replace("~0", "~") for piece in pieces)

    def is_met(self, arguments: ArgumentValues, *, closed: bool) -> bool:
        """`closed`: a condition that cannot be evaluated is met (for deny and ask); else it is not (for allow)."""
        try:
            values = arguments.find(self._parts, defaults=self._name != "exists")
        except Exception:
            return closed
        if not values:
            return self._name == "exists" and self._wanted is False
        results = (self._one(value, closed) for value in values)
        return any(results) if closed else all(results)

    def _one(self, value: Any, closed: bool) -> bool:
        if value is _ABSENT and self._name != "exists":
            return closed and self._name in _NEGATIVE
        try:
            return self._test(value, self._wanted)
        except Exception:
            return closed


def _walk(value: Any, parts: tuple[str, ...], schemas: Sequence[Any], known: _KnownSchemas) -> Iterator[Any]:
    """Every value at the path. `schemas` describe `value`, as far as is known, and give the defaults."""
    if not parts:
        yield value
        return
    name, rest = parts[0], parts[1:]
    fitting = known.alternatives(schemas)
    if type(value) is dict:
        if name == "*":
            for key, member in value.items():
                yield from _walk(member, rest, known.properties(fitting, key), known)
        elif name in value:
            yield from _walk(value[name], rest, known.properties(fitting, name), known)
        else:
            yield from _left_out(known.properties(fitting, name), rest, known)
    elif type(value) is list:
        if name == "*":
            for place, member in enumerate(value):
                yield from _walk(member, rest, known.items(fitting, place), known)
        elif not _INDEX.fullmatch(name):
            raise _NotEvaluable
        elif int(name) < len(value):
            yield from _walk(value[int(name)], rest, known.items(fitting, int(name)), known)
        elif "*" not in rest:
            yield _ABSENT
    else:
        raise _NotEvaluable


def _left_out(schemas: Sequence[Any], rest: tuple[str, ...], known: _KnownSchemas) -> Iterator[Any]:
    """The possible values of a field that was not sent: its default in any of the alternatives, else absent."""
    inner = known.alternatives(schemas)
    given = [each["default"] for each in inner if "default" in each]
    for default in given:
        yield from _walk(default, rest, inner, known)
    if not given and "*" not in rest:
        yield _ABSENT


def with_defaults(arguments: dict[str, Any], schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The arguments with the default of each field that was not sent, at every depth. None: a field has several defaults, so it is not
    known which one the tool gets; or the defaults have too many fields with defaults of their own."""
    try:
        filled: dict[str, Any] = _Filling(_KnownSchemas(schema)).filled(arguments, (schema,))
    except (_NotEvaluable, RecursionError):
        return None
    return filled


class _Filling:
    """Fills in defaults, up to a number of them: one default may bring fields with defaults of their own, and these again."""

    def __init__(self, known: _KnownSchemas) -> None:
        self._known = known
        self._left = _MAX_DEFAULTS

    def filled(self, value: Any, schemas: Sequence[Any]) -> Any:
        known = self._known
        fitting = known.alternatives(schemas)
        if type(value) is list:
            return [self.filled(member, known.items(fitting, place)) for place, member in enumerate(value)]
        if type(value) is not dict:
            return value
        whole = {name: self.filled(member, known.properties(fitting, name)) for name, member in value.items()}
        for name in known.declared(fitting):
            if name in value:
                continue
            inner = known.alternatives(known.properties(fitting, name))
            defaults = {canonical(each["default"]): each["default"] for each in inner if "default" in each}
            if len(defaults) > 1:
                raise _NotEvaluable
            for default in defaults.values():
                self._left -= 1
                if self._left < 0:
                    raise _NotEvaluable
                whole[name] = self.filled(default, inner)
        return whole


class _KnownSchemas:
    """The schemas for the parts of a value, looked up once for each kind of part. They are known by identity, as long as this exists."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._alternatives: dict[tuple[int, ...], list[Mapping[str, Any]]] = {}
        self._properties: dict[tuple[int, str], list[Any]] = {}
        self._items: dict[tuple[int, int], list[Any]] = {}
        self._prefixes: dict[int, int] = {}
        self._declared: dict[int, list[str]] = {}
        self._used: list[Sequence[Any]] = []

    def alternatives(self, schemas: Sequence[Any]) -> list[Mapping[str, Any]]:
        key = tuple(map(id, schemas))
        found = self._alternatives.get(key)
        if found is None:
            found = self._alternatives[key] = _alternatives(schemas, self._root)
            self._used.append(schemas)  # an identity is one only as long as its object lives
        return found

    def properties(self, fitting: list[Mapping[str, Any]], name: str) -> list[Any]:
        key = (id(fitting), name)
        found = self._properties.get(key)
        if found is None:
            found = _properties(fitting, name)
            if len(self._properties) < MAX_MEMBERS:
                self._properties[key] = found
        return found

    def items(self, fitting: list[Mapping[str, Any]], place: int) -> list[Any]:
        first = self._prefixes.get(id(fitting))
        if first is None:
            prefixes = [each.get("prefixItems") for each in fitting]
            first = self._prefixes[id(fitting)] = max(
                (len(p) for p in prefixes if isinstance(p, list | tuple)), default=0
            )
        key = (id(fitting), min(place, first))
        found = self._items.get(key)
        if found is None:
            found = self._items[key] = _items(fitting, place)
        return found

    def declared(self, fitting: list[Mapping[str, Any]]) -> list[str]:
        """The names of the fields that the schemas declare."""
        found = self._declared.get(id(fitting))
        if found is None:
            tables = [each["properties"] for each in fitting if isinstance(each.get("properties"), Mapping)]
            found = self._declared[id(fitting)] = list(dict.fromkeys(name for table in tables for name in table))
        return found


def _properties(schemas: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    """The schemas of a member: by its name, or the one for other members."""
    found = []
    for schema in schemas:
        properties = schema.get("properties")
        if isinstance(properties, Mapping) and name in properties:
            found.append(properties[name])
        else:
            found.append(schema.get("additionalProperties"))
        patterns = schema.get("patternProperties")  # any of them may apply; the validator decides which
        found += patterns.values() if isinstance(patterns, Mapping) else ()
    return found


def _items(schemas: Sequence[Mapping[str, Any]], place: int) -> list[Any]:
    found = []
    for schema in schemas:
        first = schema.get("prefixItems")
        first = first if isinstance(first, list | tuple) else ()
        found.append(first[place] if place < len(first) else schema.get("items"))
    return found


def _alternatives(schemas: Sequence[Any], root: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Schemas with all that they refer to or are composed of."""
    found: list[Mapping[str, Any]] = []
    followed: set[str] = set()
    waiting = list(schemas)
    known = root.get("$defs")
    while waiting:
        schema = waiting.pop()
        if not isinstance(schema, Mapping):
            continue
        found.append(schema)
        for word in ("anyOf", "oneOf", "allOf"):
            waiting += schema.get(word) or ()
        waiting += (schema.get("then"), schema.get("else"))
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/$defs/") and reference not in followed:
            followed.add(reference)
            waiting.append(known.get(reference.removeprefix("#/$defs/")) if isinstance(known, Mapping) else None)
    return found

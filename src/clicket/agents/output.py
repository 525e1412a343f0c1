"""What the answer of an agent must be: a type or a JSON Schema, and how a model's text becomes a value of it.

Models and their vendors want an object at the root of a schema. A type that is not an object is asked for as `{"answer": …}`, which its
values do not have; a model that leaves that out is understood, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Generic, TypeVar, overload

import msgspec

from clicket.errors import InvalidInput, UsageError
from clicket.model.arguments import parse_arguments
from clicket.model.codec import canonical, decode, encode, is_small
from clicket.model.text.json_in_text import MAX_TEXT, json_in_text
from clicket.tools.check import CompiledSchema
from clicket.tools.model_arguments import without_nulls
from clicket.tools.value_type import ValueType, rooted

__all__ = ["Output", "Read"]

T = TypeVar("T")
V = TypeVar("V")

_WHERE = "output"
_FIELD = "answer"
_ABOUT = "The answer is the value of the field `answer`."
"""Marks a schema that was wrapped here: a type of the caller's may have a single field `answer`, too."""
_WHOLE = "(answer)"
_MAX_ERRORS = 3
_MAX_ERROR = 500
_MAX_SCHEMA = 256 * 1024
_MAX_PARTS = 20_000
_DIGEST = 16
_COMPOSED = frozenset("allOf anyOf oneOf not if then else enum const $ref $dynamicRef".split())
_WORDS = _COMPOSED | set(
    "type properties patternProperties additionalProperties items prefixItems required $defs".split()
)
_DATA = frozenset(("const", "default", "enum", "examples"))
_UNFIT = re.compile(r"[^A-Za-z0-9]+")


class Read(msgspec.Struct, frozen=True):
    """A model's answer: plain JSON that fits, or at most three lines for the model that say what is wrong."""

    value: Any = None
    errors: tuple[str, ...] = ()


class Output(Generic[T]):
    """Made by `of` or `from_schema`. `schema` is what a model is asked for, `name` what vendors call it, `digest` that of the schema."""

    def __init__(self, schema: Mapping[str, Any], kind: ValueType | None) -> None:
        """`schema` is that of the values. Raises `UsageError` if it is not a schema, or can cause more work than is allowed."""
        self._check = CompiledSchema(schema, f"{_WHERE}: its JSON Schema")
        self._inner = schema
        self._kind = kind
        self._wraps = schema.get("type") != "object" or not _COMPOSED.isdisjoint(schema)
        self.schema: dict[str, Any] = _wrapped(schema) if self._wraps else dict(schema)
        self.name: str = _name(schema.get("title"))
        self.digest: str = sha256(canonical(self.schema)).hexdigest()[:_DIGEST]

    def __repr__(self) -> str:
        return f"Output({self.name})"

    @overload
    @staticmethod
    def of(given: Output[V]) -> Output[V]: ...
    @overload
    @staticmethod
    def of(given: type[V]) -> Output[V]: ...
    @overload
    @staticmethod
    def of(given: Any) -> Output[Any]: ...
    @staticmethod
    def of(given: Any) -> Output[Any]:
        """A pydantic model, a dataclass, a `msgspec.Struct`, a `TypedDict`, any other type such as `list[int]`, or a JSON Schema. Raises
        `UsageError`."""
        if isinstance(given, Output):
            return given
        if isinstance(given, Mapping):
            return Output(_plain_schema(given), None)
        kind = ValueType(given, _WHERE)
        return Output(kind.schema, kind)

    @staticmethod
    def from_schema(schema: Mapping[str, Any]) -> Output[Any]:
        """From a recorded `schema`: where the type is not at hand, values are plain JSON."""
        plain = _plain_schema(schema)
        if plain.get("description") != _ABOUT or list(plain.get("properties", ())) != [_FIELD]:
            return Output(plain, None)
        return Output(_unwrapped(plain), None)

    def read(self, text: str) -> Read:
        """The answer in a model's text: it is JSON, or has JSON in a code fence or among prose. Never raises."""
        found = json_in_text(text)
        if found.broken or not found.values:
            return Read(errors=(_line("", found.broken or "there is no JSON in the text"), self._wanted()))
        if len(found.values) == 1 and isinstance(found.values[0], str):
            return self._read_text(found.values[0])
        reads = [self.read_value(value) for value in found.values]
        right = {canonical(read.value): read for read in reads if not read.errors}
        if len(right) > 1:
            several = f"the text has {len(right)} different JSON values that fit the schema. Write only one"
            return Read(errors=(_line("", several),))
        return next(iter(right.values()), reads[-1])

    def _read_text(self, value: str) -> Read:
        """A JSON string; if that does not fit, what it has may be JSON that was encoded twice."""
        read = self.read_value(value)
        inside = json_in_text(value).values if read.errors else ()
        return self.read_value(inside[0]) if len(inside) == 1 else read

    def read_value(self, value: Any) -> Read:
        """The answer in parsed JSON, such as the arguments of a tool that takes the answer. Never raises."""
        try:
            plain = parse_arguments({_FIELD: value}, max_size=8 * MAX_TEXT)[_FIELD]
        except InvalidInput as error:
            inside = ({**each, "path": each["path"].removeprefix(f"/{_FIELD}")} for each in error.problems)
            return Read(errors=_lines(inside, ""))
        if not self._wraps:
            return self._judged(plain, "")
        if isinstance(plain, dict) and list(plain) == [_FIELD]:
            read = self._judged(plain[_FIELD], f"/{_FIELD}")
            return read if not read.errors or self._judged(plain, "").errors else self._judged(plain, "")
        read = self._judged(plain, "")
        return Read(errors=(*read.errors[: _MAX_ERRORS - 1], self._wanted())) if read.errors else read

    def typed(self, value: Any) -> T:
        """A value of `read` as an instance of the type; plain JSON if there is only a schema. Raises `InvalidInput`."""
        made: T = value if self._kind is None else self._kind.convert(value)
        return made

    def _judged(self, value: Any, path: str) -> Read:
        if isinstance(value, dict | list):
            value = without_nulls(
                value, self._inner
            )  # vendors that want each field have null for those that are left out
        problems = self._check.problems(value)
        if not problems and self._kind is not None:
            try:
                self._kind.convert(value)
            except InvalidInput as error:
                problems = error.problems
        return Read(errors=_lines(problems, path)) if problems else Read(value)

    def _wanted(self) -> str:
        what = '{"answer": …}, in which … fits the schema' if self._wraps else "one JSON object that fits the schema"
        return f"Answer with {what}, and with nothing else."


def _plain_schema(given: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a schema from outside. `UsageError` if it is none, or is too big to look at."""
    if not is_small(given if type(given) is dict else dict(given), _MAX_PARTS, _MAX_SCHEMA):
        raise UsageError(f"{_WHERE}: its JSON Schema is too big, too deep or holds itself. Make it smaller.")
    try:
        schema = decode(encode(dict(given)))
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{_WHERE}: its JSON Schema is not JSON: {error}.") from None
    if _WORDS.isdisjoint(schema):
        raise UsageError(
            f"{_WHERE}: the dict is not a JSON Schema: it has none of the keywords type, properties, enum, anyOf … An example of an answer "
            "does not say what other answers may be; give a type or a schema."
        )
    schema.pop("$schema", None)
    return rooted(schema)


def _wrapped(schema: Mapping[str, Any]) -> dict[str, Any]:
    """An object with the schema in the field `answer`. Definitions stay at the root, where vendors look for them."""
    own_id = "$id" in schema  # its references are then resolved in it, wherever it is
    inner = dict(schema) if own_id else _moved(schema, f"#/properties/{_FIELD}", "#")
    definitions = {} if own_id else {word: inner.pop(word) for word in ("$defs",) if word in inner}
    return {
        "type": "object",
        "description": _ABOUT,
        "properties": {_FIELD: inner},
        "required": [_FIELD],
        "additionalProperties": False,
        **definitions,
    }


def _unwrapped(schema: Mapping[str, Any]) -> dict[str, Any]:
    inner = schema["properties"][_FIELD]
    definitions = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    return (
        {**inner, **definitions} if "$id" in inner else _moved({**inner, **definitions}, "#", f"#/properties/{_FIELD}")
    )


def _moved(part: Any, to: str, root: str) -> Any:
    """The schema with its references to the root, and to other places than definitions, at another place."""
    if isinstance(part, Mapping):
        return {
            word: f"{to}{inner.removeprefix(root)}"
            if word == "$ref" and _is_moved(inner, root)
            else (inner if word in _DATA else _moved(inner, to, root))
            for word, inner in part.items()
        }
    return [_moved(each, to, root) for each in part] if isinstance(part, list) else part


def _is_moved(reference: Any, root: str) -> bool:
    if not isinstance(reference, str) or reference.startswith("#/$defs/"):
        return False
    return reference == root or reference.startswith(f"{root}/")


def _name(title: Any) -> str:
    name = _UNFIT.sub("_", title).strip("_")[:60] if isinstance(title, str) else ""
    return name or _FIELD


def _lines(problems: Any, path: str) -> tuple[str, ...]:
    listed = list(problems)
    lines = [_line(path + each["path"], each["message"]) for each in listed[:_MAX_ERRORS]]
    if len(listed) > _MAX_ERRORS:
        lines[-1] += " (and there are more errors)"
    return tuple(lines)


def _line(path: str, message: str) -> str:
    text = " ".join(message.split())
    text = text if len(text) <= _MAX_ERROR else f"{text[:_MAX_ERROR]}…"
    where = path if len(path) <= 200 else f"{path[:200]}…"
    return f"{where or _WHOLE}: {text}"

"""A type that a value must have: its JSON Schema, and the conversion of plain JSON to it.

pydantic reads the types that name something of pydantic's; msgspec reads all others that it knows, and pydantic is not imported for them.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import msgspec

from clicket.errors import InvalidInput, UsageError
from clicket.model.codec import encode, msgspec_problem
from clicket.tools.union_bound import UnionBound

__all__ = ["ValueType", "rooted"]

_Described = tuple[dict[str, Any], Callable[[Any], Any]]
"""The schema of a type, and the conversion to it."""
_OF_PYDANTIC = frozenset({"pydantic", "pydantic_core", "annotated_types"})


class ValueType:
    """`UsageError` for what is not a type, or cannot be described by a JSON Schema. `where` begins its text."""

    def __init__(self, given: Any, where: str) -> None:
        _refuse_values(given, where)
        parts = [*_parts(given, set())]
        schema, self._decode = (
            None if any(map(_is_of_pydantic, parts)) else _of_msgspec(given, parts, where)
        ) or _of_pydantic(given, where)
        self.schema: dict[str, Any] = rooted(schema)
        """An object at the root where the type is one. A model that does not mention further fields would drop them: they are refused."""
        for part in (self.schema, *self.schema.get("$defs", {}).values()):
            if "properties" in part:
                part.setdefault("additionalProperties", False)

    def convert(self, value: Any) -> Any:
        """A value that fits the schema, as the type. Raises `InvalidInput` with what only the type's own checks find."""
        try:
            return self._decode(value)
        except InvalidInput:
            raise
        except Exception as error:  # a check of the author's may fail in any way
            raise InvalidInput(
                f"the type's own check failed: {type(error).__name__}: {error}", whole="(answer)"
            ) from error


def rooted(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema, in place of a reference at its root what that names. Vendors and MCP want an object there."""
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    definitions = schema.get("$defs", {})
    if name not in definitions or not schema.keys() <= {"$ref", "$defs", "title", "description"}:
        return schema
    others = {other: each for other, each in definitions.items() if other != name}
    root = {**definitions[name], **{word: schema[word] for word in ("title", "description") if word in schema}}
    if f'"#/$defs/{name}"'.encode() in encode([root, others]):  # it holds itself
        others = definitions
    return {**root, "$defs": others} if others else root


def _refuse_values(given: Any, where: str) -> None:
    if isinstance(given, type) or typing.get_origin(given) is not None or given is Any:
        return
    kind = type(given)
    if dataclasses.is_dataclass(kind) or isinstance(given, msgspec.Struct) or hasattr(kind, "model_fields"):
        raise UsageError(f"{where}: it is an instance of {kind.__name__}. Give the class itself: {kind.__name__}.")
    if given is None or isinstance(given, str | bytes | int | float | list | tuple | set) or inspect.isroutine(given):
        raise UsageError(f"{where}: {_short(given)} is not a type.")


def _short(given: Any) -> str:
    text = repr(given)
    return text if len(text) <= 80 else f"{text[:80]}…"


def _is_of_pydantic(part: Any) -> bool:
    if hasattr(part, "__get_pydantic_core_schema__") or hasattr(part, "__pydantic_validator__"):
        return True
    return type(part).__module__.partition(".")[0] in _OF_PYDANTIC


def _parts(hint: Any, seen: set[int]) -> Iterator[Any]:
    """A type, and all that its arguments, fields and annotations name."""
    if id(hint) in seen:
        return
    seen.add(id(hint))
    yield hint
    if typing.get_origin(hint) is Annotated:
        yield from hint.__metadata__
    for each in typing.get_args(hint):
        yield from _parts(each, seen)
    origin = typing.get_origin(hint) or hint
    if isinstance(origin, type) and hasattr(origin, "__annotations__") and origin.__module__ != "builtins":
        try:
            hints = typing.get_type_hints(origin, include_extras=True)
        except Exception:  # a name that cannot be resolved here: the library that reads the type says so
            return
        for each in hints.values():
            yield from _parts(each, seen)


def _of_msgspec(kind: Any, parts: list[Any], where: str) -> _Described | None:
    """None: msgspec does not know such types."""
    try:
        schema = msgspec.json.schema(kind)
        strict, lax = msgspec.json.Decoder(kind), msgspec.json.Decoder(kind, strict=False)
    except Exception as error:  # what it raises depends on the type
        if not any(isinstance(part, type) and issubclass(part, msgspec.Struct) for part in parts):
            return None
        first = str(error).split("\n", 1)[0]
        raise UsageError(f"{where}: it cannot be described by a JSON Schema: {first}") from None

    def decode(value: Any) -> Any:
        text = encode(value)
        try:
            return strict.decode(text)
        except msgspec.ValidationError as error:
            try:
                return lax.decode(text)  # JSON Schema takes 1.0 for an integer, and so does this one
            except msgspec.ValidationError:
                raise InvalidInput([msgspec_problem(error)], whole="(answer)") from None

    return schema, decode


def _of_pydantic(kind: Any, where: str) -> _Described:
    from clicket.tools.pydantic_arguments import type_schema

    schema, validate = type_schema(kind, where)
    bound = UnionBound(schema)

    def decode(value: Any) -> Any:
        bound.check(value)
        return validate(encode(value))

    return schema, decode

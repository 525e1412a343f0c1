"""The JSON Schema of a function's parameters, from its type hints, and the conversion of arguments to the hinted types."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from functools import cache, partial
from types import UnionType
from typing import Annotated, Any, Union

from pydantic import ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from clicket.errors import InvalidInput, UsageError
from clicket.model.codec import json_pointer
from clicket.tools.context import ToolContext
from clicket.tools.plain_signature import plain_binder, scalar_binder

__all__ = ["DIALECT", "Binding", "bind_signature", "complaints", "docstring_of"]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_CONFIG = ConfigDict(extra="forbid", arbitrary_types_allowed=False, ser_json_inf_nan="null")


class Binding:
    """The schema of a function's arguments, and how to turn arguments into keywords."""

    __slots__ = ("_fields", "_validate", "bind", "bind_plain", "context", "schema")

    def __init__(
        self,
        schema: dict[str, Any],
        validate: Callable[[Any], Any],
        fields: dict[str, str],
        hints: Mapping[str, Any],
        context: str | None,
    ) -> None:
        self.schema: dict[str, Any] = schema
        self.context: str | None = context
        self._validate = validate
        self._fields = fields
        required = frozenset(schema.get("required", ()))
        self.bind: Callable[[dict[str, Any]], dict[str, Any]] = (
            plain_binder(hints, required, self.convert) or self.convert
        )
        """Keywords for the function, of the types that its hints name. Defaults stay the function's own."""
        self.bind_plain: Callable[[dict[Any, Any]], dict[str, Any] | None] = scalar_binder(hints, required)
        """The same for arguments that need no judging; None for all others."""

    def convert(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """`bind` for every signature: pydantic converts the values, or `InvalidInput` says why it cannot."""
        try:
            values = self._validate(arguments).__dict__
        except ValidationError as error:
            raise complaints(error) from None
        fields = self._fields
        return {name: values[fields[name]] for name in arguments}


def complaints(error: ValidationError) -> InvalidInput:
    """A validation error of pydantic's as an `InvalidInput`."""
    return InvalidInput(
        {"path": json_pointer(e["loc"]), "message": e["msg"]}
        for e in error.errors(include_url=False, include_input=False)
    )


def bind_signature(function: Callable[..., Any], where: str, *, names: Mapping[str, Any] | None = None) -> Binding:
    """Read a signature. `names` are the local names where the function is defined, to resolve its hints."""
    hinted: Any = function
    while isinstance(hinted, partial):
        hinted = hinted.func
    try:
        hints = typing.get_type_hints(hinted, localns=dict(names or {}), include_extras=True)
    except (NameError, TypeError) as error:
        raise UsageError(
            f"{where}: a type hint cannot be resolved: {error}. Define it before the tool, at module level."
        ) from None
    texts = docstring_of(function)[1]
    definitions: dict[str, Any] = {}
    fields: dict[str, str] = {}
    given: dict[str, Any] = {}
    context: str | None = None
    for parameter in inspect.signature(function).parameters.values():
        hint = hints.get(parameter.name, Any)
        if _is_context(hint) or (parameter.name == "ctx" and parameter.name not in hints):
            context = parameter.name
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise UsageError(
                f"{where}: parameter {parameter.name!r} cannot be described by a schema. "
                "Give every argument a name: no *args, **kwargs or positional-only parameters."
            )
        # Fields get neutral names and the parameter's name as alias, so no name can clash with pydantic's own.
        fields[parameter.name] = field = f"p{len(fields)}"
        given[parameter.name] = hint
        definitions[field] = (hint, _field(parameter, hint, texts.get(parameter.name)))
    try:
        model = create_model("Arguments", __config__=_CONFIG, **definitions)
        schema = model.model_json_schema(by_alias=True, schema_generator=_Schema)
    except (PydanticUserError, TypeError, ValueError) as error:
        first = str(error).split("\n", 1)[0]
        raise UsageError(f"{where}: a parameter cannot be described by a JSON Schema: {first}") from None
    schema.pop("title", None)
    schema.setdefault("properties", {})
    for definition in schema.get("$defs", {}).values():
        # A model that says nothing about further fields would silently drop them, so they are refused.
        if "properties" in definition:
            definition.setdefault("additionalProperties", False)
    return Binding(schema, model.__pydantic_validator__.validate_python, fields, given, context)


class _Schema(GenerateJsonSchema):
    schema_dialect = DIALECT
    # A default that cannot be written as JSON is left out of the schema.
    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012  # as pydantic declares it

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Generated titles repeat the name and cost the model tokens."""
        return False


def _field(parameter: inspect.Parameter, hint: Any, text: str | None) -> Any:
    given: dict[str, Any] = {"alias": parameter.name}
    if parameter.default is not parameter.empty:
        given["default"] = parameter.default
    metadata = typing.get_args(hint)[1:] if typing.get_origin(hint) is Annotated else ()
    if not any(isinstance(m, FieldInfo) and m.description for m in metadata):
        description = next((m for m in metadata if isinstance(m, str)), text)
        if description is not None:
            given["description"] = description
    return Field(**given)


def _is_context(hint: Any) -> bool:
    if typing.get_origin(hint) in (Union, UnionType):
        return ToolContext in typing.get_args(hint)
    return hint is ToolContext


@cache
def _parse_docstring() -> Callable[[str], Any]:
    from docstring_parser import parse

    return parse


def docstring_of(function: Any) -> tuple[str, dict[str, str]]:
    """The description, and the text of each argument, from a docstring of Google, NumPy, Sphinx or epydoc style."""
    text = inspect.getdoc(function) or ""
    if "\n" not in text:
        return text, {}
    parsed = _parse_docstring()(text)
    description = "\n\n".join(part for part in (parsed.short_description, parsed.long_description) if part)
    return description or text, {p.arg_name: p.description for p in parsed.params if p.description}
